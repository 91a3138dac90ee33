"""Texts at the doors: half characters and control characters are refused, old ones are shown and never obeyed."""

import csv
import io
import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
from levers.core.validation import check_text, visible
from levers.errors import InvalidSettingError, InvalidSpaceError, LeversError
from levers.studies.events import Asked, Corrected, Failed, numbers
from levers.studies.sheets.cells import plain
from levers.studies.study import Study

STORAGE = "sqlite:///levers.db"
ESCAPE = "\x1b[2J\x1b]0;title\x07"
HALF = "\ud800"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVERS_STORAGE", raising=False)
    return levers.create_study(
        "oven", {"heat": ["low", "=mid"], "x": [1, -5]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=STORAGE
    )


def levers_(command: str, *more: str) -> Result:
    return CliRunner().invoke(app, [*shlex.split(command), *more])


@pytest.mark.parametrize("space", [{"heat": ["low", f"hi{HALF}"]}, {f"he{HALF}at": ["low", "high"]}])
def test_half_a_character_in_a_lever_is_refused(space: dict[str, list[levers.Level]], tmp_path: Path) -> None:
    with pytest.raises(InvalidSpaceError, match="half a character"):
        levers.create_study("oven", space, tolerance=1.0, noise_sd=1.0, storage=f"sqlite:///{tmp_path}/a.db")
    (tmp_path / "space.json").write_text(json.dumps({"factors": space}))
    refused = levers_(f"create oven --space {tmp_path}/space.json --tolerance 1 --storage sqlite:///{tmp_path}/b.db")
    assert isinstance(refused.exception, LeversError)
    assert "half a character" in str(refused.exception)
    assert "\n" not in str(refused.exception)


def test_half_a_character_in_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text('[factors]\nheat = ["low", "\\ud800"]\n')
    refused = levers_(f"create oven --space {tmp_path}/space.toml --tolerance 1 --storage sqlite:///{tmp_path}/b.db")
    assert isinstance(refused.exception, LeversError)


VERBS: dict[str, Callable[[Study, str], object]] = {
    "worker": lambda study, text: study.ask(worker=text),
    "who": lambda study, text: study.by(text).ask(),
    "who of a handle": lambda study, text: levers.load_study("oven", study.storage, who=text),
    "fail": lambda study, text: study.fail(study.ask()[0], text),
    "correct": lambda study, text: study.correct(0, 2.0, text),
    "exclude": lambda study, text: study.exclude(0, text),
    "finish": lambda study, text: study.finish(text),
    "go on": lambda study, text: study.go_on(reason=text),
    "restate": lambda study, text: study.restate(noise_sd=2.0, reason=text),
    "import": lambda study, text: study.import_runs([{"heat": "low", "x": 1}], [1.0], text),
}


@pytest.mark.parametrize("text", [f"ann{HALF}", "ann\nroot", f"ann{ESCAPE}", "a\u2028b", "a\u202eb", "a\0", "a\x9b2J"])
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_takes_a_text_that_forges_a_line_or_cannot_be_kept(study: Study, verb: str, text: str) -> None:
    study.tell(study.ask()[0], 1.0)
    n_events = len(study.log())
    with pytest.raises(InvalidSettingError, match=r"half a character|the character '") as refused:
        VERBS[verb](study, text)
    assert str(refused.value).isprintable()
    new = [entry.what for entry in study.log()[n_events:]]
    assert all(what.startswith("asked") for what in new), new  # the run that `fail` is about
    assert text not in " ".join(new)


def test_a_new_study_is_by_somebody_who_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSettingError, match="the who has the character"):
        levers.create_study("oven", {"x": [1, 2]}, tolerance=1.0, noise_sd=1.0, who="ann\nroot")
    monkeypatch.setenv("LOGNAME", "ann\udcff\x1b")
    made = levers.create_study("oven", {"x": [1, 2]}, tolerance=1.0, noise_sd=1.0, storage=f"sqlite:///{tmp_path}/a.db")
    assert made.log()[0].who == "ann\\udcff\\x1b"


