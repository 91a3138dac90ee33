"""Fresh runs that confirm a verdict, over HTTP, in the client, on the pages and in the report."""

from typing import Any

import pytest
from starlette.testclient import TestClient

import levers
from harness.http_load import running_server
from harness.markup import post
from levers.charts.report import study_report
from levers.client import Client
from levers.studies.library import create_study
from levers.studies.storage.base import Storage
from levers.studies.study import Study

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2]}


def outcome(params: levers.Assignment, i: int) -> float:
    return 5.0 * (params["heat"] == "high") + float(params["speed"]) + (-0.3, 0.1, 0.2, -0.1)[i % 4]


def tell_all(study: Any, less: float = 0.0) -> None:
    while due := study.ask(100):
        study.tell_many((t, outcome(t.params, i) - less * (t.params["heat"] == "high")) for i, t in enumerate(due))


def finished(storage: Storage | str) -> Study:
    baseline: dict[str, levers.Level] = {"heat": "low", "speed": 1}
    study = create_study("oven", SPACE, budget=24, seed=1, storage=storage, baseline=baseline)
    study.warns = False
    tell_all(study)
    return study


def test_the_button_the_runs_and_the_answer_on_pages(client: TestClient, storage: Storage) -> None:
    study = finished(storage)
    page = client.get("/studies/oven/verdict").text
    assert 'id="confirm-button"' in page
    assert 'id="chart-confirmation"' not in page
    assert 'href="/studies/oven/export/report.html"' in page
    assert post(client, "/studies/oven/confirm", {"n": "one"}).status_code == 422
    answer = post(client, "/studies/oven/confirm", {"n": "6"})
    assert answer.status_code in (200, 303)
    assert study.status().state == "confirming"
    assert 'id="ask-button"' in client.get("/studies/oven").text
    assert "12 fresh runs are awaited" in client.get("/studies/oven/verdict").text
    tell_all(study)
    page = client.get("/studies/oven/verdict").text
    assert "Confirmed: 6 fresh runs at the setting" in page
    assert "no model needed" in page
    assert 'id="chart-confirmation"' in client.get("/studies/oven/verdict").text
    report = study_report(study)
    assert "What fresh runs say" in report
    assert "6 fresh runs at each" in report
    page = client.get("/studies/oven").text
    assert '<strong id="so-far">24 runs made, and 12 fresh ones</strong>' in page
    assert '<span id="fresh">Fresh runs confirm the verdict.</span>' in page
    assert '<td class="runs n" data-label="runs so far">24, and 12 fresh</td>' in client.get("/").text
    assert '<tr id="fresh-runs">' in client.get("/studies/oven/verdict").text
    assert "runs in all, without fresh ones" in report
    table = report[report.index("<details><summary>Show the runs as a table") :]
    assert (table.count("<td>told</td>"), table.count("<td>told, fresh</td>")) == (24, 12)


def test_a_doubt_is_on_every_page_and_in_the_report(client: TestClient, storage: Storage) -> None:
    study = finished(storage)
    study.confirm(6)
    tell_all(study, less=3.0)
    assert study.is_held
    for place in ("", "/verdict", "/checks"):
        assert 'data-kind="confirmation"' in client.get(f"/studies/oven{place}").text
    assert "In doubt" in study_report(study)
    found = client.get("/api/v1/studies/oven/verdict").json()
    assert found["confirmation"]["answer"] == "in doubt"
    assert found["confirmation"]["gain"]["value"] == pytest.approx(3.0, abs=0.5)
    assert [doubt["kind"] for doubt in found["doubts"]] == ["confirmation"]


def test_the_client_confirms_as_the_study_does(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/levers.db"
    local = finished(url)
    with running_server(url) as server:
        study = Client(server.address).load_study("oven")
        with pytest.raises(levers.errors.InvalidSettingError, match="n_runs"):
            study.confirm(1)
        study.confirm(4, "before we buy")
        assert not study.is_finished
        tell_all(study)
        assert study.is_finished
        assert study.verdict().confirmation == local.verdict().confirmation
        assert study.verdict().confirmation.n_runs == 4
        assert study.verify().ok
