"""From the alarm about two levers to a study in which they are one, in a real browser."""

import numpy as np
from playwright.sync_api import expect

from harness.browser import Visitors
from levers.core.space import Level
from levers.studies.library import create_study, load_study, open_storage
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study

SPACE: dict[str, list[Level]] = {"<b>heat</b>": ["low", "mid", "high"], "speed & 'co'": [1, 2, 3], "belt": ["A", "B"]}


def interacting(name: str, storage: str) -> Study:
    study = create_study(name, SPACE, tolerance=0.4, noise_sd=0.7, seed=1, storage=storage)
    rng = np.random.default_rng(0)
    while not study.is_finished:
        trials = study.ask(10_000)
        helped = [2.0 * (t.params["<b>heat</b>"] == "high" and t.params["speed & 'co'"] == 3) for t in trials]
        study.tell_many([(trial, both + 0.7 * rng.normal()) for trial, both in zip(trials, helped, strict=True)])
    return study


def test_two_levers_that_interact_are_merged_on_the_page(people: Visitors, shared: str) -> None:
    study = interacting("interacting", shared)
    page = people.new_page()
    page.goto("/studies/interacting/checks")
    expect(page.locator("#doubt")).to_contain_text("<b>heat</b> and speed & 'co' seem to interact")
    page.get_by_role("link", name="Go on with <b>heat</b> and speed & 'co' as one lever").click()
    expect(page.get_by_label("<b>heat</b>")).to_be_checked()
    expect(page.get_by_label("speed & 'co'")).to_be_checked()
    expect(page.get_by_label("belt")).not_to_be_checked()
    page.get_by_label("Name of the new study").fill("interacting, as one")
    page.get_by_role("button", name="Begin the new study").click()
    expect(page.locator("#said")).to_contain_text(f"with {study.status().n_complete} runs of interacting as evidence")
    expect(page.locator("h1")).to_have_text("interacting, as one")
    made = load_study("interacting, as one", shared)
    assert made.spec.merged == (("<b>heat</b>", "speed & 'co'"),)
    assert made.status().n_past == study.status().n_complete


def test_who_may_only_read_is_offered_no_merge(people: Visitors, shared: str) -> None:
    interacting("interacting too", shared)
    page = people.new_page()
    page.goto("/login?then=/studies/interacting%20too/checks")
    page.get_by_label("Token").fill(create_token(open_storage(shared), "read", note="eve"))
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("#doubt")).to_contain_text("seem to interact")
    expect(page.locator("a.remedy")).to_have_count(0)
    assert page.request.get(page.url.replace("/checks", "/merge")).status == 403
