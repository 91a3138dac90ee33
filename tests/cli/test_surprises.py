"""Surprising outcomes on the command line: asked about in a terminal, refused where nobody can be asked."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli import runs
from levers.cli.app import app
from levers.errors import SurprisingOutcomesError
from levers.studies.study import Study

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "mid", "high"], "speed": [1, 2, 3, 4]}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)
    made = levers.create_study("oven", SPACE, tolerance=0.05, noise_sd=1.0, seed=1, storage="sqlite:///levers.db")
    rng = np.random.default_rng(0)
    made.tell_many([(trial, 70 + float(rng.normal())) for trial in made.ask(10)])
    made.ask(4)
    return made


def levers_(command: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, shlex.split(command), input=typed)


def test_where_nobody_can_be_asked_it_is_refused(study: Study) -> None:
    command = [sys.executable, "-m", "levers.cli.app", "tell", "oven", "10", "7250"]
    found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert found.returncode == 5
    assert "trial 10: 7250, expected about " in found.stderr
    assert "--yes" in found.stderr
    assert study.trial(10).value is None
    result = levers_("tell oven 10 7250 --yes")
    assert result.exit_code == 0
    assert "trial 10: 7250" in result.stdout
    assert "expected about" in result.stderr
    assert study.trial(10).value == 7250


@pytest.mark.parametrize(("typed", "stored"), [("y\n", 705.0), ("n\n", None), ("\n", None)])
def test_in_a_terminal_it_is_asked_about(
    study: Study, monkeypatch: pytest.MonkeyPatch, typed: str, stored: float | None
) -> None:
    monkeypatch.setattr(runs, "_is_terminal", lambda: True)
    result = levers_("tell oven 10 705", typed)
    assert "trial 10: 705, expected about " in result.stderr
    assert "store it? [y/N]" in result.stderr
    assert study.trial(10).value == stored
    assert isinstance(result.exception, SurprisingOutcomesError) == (stored is None)


def test_a_sheet_is_stored_whole_or_not(study: Study) -> None:
    levers_("ask oven --again --sheet runs.csv")
    head, *rows = Path("runs.csv").read_text().splitlines()
    outcomes = ["70.3", "7.1", "69.9", "70.8"]
    Path("runs.csv").write_text("\n".join([head, *(row + y for row, y in zip(rows, outcomes, strict=True))]))
    result = levers_("tell oven --sheet runs.csv")
    assert isinstance(result.exception, SurprisingOutcomesError)
    assert [flag.trial for flag in result.exception.flags] == [11]
    assert study.status().n_complete == 10
    assert "4 new outcomes" in levers_("tell oven --sheet runs.csv --yes").stdout


def test_past_runs_are_asked_about_too(study: Study) -> None:
    rows = [f"low,{1 + i % 4},{60 + i / 10}" for i in range(12)]
    Path("past.csv").write_text("heat,speed,outcome\n" + "\n".join([*rows, "low,1,6010"]))
    result = levers_("import oven past.csv --note before")
    assert isinstance(result.exception, SurprisingOutcomesError)
    assert "row 14: 6010" in str(result.exception)
    assert "13 past runs are in" in levers_("import oven past.csv --note before --yes").stdout
