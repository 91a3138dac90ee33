"""Studies on the command line, as a person uses them."""

import csv
import dataclasses
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app, main
from levers.cli.output import print_verdict
from levers.errors import LeversError

ROOT = Path(__file__).parents[2]
SPACE = '[factors]\nheat = ["low", "mid", "high"]\nspeed = [1, 2, 3, 4]\nsupplier = ["A", "B"]\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)
    Path("oven.toml").write_text(SPACE)
    return tmp_path


def levers_(command: str) -> Result:
    return CliRunner().invoke(app, shlex.split(command), catch_exceptions=True)


def ok(command: str) -> str:
    result = levers_(command)
    assert result.exit_code == 0, f"{command}: {result.output} {result.exception!r}"
    return result.output


def refused(command: str, message: str) -> None:
    result = levers_(command)
    assert isinstance(result.exception, LeversError), f"{command}: {result.output} {result.exception!r}"
    assert re.search(message, str(result.exception)), str(result.exception)


def fill_in(path: Path, seed: int = 0) -> None:
    """What a person does between ask and tell: make the runs, type the outcomes."""
    frame = pl.read_csv(path)
    rng = np.random.default_rng([seed, *frame["trial"].to_list()])  # not of the sheet's text, which has the study's id
    outcome = (
        frame["heat"].replace_strict({"low": 0.0, "mid": 1.4, "high": 0.6}).to_numpy()
        + 1.2 * (frame["speed"] == 3).to_numpy()
        + rng.normal(size=frame.height)
    )
    frame.with_columns(outcome=pl.Series(outcome)).write_csv(path)


def create(options: str = "") -> str:
    return ok(f"create oven --space oven.toml --tolerance .5 --noise-sd 1 --seed 3 {options}")


def test_from_create_to_verdict_with_sheets(here: Path) -> None:
    assert "levers ask" in create()
    for _ in range(50):
        if "finished" in ok("ask oven -n 24 --sheet runs.csv"):
            break
        fill_in(here / "runs.csv")
        assert "new outcomes" in ok("tell oven --sheet runs.csv")
        assert "0 new outcomes" in ok("tell oven --sheet runs.csv")
    answer = json.loads(ok("verdict oven --format json"))
    assert (answer["assignment"]["heat"], answer["assignment"]["speed"]) == ("mid", 3)
    assert answer["tolerance"] <= 0.5
    assert "Set heat=mid, speed=3" in ok("verdict oven")
    assert "finished" in ok("status oven")
    ok("export oven -o trials.csv")
    ok("export oven -o verdict.json")
    verdict = levers.from_json((here / "verdict.json").read_text(), levers.Verdict)
    told = pl.read_csv(here / "trials.csv").filter(pl.col("state") == "COMPLETE")["outcome"].to_numpy()
    assert levers.verify(verdict, told).ok


def test_readme_walkthrough(here: Path) -> None:
    """The commands in README, in their order, with someone filling in each sheet that was asked for."""
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## A study from the command line") :]
    (here / "oven.toml").write_text(re.findall(r"```toml\n(.*?)```", section, re.DOTALL)[0])
    lines = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0].splitlines()
    commands = [
        line.split("#")[0].strip().removeprefix(".venv/bin/levers ") for line in lines if line.split("#")[0].strip()
    ]
    assert [c.split()[0] for c in commands][:4] == ["plan", "create", "ask", "tell"]
    again = [c for c in commands if c.split()[0] in ("ask", "tell") and "--sheet" in c]
    for command in commands:
        ok(command)
        if "--sheet" in command and command.startswith("ask"):
            fill_in(here / shlex.split(command)[-1])
        if command.startswith("status"):  # "... and so on until it is finished"
            while "finished" not in ok(command):
                ok(again[0])
                fill_in(here / shlex.split(again[0])[-1])
                ok(again[1])
    assert (here / "effects.png").stat().st_size > 10_000


