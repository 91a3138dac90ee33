"""A run that leaves a lever alone, typed in a real browser: on a phone, with scripts."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from playwright.sync_api import Browser, expect

from harness.browser import Visitors
from harness.watching import SPACE, register, until_left_alone
from levers.studies.library import create_study

Serve = Callable[..., AbstractContextManager[str]]
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


def test_a_run_is_typed_with_what_the_lever_took(
    chromium: Browser, serve: Serve, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch)
    settings = {"algorithm": "watching", "tolerance": 1.0, "noise_sd": 1.2, "seed": 1}
    study = create_study("oven", SPACE, free=["heat"], storage=database, **settings)  # type: ignore[arg-type]
    left, other = [trial.number for trial in until_left_alone(study) if trial.params.free][:2]
    with serve(database) as address, Visitors(chromium, address) as people:
        page = people.new_page(**PHONE)
        page.goto("/studies/oven")
        row = page.locator(f'tr[data-trial="{left}"]')
        expect(row).to_contain_text("leave alone")
        level = page.get_by_label(f"Level that heat took in trial {left}")
        box = level.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 360
        page.locator(f"#outcome-{left}").fill("2,5")
        page.locator(f"#observed-{other}-0").select_option("low")  # chosen, and not run yet
        row.get_by_role("button", name="Save").click()
        expect(page.locator(f"#problem-{left}")).to_contain_text("say with its outcome which level it took")
        expect(page.locator(f"#outcome-{left}")).to_have_value("2,5")
        level.select_option("high")
        row.get_by_role("button", name="Save").click()
        expect(row).to_contain_text("left alone: high")
        expect(page.locator(f"#observed-{other}-0")).to_have_value("low")
        expect(page.locator("#save-all")).to_have_text("Save all")
    assert dict(study.trial(left).observed or {}) == {"heat": "high"}
    assert study.trial(left).value == 2.5
    assert study.trial(other).value is None
