"""Levers that runs leave alone: over HTTP, with the client, and on pages without scripts."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

import levers
from harness.watching import HIDDEN, SPACE, register, run, tell, to_the_end, until_left_alone
from levers.errors import ObservedLevelError
from levers.studies.library import create_study
from levers.studies.storage.base import Storage
from levers.studies.study import Study

API = "/api/v1/studies/oven"
QUIET = {"x-levers-quiet": "1"}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


@pytest.fixture
def study(storage: Storage) -> Study:
    settings: dict[str, Any] = {"algorithm": "watching", "tolerance": 1.0, "noise_sd": 1.2, "seed": 1}
    return create_study("oven", SPACE, free=["heat"], storage=storage, **settings)


def test_the_service_asks_and_takes_what_levers_took(client: TestClient, study: Study) -> None:
    assert client.get(API).json()["free"] == ["heat"]
    left = next(trial for trial in until_left_alone(study) if trial.params.free)
    given = client.get(f"{API}/trials/{left.number}").json()
    assert (given["free"], given["observed"], set(given["params"])) == (["heat"], None, {"speed", "belt"})
    value, taken = run(left)
    for observed, says in ((None, "left 'heat' alone"), ({"heat": "mid"}, "is not a level of factor 'heat'")):
        refused = client.post(f"{API}/tell", json={"trial": left.number, "value": value, "observed": observed})
        assert refused.status_code == 409
        assert refused.json()["error"]["kind"] == "ObservedLevelError"
        assert says in refused.json()["error"]["message"]
    body = {"outcomes": [{"trial": left.number, "value": value, "observed": taken}]}
    assert client.post(f"{API}/tell", json=body).json()["n_new"] == 1
    assert client.get(f"{API}/trials/{left.number}").json()["observed"] == taken
    other = {"low": "high", "high": "low"}[str(taken["heat"])]
    wrong = {"trial": left.number, "value": value, "observed": {"heat": other}, "reason": "typo"}
    [made] = client.post(f"{API}/correct", json=wrong).json()["corrections"]
    assert made["observed"] == [["heat", taken["heat"], other]]
    asked = client.post(f"{API}/ask", json={"n": 3}).json()["trials"]
    assert all("free" in one for one in asked)


def test_the_service_says_what_to_leave_alone(client: TestClient, study: Study) -> None:
    to_the_end(study)
    found = client.get(f"{API}/verdict").json()
    assert (found["free"], set(found["assignment"]), found["on_parents"]) == (["heat"], {"speed", "belt"}, {})
    assert HIDDEN.text in found["guarantee"]
    assert client.get(f"{API}/best").json()["free"] == ["heat"]
    for what in ("status", "effects", "diagnostics", "forecast", "log", "events", "trials?limit=5", "frame"):
        assert client.get(f"{API}/{what}").status_code == 200
    body = {"name": "two", "factors": SPACE, "free": ["heat"], "tolerance": 1, "noise_sd": 1, "algorithm": "modl"}
    refused = client.post("/api/v1/studies", json=body)
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "free")


def test_the_client_has_the_same_verbs(server: str, database: str) -> None:
    settings: dict[str, Any] = {"algorithm": "watching", "tolerance": 1.0, "noise_sd": 1.2, "seed": 1, "free": ["heat"]}
    here = levers.create_study("oven", SPACE, **settings)
    with levers.Client(server, patience=20) as client:
        create_study("oven", SPACE, storage=database, **settings)  # the service's own processes do not know "watching"
        there = client.load_study("oven")
        assert there.spec == here.spec
        for study in (here, there):
            trials = until_left_alone(study)
            left = next(trial for trial in trials if trial.params.free)
            with pytest.raises(ObservedLevelError, match="left 'heat' alone"):
                study.tell(left, 1.0)
            with pytest.raises(ObservedLevelError, match="no outcome"):
                study.tell_many({left.number: 1.0}, observed={10_000: {"heat": "low"}})
            study.tell(left, 1.0, observed={"heat": "low"})
            made = study.correct(left, 1.0, "typo", observed={"heat": "high"})
            assert made.observed == (("heat", "low", "high"),)
            assert study.corrections() == [made]
            assert dict(study.trial(left.number).observed or {}) == {"heat": "high"}
            tell(study, study.running())
            assert to_the_end(study).assignment == here.verdict().assignment
        best, other = here.best(), there.best()
        assert best is not None
        assert other is not None
        assert best.params == other.params
        assert there.state.blocks[-1].observed is not None


def test_a_page_without_scripts_takes_a_run(client: TestClient, study: Study) -> None:
    trials = until_left_alone(study)
    left, second = [trial for trial in trials if trial.params.free][:2]
    page = client.get("/studies/oven").text
    row = re.search(rf'<tr data-trial="{left.number}".*?</tr>', page, re.DOTALL)
    assert row is not None
    assert "leave alone" in row[0]
    select = f"observed-{left.number}-0"
    assert f'<select id="{select}" name="{select}"' in row[0]
    one_set = next(trial for trial in trials if not trial.params.free)
    assert f'name="observed-{one_set.number}-0"' not in page
    token = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)">', page))
    # without the level: refused, and what was typed stays
    typed = {f"outcome-{left.number}": "2.5", f"outcome-{second.number}": "3.5", f"observed-{second.number}-0": "low"}
    answer = client.post("/studies/oven/tell", data={**token, **typed, "save": "all"})
    assert answer.status_code == 409
    assert f"trial {left.number} left &#39;heat&#39; alone" in answer.text
    assert re.search(rf'id="outcome-{left.number}"[^>]*value="2.5"', answer.text)
    assert dict(study.trial(second.number).observed or {}) == {"heat": "low"}
    # a level that there is not, beside a wrong outcome of which the level stays
    third = [trial for trial in trials if trial.params.free][2]
    typed = {f"outcome-{left.number}": "2.5", select: "mid", f"outcome-{third.number}": "x"}
    typed[f"observed-{third.number}-0"] = "high"
    answer = client.post("/studies/oven/tell", data={**token, **typed, "save": "all"})
    assert "&#39;mid&#39; is not a level of &#39;heat&#39;; choose the one that it took" in answer.text
    assert re.search(rf'name="observed-{third.number}-0".*?<option value="high" selected>', answer.text)
    answer = client.post("/studies/oven/tell", data={**token, select: "high", f"outcome-{left.number}": "2.5"})
    assert answer.status_code == 200
    assert dict(study.trial(left.number).observed or {}) == {"heat": "high"}
    # the trial's own page corrects the level alone
    shown = client.get(f"/studies/oven/trials/{left.number}").text
    assert '<span class="alone">left alone:</span> <bdi>high</bdi>' in shown
    wanted = {"trial": str(left.number), "value": "2.5", "reason": "typo", select: "low"}
    answer = client.post("/studies/oven/correct", data={**token, **wanted}, headers=QUIET)
    assert "heat took low, not high" in answer.json()["message"]
    assert "heat</bdi> took <bdi>low</bdi>" in client.get(f"/studies/oven/trials/{left.number}").text
    assert "left alone:" in client.get("/studies/oven/trials?size=200").text
    assert "leave alone" in client.get("/studies/oven/runs.csv").text


def test_a_sheet_with_a_surprise_keeps_what_levers_took(client: TestClient, study: Study) -> None:
    trials = until_left_alone(study)
    left = next(trial for trial in trials if trial.params.free)
    token = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)">', client.get("/studies/oven").text))
    sheet = f"trial,heat,outcome\n{left.number},high,1e6\n"
    files = {"sheet": ("runs.csv", sheet, "text/csv")}
    held = client.post("/studies/oven/upload", data=token, files=files, headers=QUIET).json()["held"]
    assert study.trial(left.number).value is None
    answer = client.post("/studies/oven/upload", data={**token, "outcomes": held}, headers=QUIET)
    assert answer.status_code == 200
    assert dict(study.trial(left.number).observed or {}) == {"heat": "high"}
    for wrong in (f"{left.number}:1.0:7", f"{left.number}:1.0:-2", f"{left.number}:1.0", "x:1.0:0"):
        answer = client.post("/studies/oven/upload", data={**token, "outcomes": wrong}, headers=QUIET)
        assert "cannot be read" in str(answer.json())


def test_pages_of_a_finished_study(client: TestClient, study: Study) -> None:
    to_the_end(study)
    for place in ("", "/verdict", "/trials", "/checks", "/trials?factor=heat&level=leave%20alone"):
        page = client.get(f"/studies/oven{place}")
        assert page.status_code == 200
        if place in ("", "/verdict"):
            assert '<dt><bdi>heat</bdi></dt><dd><span class="alone">leave alone</span></dd>' in page.text
    assert HIDDEN.text in client.get("/studies/oven/verdict").text
    assert "leave alone" in client.get("/compare?study=oven").text
    assert "may be left alone" in client.get("/studies/oven").text


def test_the_verdict_page_says_what_is_enough(client: TestClient, storage: Storage) -> None:
    study = create_study("few", SPACE, tolerance=1.0, noise_sd=0.2, seed=1, storage=storage)
    study.optimize(lambda params: 5.0 * (params["speed"] == 2))
    page = client.get("/studies/few/verdict").text
    assert '<p id="enough">If no lever matters but those shown to, it is enough to set speed=2.</p>' in page
    assert client.get("/api/v1/studies/few/verdict").json()["on_parents"] == {"speed": 2}


def test_the_form_of_a_new_study_takes_levers_that_may_be_left_alone(client: TestClient) -> None:
    page = client.get("/new").text
    token = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)">', page))
    assert re.search(r'<input id="free" name="free"[^>]*placeholder="heat, speed"', page)
    form = {**token, "name": "f", "factor": ["heat"], "levels": ["low, high"], "budget": "9", "free": "heet"}
    answer = client.post("/studies", data=form)
    assert answer.status_code == 422
    assert "there is no factor &#39;heet&#39;" in re.search(r'id="problem-free">(.*?)</p>', answer.text)[1]  # type: ignore[index]
    table = '[factors]\nheat = {levels = ["low", "high"], free = true}\nspeed = [1, 2]'
    client.post("/studies", data={**token, "name": "f", "table": table, "budget": "200", "free": "speed"})
    assert client.get("/api/v1/studies/f").json()["free"] == ["heat", "speed"]
