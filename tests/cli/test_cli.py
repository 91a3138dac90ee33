import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from levers.cli.app import app, main
from levers.errors import InvalidSettingError

COLUMNS = [
    "algorithm",
    "runs_mean",
    "runs_sem",
    "gap_mean",
    "gap_max",
    "failures",
    "n",
    "parents_exact",
    "over_necessary",
    "seconds",
]
SMALL = [
    "compare",
    "--factors",
    "3",
    "--parents",
    "1",
    "--levels",
    "2-3",
    "--worlds",
    "2",
    "--repeats",
    "1",
    "--workers",
    "1",
]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_compare_prints_the_same_numbers_in_every_format() -> None:
    as_json = json.loads(run(*SMALL, "--format", "json").stdout)
    as_csv = list(csv.DictReader(io.StringIO(run(*SMALL, "--format", "csv").stdout)))
    table = run(*SMALL).stdout
    assert list(as_json[0]) == list(as_csv[0]) == COLUMNS
    assert [row["algorithm"] for row in as_json] == ["cfs", "modl", "parents-first", "oracle"]
    for one, other in zip(as_json, as_csv, strict=True):
        assert float(other["runs_mean"]) == one["runs_mean"]
        assert f"{one['runs_mean']:,.1f}" in table
    assert all(column in table for column in COLUMNS)


def test_results_go_to_standard_output_and_the_bar_to_standard_error() -> None:
    result = run(*SMALL, "--format", "json")
    json.loads(result.stdout)
    assert "studies" in result.stderr


def test_options_reach_the_comparison() -> None:
    default = json.loads(run(*SMALL, "--algorithms", "modl", "--format", "json").stdout)
    for words in (["--seed", "1"], ["--schedule", "algorithm-1"], ["--known-parents"], ["--tolerance", "1"]):
        changed = json.loads(run(*SMALL, "--algorithms", "modl", "--format", "json", *words).stdout)
        assert changed[0]["runs_mean"] != default[0]["runs_mean"], words


def test_compare_reports_gaps_after_numbers_of_runs_and_sweeps_a_setting() -> None:
    words = [*SMALL, "--algorithms", "cfs,random", "--at", "8,16", "--sweep", "noise-sd=0.5,2"]
    rows = json.loads(run(*words, "--format", "json").stdout)
    assert [(row["noise_sd"], row["algorithm"], row["at"]) for row in rows] == [
        (sd, name, at) for sd in ("0.5", "2") for name in ("cfs", "random") for at in (8, 16)
    ]
    assert "gap_mean" in run(*words).stdout
    words = [*SMALL, "--algorithms", "modl", "--sweep", "levels=2,3-4"]
    few, many = csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout))
    assert (few["levels"], many["levels"]) == ("2", "3-4")
    assert float(few["runs_mean"]) < float(many["runs_mean"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sweep", "parents"], "--sweep needs values"),
        (["--sweep", "luck=1,2"], "--sweep must be one of"),
        (["--sweep", "parents=1,x"], "takes numbers separated by commas"),
        (["--sweep", "parents=1,99"], "n_parents must be a whole number from 1 to 3"),
        (["--at", "ten"], "--at must be numbers separated by commas"),
        (["--noise", "loud"], "noise must be one of"),
    ],
)
def test_wrong_comparisons_are_refused(words: list[str], message: str) -> None:
    error = run(*SMALL, *words).exception
    assert isinstance(error, InvalidSettingError)
    assert message in str(error)


BAKERY = str(Path(__file__).parents[2] / "examples" / "bakery.toml")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--noise-sd", "1"], "--noise-sd"),
        (["--factors", "3"], "--factors"),
        (["--worlds", "3"], "--worlds"),
        (["--sweep", "parents=1,2"], "--sweep parents=1,2"),
    ],
)
def test_options_of_random_worlds_are_refused_beside_a_world_from_a_file(words: list[str], option: str) -> None:
    error = run("compare", "--world", BAKERY, "--algorithms", "cfs", *words).exception
    assert isinstance(error, InvalidSettingError)
    assert str(error).startswith(f"{option} has no effect with --world")