def test_letters_of_all_languages_and_pictures_are_texts() -> None:
    for text in ("Jürgen", "山田", "مريم", "\N{FAMILY}\u200d\N{GRINNING FACE}", "50\N{NO-BREAK SPACE}%", ""):
        assert check_text("reason", text) == text == visible(text)


def test_the_command_line_refuses_bytes_that_are_no_text(study: Study) -> None:
    study.ask()
    for command in (["ask", "oven", "--worker"], ["fail", "oven", "0", "--by"]):
        program = [os.fsencode(word) for word in [sys.executable, "-m", "levers.cli.app", *command]]
        ran = subprocess.run([*program, b"a\xff"], capture_output=True, text=True, check=False)
        assert ran.returncode == 2, ran
        assert "half a character" in ran.stderr
        assert ran.stderr.count("\n") == 1


def forged(study: Study) -> None:
    """What an earlier version let in: written into the log without the checks of the verbs."""
    trials = study.ask(2)
    study.tell(trials[0], 1.0)
    with study.writing() as transaction:
        transaction.write(Failed(numbers(trials[1].number), f"x{ESCAPE}\n  999 forged"))
        transaction.write(Corrected(trials[0].number, 1.0, 2.0, f"y{ESCAPE}\n  corrected forged"))
        transaction.write(Asked(numbers(trials[1].number), f"w{ESCAPE}", None))


@pytest.mark.parametrize("command", ["log oven", "status oven"])
def test_what_an_old_log_holds_is_not_obeyed_by_a_terminal(study: Study, command: str) -> None:
    forged(study)
    main_end, their_end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    program = [sys.executable, "-m", "levers.cli.app", *shlex.split(command)]
    with subprocess.Popen(program, stdout=their_end, stderr=their_end, stdin=their_end, env=environment) as running:
        os.close(their_end)
        shown = b""
        while True:
            try:
                part = os.read(main_end, 65_536)
            except OSError:  # Linux says so when the other end is closed
                break
            shown += part
            if not part:
                break
        assert running.wait(60) == 0, shown
    os.close(main_end)
    text = shown.decode()
    assert "\x1b[2J" not in text
    assert "\x1b]" not in text
    assert "\x07" not in text
    assert not any(line.strip().startswith(("999 forged", "corrected forged")) for line in text.splitlines())
    assert "\\x1b[2J" in text


def test_a_printed_table_has_no_formulas_and_reads_back_the_same(study: Study) -> None:
    study.ask(4, worker="=cmd|' /C calc'!A0")
    names = ["=1+1", "+cmd", "@sum", "-2+3"]
    mixed: dict[str, list[levers.Level]] = {name: ["a", "b"] for name in names}
    mixed |= {"m": [-5, "@x"], "text": ["-7", "=y"]}
    other = levers.create_study("other", mixed, tolerance=5.0, noise_sd=1.0, seed=1, storage=STORAGE)
    other.tell_many((trial, float(trial.number % 3)) for trial in other.ask(1000))
    for command in ("trials oven", "trials other", "effects other", "log other", "studies", "status other"):
        printed = levers_(f"{command} --format csv")
        assert printed.exit_code == 0, printed.output
        rows = list(csv.reader(io.StringIO(printed.stdout)))
        for cell in (cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@", "\t", "\r")):
            assert float(cell) <= 0  # a number stays one
    header, *rows = csv.reader(io.StringIO(levers_("trials oven --format csv").stdout))
    assert {plain(row[header.index("worker")]) for row in rows if row[header.index("worker")]} == {"=cmd|' /C calc'!A0"}
    assert {plain(row[header.index("heat")]) for row in rows} == {"low", "=mid"}
    assert {row[header.index("x")] for row in rows} == {"1", "-5"}
    frame = pl.read_csv(io.StringIO(levers_("trials other --format csv").stdout), infer_schema=False)
    assert [plain(name) for name in frame.columns if plain(name) in names] == names
    assert {plain(cell) for cell in frame["m"]} == {"-5", "@x"}
    assert {plain(cell) for cell in frame["text"]} == {"-7", "=y"}