def test_single_outcomes_failures_and_corrections(here: Path) -> None:
    create("--block-size 4")
    rows = json.loads(ok("ask oven --format json"))
    assert [row["trial"] for row in rows] == [0, 1, 2, 3]
    ok("tell oven 0 -1.5")
    ok("fail oven 1 --reason 'sample lost'")
    assert "-1.5 -> 2.5" in ok("correct oven 0 2.5 --reason typo --by ann")
    shown = ok("status oven")
    assert "1 outcome, 2 runs out" in shown
    assert "by ann: trial 0 -1.5 -> 2.5 (typo)" in shown
    assert json.loads(ok("ask oven -n 1 --format json"))[0]["state"] == "RUNNING"
    assert len(ok("ask oven --again").strip().splitlines()) == 4
    assert "COMPLETE" in ok("trials oven --state complete --format csv")
    assert json.loads(ok("trials oven --format json"))[0]["outcome"] == 2.5
    assert "trial" in ok("trials oven")


def test_a_sheet_with_corrections(here: Path) -> None:
    create()
    ok("ask oven -n 8 --sheet runs.csv")
    fill_in(here / "runs.csv")
    ok("tell oven --sheet runs.csv")
    frame = pl.read_csv("runs.csv").with_columns(outcome=pl.col("outcome").shift(1).fill_null(9.0))
    frame.write_csv("runs.csv")
    refused("tell oven --sheet runs.csv", r"8 rows are wrong; nothing was stored.*use `correct`")
    assert "no decision changes" in ok("correct oven --sheet runs.csv --reason 'shifted by one row'")
    assert "0 new outcomes" in ok("tell oven --sheet runs.csv")
    refused("correct oven --sheet runs.csv --reason again", "nothing to correct")


def test_xlsx_sheets(here: Path) -> None:
    create()
    ok("ask oven -n 3 --sheet runs.xlsx")
    book = openpyxl.load_workbook("runs.xlsx")
    sheet = book.active
    assert sheet is not None
    column = [cell.value for cell in sheet[1]].index("outcome") + 1
    for row in (2, 3):
        sheet.cell(row=row, column=column).value = 1.5
    book.save("runs.xlsx")
    assert "2 new outcomes, 0 known before, 1 row not run yet" in ok("tell oven --sheet runs.xlsx")
    ok("export oven -o all.xlsx")
    ok("export oven -o all.parquet")


def test_what_was_typed_is_not_overwritten(here: Path) -> None:
    create()
    ok("ask oven -n 3 --sheet runs.csv")
    fill_in(here / "runs.csv")
    refused("ask oven -n 3 --sheet runs.csv", "has outcomes in it")
    ok("tell oven --sheet runs.csv")
    ok("ask oven -n 3 --sheet runs.csv")


def test_past_data(here: Path) -> None:
    create()
    Path("past.csv").write_text("heat,speed,supplier,outcome\nlow,1,A,0.5\nmid,3,B,2.6\n")
    assert "2 past runs" in ok("import oven past.csv --note 'last year'")
    assert "2 imported runs" in ok("status oven")
    refused("import oven past.csv", "imported before")
    ok("ask oven -n 3 --sheet runs.csv")
    fill_in(here / "runs.csv")
    refused("import oven runs.csv", "run sheet of this very study")
    Path("past.csv").write_text("heat,speed,outcome\nlow,1,0.5\n")
    refused("import oven past.csv", "supplier")


def test_factors_and_forbidden_combinations_as_flags(here: Path) -> None:
    ok("create a --factor heat=low,high --factor speed=1,2,3 --forbid heat=high,speed=3 --budget 60 --seed 1")
    frame = pl.read_json(ok("trials a --format json").encode())
    assert frame.filter((pl.col("heat") == "high") & (pl.col("speed") == 3)).height == 0
    assert "heat + speed" in ok("effects a")
    ok("copy a b --to sqlite:///other.db")
    assert "b" in ok("studies --storage sqlite:///other.db")
    assert "deleted" in ok("delete a --yes")
    assert json.loads(ok("studies --format json")) == []


