"""Make the README's pictures of the pages: ./scripts/screenshots (about 20 seconds; needs Chromium and the dev extra).

The demo's factory line with fixed seeds, so that the same pages show the same numbers every time. Moments differ, so
the pictures end above them.
"""

import os

os.environ.update(LOGNAME="ann", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # before anybody asks who is there

import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Locator, Page, expect

from harness.browser import Visitors, running_chromium
from harness.http_load import running_server
from levers.studies.library import create_study
from levers.studies.study import Study
from levers.worlds.named import factory_line

IMAGES = Path(__file__).parent / "images"
WIDTH, SEED, N_SHOWN = 1280, 1, 6  # the chart goes on below the first factors
PARTS = (1_000, 400)
"""Runs of the study that is not finished: a block that rules levels out, and most of the last one."""


def new_study(name: str, storage: str) -> tuple[Study, np.random.Generator]:
    world = factory_line()
    study = create_study(
        name,
        world.space,
        tolerance=0.5,
        failure_prob=0.1,
        noise_sd=world.outcome.noise_sd,
        seed=SEED,
        storage=storage,
    )
    return study, np.random.default_rng(SEED + 1)


def run(study: Study, n: int, rng: np.random.Generator) -> None:
    trials = study.ask(n)
    codes = np.array([trial.params.codes for trial in trials], dtype=np.int16)
    study.tell_many(zip(trials, factory_line().sample(codes, rng).outcomes.tolist(), strict=True))


def picture(page: Page, name: str, end: Locator) -> None:
    """From the top of the page down to an element."""
    box = end.bounding_box()
    assert box is not None  # the page was waited for
    height = box["y"]
    page.screenshot(
        path=IMAGES / f"{name}.png", full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height}
    )


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="levers-pictures-") as folder, running_chromium() as chromium:
        storage = f"sqlite:///{folder}/levers.db"
        study, rng = new_study("factory line", storage)
        for n in PARTS:
            run(study, n, rng)
        done, rng = new_study("factory line, finished", storage)
        while not done.is_finished:
            run(done, 1_000, rng)
        with running_server(storage) as server, Visitors(chromium, server.address) as people:
            page = people.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
            page.goto(f"/studies/{study.name}")
            expect(page.locator("#live")).to_have_text("live")
            picture(page, "study", page.locator("#chart-effects .chart-720 .c-stripe").nth(N_SHOWN))
            page.goto(f"/studies/{done.name}/verdict")
            expect(page.locator("#print")).to_be_visible()
            picture(page, "verdict", page.get_by_text("What each level loses"))


if __name__ == "__main__":
    main()
