"""Outcomes far from what was expected, typed and uploaded in a real browser, with scripts and on a phone."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import levers
from harness.browser import Visitors
from levers.studies.library import create_study
from levers.studies.study import Study

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


def begun(shared: str, name: str) -> Study:
    study = create_study(name, SPACE, tolerance=0.2, noise_sd=1.0, seed=1, storage=shared)
    rng = np.random.default_rng(0)
    study.tell_many([(trial, 70 + float(rng.normal())) for trial in study.ask(10)])
    return study


@pytest.mark.parametrize("scripts", [True, False])
def test_a_typo_is_asked_about_on_a_phone(people: Visitors, shared: str, scripts: bool) -> None:
    people.expect("409")  # what a page without scripts is answered with
    study = begun(shared, f"typo {scripts}")
    first, second = (trial.number for trial in study.ask(2))
    page = people.new_page(java_script_enabled=scripts, **PHONE)
    page.goto(f"/studies/typo%20{scripts}")
    page.locator(f"#outcome-{first}").fill("70,4")
    page.locator(f"#outcome-{second}").fill("7250")
    page.locator("#save-all").click()
    expect(page.locator(f"#problem-{second}")).to_contain_text("expected about")
    expect(page.locator(f"#outcome-{second}")).to_have_value("7250")
    assert study.trial(first).value == 70.4
    assert study.trial(second).value is None
    insist = page.locator("#insist")
    expect(insist).to_be_visible()
    box = insist.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 360
    insist.click()
    expect(page.locator("#said")).to_contain_text("1 outcome saved")
    expect(insist).to_be_hidden()
    assert study.trial(second).value == 7250


def test_a_mended_outcome_is_saved_without_a_question(people: Visitors, shared: str) -> None:
    study = begun(shared, "mended")
    number = study.ask()[0].number
    page = people.new_page()
    page.goto("/studies/mended")
    entry = page.locator(f"#outcome-{number}")
    entry.fill("705")
    page.locator("#save-all").click()
    expect(page.locator("#insist")).to_be_visible()
    entry.fill("70.5")
    expect(page.locator("#insist")).to_be_hidden()
    expect(page.locator(f"#problem-{number}")).to_be_hidden()
    page.locator("#save-all").click()
    expect(page.locator("#said")).to_contain_text("1 outcome saved")
    assert study.trial(number).value == 70.5


@pytest.mark.parametrize("scripts", [True, False])
def test_a_sheet_with_a_typo_is_asked_about(people: Visitors, shared: str, tmp_path: Path, scripts: bool) -> None:
    people.expect("409")
    study = begun(shared, f"sheet {scripts}")
    path = tmp_path / "runs.csv"
    study.ask_sheet(path, 3)
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *(row + y for row, y in zip(rows, ["70.2", "7.1", "69.5"], strict=True))]))
    page = people.new_page(java_script_enabled=scripts, **PHONE)
    page.goto(f"/studies/sheet%20{scripts}")
    page.get_by_label("Filled-in sheet").set_input_files(path)
    page.get_by_role("button", name="Upload").click()
    place = page.locator("#said" if scripts else "#problem")
    expect(place).to_contain_text("trial 11: 7.1, expected about")
    assert study.status().n_complete == 10
    page.locator("#insist-sheet").click()
    expect(page.locator("#said")).to_contain_text("3 new outcomes")
    assert study.trial(11).value == 7.1