def test_a_verdict_on_forbidden_combinations_has_the_losses_of_its_effects(here: Path) -> None:
    levels = "--factor heat=low,mid,high --factor speed=1,2,3 --factor supplier=A,B"
    ok(f"create line {levels} --forbid heat=mid,speed=3 --budget 40 --seed 1")
    study, noise = levers.load_study("line", "sqlite:///levers.db"), np.random.default_rng(0)
    while not study.is_finished:
        study.tell_many((trial, 70 + (trial.params["heat"] == "mid") + noise.normal()) for trial in study.ask(40))
    said = " ".join(ok("verdict line").split())
    rows = [row for row in json.loads(ok("effects line --format json")) if row["standing"] != "chosen"]
    assert {row["factor"] for row in rows} == {"heat + speed", "supplier", "heat", "speed"}
    for row in rows:
        assert f"{row['level']}: {round(row['loss'], 2) + 0.0:.2f} ({round(row['usual_low'], 2) + 0.0:.2f} to" in said


@pytest.mark.parametrize("kind", ["effects", "history", "elimination", "forecast", "residuals"])
def test_pictures(here: Path, kind: str) -> None:
    create()
    for suffix in ("png", "svg", "html"):
        ok(f"plot oven {kind} -o picture.{suffix}")
        assert (here / f"picture.{suffix}").stat().st_size > 1000


def test_wrong_input_says_what_to_do(here: Path) -> None:
    refused("status oven", "levers.db does not exist here")
    refused("create oven --tolerance .5", "give the levers once")
    refused("create oven --space none.toml --tolerance .5", "cannot read")
    Path("bad.toml").write_text("[factors\n")
    refused("create oven --space bad.toml --tolerance .5", "is not TOML")
    Path("bad.toml").write_text("[levers]\na = [1, 2]\n")
    refused("create oven --space bad.toml --tolerance .5", "no table of factors")
    Path("bad.json").write_text('{"factors": {"a": 3}}')
    refused("create oven --space bad.json --tolerance .5", "must be a list")
    refused("create oven --factor heat --tolerance .5", "looks like")
    refused("create oven --space oven.toml --forbid heat --tolerance .5", "looks like")
    refused("create oven --space oven.toml", "tolerance or a budget")
    create()
    refused("create oven --space oven.toml --tolerance .5", "already")
    refused("status ovem", "did you mean 'oven'")
    refused("tell oven 3", "give a sheet or a trial")
    refused("tell oven 99 1.0", "there is no trial 99")
    refused("tell oven 0 1.0", "not asked")
    refused("tell oven --sheet none.csv", "none.csv")
    refused("correct oven 0 1.0 --reason x", "WAITING")
    refused("plot oven all -o x.png", "effects")
    refused("trials oven --state done", "WAITING")
    refused("status oven --storage mysql://x", "there is no storage")
    assert levers_("verdict oven").exception.__class__.__name__ == "NotFinishedError"


def test_the_storage_can_be_named_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERS_STORAGE", f"sqlite:///{here}/other.db")
    create()
    assert (here / "other.db").exists()
    assert "nothing to do" in ok("storage upgrade")
    assert not (here / "levers.db").exists()


def test_help_has_examples() -> None:
    told = ("create", "ask", "tell", "fail", "correct", "import", "copy", "delete", "plot", "export")
    for command in (*told, "studies", "status", "effects", "forecast", "verdict", "trials", "log"):
        assert "Example" in ok(f"{command} --help"), command
    assert "NAME} [TRIAL] [VALUE]" in ok("tell --help")
    assert "NEW_NAME" in ok("copy --help")


def filled(path: Path, outcome: float = 1.0) -> None:
    pl.read_csv(path).with_columns(outcome=pl.lit(outcome)).write_csv(path)


