"""Outcomes on a log scale over HTTP, from the client, in the form and on pages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import levers
from levers.errors import InvalidSettingError, LeversError
from levers.studies.library import create_study, load_study
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study
from levers.web.app import make_app
from levers.web.service import Service

ABOVE = "on a log scale every outcome is above 0"
SPACE: dict[str, list[levers.Level]] = {"a": ["on", "off"], "b": ["on", "off"]}
API = "/api/v1/studies/oven"
FORM = {
    "name": "oven",
    "factor": ["a", "b"],
    "levels": ["on, off", "on, off"],
    "tolerance": "5%",
    "goal": "minimize",
    "scale": "log",
    "noise_sd": "0.1",
    "by-noise": "noise_sd",
}


def time_of(run: Any) -> float:
    return 10.0 * (1.25 if run["a"] == "off" else 1.0) * (1.1 if run["b"] == "off" else 1.0)


@pytest.fixture
def study(database: str) -> Study:
    return create_study(
        "oven", SPACE, goal="minimize", scale="log", tolerance="5%", noise_sd=0.1, seed=1, storage=database,
        baseline={"a": "off", "b": "off"},
    )  # fmt: skip


@pytest.fixture
def browser(study: Study) -> Iterator[TestClient]:
    service = Service(study.storage)
    with TestClient(make_app(service)) as found:
        yield found
    service.stopping.set()


def post(browser: TestClient, path: str, data: dict[str, Any], **more: Any) -> Any:
    browser.get("/login")
    return browser.post(path, data={"form_token": browser.cookies["levers_form"], **data}, **more)


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_answers_carry_the_scale_and_relative_changes(browser: TestClient, study: Study) -> None:
    study.optimize(time_of)
    assert browser.get(API).json()["scale"] == "log"
    assert browser.get(API).json()["tolerance"] == 0.05
    status, best = browser.get(f"{API}/status").json(), browser.get(f"{API}/best").json()
    assert (status["scale"], status["tolerance"], best["scale"]) == ("log", 0.05, "log")
    assert 0 < status["within"] == best["within"] <= 0.05
    assert 10.0 < best["predicted"] < 10.2  # a little above: the setting was chosen
    assert 0.9 * (1 - 10 / 13.75) < best["gain"]["estimate"] < 1 - 10 / 13.75
    losses = {(row["factor"], row["level"]): row for row in browser.get(f"{API}/effects").json()}
    assert losses["a", "off"]["loss"] == pytest.approx(0.25)
    assert losses["a", "off"]["scale"] == "log"
    verdict = browser.get(f"{API}/verdict").json()
    assert (verdict["scale"], verdict["tolerance"]) == ("log", best["within"])
    evidence = browser.get(f"{API}/diagnostics").json()
    assert evidence["scale"] == "log"
    assert evidence["evidence"][0]["contrast"] == pytest.approx(0.25)


@pytest.mark.parametrize("value", [0, -1.5])
def test_the_api_refuses_0_and_below(browser: TestClient, study: Study, value: float) -> None:
    study.ask(2)
    told = browser.post(f"{API}/tell", json={"outcomes": [{"trial": 0, "value": 3}, {"trial": 1, "value": value}]})
    assert told.status_code in (409, 422)
    assert told.json()["error"]["message"] == f"the outcome of trial 1 is {value:g}; {ABOVE}; nothing was stored"
    past = {"rows": [{"a": "on", "b": "on"}], "values": [value], "note": "before"}
    assert ABOVE in browser.post(f"{API}/import", json=past).json()["error"]["message"]
    assert study.status().n_complete == study.status().n_past == 0
    study.tell(0, 12.0)
    corrected = browser.post(f"{API}/correct", json={"trial": 0, "value": value, "reason": "typo"})
    assert f"the outcome of trial 0 cannot be corrected to {value:g}" in corrected.json()["error"]["message"]


def test_a_client_studies_on_a_log_scale(server: str, tmp_path: Path) -> None:
    with levers.Client(server, patience=20) as client:
        study = client.create_study("line", SPACE, goal="minimize", scale="log", tolerance="5%", noise_sd=0.1, seed=1)
        assert (study.spec.scale, study.spec.tolerance, study.outcome_scale.sign) == ("log", 0.05, -1.0)
        trial = study.ask()[0]
        with pytest.raises(LeversError, match=f"trial {trial.number} is 0; {ABOVE}"):
            study.tell(trial, 0.0)
        study.tell(trial, time_of(trial.params))
        past = tmp_path / "past.csv"
        past.write_text("a,b,outcome\non,on,10\noff,on,-1\n")
        with pytest.raises(LeversError, match=f"row 3: the outcome is -1; {ABOVE}"):
            study.import_sheet(past, "before")
        found = study.optimize(time_of)
        assert found is not None
        assert found.scale == "log"
        assert re.match(r"within [0-9.]+ % of the best", found.promise)
        best = study.best()
        assert best is not None
        assert (best.scale, study.effects()[0].scale, study.status().scale) == ("log", "log", "log")
        plan = client.plan([3, 2], tolerance="5%", noise_sd=0.1, goal="minimize", scale="log")
        assert plan.scale == "log"
        assert plan.tolerance == pytest.approx(0.05)
        with pytest.raises(InvalidSettingError, match="share on a log scale"):
            client.create_study("other", SPACE, scale="log", tolerance=3.0)


def test_the_form_begins_a_study_on_a_log_scale() -> None:
    storage = MemoryStorage()
    with TestClient(make_app(Service(storage))) as browser:
        planned = post(browser, "/plan", FORM)
        assert "within 5 % of the best" in text_of(planned.text)
        assert "noise of sd 10 %" in text_of(planned.text)
        assert 'value="log"' in browser.get("/new").text
        post(browser, "/studies", FORM)
        found = load_study("oven", storage)
        assert (found.spec.scale, found.spec.tolerance, found.spec.goal) == ("log", 0.05, "minimize")
        assert "log: effects multiply" in text_of(browser.get("/studies/oven").text)
        wrong = post(browser, "/studies", {**FORM, "name": "other", "goal": "maximize", "tolerance": "3"})
        assert 'id="problem-tolerance"' in wrong.text
        assert "0.05 is 5 %, not 3" in text_of(wrong.text)


def test_a_page_refuses_0_beside_its_trial_and_in_a_sheet_beside_its_row(browser: TestClient, study: Study) -> None:
    first, second = (trial.number for trial in study.ask(2))
    page = post(browser, "/studies/oven/tell", {f"outcome-{first}": "0", "save": "all"})
    assert f"the outcome of trial {first} is 0; {ABOVE}" in text_of(page.text)
    head, *rows = browser.get("/studies/oven/runs.csv").text.splitlines()
    sheet = "\n".join([head, f"{rows[0]}12", f"{rows[1]}-2"])
    page = post(browser, "/studies/oven/upload", {}, files={"sheet": ("mine.csv", sheet)})
    assert re.search(rf"row 3\W+the outcome of trial {second} is -2; {ABOVE}", text_of(page.text))
    assert study.status().n_complete == 0


def test_pages_speak_percent(browser: TestClient, study: Study) -> None:
    study.optimize(time_of)
    verdict = text_of(browser.get("/studies/oven/verdict").text)
    assert re.search(r"no other setting is better than this one by more than [0-9.]+ %", verdict)
    assert re.search(r"Typical outcome \(median\) to expect there: 10(\.0\d+)? \(", verdict)  # chosen: a little above
    assert re.search(r"Gain over the baseline: 2[567](\.\d+)? % less", verdict)
    assert "tolerance asked for 5 %" in verdict
    assert re.search(r"a off \d+ 25 % ", verdict)
    assert "estimated loss in percent (right of zero is worse)" in text_of(browser.get("/studies/oven").text)
    assert re.search(r"within [0-9.]+ %", text_of(browser.get("/compare?study=oven").text))
