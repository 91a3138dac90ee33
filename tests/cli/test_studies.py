"""Studies on the command line, as a person uses them."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import openpyxl
import polars as pl
import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
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
    rng = np.random.default_rng([seed, *path.read_bytes()[:200]])
    frame = pl.read_csv(path)
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
    commands = [line.split("#")[0].strip().removeprefix(".venv/bin/levers ") for line in lines if line.strip()]
    assert [c.split()[0] for c in commands][:3] == ["create", "ask", "tell"]
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
    assert "1 outcomes, 2 runs out" in shown
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
    for row in (2, 3):
        sheet.cell(row=row, column=6).value = 1.5
    book.save("runs.xlsx")
    assert "2 new outcomes, 0 known before, 1 rows not run yet" in ok("tell oven --sheet runs.xlsx")
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


@pytest.mark.parametrize("kind", ["effects", "history", "elimination", "forecast"])
def test_pictures(here: Path, kind: str) -> None:
    create()
    for suffix in ("png", "svg", "html"):
        ok(f"plot oven {kind} -o picture.{suffix}")
        assert (here / f"picture.{suffix}").stat().st_size > 1000


def test_wrong_input_says_what_to_do(here: Path) -> None:
    refused("status oven", "levers.db does not exist here")
    refused("create oven --tolerance .5", "give the factors once")
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
    for command in ("create", "ask", "tell", "fail", "correct", "status", "effects", "forecast", "verdict", "trials"):
        assert "Example" in ok(f"{command} --help"), command
