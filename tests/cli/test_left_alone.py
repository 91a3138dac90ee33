"""Levers that runs leave alone, on the command line: begun, asked, told, and in the verdict."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import levers
from harness.watching import HIDDEN, SPACE, register, run, to_the_end, until_left_alone
from levers.cli import results
from levers.cli.app import app
from levers.studies.space_text import parse_space
from levers.studies.study import Study


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    register(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)


def levers_command(*words: object, fails: bool = False) -> str:
    """What a command printed, or said when it failed."""
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert (found.exit_code != 0) == fails, f"{found.output} {found.exception}"
    return str(found.exception) if fails else found.output


def begun(*more: str) -> Study:
    space = (
        '[factors]\nheat = {levels = ["low", "high"], free = true}\nspeed = [1, 2, 3]\nbelt = {levels = ["A", "B"]}\n'
    )
    Path("oven.toml").write_text(space)
    levers_command(
        "create", "oven", "--space", "oven.toml", "--algorithm", "watching", "--tolerance", 1, "--noise-sd", 1.2, *more
    )
    return levers.load_study("oven", "sqlite:///levers.db")


def test_a_space_file_and_an_option_say_what_may_be_left_alone() -> None:
    assert begun("--seed", "1").spec.free == ("heat",)
    levers_command("delete", "oven", "--yes")
    study = begun("--free", "belt,speed", "--free", "heat")
    assert study.spec.free == ("heat", "speed", "belt")
    assert study.space == levers.Space.of(SPACE)
    refused = levers_command("create", "two", "--factor", "heat=a,b", "--budget", 9, "--free", "heet", fails=True)
    assert "there is no factor 'heet'" in refused
    for text, says in (
        ('heat = {levels = ["a", "b"], free = 3}', "free of 'heat' in the space file is true or false, not 3"),
        ('heat = {levels = ["a", "b"], fre = true}', "'heat' in the space file has 'fre', which is not known"),
        ("heat = {free = true}", "the levels of 'heat' in the space file must be a list"),
    ):
        with pytest.raises(levers.LeversError, match=says):
            parse_space(f"[factors]\n{text}")


def test_runs_are_asked_told_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    study = begun("--seed", "1")
    trials = until_left_alone(study)
    left = next(trial for trial in trials if trial.params.free)
    shown = levers_command("ask", "oven", "--again")
    assert f"{left.number},2,leave alone,{left.params['speed']},{left.params['belt']}," in shown
    rows = json.loads(levers_command("ask", "oven", "--again", "--format", "json"))
    row = next(row for row in rows if row["trial"] == left.number)
    assert row["free"] == ["heat"]
    assert "heat" not in row
    assert "write the level that it took" in levers_command("ask", "oven", "--again", "--sheet", "runs.csv")
    value, taken = run(left)
    refused = levers_command("tell", "oven", left.number, value, fails=True)
    assert f"trial {left.number} left 'heat' alone: say with its outcome which level it took" in refused
    assert "--observed heat=LEVEL" in refused
    refused = levers_command("tell", "oven", left.number, value, "--observed", "heat=mid", fails=True)
    assert "'mid' is not a level of factor 'heat'" in refused
    assert study.trial(left.number).value is None
    levers_command("tell", "oven", left.number, value, "--observed", f"heat={taken['heat']}")
    assert dict(study.trial(left.number).observed or {}) == taken
    monkeypatch.setattr(results, "MOST_ROWS", 100)
    listed = levers_command("trials", "oven")
    assert f"left alone: {taken['heat']}" in listed
    assert "  leave alone  " in listed
    other = {"low": "high", "high": "low"}[str(taken["heat"])]
    words = ("--reason", "typo", "--observed", f"heat={other}")
    assert f"heat took {other}, not {taken['heat']}" in levers_command("correct", "oven", left.number, 2, *words)
    refused = levers_command("tell", "oven", "--sheet", "runs.csv", "--observed", "heat=low", fails=True)
    assert "in a sheet, write the level over" in refused


def test_the_verdict_says_what_to_leave_alone_and_what_is_enough() -> None:
    study = begun("--seed", "1")
    to_the_end(study)
    text = levers_command("verdict", "oven")
    assert "Set heat: leave alone, speed=" in text
    assert HIDDEN.text in text
    assert "leave alone" in text.split("Set ")[0]  # in the table too
    found: dict[str, Any] = json.loads(levers_command("verdict", "oven", "--format", "json"))
    assert found["free"] == ["heat"]
    assert set(found["assignment"]) == {"speed", "belt"}
    assert found["on_parents"] == {}
    assert "chosen: heat: leave alone, speed=" in levers_command("status", "oven")
    status = json.loads(levers_command("status", "oven", "--format", "json"))
    assert status["best"]["free"] == ["heat"]
    for words in (["effects", "oven"], ["forecast", "oven"], ["log", "oven"], ["trials", "oven", "--format", "csv"]):
        levers_command(*words)
    for kind in ("effects", "history", "elimination", "forecast"):
        levers_command("plot", "oven", kind, "-o", f"{kind}.svg")


def test_it_is_enough_to_set_what_was_shown_to_matter() -> None:
    factors = [f"--factor={name}=1,2,3" for name in ("heat", "speed", "belt")]
    levers_command("create", "few", *factors, "--tolerance", 1, "--noise-sd", 0.2, "--seed", 1)
    study = levers.load_study("few", "sqlite:///levers.db")
    study.optimize(lambda params: 5.0 * (params["speed"] == 2))
    text = levers_command("verdict", "few")
    assert "If no lever matters but those shown to, it is enough to set speed=2." in text
    assert json.loads(levers_command("verdict", "few", "--format", "json"))["on_parents"] == {"speed": 2}
