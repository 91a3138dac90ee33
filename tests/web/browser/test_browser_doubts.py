"""A typo from the doubt to the answer, in a real browser: on a desk, and on a phone."""

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from harness.browser import Visitors
from levers.core.space import Level
from levers.studies.library import create_study, load_study
from levers.studies.state import TrialState
from levers.studies.study import Study

SPACE: dict[str, list[Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}
TYPO = 5
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
"""A typo may be asked about when it is told; here it is meant."""
DESK: dict[str, Any] = {"viewport": {"width": 1200, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def almost_ended(name: str, storage: str) -> tuple[Study, int, float]:
    """A study whose last outcome is not told yet: the study, the trial and its outcome. One outcome is a typo."""
    study = create_study(name, SPACE, tolerance=0.8, noise_sd=1.0, seed=1, storage=storage)
    noise, due = np.random.default_rng(0), study.ask(1000)
    told = {t.number: round(70 + 2 * (t.params["heat"] == "mid") + noise.normal(), 2) for t in due}
    told[TYPO] *= 100
    last = due[-1].number
    study.tell_many({number: value for number, value in told.items() if number != last})
    return study, last, told[last]


def is_whole(page: Page) -> None:
    """Nothing is cut off at the right edge."""
    page.wait_for_load_state()
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} pixels too wide"


@pytest.mark.parametrize(("kind", "options"), [("desk", DESK), ("phone", PHONE)])
def test_a_typo_is_named_excluded_and_the_study_goes_on(
    people: Visitors, shared: str, kind: str, options: dict[str, Any]
) -> None:
    study, last, value = almost_ended(f"typo on a {kind}", shared)
    page = people.new_page(**options)
    page.goto(f"/studies/{study.name}")
    expect(page.locator("#doubts")).to_contain_text(f"The outcome of trial {TYPO}")  # as soon as it was told
    expect(page.locator("#go")).to_have_text("Look first: something does not fit")
    page.locator(f"#outcome-{last}").fill(str(value))
    page.locator(f"button[name=save][value='{last}']").click()
    expect(page.locator("#doubts")).to_contain_text(f"The outcome of trial {TYPO}")
    expect(page.locator("#go")).to_have_text("Wait: outcomes contradict the answer")
    expect(page.locator("#hero")).to_have_class("card hero doubt")
    is_whole(page)
    page.goto(f"/studies/{study.name}/verdict")
    expect(page.locator("#guarantee")).to_contain_text("In doubt.")
    is_whole(page)
    page.goto(f"/studies/{study.name}/checks")
    expect(page.locator("#all-checks tr[data-alarm=yes]")).to_have_count(1)
    is_whole(page)
    page.get_by_role("link", name=f"Correct or exclude trial {TYPO}").click()
    expect(page.locator("#exclude-one")).to_be_visible()
    is_whole(page)
    page.locator("#exclude-reason").fill("typed without the decimal point")
    page.get_by_role("button", name="Exclude").click()
    expect(page.locator("#said")).to_contain_text("does not count any more")
    expect(page.locator("#doubts")).to_have_count(0)
    expect(page.locator("#go")).to_have_text("Go on")
    expect(page.locator("#exclusions")).to_contain_text("typed without the decimal point")
    is_whole(page)
    assert load_study(study.name, shared).trial(TYPO).state is TrialState.EXCLUDED
    page.locator("#to-finish").click()
    expect(page.locator("#certified-now")).to_contain_text("If you stop now: within")
    is_whole(page)
    page.locator("#reason").fill("the day is over")
    page.get_by_role("button", name="Finish now").click()
    expect(page.locator("#provisos")).to_contain_text("stopped before its end")
    expect(page.locator("#provisos")).to_contain_text(f"leaves out trial {TYPO}")
    is_whole(page)
    assert study.status().state == "finished"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_held_study_is_answered(people: Visitors, shared: str, scripts: bool) -> None:
    study, last, value = almost_ended(f"answered {'with' if scripts else 'without'} scripts", shared)
    study.tell(last, value)
    page = people.new_page(**PHONE, java_script_enabled=scripts)
    page.goto(f"/studies/{study.name}")
    page.locator("#to-continue").click()
    page.locator("#n").fill("6")
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#go")).to_have_text("Look first: something does not fit")
    assert study.status().to_go.now == 6
    page.locator("#to-terms").click()
    expect(page.locator("#noise_sd")).to_have_value("1")
    page.locator("#noise_sd").fill("not known")
    page.get_by_role("button", name="Change the terms").click()
    expect(page.locator("#said")).to_contain_text("Noise sd: not known, 1 before.")
    assert study.spec.noise_sd is None
    page.goto(f"/studies/{study.name}/terms")
    if scripts:
        is_whole(page)


def test_what_others_do_shows_at_once(people: Visitors, shared: str) -> None:
    study, last, value = almost_ended("watched", shared)
    page = people.new_page()
    page.goto("/studies/watched")
    expect(page.locator("#live")).to_have_text("live")
    study.tell(last, value)
    expect(page.locator("#doubts")).to_contain_text(f"trial {TYPO}")
    expect(page.locator("#to-finish-doubtful")).to_be_visible()
    study.correct(TYPO, 71.0, "decimal point")
    expect(page.locator("#doubts")).to_have_count(0)
