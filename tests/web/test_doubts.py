"""Doubts and the end of a study on its pages: what speaks against an answer comes first, and can be answered."""

import re
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from starlette.testclient import TestClient

import levers
from harness.markup import post, session_of, tidy
from levers.charts.check_facts import NAMES
from levers.charts.drawings import charts_of
from levers.charts.view import StudyView
from levers.studies.analysis.doubts import SHARES
from levers.studies.library import create_study
from levers.studies.state import TrialState
from levers.studies.storage.base import Storage
from levers.studies.storage.tokens import create_token
from levers.studies.study import Study
from levers.web.app import make_app
from levers.web.pages.study import CHARTS
from levers.web.service import Service

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}
TYPO = 5
"""The trial whose outcome is typed a hundred times too large."""
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
"""A typo may be asked about when it is told; here it is meant."""


def at(name: str, rest: str = "") -> str:
    return f"/studies/{quote(name, safe='')}{rest}"


def told(study: Study, typo: int | None = None) -> Study:
    """Tell outcomes until there is nothing to run."""
    noise = np.random.default_rng(0)
    while not study.is_finished:
        for trial in study.ask(8):
            value = round(70 + 2 * (trial.params["heat"] == "mid") + noise.normal(), 2)
            study.tell(trial, 100 * value if trial.number == typo else value)
    return study


def oven(storage: Storage, name: str = "oven", **more: Any) -> Study:
    return create_study(name, SPACE, **{"tolerance": 0.8, "noise_sd": 1.0, "seed": 1, "storage": storage, **more})


def held(storage: Storage, name: str = "oven") -> Study:
    study = told(oven(storage, name), TYPO)
    assert study.is_held
    return study


def test_a_typo_is_said_aloud_on_every_page(client: TestClient, storage: Storage) -> None:
    study = held(storage)
    link = f'href="/studies/oven/trials/{TYPO}"'
    for place in ("", "/verdict", "/checks"):
        page = client.get(at("oven", place)).text
        tidy(page)
        assert page.index('id="doubts"') < page.index("<h2", page.index('id="doubts-title"') + 1)
        assert f"The outcome of trial {TYPO}" in page
        assert link in page
        assert "proven" not in page
        assert not re.search(r'class="[^"]*\bfinished\b', page)
    overview = client.get(at("oven")).text
    assert "Wait: outcomes contradict the answer" in overview
    assert "In doubt (otherwise within" in overview
    for id_ in ("to-continue", "to-noise", "to-finish-doubtful"):
        assert f'id="{id_}"' in overview
    assert 'to-finish"' not in overview
    assert 'id="to-terms"' not in overview
    for chart in charts_of(StudyView("oven", study.state), CHARTS):
        if chart[0].key in ("effects", "elimination", "forecast", "evidence"):
            assert "n doubt" in chart[0].facts.caption
    assert 'data-state="in doubt"' in client.get("/").text
    assert "in doubt, otherwise within" in client.get("/compare?study=oven").text
    checks = client.get(at("oven", "/checks")).text
    assert re.search(r'data-alarm="yes"><th scope="row">outcomes that do not belong', checks)
    assert re.search(r'data-alarm="no"><th scope="row">no pair of levers', checks)  # an outlier is no interaction
    told(oven(storage, "fine", seed=2))
    assert "Set the levers like this" in client.get(at("fine", "/verdict")).text


def test_every_check_has_a_name_for_people() -> None:
    assert set(SHARES) == set(NAMES)