def n_out() -> int:
    return int(json.loads(ok("status oven --format json"))["n_running"])


def test_a_file_that_cannot_be_written_is_found_before_runs_are_handed_out(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create()
    refused("ask oven -n 3 --sheet runs.pdf", r"^cannot write 'runs\.pdf': its name must end in")
    refused("ask oven -n 3 --sheet none/runs.csv", r"^cannot write 'none/runs\.csv': there is no folder 'none'")
    assert n_out() == 0

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("levers.studies.sheets.runs.write_runs", full)
        refused("ask oven -n 3 --sheet runs.csv", r"; the runs are out: levers ask oven --again --sheet runs\.csv$")
    assert n_out() == 3
    assert "wrote 3 runs" in ok("ask oven --again --sheet runs.csv")
    assert sorted(path.name for path in here.glob("*.csv")) == ["runs.csv"]
    assert "other runs" not in ok("ask oven --again --sheet runs.csv")
    assert "3 other runs are still out: levers ask oven --again lists them" in ok("ask oven -n 2 --sheet more.csv")


def test_files_that_are_something_else_stay(here: Path) -> None:
    create()
    other = "is there already and is no run sheet of this study; choose another file"
    Path("notes.csv").write_text("a,b\n1,2\n")
    refused("ask oven --sheet notes.csv", f"^notes.csv {other}")
    ok("create two --space oven.toml --tolerance .5 --noise-sd 1 --seed 4")
    ok("ask two -n 6 --sheet two.csv")
    refused("ask oven --sheet two.csv", other)
    ok("ask oven -n 6 --sheet runs.csv")
    refused("ask oven --sheet two.csv", other)
    Path("runs.csv").write_text(Path("runs.csv").read_text().rstrip("\n") + "oops\n")
    refused("ask oven --sheet runs.csv", "has outcomes in it; `levers tell oven --sheet runs.csv` first")
    assert n_out() == 6


def test_a_sheet_with_corrections_is_checked_row_by_row(here: Path) -> None:
    create()
    ok("ask oven -n 6 --sheet runs.csv")
    ok("ask oven -n 1")
    fill_in(here / "runs.csv")
    ok("tell oven --sheet runs.csv")
    good = pl.read_csv("runs.csv").with_columns(outcome=pl.col("outcome") + 1)
    swapped = {"A": "B", "B": "A"}
    levels = pl.when(pl.col("trial") == 2).then(pl.col("supplier").replace(swapped)).otherwise("supplier")
    good.with_columns(supplier=levels).write_csv("bad.csv")
    refused("correct oven --sheet bad.csv --reason x", r"^1 row is wrong; nothing.* row 4: trial 2 was to be run at")
    extra = good.tail(1)
    pl.concat(
        [good, extra.with_columns(trial=pl.lit(99, pl.Int64)), extra.with_columns(trial=pl.lit(6, pl.Int64))]
    ).write_csv("bad.csv")
    refused("correct oven --sheet bad.csv --reason x", r"row 8: there is no trial 99.* row 9: trial 6 ")
    assert json.loads(ok("status oven --format json"))["n_corrections"] == 0
    good.write_csv("good.csv")
    refused("correct oven --sheet good.csv", "needs a reason")
    assert ok("correct oven --sheet good.csv --reason 'scale was off'").count("->") == 6


def test_rows_that_others_did_first_are_counted(here: Path) -> None:
    create()
    ok("ask oven -n 2 --lease 1e-9 --sheet a.csv")
    ok("ask oven -n 1 --sheet b.csv")
    filled(here / "a.csv")
    filled(here / "b.csv")
    ok("tell oven --sheet b.csv")
    said = ok("tell oven --sheet a.csv")
    assert "1 new outcome," in said
    assert "1 row was done by someone else first; left out" in said


def test_names_are_not_markup(here: Path) -> None:
    Path("odd.json").write_text(json.dumps({"factors": {"[/x]": ["[red]a", ":heart:"], "[bold]b": [True, 1 / 3]}}))
    ok("create '[i]n' --space odd.json --budget 20 --noise-sd 1 --seed 1")
    for command in ("effects", "trials", "status", "studies", "log"):
        said = ok(f"{command} '[i]n'" if command != "studies" else command)
        assert "[/x]" in said or "[i]n" in said, said
    shown = ok("effects '[i]n'")
    for text in ("[/x]", "[red]a", ":heart:", "[bold]b", "true", "0.3333333333333333"):
        assert text in shown
    while json.loads(ok("status '[i]n' --format json"))["state"] != "finished":
        ok("ask '[i]n' -n 20 --sheet runs.csv")
        filled(here / "runs.csv")
        ok("tell '[i]n' --sheet runs.csv")
    assert re.search(r"\[bold\]b +(true|0\.3333333333333333) ", ok("verdict '[i]n'"))
    assert re.search(r"Set \[/x\]=(\[red\]a|:heart:), \[bold\]b=(true|0\.3333333333333333)\.", ok("verdict '[i]n'"))
    end = ok("status '[i]n'")
    assert "of the best with probability 90%\n" in end
    assert "at whatever time" not in end


def test_hints_can_be_pasted(here: Path) -> None:
    said = ok("create 'line 3; ls' --space oven.toml --tolerance .5 --noise-sd 1 --seed 3")
    assert "next: levers ask 'line 3; ls' -n 8 --sheet runs.csv" in said
    assert "levers tell 'line 3; ls' --sheet 'my runs.csv'" in ok("ask 'line 3; ls' --sheet 'my runs.csv'")
    refused("verdict 'line 3; ls'", "levers status 'line 3; ls'$")


def test_blocks_count_from_one_everywhere(here: Path) -> None:
    create("--block-size 4")
    ok("ask oven --sheet a.csv")
    ok("ask oven --sheet b.csv")
    assert pl.read_csv("a.csv")["block"].to_list() == [1] * 4
    assert pl.read_csv("b.csv")["block"].to_list() == [2] * 4
    assert [row["block"] for row in json.loads(ok("ask oven --again --format json"))] == [1] * 4 + [2] * 4
    ok("export oven -o all.parquet")
    for frame in (pl.read_json(ok("trials oven --format json").encode()), pl.read_parquet("all.parquet")):
        assert frame["block"].to_list()[:9] == [1] * 4 + [2] * 4 + [3]
    ok("create plain --space oven.toml --tolerance .5 --noise-sd 1 --seed 3")
    assert json.loads(ok("ask plain --format json"))[0]["block"] == 1
    assert pl.read_json(ok("trials plain --format json").encode())["block"].unique().to_list() == [1]


def test_narrow_screens(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factors = " ".join(f"--factor 'a long name of lever {i}=low,high'" for i in range(4))
    ok(f"create 'a study' {factors} --tolerance 1 --noise-sd 1 --seed 1")
    wide = ok("trials 'a study'")
    assert "worker" not in wide
    assert "stage" not in wide
    for place in ("options", "results"):
        monkeypatch.setattr(f"levers.cli.{place}.console", lambda: Console(width=60))
    said = ok("studies")
    assert "a study" in said
    assert "algorithm" not in said
    said = ok("trials 'a study'")
    assert "3 of 4 levers left out; --format csv has all" in said
    assert "a long name of lever 0   outcome" in said
    for output in (said, ok("studies"), ok("effects 'a study'"), ok("log 'a study'")):
        assert max(map(len, output.splitlines())) <= 60


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"tolerance": 0.5, "certificate": "proven"}, "The choice was made on fresh runs of the selection"),
        ({"tolerance": 0.2}, "A level that was ruled out is not run again"),
    ],
)
def test_negative_losses_are_explained(here: Path, settings: dict[str, Any], why: str) -> None:
    study = levers.create_study("s", {"a": [0, 1], "b": [0, 1]}, noise_sd=1.0, seed=1, **settings)
    verdict = study.optimize(lambda params: float(params.codes[0]))
    assert verdict is not None
    chosen = verdict.assignment.codes

    def said(loss: float) -> str:
        effects = tuple(tuple(0.0 if i == code else loss for i in range(2)) for code in chosen)
        out = Console(width=120, record=True, quiet=False, file=Path("out.txt").open("w"))  # noqa: SIM115
        print_verdict(out, dataclasses.replace(verdict, effects=effects))
        out.file.close()
        return out.export_text()

    assert why in said(-0.02)
    assert why not in said(0.02)
    assert why not in said(-0.001)
    assert "-0.00" not in said(-0.001)


