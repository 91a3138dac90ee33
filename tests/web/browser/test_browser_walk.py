"""From the form to the verdict in a real browser: with sheets, without scripts, and the demo."""

import csv
import re
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from playwright.sync_api import Page, expect

from harness.browser import Visitors
from levers.studies.library import list_studies, load_study


def outcome(heat: object, speed: object, rng: np.random.Generator) -> float:
    return 3.0 * (heat == "mid") + 1.5 * (str(speed) == "3") + float(rng.normal())


def filled_csv(sheet: Path, rng: np.random.Generator) -> int:
    """Type an outcome into every row; returns how many there are."""
    with sheet.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    with sheet.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows({**row, "outcome": f"{outcome(row['heat'], row['speed'], rng):.6f}"} for row in rows)
    return len(rows)


def filled_xlsx(sheet: Path, rng: np.random.Generator) -> int:
    book = openpyxl.load_workbook(sheet)
    found = book.worksheets[0]
    places = {str(cell.value): cell.column for cell in found[1] if cell.column is not None}
    rows = [row for row in range(2, found.max_row + 1) if found.cell(row, places["trial"]).value is not None]
    for row in rows:
        heat, speed = (found.cell(row, places[name]).value for name in ("heat", "speed"))
        found.cell(row, places["outcome"], outcome(heat, speed, rng))
    book.save(sheet)
    return len(rows)


FILLED = {"csv": filled_csv, "xlsx": filled_xlsx}


def download(page: Page, suffix: str, folder: Path) -> Path:
    with page.expect_download() as found:
        page.locator(f"#sheet-{suffix}").click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


def type_study(page: Page, name: str, tolerance: str) -> None:
    """Fill in the form of a new study as somebody would, and see the plan follow."""
    page.get_by_role("link", name=re.compile("New study|Plan the first study")).click()
    page.get_by_label("Name of the study").press_sequentially(name)
    factors = {"heat": "low, mid, high", "speed": "1, 2, 3, 4", "supplier": "A, B"}
    for row, (factor, levels) in enumerate(factors.items()):
        page.get_by_label("Lever", exact=True).nth(row).press_sequentially(factor)
        page.get_by_label("Levels, with commas between them").nth(row).press_sequentially(levels)
    expect(page.locator("#plan-waiting")).to_contain_text("say how many runs you can make")
    page.locator("#tolerance").press_sequentially(tolerance)
    expect(page.locator("#plan-guesses tbody tr")).not_to_have_count(0)
    page.locator("#noise_sd").press_sequentially("1")
    expect(page.locator("#plan-worst")).to_be_visible()
    worst = page.locator("#plan-worst").inner_text()
    page.get_by_role("button", name="Add a lever").click()
    page.get_by_label("Lever", exact=True).last.press_sequentially("shift")
    page.get_by_label("Levels, with commas between them").last.press_sequentially("day, night")
    expect(page.locator("#plan-worst")).not_to_have_text(worst)
    page.get_by_role("button", name="Remove this lever").last.click()
    expect(page.locator("#plan-worst")).to_have_text(worst)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Seed").press_sequentially("3")
    page.get_by_role("button", name="Begin the study").last.click()


def test_the_form_begins_with_what_people_know(people: Visitors, shared: str) -> None:
    """Runs that can be made in days of eight, and a noise that nobody knows; by keyboard, on a phone."""
    page = people.new_page(viewport={"width": 390, "height": 800})
    page.goto("/new")
    page.locator("#name").fill("known to people")
    for row, (lever, levels) in enumerate({"heat": "low, mid, high", "speed": "1, 2, 3, 4"}.items()):
        page.get_by_label("Lever", exact=True).nth(row).fill(lever)
        page.get_by_label("Levels, with commas between them").nth(row).fill(levels)
    runs, close = page.locator("#pick-budget"), page.locator("#pick-tolerance")
    expect(runs).to_be_checked()
    page.locator("#budget").focus()
    page.keyboard.type("120")
    page.keyboard.press("Enter")
    expect(page.locator("#block_size")).to_be_focused()
    page.keyboard.type("8")
    # a plan of a budget simulates studies, which takes a busy machine more than the usual minute
    expect(page.locator("#plan-budget tr[data-runs='120'] .days")).to_have_text("15", timeout=180_000)
    expect(page.locator("#plan")).to_contain_text("in units of its standard deviation")
    beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert beyond <= 0, f"the plan is {beyond} pixels too wide"
    page.locator("#tolerance").press_sequentially("0.5")  # what is typed is the answer
    expect(close).to_be_checked()
    expect(page.locator("#plan-guesses tbody tr")).to_have_count(4)
    page.locator("#expected_noise").press_sequentially("2")
    expect(page.locator("#plan-worst")).to_be_visible()
    close.focus()
    page.keyboard.press("ArrowUp")
    expect(runs).to_be_checked()
    expect(page.locator("#plan")).to_contain_text("your guess, an sd of 2")
    page.get_by_role("button", name="Begin the study").last.click()
    expect(page.locator("#said")).to_contain_text("The study has begun")
    spec = load_study("known to people", shared).spec
    assert (spec.tolerance, dict(spec.options), spec.noise_sd, spec.block_size) == (None, {"budget": 120}, None, 8)