def test_the_trial_is_excluded_and_the_study_goes_on(client: TestClient, storage: Storage) -> None:
    study = held(storage)
    page = client.get(at("oven", f"/trials/{TYPO}")).text
    tidy(page)
    assert 'id="trial-doubt-1"' in page
    assert 'id="exclude-one"' in page
    assert 'id="correct-one"' in page
    wrong = post(client, at("oven", "/exclude"), {"trial": TYPO, "reason": " "})
    assert wrong.status_code == 422
    assert "needs a reason" in wrong.text
    assert study.is_held
    page = post(client, at("oven", "/exclude"), {"trial": TYPO, "reason": "<i>typed wrong</i>"}).text
    tidy(page)
    assert f"Trial {TYPO}: " in page
    assert "does not count any more" in page
    assert "The study goes on" in page
    assert 'id="doubts"' not in page
    assert "&lt;i&gt;typed wrong&lt;/i&gt;" in page
    assert study.trial(TYPO).state is TrialState.EXCLUDED
    assert not study.is_finished
    one = client.get(at("oven", f"/trials/{TYPO}")).text
    tidy(one)
    assert 'id="excluded"' in one
    assert "Bring it back" in one
    assert 'id="exclude-one"' not in one
    listed = client.get(at("oven", "/trials?state=EXCLUDED")).text
    assert 'data-found="1"' in listed
    assert "left-out" in listed
    assert "&lt;i&gt;typed wrong" in listed
    told(study)
    assert study.status().state == "finished"
    verdict = client.get(at("oven", "/verdict")).text
    tidy(verdict)
    assert "leaves out trial 5" in verdict
    assert "if it counted it would be" in verdict
    assert 'id="verdict-exclusions"' in verdict
    again = post(client, at("oven", "/correct"), {"trial": TYPO, "value": "72,5", "reason": "right after all"})
    assert again.status_code == 200
    assert not study.exclusions()
    assert study.trial(TYPO).value == 72.5


def test_a_correction_answers_the_doubt(client: TestClient, storage: Storage) -> None:
    study = held(storage)
    right = study.trial(TYPO).value
    assert right is not None
    post(client, at("oven", "/correct"), {"trial": TYPO, "value": str(right / 100), "reason": "decimal point"})
    assert not study.status().doubts
    assert 'id="doubts"' not in client.get(at("oven")).text


def test_a_held_study_goes_on_or_is_finished_as_it_is(client: TestClient, storage: Storage) -> None:
    study = held(storage)
    page = client.get(at("oven", "/continue")).text
    tidy(page)
    assert post(client, at("oven", "/continue"), {"n": "many"}).status_code == 422
    page = post(client, at("oven", "/continue"), {"n": "12", "reason": "more of it"}).text
    assert "The study goes on" in page
    assert study.status().state == "running"
    assert study.status().to_go.now == 12
    assert "Look first: something does not fit" in page
    assert 'id="doubts"' in page
    told(study)
    assert study.is_held  # twelve more runs do not explain the typo
    page = client.get(at("oven", "/finish")).text
    tidy(page)
    assert "Finish as it is" in page
    assert "keeps its doubts" in page
    page = post(client, at("oven", "/finish"), {"reason": "good enough"}).text
    tidy(page)
    assert study.status().state == "finished"
    assert not study.is_held
    assert "Finished in doubt" in page
    assert "proven" not in page
    assert "In doubt. If what speaks" in page
    assert not re.search(r'class="[^"]*\bfinished\b', page)
    assert 'id="to-go-on"' in client.get(at("oven")).text
    twice = post(client, at("oven", "/finish"))
    assert twice.status_code == 409
    assert "finished already" in twice.text


def test_a_study_is_finished_under_way(client: TestClient, storage: Storage) -> None:
    study = oven(storage, tolerance=0.3)
    assert 'id="to-finish"' not in client.get(at("oven")).text  # there is nothing to answer by
    assert "no outcome yet" in post(client, at("oven", "/finish")).text
    noise = np.random.default_rng(1)
    study.tell_many((trial, float(noise.normal())) for trial in study.ask(40))
    study.ask(2)
    assert 'id="to-finish"' in client.get(at("oven")).text
    page = client.get(at("oven", "/finish")).text
    tidy(page)
    assert "If you stop now: within" in page
    assert "2 runs that are out are given up" in page
    page = post(client, at("oven", "/finish"), {"reason": "the season is over"}).text
    tidy(page)
    assert "stopped before its end" in page
    assert study.status().state == "finished"
    assert study.n_running == 0
    assert [entry.what for entry in study.log() if entry.what.startswith("finished")] == [
        "finished (the season is over)"
    ]


