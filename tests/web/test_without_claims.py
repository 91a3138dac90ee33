"""What holds without the claim, on every face: pages, HTTP, report, notebook, command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from levers.charts.report import study_report
from levers.cli.app import app
from levers.core.outcome_scale import AS_TOLD, EVERY_SCALE
from levers.core.space import Level
from levers.studies.library import create_study
from levers.studies.storage.base import Storage
from levers.studies.study import Study

SPACE: dict[str, list[Level]] = {
    "heat": ["low", "mid", "high"],
    "speed": [1, 2, 3],
    "belt": ["a", "b"],
    "lot": ["x", "y"],
}


def told(study: Study, n_rounds: int | None = None) -> Study:
    """Tell outcomes until there is nothing to run, or for some rounds."""
    noise, done = np.random.default_rng(0), 0
    while not study.is_finished and done != n_rounds:
        trials = study.ask(1000)
        study.tell_many([(t, 70 + 2 * (t.params["heat"] == "mid") + noise.normal()) for t in trials])
        done += 1
    return study


def words(page: str) -> str:
    """A page's text with single spaces."""
    return " ".join(page.split())


def oven(storage: Storage) -> Study:
    return create_study("oven", SPACE, tolerance=0.8, noise_sd=1.0, seed=1, storage=storage, max_parents=1)


def test_pages_and_api_say_both_numbers(client: TestClient, storage: Storage) -> None:
    study = oven(storage)
    told(study, 1)
    assert not study.is_finished
    best, status = study.best(), study.status()
    assert best is not None
    assert best.within is not None
    assert best.within_without_claims is not None
    assert best.within_without_claims > best.within
    assert (status.within, status.within_without_claims) == (best.within, best.within_without_claims)
    now = f"within {best.said()[1]} without what was claimed of levers"
    for place in ("", "/verdict"):
        assert now in words(client.get(f"/studies/oven{place}").text)
    assert client.get("/api/v1/studies/oven/best").json()["within_without_claims"] == best.within_without_claims
    assert client.get("/api/v1/studies/oven/status").json()["within_without_claims"] == best.within_without_claims

    verdict = told(study).verdict()
    without = verdict.tolerance_without_claims
    assert without is not None
    assert f"within {AS_TOLD.certified(without)} without what was claimed of levers" in verdict.promise
    page = words(client.get("/studies/oven/verdict").text)
    assert f"Without what was claimed of levers: not by more than {AS_TOLD.certified(without)}, as surely." in page
    assert f"within {AS_TOLD.certified(without)} without what was claimed" in words(client.get("/studies/oven").text)
    found = client.get("/api/v1/studies/oven/verdict").json()
    assert (found["tolerance"], found["tolerance_without_claims"]) == (verdict.tolerance, without)
    assert f"within {AS_TOLD.certified(without)} without what was claimed of levers" in study_report(study)
    assert f"within {AS_TOLD.certified(without)} without what was claimed of levers" in verdict._repr_html_()


def test_the_command_line_says_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERS_STORAGE", f"sqlite:///{tmp_path}/levers.db")
    study = create_study(
        "oven", SPACE, tolerance=0.8, noise_sd=1.0, seed=1, max_parents=1, storage=f"sqlite:///{tmp_path}/levers.db"
    )
    without = told(study).verdict().tolerance_without_claims
    assert without is not None
    both = f"within {AS_TOLD.certified(without)} without what was claimed of levers"
    for command in ("verdict", "status", "forecast"):
        said = " ".join(CliRunner().invoke(app, [command, "oven"]).stdout.split())
        assert both in said, command
    found = json.loads(CliRunner().invoke(app, ["verdict", "oven", "--format", "json"]).stdout)
    assert found["tolerance_without_claims"] == without
    found = json.loads(CliRunner().invoke(app, ["status", "oven", "--format", "json"]).stdout)
    assert found["within_without_claims"] == without


def test_nothing_is_said_where_nothing_was_claimed(client: TestClient, storage: Storage) -> None:
    study = told(create_study("line", SPACE, tolerance=0.8, noise_sd=1.0, seed=1, storage=storage))
    assert study.verdict().tolerance_without_claims is None
    for place in ("", "/verdict"):
        assert "claimed" not in words(client.get(f"/studies/line{place}").text)


def test_on_a_log_scale_both_are_in_percent(storage: Storage) -> None:
    study = create_study(
        "oven", SPACE, tolerance=0.1, noise_sd=0.1, seed=1, storage=storage, max_parents=1, scale="log"
    )
    noise = np.random.default_rng(0)
    while not study.is_finished:
        study.tell_many([(t, 70 * float(np.exp(noise.normal(0, 0.1)))) for t in study.ask(1000)])
    verdict = study.verdict()
    assert verdict.tolerance_without_claims is not None
    assert 0.1 < verdict.tolerance_without_claims < 1
    assert (
        f"within {EVERY_SCALE['log'].certified(verdict.tolerance_without_claims)} without what was claimed"
        in verdict.promise
    )