def test_one_of_anything_is_singular_and_the_last_runs_are_said_to_be_the_last(here: Path) -> None:
    assert "3 levers, seed 1" in ok("create oven --space oven.toml --budget 3 --seed 1")
    assert "out, and what comes next" not in ok("ask oven -n 2")
    assert "1 outcome so far; 2 runs to go; 2 in this round" in ok("tell oven 0 1.5")
    ok("fail oven 1")
    status = ok("status oven")
    assert "1 outcome, 0 runs out" in status
    assert "1 run failed; asked for again" in status
    last = levers_("ask oven -n 5")
    assert "2 of 5: these are the last" in last.stderr
    assert "2 runs are out, and these are the last" in levers_("ask oven").stderr
    ok("create noisy --space oven.toml --tolerance .5 --seed 1")
    assert "in this round, then perhaps more" in ok("status noisy")
    assert "what comes next depends on the outcomes of this round" in levers_("ask noisy -n 1000").stderr


def test_formats_for_programs(here: Path) -> None:
    create()
    assert json.loads(ok("forecast oven --format json"))["within"] is None
    [row] = csv.DictReader(io.StringIO(ok("status oven --format csv")))
    assert [name for name in row if name.startswith("to_go")] == ["to_go_now", "to_go_likely", "to_go_worst_case"]
    [listed] = json.loads(ok("studies --format json"))
    assert row["updated_at"] == json.loads(ok("status oven --format json"))["updated_at"] == listed["updated"]
    ok("ask oven -n 100")
    result = levers_("ask oven --format json")
    assert json.loads(result.stdout) == []
    assert "nothing to hand out" in result.stderr