def test_the_terms_are_changed_under_way(client: TestClient, storage: Storage) -> None:
    study = oven(storage, tolerance=0.3)
    noise = np.random.default_rng(1)
    study.tell_many((trial, float(noise.normal())) for trial in study.ask(40))
    page = client.get(at("oven", "/terms")).text
    tidy(page)
    assert 'id="promise"' in page
    assert re.search(r'<input id="tolerance"[^>]*value="0.3"', page)
    assert re.search(r'id="noise_sd"[^>]*value="1"', page)
    same = post(client, at("oven", "/terms"), {"tolerance": "0.3", "noise_sd": "1"})
    assert same.status_code == 409
    assert "already" in same.text
    wrong = post(client, at("oven", "/terms"), {"budget": "some", "reason": "kept"})
    assert wrong.status_code == 422
    assert 'value="some"' in wrong.text
    assert 'value="kept"' in wrong.text
    page = post(
        client,
        at("oven", "/terms"),
        {"tolerance": "0.3", "budget": "60", "noise_sd": "not known", "reason": "two days"},
    ).text
    tidy(page)
    assert "Budget: 60, none before." in page
    assert "Noise sd: not known, 1 before." in page
    assert (study.spec.tolerance, study.spec.noise_sd, dict(study.spec.options)["budget"]) == (None, None, 60)
    told(study)
    assert study.status().n_complete == 60
    assert "budget: 60, none before" in client.get(at("oven", "/verdict")).text


def test_a_tolerance_in_percent_of_todays_outcome(client: TestClient, storage: Storage) -> None:
    study = oven(storage, baseline_outcome=70.0)
    study.tell(study.ask()[0], 70.0)
    post(client, at("oven", "/terms"), {"tolerance": "1 %"})
    assert study.spec.tolerance == pytest.approx(0.7)


def test_who_may_read_sees_doubts_and_changes_nothing(database: str, storage: Storage) -> None:
    held(storage)
    reader = create_token(storage, "read", note="ann")
    service = Service(storage, needs_token=True)
    with TestClient(make_app(service)) as client:
        client.cookies["levers_session"] = session_of(storage, reader)
        page = client.get(at("oven")).text
        assert 'id="doubts"' in page
        assert f"/trials/{TYPO}" in page
        for hidden in ("to-continue", "to-noise", "to-finish-doubtful", "to-go-on", "to-terms"):
            assert f'id="{hidden}"' not in page
        assert 'id="exclude-one"' not in client.get(at("oven", f"/trials/{TYPO}")).text
        for verb in ("finish", "continue", "terms"):
            assert client.get(at("oven", f"/{verb}")).status_code == 403
            assert post(client, at("oven", f"/{verb}")).status_code == 403
        assert post(client, at("oven", "/exclude"), {"trial": TYPO, "reason": "x"}).status_code == 403
    service.stopping.set()


def test_forms_need_their_token(client: TestClient, storage: Storage) -> None:
    study = held(storage)
    for verb in ("finish", "continue", "terms", "exclude"):
        assert client.post(at("oven", f"/{verb}"), data={"trial": TYPO, "reason": "x"}).status_code == 403
    assert study.is_held


def test_an_algorithm_that_cannot_end_early_says_so(client: TestClient, storage: Storage) -> None:
    study = oven(storage, algorithm="modl")
    study.tell(study.ask()[0], 1.0)
    assert 'id="course"' not in client.get(at("oven")).text
    answer = post(client, at("oven", "/finish"))
    assert answer.status_code == 409
    assert "modl cannot stop before its end" in answer.text
