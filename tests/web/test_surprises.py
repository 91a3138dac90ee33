"""Surprising outcomes over HTTP, from the client and on the page without scripts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import levers
from levers.errors import SurprisingOutcomesError
from levers.studies.library import create_study
from levers.studies.study import Study, SurprisingOutcomeWarning
from levers.web.app import make_app
from levers.web.service import Service

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}
API = "/api/v1/studies/oven"


@pytest.fixture
def study(database: str) -> Study:
    made = create_study("oven", SPACE, tolerance=0.2, noise_sd=1.0, seed=1, storage=database)
    rng = np.random.default_rng(0)
    made.tell_many([(trial, 70 + float(rng.normal())) for trial in made.ask(10)])
    return made


@pytest.fixture
def browser(study: Study) -> Iterator[TestClient]:
    service = Service(study.storage)
    with TestClient(make_app(service)) as found:
        yield found
    service.stopping.set()


def post(browser: TestClient, path: str, data: dict[str, str], **more: Any) -> Any:
    browser.get("/login")
    return browser.post(path, data={"form_token": browser.cookies["levers_form"], **data}, **more)


def test_the_api_stores_and_flags(browser: TestClient, study: Study) -> None:
    first, second = study.ask(2)
    body = {"trial": first.number, "value": 705.0}
    refused = browser.post(f"{API}/tell", json=body, params={"insist": "false"})
    assert refused.status_code == 409
    error = refused.json()["error"]
    assert error["kind"] == "SurprisingOutcomesError"
    assert error["flags"][0]["trial"] == first.number
    taken = browser.post(f"{API}/tell", json=body).json()
    (flag,) = taken["flags"]
    assert (taken["n_new"], flag["trial"], flag["value"]) == (1, first.number, 705.0)
    assert flag["low"] < flag["expected"] < flag["high"] < 100
    assert study.trial(first.number).value == 705.0
    assert browser.post(f"{API}/tell", json={"trial": second.number, "value": 70.0}).json()["flags"] == []


def test_the_client_warns_or_is_refused(server: str, study: Study, tmp_path: Path) -> None:
    sheet, past = tmp_path / "runs.csv", tmp_path / "past.csv"
    past.write_text(
        "heat,speed,outcome\n" + "".join(f"low,{1 + i % 4},{60 + i / 10}\n" for i in range(12)) + "mid,1,6\n"
    )
    with levers.Client(server, patience=20) as client:
        remote = client.load_study("oven")
        trial = remote.ask()[0]
        with pytest.raises(SurprisingOutcomesError) as refused:
            remote.tell(trial, 7.0, insist=False)
        (flag,) = refused.value.flags
        assert (flag.trial, flag.value) == (trial.number, 7.0)
        with pytest.warns(SurprisingOutcomeWarning, match=f"trial {trial.number}: 7, expected") as caught:
            remote.tell(trial, 7.0)
        assert caught[0].filename == __file__
        remote.ask_sheet(sheet, 2)
        head, *rows = sheet.read_text().splitlines()
        sheet.write_text("\n".join([head, f"{rows[0]}70.1", f"{rows[1]}-70.2"]))
        with pytest.raises(SurprisingOutcomesError, match=r"-70\.2"):
            remote.tell_sheet(sheet, insist=False)
        with pytest.warns(SurprisingOutcomeWarning):
            report = remote.tell_sheet(sheet)
        assert [one.value for one in report.flags] == [-70.2]
        with pytest.raises(SurprisingOutcomesError, match="row 14"):
            remote.import_sheet(past, "before", insist=False)
        with pytest.warns(SurprisingOutcomeWarning, match="row 14"):
            assert remote.import_sheet(past, "before") == 13


def test_typed_outcomes_come_back_with_a_question(browser: TestClient, study: Study) -> None:
    first, second, third = (trial.number for trial in study.ask(3))
    typed = {f"outcome-{first}": "70,5", f"outcome-{second}": "7250", f"outcome-{third}": "7"}
    page = post(browser, "/studies/oven/tell", {**typed, "save": "all"})
    assert page.status_code == 409
    text = page.text
    assert "2 outcomes are far from what was expected" in text
    assert study.trial(first).value == 70.5
    assert study.trial(second).value is None
    assert re.search(rf'id="problem-{second}" >expected about [67]\d.*; is 7250 right\?', text)
    assert f'<input type="hidden" name="asked-{second}" value="7250">' in text
    assert re.search(r'<button id="insist" name="save" value="insist" >They are right: store them', text)
    # saving once more is no answer, and an outcome that is another now is looked at again
    asked = {f"asked-{second}": "7250", f"asked-{third}": "7"}
    mended = {f"outcome-{second}": "7250", f"outcome-{third}": "7,2"}
    post(browser, "/studies/oven/tell", {**mended, **asked, "save": "all"})
    assert study.trial(second).value is None
    post(browser, "/studies/oven/tell", {**mended, **asked, "save": "insist"})
    assert study.trial(second).value == 7250
    assert study.trial(third).value is None
    assert 'value="insist" hidden>' in browser.get("/studies/oven").text


def test_an_uploaded_sheet_is_stored_when_it_is_said_to_be_right(browser: TestClient, study: Study) -> None:
    study.ask(4)
    head, *rows = browser.get("/studies/oven/runs.csv").text.splitlines()
    outcomes = ["70.25", "", "705", "69"]
    sheet = "\n".join([head, *(row + y for row, y in zip(rows, outcomes, strict=True))])
    page = post(browser, "/studies/oven/upload", {}, files={"sheet": ("mine.csv", sheet)})
    assert page.status_code == 409
    text = page.text
    assert "1 outcome is far from what was expected. Nothing of the sheet was stored." in text
    assert study.status().n_complete == 10
    held = re.search(r'name="outcomes" value="([^"]*)"', text)
    assert held is not None
    stored = post(browser, "/studies/oven/upload", {"outcomes": held[1]}, follow_redirects=True)
    assert "3 new outcomes" in stored.text
    assert sorted(study.trial(t).value or 0 for t in range(10, 14)) == [0, 69, 70.25, 705]
    wrong = post(browser, "/studies/oven/upload", {"outcomes": "x"})
    assert wrong.status_code == 422
