"""`levers confirm`: from the command to the exit code."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
from levers.errors import NotFinishedError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)
    return tmp_path


def run(command: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == code, f"{command}: {result.output} {result.exception!r}"
    return result


def tell_all(less: float = 0.0) -> None:
    study = levers.load_study("oven", "sqlite:///levers.db")
    study.warns = False
    while due := study.ask(100):
        values = [5.0 * (t.params["heat"] == "high") + (-0.3, 0.1, 0.2, -0.1)[i % 4] for i, t in enumerate(due)]
        study.tell_many((t, value - less) for t, value in zip(due, values, strict=True))


def test_confirmed_then_in_doubt_with_exit_code_4(here: Path) -> None:
    run("create oven --factor heat=low,high --factor speed=1,2 --budget 24 --seed 1 --baseline heat=low,speed=1")
    assert isinstance(CliRunner().invoke(app, ["confirm", "oven"]).exception, NotFinishedError)
    tell_all()
    said = run("confirm oven -n 6 --reason 'before we buy'").stdout
    assert "confirming the verdict, 12 fresh runs to go: levers ask oven" in said
    said = run("status oven").stdout
    assert "12 runs to go" in said
    assert "the verdict is not confirmed yet" in said
    assert "Not confirmed yet: 12 fresh runs are awaited." in run("verdict oven").stdout
    run("ask oven -n 12 --sheet fresh.csv")
    assert len(Path("fresh.csv").read_text().splitlines()) == 13
    study = levers.load_study("oven", "sqlite:///levers.db")
    study.tell_many((t, 5.0 * (t.params["heat"] == "high") + 0.1 * (t.number % 3)) for t in study.running())
    said = run("status oven").stdout
    assert "24 outcomes, and 12 fresh ones, 0 runs out" in said
    assert "fresh runs confirm the verdict" in said
    [one] = json.loads(run("studies --format json").stdout)
    assert (one["n_complete"], one["n_fresh"]) == (24, 12)
    said = run("verdict oven").stdout
    assert "Runs: 24, and 12 fresh ones." in said
    assert "Confirmed: 6 fresh runs at the setting gave a mean of" in said
    assert "6 fresh runs at each: a gain over the baseline of" in said
    found = json.loads(run("verdict oven --format json").stdout)["confirmation"]
    assert (found["answer"], found["n_baseline"], found["compared"]) == ("confirmed", 6, "gain")
    run("report oven -o oven.html")
    assert "What fresh runs say" in Path("oven.html").read_text()
    assert "asked for 12 fresh runs to confirm the verdict (before we buy)" in run("log oven").stdout
    run("verify oven")


def test_a_prediction_that_is_false_ends_in_exit_code_4(here: Path) -> None:
    run("create oven --factor heat=low,high --factor speed=1,2 --budget 24 --seed 1")
    tell_all()
    run("confirm oven -n 4")
    tell_all(less=4.0)
    assert "IN DOUBT: 4 fresh runs at the setting" in run("verdict oven", 4).stdout
    assert "in doubt" in run("status oven").stdout
    run("verify oven")