def test_numbers_on_the_command_line(here: Path) -> None:
    create()
    ok("ask oven -n 6")
    assert "trial 0: 1.5" in ok("tell oven 0 1,5")
    assert "trial 1: -0.5" in ok("tell oven 1 -,5")
    assert "trial 2: -2000" in ok("tell --by -7 oven 2 -2e3")
    assert "note:" in ok("tell oven 3 nan")
    assert "1.5 -> -1.5" in ok("correct oven 0 -1.5 --reason -3")
    refused("tell oven x 1", "^the trial must be a whole number, not 'x'$")
    refused("fail oven 1.5", "^the trial must be a whole number, not '1.5'$")
    refused("tell oven 4 x", "^the outcome must be a number, not 'x'")
    refused("tell oven 4 1,234", "can be 1.234 or 1234")
    refused("tell oven -4 1", "there is no trial -4")
    for command in (
        "tell oven --shet runs.csv",
        "tell oven 4 1 -x",
        "correct oven 4 1 --reasn y",
        "fail oven 4 --why y",
    ):
        result = levers_(command)
        assert result.exit_code == 2
        assert "No such option" in result.output, command


def test_no_studies_yet(here: Path) -> None:
    assert ok("studies") == "there are no studies here yet; `levers create` makes one\n"
    assert json.loads(ok("studies --format json")) == []
    assert levers_("studies --format csv").stdout == ""
    refused("storage upgrade sqlite:///typo.db", "typo.db does not exist")
    assert not list(here.glob("*.db"))