def test_a_lever_that_is_best_left_alone_is_named_below_the_table() -> None:
    words = ["compare", "--world", BAKERY, "--repeats", "1", "--workers", "1", "--algorithms", "cfs"]
    table, as_json = run(*words), run(*words, "--format", "json")
    assert "levers.create_study(..., free=['steam'])" in table.stdout
    assert "1 lever is best left alone (steam)" in as_json.stderr
    assert [row["algorithm"] for row in json.loads(as_json.stdout)] == ["cfs"]
    assert "left alone" not in run(*SMALL, "--algorithms", "cfs").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "--tolerance", "0"], "tolerance must be a finite number above 0"),
        (["compare", "--levels", "many"], "levels must look like 3-6"),
        (["compare", "--algorithms", "modl,magic"], "there is no algorithm 'magic'"),
        (["compare", "--parents", "99"], "n_parents must be a whole number from 1 to 10, not 99 (--parents)"),
        (["plan", "--levels", "4x3", "--budget", "9", "--per-day", "0"], "not 0 (--block-size or --per-day)"),
        (["plan", "--levels", "4x3", "--tolerance", "5%"], "give the baseline's outcome too"),
        (["plan", "--factor", "a=1,2", "--forbid", "b=1,c=2", "--tolerance", "1"], "there is no factor 'b'"),
        (["plan", "--factor", "a=1,2", "--forbid", "b=1,c=2", "--tolerance", "1"], "(--forbid)"),
        (["compare", "--algorithms", "successive-elimination"], "use modl"),
        (["plan", "--levels", "4x", "--tolerance", "1"], "levels must look like"),
        (["plan", "--levels", "4x3"], "either a tolerance or a budget"),
        (["plan", "--levels", "4x3,1", "--tolerance", "1"], "a lever needs at least two"),
        (["plan", "--levels", "4x3", "--tolerance", "1", "--format", "csv"], "table or json"),
        (["plan", "--levels", "40000", "--tolerance", "1"], "at most 32767"),
        (["demo", "--seed=-1"], "seed must be a whole number"),
        (["demo", "--algorithm", "magic"], "there is no algorithm 'magic'"),
    ],
)
def test_wrong_input_ends_in_one_line_and_exit_code_2(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["levers", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_program_of_its_own_ends_so_too() -> None:
    words = ["plan", "--levels", "4x3"]
    result = subprocess.run(
        [sys.executable, "-m", "levers.cli.app", *words], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert "either a tolerance or a budget" in result.stderr
    assert "Traceback" not in result.stderr


def test_demo_ends_in_a_verdict_a_person_understands() -> None:
    result = run("demo", "--seed", "1")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for phrase in ("12 levers", "The best setting found", "Certificate", "Levers that matter", "every setting once"):
        assert phrase in text
    assert "melt temperature 225.0" in text
    assert "0.00 points below the best" in text


def test_python_can_run_the_command_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "levers", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").stdout


def test_version_help_and_the_list_of_algorithms() -> None:
    assert run("--version").stdout.startswith("levers 0.")
    assert "Exit codes" in run("--help").stdout
    assert "Examples:" in run("compare", "--help").stdout
    listed = run("algorithms").stdout
    assert "observational-regression" in listed
    assert len(listed.splitlines()) == 17


def test_plan_prints_a_table_and_json() -> None:
    words = ["plan", "--levels", "4x10", "--tolerance", ".5", "--failure-prob", ".1", "--noise-sd", "1"]
    found = json.loads(run(*words, "--format", "json").stdout)
    assert found["one_shot_runs"] == pytest.approx(1114, rel=0.03)
    assert {"worst_case_runs", "modl_runs", "lower_bound", "null_bound"} <= set(found)
    table = run(*words).stdout
    assert f"{found['one_shot_runs']:,}" in table
    assert f"{found['modl_runs']:,}" in table
    assert f"{found['null_bound']} limit of any method, if no lever matters" in " ".join(table.split())
