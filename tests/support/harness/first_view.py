"""A large study, and what a browser measures when it first shows one. For tests and benchmarks."""

import numpy as np
from playwright.sync_api import Page, expect

from levers.studies.library import create_study
from levers.studies.study import Study

N_TOLD, N_FACTORS, LEVELS = 100_000, 30, ("a", "b", "c", "d")
CHARTS = ("effects", "elimination", "forecast", "history", "evidence")
STEPS = ("server answer", "DOMContentLoaded", "first contentful paint", "charts visible")
_WATCH = """(() => {
    const look = () => {
        const charts = [...document.querySelectorAll("#charts figure .charts")];
        const drawn = charts.filter((chart) => chart.getBoundingClientRect().height > 50);
        if (drawn.length < 5) return requestAnimationFrame(look);
        requestAnimationFrame(() => { window.chartsVisible = performance.now(); });
    };
    requestAnimationFrame(look);
})()"""
_READ = """async () => {
    while (window.chartsVisible === undefined) await new Promise(requestAnimationFrame);
    const [page] = performance.getEntriesByType("navigation");
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    // a frame begins a little before it is on the screen, and nothing can be seen before the first paint
    return { "server answer": page.responseStart, DOMContentLoaded: page.domContentLoadedEventEnd,
        "first contentful paint": paint.startTime,
        "charts visible": Math.max(window.chartsVisible, paint.startTime) };
}"""


def make_large_study(storage: str, name: str = "large", n_told: int = N_TOLD) -> Study:
    """A study that goes on, with so many outcomes that are all noise, so that no level goes and charts stay full."""
    rng = np.random.default_rng(3)
    space = {f"factor {k + 1}": list(LEVELS) for k in range(N_FACTORS)}
    study = create_study(name, space, budget=n_told + 20_000, noise_sd=1.0, seed=3, storage=storage)
    while n_told > 0:
        due = study.ask_numbers(n_told)
        study.tell_arrays(due, rng.normal(size=len(due)))
        n_told -= len(due)
    return study


def view(page: Page, path: str) -> dict[str, float]:
    """Open a page and return milliseconds since the click for each of STEPS, as the browser measures them."""
    page.add_init_script(_WATCH)
    page.goto(path)
    for chart in CHARTS:
        expect(page.locator(f"#chart-{chart} svg.chart:visible")).to_have_count(1)
    found = page.evaluate(_READ)
    return {step: float(found[step]) for step in STEPS}
