"""Studies and plans with a budget on the command line: what runs serve, what they do, and nothing certified."""

import json
import math
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import levers
from levers.cli.app import app
from levers.errors import InvalidSettingError, LeversError
from levers.studies.library import load_study
from levers.studies.study import Study

TEN = " ".join(f"--factor x{k}=a,b,c,d" for k in range(10))
STORAGE = "sqlite:///levers.db"


def certified(study: Study) -> str | None:
    best = study.best()
    return None if best is None else best.said()[0]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)


def said(command: str) -> str:
    result = CliRunner().invoke(app, shlex.split(command), catch_exceptions=True)
    assert result.exit_code == 0, f"{command}: {result.output} {result.exception!r}"
    return " ".join(result.output.split())


def refusal(command: str) -> LeversError:
    error = CliRunner().invoke(app, shlex.split(command)).exception
    assert isinstance(error, LeversError)
    return error


def test_a_study_too_short_to_certify_anything() -> None:
    assert "5 runs to go; 5 in this round" in said(f"create ten {TEN} --budget 5 --seed 1")
    study = load_study("ten", STORAGE)
    study.tell_many((trial, 1.1 * trial.number) for trial in study.ask(5))
    assert "nothing is certified" in said("status ten")
    assert "if you stop now" not in said("status ten")
    assert said("forecast ten") == "no runs to go nothing is certified"
    verdict = said("verdict ten")
    assert "Nothing is certified: - too few runs to certify anything" in verdict
    assert "no sign of it" not in verdict
    assert json.loads(said("verdict ten --format json"))["tolerance"] is None
    said("export ten -o verdict.json")
    assert json.loads(Path("verdict.json").read_text())["tolerance"] is None


def test_a_study_under_way_says_what_it_certifies_if_it_stops_now() -> None:
    said("create two --factor a=1,2 --factor b=1,2,3 --budget 60 --noise-sd 1 --seed 1")
    study = load_study("two", STORAGE)
    assert "if you stop now" not in said("status two")  # before the first round there is no setting
    while study.status().within is None:
        study.tell_many((trial, 0.5 * (trial.number % 3)) for trial in study.ask(4))
    for command in ("status two", "forecast two"):
        assert f"if you stop now: within {certified(study)} of the best with probability 90%" in said(command)


def test_the_aim_of_a_study() -> None:
    said(f"create a {TEN} --budget 20")
    said(f"create b {TEN} --budget 20 --aim certify")
    assert "aim" not in dict(load_study("a", STORAGE).spec.options)
    assert dict(load_study("b", STORAGE).spec.options)["aim"] == "certify"
    assert refusal(f"create c {TEN} --tolerance 1 --aim best").field == "aim"
    assert refusal(f"create c {TEN} --budget 20 --aim worst").field == "aim"
    assert isinstance(refusal(f"create c {TEN} --budget 1"), InvalidSettingError)


@pytest.mark.usefixtures("few_worlds")
def test_a_plan_for_a_budget() -> None:
    printed = said("plan --levels 3x4 --budget 24")
    assert "4 levers, 24 runs, noise not known" in printed
    assert "at most" not in printed
    assert "everything is for one of sd 1, and grows with it. --expected-noise plans for another" in printed
    assert "days" not in printed
    few = said("plan --levels 4x10 --budget 5 --expected-noise 2")
    assert "5 nothing" in few
    assert "Fewer than 32 runs certify nothing" in few
    assert "noise sd 2 expected, and learned by the study" in few
    assert "--expected-noise" not in few
    found = json.loads(said("plan --levels 3x4 --budget 24 --format json"))
    assert [row["runs"] for row in found["budgets"]] == [12, 24, 48]
    assert found["worst_case_runs"] == 24
    assert found["noise_known"] is False
    known = said("plan --levels 3x4 --budget 24 --noise-sd 2 --per-day 5")
    assert "4 levers, 24 runs, noise sd 2" in known
    assert "not known" not in known
    assert re.search(r" 24 5 within .* 48 10 within ", known)


def test_a_plan_for_a_tolerance_where_the_noise_is_not_known() -> None:
    printed = said("plan --levels 3x4 --tolerance .5 --per-day 7")
    assert "noise not known" in printed
    for noise in (0.25, 0.5, 1.0, 2.0):
        found = levers.plan([3] * 4, tolerance=0.5, expected_noise=noise)
        likely, worst = found.runs_if_few_matter, found.worst_case_runs
        days = f"{math.ceil(likely / 7):,} {math.ceil(worst / 7):,}"
        assert f" {noise:g} {likely:,} {worst:,} {days} " in printed
    assert said("plan --levels 3x4 --tolerance 5% --baseline-outcome 10 --per-day 7") == printed
    expected = said("plan --levels 3x4 --tolerance .5 --expected-noise 2")
    assert f"{worst:,} the adaptive solver, at most" in expected
    assert found == levers.plan([3] * 4, tolerance=0.5, expected_noise=2.0)


def test_a_plan_of_levers_with_forbidden_combinations() -> None:
    levels = "--factor a=1,2,3,4 --factor b=1,2,3 --factor c=x,y --factor d=x,y,z"
    common = "--tolerance .5 --noise-sd 1 --format json"
    free, tied = (json.loads(said(f"plan {levels} {more} {common}")) for more in ("", "--forbid a=4,b=3"))
    sizes = json.loads(said(f"plan --levels 4,3,2,3 {common}"))
    assert free == sizes
    assert free["one_shot_runs"] < tied["one_shot_runs"] < 1.4 * free["one_shot_runs"]
    assert (free["full_factorial"], tied["full_factorial"]) == (72, 66)
    factors = '[factors]\na = [1, 2, 3, 4]\nb = [1, 2, 3]\nc = ["x", "y"]\nd = ["x", "y", "z"]\n'
    Path("oven.toml").write_text(f"forbidden = [{{a = 4, b = 3}}]\n{factors}")
    assert json.loads(said(f"plan --space oven.toml {common}")) == tied
    merged = json.loads(said(f"plan {levels} --merge a,b {common}"))
    assert merged["one_shot_runs"] > tied["one_shot_runs"]
    assert (tied["n_factors"], merged["n_factors"]) == (4, 4)
    assert json.loads(said(f"plan {levels} --forbid a=4,b=3 --max-parents 2 {common}"))["n_factors"] == 4
    chain = f"{levels} --forbid a=4,b=3 --forbid b=1,c=x --forbid c=y,d=z --max-parents 2 --tolerance .5"
    for command in ("plan", "create line"):
        error = refusal(f"{command} {chain}")
        assert "these 4 levers count as 1; leave max_parents out" in str(error)
        assert error.field == "max_parents"
    assert "give the levers once: --levels 4x10" in str(refusal("plan --tolerance .5"))
    assert "give the levers once" in str(refusal("plan --levels 3,3 --forbid a=1 --tolerance .5"))
    assert "there is no factor 'e'" in str(refusal(f"plan {levels} --forbid e=1,b=2 --tolerance .5"))