@pytest.mark.parametrize(("suffix", "tolerance"), [("csv", "0.8"), ("xlsx", "1,0")])
def test_a_study_from_the_form_to_the_printed_verdict(
    people: Visitors, shared: str, tmp_path: Path, suffix: str, tolerance: str
) -> None:
    name, rng = f"walk with {suffix}", np.random.default_rng(1)
    ann = people.new_page(accept_downloads=True)
    ann.goto("/")
    type_study(ann, name, tolerance)
    expect(ann.locator("#said")).to_contain_text("The study has begun")
    expect(ann.locator("#so-far")).to_have_text("0 runs so far")
    bob = people.new_page()  # only watches, and never loads the page again
    bob.goto("/")
    bob.get_by_role("link", name=name).click()
    struck = bob.locator("#chart-effects svg.chart-720 .c-struck")
    expect(bob.locator("#live")).to_have_text("live")
    for page in (ann, bob):
        page.evaluate("window.sameDocument = true")
    n_told = n_struck = 0
    while "Go on" in ann.locator("#go").inner_text():
        ann.get_by_label("How many").fill("100")
        ann.get_by_role("button", name="Ask for runs").click()
        sheet = download(ann, suffix, tmp_path)
        n_told += FILLED[suffix](sheet, rng)
        ann.get_by_label("Filled-in sheet").set_input_files(sheet)
        ann.get_by_role("button", name="Upload").click()
        for page in (ann, bob):
            expect(page.locator("#so-far")).to_have_text(re.compile(f"^{n_told} runs "))
        if not n_struck:
            expect(struck).not_to_have_count(0)
            n_struck = struck.count()
            assert "low" in struck.all_text_contents()
    study = load_study(name, shared)
    assert study.is_finished
    assert study.status().n_complete == n_told
    assert study.spec.seed == 3
    assert all(page.evaluate("window.sameDocument") for page in (ann, bob))
    expect(bob.locator("#go")).to_have_text("Stop: there is a verdict")
    ann.locator("#to-verdict").click()
    expect(ann.locator("#verdict-setting dd")).to_have_text([str(level) for level in study.best_params.values()])
    assert study.best_params["heat"] == "mid"
    expect(ann.locator("#guarantee")).to_contain_text("With probability at least 90 %")
    expect(ann.locator("#ledger")).to_contain_text("low")
    printed = ann.pdf(format="A4")
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 10_000
    ann.emulate_media(media="print")
    expect(ann.locator("#verdict-setting dd").first).to_be_visible()
    expect(ann.locator("#guarantee")).to_be_visible()
    for hidden in ("header.top", "nav.tabs", "#print"):
        expect(ann.locator(hidden)).to_be_hidden()


def test_a_study_without_scripts(people: Visitors, shared: str, tmp_path: Path) -> None:
    name, rng = "no scripts", np.random.default_rng(2)
    page = people.new_page(java_script_enabled=False)
    page.goto("/new")
    page.get_by_label("Name of the study").fill(name)
    for row, (factor, levels) in enumerate({"heat": "low, mid", "speed": "1, 3"}.items()):
        page.get_by_label("Lever", exact=True).nth(row).fill(factor)
        page.get_by_label("Levels, with commas between them").nth(row).fill(levels)
    page.locator("#tolerance").fill("2,5")
    page.locator("#noise_sd").fill("1")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Seed").fill("3")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator("#plan-worst")).to_be_visible()
    page.get_by_role("button", name="Begin the study").last.click()
    expect(page.locator("#said")).to_contain_text("The study has begun")
    page.get_by_label("How many").fill("2")
    page.get_by_role("button", name="Ask for runs").click()
    page.get_by_label("Outcome of trial 0", exact=True).fill("3,25")
    page.get_by_role("button", name="Save the outcome of trial 0").click()
    expect(page.locator("#said")).to_contain_text("1 outcome saved")
    expect(page.locator("#so-far")).to_have_text("1 run so far")
    assert load_study(name, shared).trial(0).value == 3.25
    n_told = 1
    while page.locator("#ask").count():
        page.get_by_label("How many").fill("100")
        page.get_by_role("button", name="Ask for runs").click()
        sheet = download(page, "csv", tmp_path)
        n_told += filled_csv(sheet, rng)
        page.get_by_label("Filled-in sheet").set_input_files(sheet)
        page.get_by_role("button", name="Upload").click()
        expect(page.locator("#so-far")).to_have_text(re.compile(f"^{n_told} runs "))
    page.get_by_role("link", name="The verdict").click()
    found = load_study(name, shared)
    assert (found.spec.seed, found.status().n_complete) == (3, n_told)
    expect(page.locator("#verdict-setting dd")).to_have_text([str(level) for level in found.best_params.values()])
    assert found.best_params["heat"] == "mid"


def test_the_demo_moves_by_itself_and_can_be_deleted(people: Visitors, shared: str) -> None:
    page = people.new_page()
    page.goto("/")
    page.get_by_role("button", name="Start a demo study").click()
    name = page.locator("h1").inner_text()
    assert "demo" in name
    page.evaluate("window.sameDocument = true")
    for _ in range(2):
        before = page.locator("#so-far").inner_text()
        expect(page.locator("#so-far")).not_to_have_text(before)
    assert page.evaluate("window.sameDocument")
    page.locator("#delete-link").click()
    page.get_by_label("Type its name").fill(name)
    page.get_by_role("button", name="Delete for good").click()
    expect(page.locator("#said")).to_have_text(f"Deleted {name}.")
    assert name not in list_studies(shared)
