"""Doubts and the end of a study on the command line."""

import csv
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
from levers.errors import LeversError

TYPO = 5
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
"""A typo may be asked about when it is told; here it is meant."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)
    return tmp_path


def run(command: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == code, f"{command}: {result.output} {result.exception!r}"
    return result


def refused(command: str, message: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command))
    assert isinstance(result.exception, LeversError), f"{command}: {result.output}"
    assert re.search(message, str(result.exception)), str(result.exception)


def create(tolerance: float = 0.8) -> None:
    run(f"create oven --factor heat=low,mid,high --factor speed=1,2,3,4 --tolerance {tolerance} --noise-sd 1 --seed 1")


def make_runs(n: int | None = None, typo: int | None = None) -> str:
    """Make n runs, or all there are, one after the other; what was said last."""
    said, noise = "", np.random.default_rng(0)
    study = levers.load_study("oven", "sqlite:///levers.db")
    while not study.is_finished and n != 0:
        for trial in study.ask(1):
            value = 70 + 2 * (trial.params["heat"] == "mid") + noise.normal()
            if trial.number == typo:  # not by the command, which would ask whether it is meant
                study.tell(trial, round(100 * value))
            else:
                said = run(f"tell oven {trial.number} {value:.2f} --by ann").output
        n = None if n is None else n - 1
    return said


def test_a_typo_from_the_first_word_to_the_verdict(here: Path) -> None:
    create()
    said = make_runs(typo=TYPO)
    assert f"IN DOUBT: the outcome of trial {TYPO}" in said
    assert "in doubt, and not finished: levers verdict oven" in said
    assert "IN DOUBT" in run("ask oven").stderr
    status = run("status oven").output
    assert status.startswith("oven: in doubt")
    assert f"IN DOUBT: the outcome of trial {TYPO}" in status
    assert "in doubt (otherwise within" in status
    assert "in doubt" in run("studies").output
    assert json.loads(run("studies --format json").output)[0]["state"] == "in doubt"
    assert "in doubt (otherwise" in run("forecast oven").output
    forecast, leading = (json.loads(run(f"{one} oven --format json").output) for one in ("forecast", "status"))
    assert forecast["in_doubt"]
    assert forecast["within"] == leading["within"]
    [row] = csv.DictReader(io.StringIO(run("status oven --format csv").output))
    assert row["doubts"] == "; ".join(one["text"] for one in leading["doubts"])
    verdict = run("verdict oven", code=4)
    assert verdict.output.startswith("IN DOUBT")
    assert "proven" not in verdict.output
    assert "The setting, in doubt: heat=" in verdict.output
    assert f"levers exclude oven {TYPO} --reason WHY" in verdict.stderr
    found = json.loads(run("verdict oven --format json", code=4).stdout)
    assert [doubt["trials"] for doubt in found["doubts"]] == [[TYPO]]
    assert run("verdict oven --format csv", code=4).stdout.startswith("factor,level")

    refused(f"exclude oven {TYPO}", "needs a reason")
    refused("exclude oven 99 --reason x", "there is no trial 99")
    said = run(f"exclude oven {TYPO} --reason 'typed wrong' --by ann").output
    assert re.search(rf"trial {TYPO}: \d+(\.\d+)? does not count any more", said)
    assert "the study is not at its end any more: runs are needed" in said
    status = run("status oven").output
    assert "1 outcome does not count" in status
    assert re.search(rf"excluded .* by ann: trial {TYPO} .*\(typed wrong\)", status)
    assert "IN DOUBT" not in status
    assert make_runs().endswith("finished: levers verdict oven\n")
    verdict = run("verdict oven")
    assert f"leaves out trial {TYPO}" in verdict.output
    assert "if it counted it would be" in verdict.output
    assert "EXCLUDED" in run("trials oven --state excluded").output


def test_finish_continue_and_other_terms(here: Path) -> None:
    create(0.3)
    refused("finish oven", "no outcome yet")
    refused("continue oven", "not at its end")
    make_runs(20)
    assert run("finish oven --reason 'the season is over'").output == "finished: levers verdict oven\n"
    refused("finish oven", "finished already")
    assert "stopped before its end" in run("verdict oven").output
    assert "6 in this round" in run("continue oven -n 6 --reason more").output
    refused("restate oven", "levers restate oven --noise-sd unknown")
    refused("restate oven --noise-sd some", "noise_sd is a number, or 'unknown'")
    refused("restate oven --budget 10", "20 runs were made already")
    said = run("restate oven --budget 30 --noise-sd unknown --reason 'two days'").output
    assert said.splitlines()[:3] == [
        "budget: 30, none before",
        "noise sd: not known, 1 before",
        "tolerance: none, 0.3 before",
    ]
    make_runs()
    assert "restated after 20 runs: budget: 30, none before" in run("verdict oven").output
    log = run("log oven --format csv").output
    for text in ("finished (the season is over)", "went on after the end (more)", "designed a round of 6 runs"):
        assert text in log


def act_together(terms: str) -> None:
    """A study to its end in which two levers do much together."""
    run(f"create oven --factor heat=low,mid,high --factor speed=1,2,3,4 --factor supplier=A,B {terms} --seed 1")
    study, noise = levers.load_study("oven", "sqlite:///levers.db"), np.random.default_rng(0)
    while not study.is_finished:
        for trial in study.ask(8):
            both = trial.params["heat"] == "mid" and trial.params["speed"] == 4
            study.tell(trial, 70 + 4 * both + noise.normal())


@pytest.mark.parametrize(
    ("terms", "budget"), [("--budget 60 --aim certify", " --budget N"), ("--tolerance 0.6 --noise-sd 1", "")]
)
def test_what_next_after_levers_that_act_together(here: Path, terms: str, budget: str) -> None:
    act_together(terms)
    verdict = run("verdict oven", code=4)
    assert "heat and speed seem to interact" in verdict.output
    assert f"levers merge oven NEW_NAME heat,speed{budget}\n" in verdict.stderr
    assert ("levers restate oven --noise-sd unknown" in verdict.stderr) is ("noise" in terms)
    if budget:
        refused("merge oven oven-2 heat,speed", "--budget N")
    run(f"merge oven oven-2 heat,speed{budget.replace('N', '40')}")
