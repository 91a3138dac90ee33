"""Outcomes on a log scale on the command line: in percent, and refused at 0 and below."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from levers.cli.app import app
from levers.studies.library import load_study

ABOVE = "on a log scale every outcome is above 0"
STORAGE = "sqlite:///levers.db"
CREATE = "create oven --factor a=on,off --factor b=on,off --goal minimize --scale log --noise-sd .1 --seed 1"
# seconds: 10 at best, a quarter more without a, a tenth more without b, and no noise
COMMAND = "sh -c 's=1000; [ $0 = on ] || s=$((s * 5 / 4)); [ $1 = on ] || s=$((s * 11 / 10)); echo \"$s\"' {a} {b}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)


def levers_(command: str) -> Result:
    return CliRunner().invoke(app, shlex.split(command))


def said(command: str) -> str:
    found = levers_(command)
    assert found.exit_code == 0, found.output
    return re.sub(r"\s+", " ", found.stdout)


def test_run_to_a_verdict_in_percent() -> None:
    settings = CREATE.removeprefix("create oven ") + " --tolerance 5% --baseline a=off,b=off"
    found = said(f"run oven {settings} -- {COMMAND}")
    assert "off: 25.0 % (" in found
    assert "off: 10.0 % (" in found
    expected = re.search(r"Typical outcome \(median\) there: ([0-9.]+) \(", found)
    assert expected is not None
    assert float(expected[1]) == pytest.approx(1000, rel=0.01)  # a little above: the setting was chosen
    gained = re.search(r"Gain over the baseline: ([0-9.]+) % less, 95 % between ", found)
    assert gained is not None
    assert float(gained[1]) == pytest.approx(27.27, rel=0.1)
    assert re.search(r"Within [0-9.]+ % of the best with probability at least 90%:", found)
    assert "effects and noise are taken to act on the logarithm of the outcome" in found
    status = said("status oven")
    assert "oven: finished, verdict, minimize with cfs, on a log scale" in status
    assert f"typical outcome (median) there: {expected[1]} (" in status
    table = said("effects oven")
    assert "in percent of its outcome" in table
    assert "scale" not in table
    assert re.search(r" a off \d+ 25 ", table)
    rows = json.loads(said("effects oven --format json"))
    assert {row["scale"] for row in rows} == {"log"}
    assert next(row["loss"] for row in rows if (row["factor"], row["level"]) == ("a", "off")) == pytest.approx(0.25)
    assert "scale" in said("effects oven --format csv").split()[0]
    verdict = json.loads(said("verdict oven --format json"))
    # the same gain as above, less than the exact one because the setting was chosen
    assert (verdict["scale"], verdict["gain"]["estimate"]) == ("log", pytest.approx(float(gained[1]) / 100, abs=1e-4))
    same = levers_(f"run oven --scale linear -- {COMMAND}")
    assert "scale was 'log' and is 'linear' here" in str(same.exception)


@pytest.mark.parametrize("value", ["0", "-3"])
def test_0_and_below_are_refused_with_the_trial_named(value: str) -> None:
    said(f"{CREATE} --tolerance 5%")
    said("ask oven -n 2 --sheet runs.csv")
    told = levers_(f"tell oven 0 -- {value}")
    assert told.exit_code != 0
    assert f"the outcome of trial 0 is {value}; {ABOVE}" in str(told.exception)
    sheet = Path("runs.csv")
    head, *rows = sheet.read_text().splitlines()
    sheet.write_text("\n".join([head, f"{rows[0]}12", f"{rows[1]}{value}"]) + "\n")
    told = levers_("tell oven --sheet runs.csv")
    assert f"row 3: the outcome of trial 1 is {value}; {ABOVE}" in str(told.exception)
    Path("past.csv").write_text(f"a,b,outcome\non,on,10\noff,on,{value}\n")
    past = levers_("import oven past.csv")
    assert f"row 3: the outcome is {value}; {ABOVE}" in str(past.exception)
    assert load_study("oven", STORAGE).status().n_complete == 0
    said("tell oven 0 12")
    corrected = levers_(f"correct oven 0 --reason typo -- {value}")
    assert f"the outcome of trial 0 cannot be corrected to {value}: {ABOVE}" in str(corrected.exception)
    assert load_study("oven", STORAGE).trial(0).value == 12


def test_a_command_that_prints_0_ends_with_the_trial_named() -> None:
    found = levers_(f"run oven {CREATE.removeprefix('create oven ')} --budget 8 -- echo 0 {{a}}{{b}}0")
    assert f"the outcome of trial 0 is 0; {ABOVE}" in str(found.exception)


def test_a_plan_is_in_percent() -> None:
    found = said("plan --levels 3,2,2 --tolerance 5% --noise-sd .1 --goal minimize --scale log")
    assert "within 5 % of the best with probability 90%, noise sd 10 %" in found
    data = json.loads(
        said("plan --levels 3,2,2 --tolerance 5% --noise-sd .1 --goal minimize --scale log --format json")
    )
    same = json.loads(said("plan --levels 3,2,2 --tolerance 0.048790164169432 --noise-sd .1 --format json"))
    assert (data["scale"], data["tolerance"]) == ("log", pytest.approx(0.05))
    assert data["worst_case_runs"] == same["worst_case_runs"]
    assert "typical loss" in said("plan --levels 3,2,2 --budget 20 --scale log")


def test_terms_are_restated_in_percent() -> None:
    said(f"{CREATE} --tolerance 5%")
    said("ask oven")
    said("tell oven 0 12")
    assert "tolerance: 10 %, 5 % before" in said("restate oven --tolerance 10%")