def test_exports_that_cannot_be_written(here: Path) -> None:
    create()
    for name in ("v.json", "v.csv", "v.parquet"):
        refused(f"export oven -o nodir/{name}", f"cannot write 'nodir/{name}': there is no folder 'nodir'")
    refused("export oven -o v.doc", r"must end in .csv, .tsv, .xlsx, .parquet or .json")
    (here / "v.parquet").mkdir()
    refused("export oven -o v.parquet", "cannot write 'v.parquet'")


def test_the_log_in_words(here: Path) -> None:
    create()
    Path("past.csv").write_text("heat,speed,supplier,outcome\nlow,1,A,0.5\nmid,3,B,2.6\n")
    ok("import oven past.csv --note 'last year' --by eve")
    ok("ask oven -n 2 --worker ann --lease 1")
    ok("tell oven 0 1.5")
    ok("correct oven 0 2.5 --reason typo")
    ok("fail oven 1 --reason 'sample lost'")
    ok("ask oven -n 24 --sheet runs.csv")
    fill_in(here / "runs.csv")
    ok("tell oven --sheet runs.csv")
    ok("correct oven 0 -9 --reason again")
    rows = json.loads(ok("log oven --format json"))
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    said = [row["what"] for row in rows]
    for pattern in (
        "created: 3 levers, maximize with cfs",
        r"designed a round of \d+ runs",
        r"imported 2 runs \(last year\)",
        r"asked 2 trials for ann until \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ",
        r"told trial 0: 1\.5",
        r"corrected trial 0: 1\.5 -> 2\.5 \(typo\)",
        r"trial 1 failed \(sample lost\)",
        r"told \d+ outcomes",
        "decided",
        "decided again from round 1 on: .*",
    ):
        assert any(re.fullmatch(pattern, line) for line in said), (pattern, said)
    assert next(row["who"] for row in rows if row["what"].startswith("imported")) == "eve"
    assert "corrected trial 0" in ok("log oven")
    assert ok("log oven --format csv").startswith("seq,time,who,what\n1,")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("status none", 2, "error: there is no study 'none'"),
        ("verdict oven", 3, "error: 'oven' is not finished: .*levers status oven"),
        ("tell oven x 1", 2, "error: the trial must be a whole number, not 'x'"),
        ("plan --levels 2x", 2, "error: levels must look like"),
        ("studies", 0, ""),
    ],
)
def test_exit_codes(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    code: int,
    message: str,
) -> None:
    create()
    monkeypatch.setattr(sys, "argv", ["levers", *shlex.split(words)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == code
    assert re.match(message, capsys.readouterr().err)


def test_a_full_disk_and_letters_that_a_terminal_does_not_have(here: Path) -> None:
    def run(*words: str, encoding: str = "utf-8", out: str | None = None) -> subprocess.CompletedProcess[bytes]:
        with open(out or "out.txt", "wb") as file:
            return subprocess.run(
                [sys.executable, "-m", "levers.cli.app", *words],
                stdout=file,
                stderr=subprocess.PIPE,
                check=False,
                env={"PYTHONIOENCODING": encoding, "PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            )

    ok("create 'l\u2192' --factor 'h=\u2192,b' --tolerance .5 --noise-sd 1 --seed 3")
    result = run("trials", "l\u2192", encoding="latin-1")
    assert (result.returncode, result.stderr) == (0, b"")
    assert rb"\u2192" in Path("out.txt").read_bytes()
    result = run("status", "\u2192", encoding="latin-1")
    assert result.returncode == 2
    assert rb"'\u2192'" in result.stderr
    if Path("/dev/full").exists():
        result = run("status", "l\u2192", out="/dev/full")
        assert (result.returncode, result.stderr) == (2, b"error: No space left on device\n")
