"""Every page on a phone, in the dark, by keyboard alone, and for somebody who does not see charts."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from harness.browser import Visitors
from levers.charts.picture import save_plot
from levers.charts.report import save_report
from levers.core.space import Space
from levers.studies.library import create_study, list_studies, load_study

SPACE = Space.of({"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4], "supplier": ["A", "B"]})
WIDE_SPACE = {f"a rather long name of factor {k}": [f"level {level}" for level in range(4)] for k in range(30)}
PAGES = (
    "/",
    "/?q=nothing-like-it",
    "/studies/new",
    "/studies/half",
    "/studies/half/trials",
    "/studies/half/trials/0",
    "/studies/half/verdict",
    "/studies/half/checks",
    "/studies/half/delete",
    "/studies/done",
    "/studies/done/trials?sort=outcome&order=down",
    "/studies/done/verdict",
    "/studies/wide",
    "/studies/wide/trials",
    "/studies/wide/verdict",
    f"/studies/{'w' * 200}",
    f"/compare?study=half&study=done&study=wide&study={'w' * 200}",
    "/compare",
    "/login",
    "/api",
    "/studies/nobody",
)
UNLABELLED = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a[href]")]
    .filter((field) => !(field.labels?.length || field.getAttribute("aria-label")
        || field.matches("button, a") && field.textContent.trim())).map((field) => field.outerHTML)"""
WIDER = """() => { const page = document.scrollingElement;
    return page.scrollWidth <= page.clientWidth ? [] : [...document.querySelectorAll("body *")].filter((part) =>
        part.getBoundingClientRect().right > page.clientWidth + 1 && !part.parentElement.closest(".scroll, .charts"))
        .slice(0, 5).map((part) => part.outerHTML.slice(0, 200)).concat([String(page.scrollWidth)]) }"""
GROUND = "() => getComputedStyle(document.body).backgroundColor"
INK = "() => getComputedStyle(document.querySelector('h1')).color"
BROKEN = """() => [...document.querySelectorAll("td")].flatMap((cell) => {
    const text = cell.firstChild, words = [...(text?.data ?? "").matchAll(/[^\\s-]+/g)], range = document.createRange();
    return words.filter((word) => { range.setStart(text, word.index); range.setEnd(text, word.index + word[0].length);
        return new Set([...range.getClientRects()].map((part) => part.top)).size > 1 }).map((word) => word[0]) })"""
OUTLINE = """() => { const at = document.activeElement, look = getComputedStyle(at);
    return at.matches(":focus-visible") && look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2 }"""


@pytest.fixture
def studies(shared: str, address: str) -> None:
    """Studies at every stage. They are only looked at here, so one set is enough for all tests of a process."""
    if "done" in list_studies(shared):
        return
    rng = np.random.default_rng(1)
    done, half, long = (
        create_study(name, SPACE, tolerance=0.8, noise_sd=1.0, seed=3, storage=shared)
        for name in ("done", "half", "w" * 200)
    )
    done.optimize(lambda run: 3.0 * (run["heat"] == "mid") + 1.5 * (run["speed"] == 3) + float(rng.normal()))
    wide = create_study("wide", WIDE_SPACE, tolerance=3.0, noise_sd=1.0, seed=1, storage=shared)
    for study in (half, long, wide):
        study.tell_many([(trial, float(rng.normal())) for trial in study.ask(1_000)])
    half.correct(0, 1.25, "a typo, and a reason that takes more than one line on a phone")
    for study in (half, long, wide):
        assert len(study.ask(3)) == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_fits_a_phone(people: Visitors, studies: None, theme: str) -> None:
    people.expect("status of 404")
    page = people.new_page(viewport={"width": 360, "height": 740}, color_scheme=theme, has_touch=True)
    for path in PAGES:
        page.goto(path)
        assert page.evaluate(WIDER) == [], path
        assert page.evaluate(UNLABELLED) == [], path
        light = [sum(map(int, page.evaluate(what)[4:-1].split(",")[:3])) for what in (GROUND, INK)]
        assert (light[0] > 600 and light[1] < 200) if theme == "light" else (light[0] < 100 and light[1] > 500), path


