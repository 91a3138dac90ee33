"""The page, the API, the command line and Python show the same numbers, and the gain over the baseline."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from html import unescape
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from levers.cli.app import app
from levers.studies.analysis.describe import gain_words, not_shown
from levers.studies.library import create_study, load_study, open_storage
from levers.studies.storage.base import Storage
from levers.studies.study import Study
from levers.web.app import make_app
from levers.web.pages.filters import number
from levers.web.service import Service

SPACE: dict[str, list[Any]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3], "steam": ["off", "on"]}
TODAY: dict[str, Any] = {"heat": "low", "speed": 2, "steam": "on"}
FORM = {"factor": list(SPACE), "levels": ["low, mid, high", "1, 2, 3", "off, on"]}


@pytest.fixture
def storage(database: str) -> Storage:
    return open_storage(database)


@pytest.fixture
def client(storage: Storage) -> Iterator[TestClient]:
    with TestClient(make_app(Service(storage))) as client:
        client.get("/login")
        yield client


def finished(storage: Storage, **settings: Any) -> Study:
    study = create_study("oven", SPACE, storage=storage, seed=3, baseline=TODAY, **settings)
    rng = np.random.default_rng(4)
    while not study.is_finished:
        asked = study.ask(1000)
        means = [70 + 1.5 * SPACE["heat"].index(trial.params["heat"]) for trial in asked]
        study.tell_many(zip(asked, (np.array(means) + rng.normal(size=len(means))).tolist(), strict=True))
    return study


def table(page: str, name: str) -> list[list[str]]:
    """The cells of a table on a page, without markup."""
    [found] = re.findall(rf'<table id="{name}"[^>]*>.*?<tbody>(.*?)</tbody>', page, re.S)
    rows = re.findall(r"<tr.*?</tr>", found, re.S)
    return [[unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<td.*?</td>", row, re.S)] for row in rows]


def span(low: float | None, high: float | None) -> str:
    return "-" if low is None else f"{number(low)} to {number(high)}"


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": 50},
        {"budget": 9},
        {"tolerance": 1.0, "noise_sd": 1.0},
        {"budget": 60, "aim": "certify", "forbidden": [{"heat": "mid", "speed": 3}]},
    ],
    ids=["best", "few", "certify", "tied"],
)
def test_every_face_shows_the_same_numbers(
    client: TestClient, storage: Storage, database: str, settings: dict[str, Any]
) -> None:
    study = finished(storage, **settings)
    rows, best, verdict = study.effects(), study.best(), study.verdict()
    assert best is not None
    api = "/api/v1/studies/oven"
    assert client.get(f"{api}/effects").json() == [asdict(row) for row in rows]
    told = client.get(f"{api}/best").json()
    assert told == {**asdict(best), "params": dict(best.params), "free": []}
    over_http = client.get(f"{api}/verdict").json()
    assert {key: over_http[key] for key in ("predicted", "low", "high", "gain")} == {
        key: told[key] for key in ("predicted", "low", "high", "gain")
    }
    assert over_http["p_values"] == verdict.p_values_by_lever

    page = client.get("/studies/oven/verdict").text
    wanted = [
        [row.factor, str(row.level), str(row.n_runs), number(row.loss), *spans, row.standing]
        for row, spans in ((one, (span(one.low, one.high), span(one.usual_low, one.usual_high))) for one in rows)
    ]
    assert table(page, "levels") == wanted
    assert best.gain is not None
    words = gain_words(best.gain, True)
    assert f'<p id="gain"><strong>{words[0].upper()}{words[1:]}.</strong></p>' in unescape(page)
    for name in set(SPACE) - set(verdict.parents or ()):
        assert f"<li><bdi>{name}</bdi>: {not_shown(verdict.p_values_by_lever[name])}</li>" in unescape(page)
    assert "no sign of it" not in page
    if best.predicted is not None:
        assert f"{number(best.predicted)} ({number(best.low)} to {number(best.high)})" in page
        assert (
            f'<li id="expected">Mean outcome to expect there: {number(best.predicted)}'
            in client.get("/studies/oven").text
        )

    run = CliRunner()
    said = run.invoke(app, ["effects", "oven", "--storage", database, "--format", "json"]).stdout
    parts = [asdict(row) for row in study.part_effects()]
    assert bool(parts) == ("forbidden" in settings)
    assert json.loads(said) == [asdict(row) for row in rows] + parts
    said = run.invoke(app, ["verdict", "oven", "--storage", database, "--format", "json"]).stdout
    assert json.loads(said)["effects"] == [asdict(row) for row in rows]
    assert json.loads(said)["part_effects"] == parts
    assert json.loads(said)["gain"] == asdict(best.gain)
    text = run.invoke(app, ["verdict", "oven", "--storage", database]).stdout
    assert f"{words[0].upper()}{words[1:]}." in text
    assert words in run.invoke(app, ["status", "oven", "--storage", database]).stdout


def test_a_baseline_and_a_tolerance_in_percent_on_every_face(
    client: TestClient, storage: Storage, database: str
) -> None:
    body = {"name": "http", "factors": SPACE, "tolerance": "5%", "baseline_outcome": 70.0, "baseline": TODAY}
    assert client.post("/api/v1/studies", json=body).status_code == 201
    shown = client.get("/api/v1/studies/http").json()
    assert (shown["tolerance"], shown["baseline"], shown["baseline_outcome"]) == (3.5, TODAY, 70.0)
    form = {**FORM, "name": "form", "tolerance": "5 %", "baseline_outcome": "70", "failure_prob": "0.1"}
    form |= {"baseline": "heat=low, speed=2, steam=on", "form_token": client.cookies["levers_form"]}
    assert client.post("/studies", data=form).status_code == 200
    places = ["--storage", database, "--baseline", "heat=low,speed=2,steam=on"]
    factors = [part for name, levels in SPACE.items() for part in ("--factor", f"{name}={','.join(map(str, levels))}")]
    command = ["create", "cli", *factors, "--tolerance", "5%", "--baseline-outcome", "70", *places]
    assert CliRunner().invoke(app, command).exit_code == 0
    for name in ("http", "form", "cli"):
        spec = load_study(name, storage).spec
        assert (spec.tolerance, spec.baseline, spec.baseline_outcome) == (3.5, (0, 1, 1), 70.0), name
    plan = {"factors": [3, 3, 2], "tolerance": "5%", "baseline_outcome": 70.0}
    assert client.post("/api/v1/plan", json=plan).json()["tolerance"] == 3.5
    assert "within 3.5 of the best" in client.post("/plan", data=form).text


def test_what_is_wrong_with_a_baseline_is_said_where_it_was_typed(client: TestClient) -> None:
    form = {**FORM, "name": "form", "tolerance": "5%", "failure_prob": "0.1", "baseline": "heat=low, speed=9"}
    page = client.post("/studies", data={**form, "form_token": client.cookies["levers_form"]})
    assert page.status_code == 422
    assert 'id="problem-baseline"' in page.text
    assert 'id="problem-tolerance"' in page.text
    assert 'value="heat=low, speed=9"' in page.text
    refused = client.post("/api/v1/studies", json={"name": "a", "factors": SPACE, "tolerance": "5%"}).json()
    assert refused["error"]["field"] == "tolerance"
    body = {"name": "a", "factors": SPACE, "tolerance": 1.0, "baseline": {"heat": "low"}}
    assert client.post("/api/v1/studies", json=body).json()["error"]["field"] == "baseline"