def test_the_theme_can_be_chosen_and_stays(people: Visitors, studies: None) -> None:
    page = people.new_page(color_scheme="light")
    page.goto("/studies/done")
    light = page.evaluate(GROUND)
    page.get_by_role("button", name="Light or dark").click()
    dark = page.evaluate(GROUND)
    assert dark != light
    page.goto("/")
    assert page.evaluate(GROUND) == dark
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(GROUND) == light


@pytest.mark.parametrize("name", ["half", "done", "wide"])
def test_charts_say_what_they_show(people: Visitors, studies: None, name: str) -> None:
    page = people.new_page()
    page.goto(f"/studies/{name}")
    page.locator("#checks").scroll_into_view_if_needed()
    expect(page.locator("#chart-additivity")).to_be_visible()
    figures = page.locator("figure.chart-box")
    expect(figures).to_have_count(8)
    for figure in figures.all():
        drawing = figure.locator("svg.chart:visible")
        expect(drawing).to_have_count(1)
        expect(drawing).to_have_role("img")
        for part in ("title", "desc"):
            assert len(drawing.locator(f"> {part}").text_content() or "") > 10
        figure.get_by_text("Show as table").click()
        table = figure.locator("table")
        expect(table).to_be_visible()
        assert table.locator("tbody tr").count() > 0
        assert table.locator("tbody tr").first.locator("td").count() == table.locator("thead th").count()
    struck = page.locator("#table-effects tr.struck")
    assert (struck.count() > 0) == (name == "done")


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until something has the focus, as somebody without a mouse does; they must see where they are."""
    for _ in range(60):
        page.keyboard.press("Tab")
        assert page.evaluate(OUTLINE), page.evaluate("() => document.activeElement.outerHTML")
        if target.evaluate("(wanted) => wanted === document.activeElement"):
            return
    raise AssertionError(f"60 times Tab do not lead to {target}")


def test_an_outcome_by_keyboard_alone(people: Visitors, shared: str) -> None:
    study = create_study("keys", SPACE, tolerance=0.8, noise_sd=1.0, seed=1, storage=shared)
    page = people.new_page()
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Find by name"))
    page.keyboard.type("keys")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=keys**")
    tab_to(page, page.get_by_role("link", name="keys", exact=True))
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("keys")
    tab_to(page, page.get_by_label("How many"))
    page.keyboard.press("Control+A")
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    first, second = (page.get_by_label(f"Outcome of trial {trial}", exact=True) for trial in (0, 1))
    expect(second).to_be_visible()
    tab_to(page, first)
    page.keyboard.type("1,5")
    page.keyboard.press("Enter")
    expect(second).to_be_focused()
    page.keyboard.type("x")
    page.keyboard.press("Enter")
    expect(page.locator("#save-all")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#problem-1")).to_contain_text("must be a number")
    expect(page.locator("#so-far")).to_have_text("1 run so far")
    assert second.input_value() == "x"
    page.keyboard.press("Shift+Tab")
    while not second.evaluate("(wanted) => wanted === document.activeElement"):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("2")
    tab_to(page, page.get_by_role("button", name="Save the outcome of trial 1"))
    page.keyboard.press("Enter")
    expect(page.locator("#so-far")).to_have_text("2 runs so far")
    assert [study.trial(trial).value for trial in (0, 1)] == [1.5, 2.0]


def test_tables_of_files_scroll_on_a_phone_and_break_no_word(
    people: Visitors, studies: None, shared: str, tmp_path: Path
) -> None:
    study, page = load_study("done", shared), people.new_page(viewport={"width": 360, "height": 740})
    save_report(study, tmp_path / "report.html")
    save_plot(study, "effects", tmp_path / "effects.html")
    for name in ("report.html", "effects.html"):
        page.goto((tmp_path / name).as_uri())
        assert page.locator("td").count() > 20
        assert page.evaluate(BROKEN) == [], name
        assert page.evaluate(WIDER.replace('".scroll, .charts"', '"table, .charts"')) == [], name
