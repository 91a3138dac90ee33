"""A command as a function of a setting: what is run, what is read, and how it ends."""

import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from levers.core.space import Assignment, Space
from levers.errors import FailedRunError, InvalidSettingError
from levers.experiments.commands.command import Command
from levers.experiments.commands.process import KEPT_BYTES, run_process
from levers.experiments.commands.reading import InstructionCounter, Reading, last_number, perf_count
from levers.experiments.commands.template import Template, check_variables, variable

SPACE = Space.of(
    {"opt": [1, 2], "unroll": ["-funroll-loops", "(none)"], "debug": [False, True], "my lever": ["a b", "$x;"]}
)


def at(**levels: Any) -> Assignment:
    given = {"opt": 2, "unroll": "(none)", "debug": False, "my lever": "a b", **levels}
    return SPACE.encode(given)


def python(code: str, **more: Any) -> Command:
    return Command.of([sys.executable, "-c", code.replace("{", "{{").replace("}", "}}")], SPACE, **more)


@pytest.mark.parametrize(
    ("words", "levels", "expected"),
    [
        (["-O{opt}"], {}, ["-O2"]),
        (["{unroll}", "x"], {}, ["x"]),
        (["{unroll}", "x"], {"unroll": "-funroll-loops"}, ["-funroll-loops", "x"]),
        (["a{unroll}", ""], {}, ["a", ""]),
        (["{debug?-g}", "{debug?}"], {"debug": True}, ["-g"]),
        (["{debug?-g}"], {}, []),
        (["{{opt}}", "}", "{{{opt}}}"], {}, ["{opt}", "}", "{2}"]),
        (["{my lever}"], {"my lever": "$x;"}, ["$x;"]),
    ],
)
def test_placeholders(words: list[str], levels: dict[str, Any], expected: list[str]) -> None:
    assert Template.of(["cc", *words], SPACE).arguments(at(**levels)) == ["cc", *expected]


def test_a_shell_reads_the_command_and_not_the_levels() -> None:
    command = Command.of(["echo {my lever} $LEVERS_OPT {unroll} | wc -c"], SPACE, shell=True)
    assert command(at(**{"my lever": "$x;"})) == len("$x; 2\n")
    assert command.template.levers == {"my lever", "opt", "unroll"}
    assert command.unused == ("debug",)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cc", "{optt}"], "{optt} in '{optt}' is no lever; levers are opt, unroll"),
        (["cc", "{opt"], "a brace is not closed"),
        (["cc", "{opt?-g}"], "needs a lever that is on or off .* 'opt' is 2"),
        (["no-such-program-here", "{opt}"], "there is no program 'no-such-program-here'"),
        ([], "there is no command to run"),
    ],
)
def test_what_is_wrong_with_a_command_is_said_before_it_runs(words: list[str], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        Command.of(words, SPACE)


def test_levels_are_in_the_environment_and_the_token_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERS_TOKEN", "secret")
    code = "import os; print(os.environ['LEVERS_OPT'] + os.environ['LEVERS_UNROLL'], 'LEVERS_TOKEN' in os.environ)"
    ran = python(code)._run([sys.executable, "-c", code], at())
    assert ran.stdout == b"2 False\n"
    assert variable("my lever") == "LEVERS_MY_LEVER"
    with pytest.raises(InvalidSettingError, match="would both be LEVERS_A_B"):
        check_variables(Space.of({"a b": [1, 2], "a-b": [1, 2]}))


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("3.5", 3.5),
        ("time: -2.5e-3 s\n", -0.0025),
        ("12 of 20 done, took 7ms", 7.0),
        ("rate 1,234,567.5/s", 1234567.5),
        ("v2 build7", "no number is in"),
        ("", "no number is in"),
        ("3,5", "two ways"),
        ("loss 0.5, then nan", "the outcome is nan"),
        ("1 2 inf", "the outcome is inf"),
        ("a .5", 0.5),
        ("see 10.", 10.0),
    ],
)
def test_the_last_number(printed: str, expected: float | str) -> None:
    if isinstance(expected, float):
        assert last_number(printed) == expected
    else:
        with pytest.raises(FailedRunError, match=expected):
            last_number(printed)


def reading(printed: str, **how: Any) -> float:
    return python(f"print({printed!r})", reading=Reading(**how))(at())


def test_an_expression_and_json() -> None:
    assert reading("a=1 b=2\na=3 b=4 c=9", metric=r"a=(\d+)") == 3.0
    assert reading("a=1,500", metric=r"[\d,]+") == 1500.0
    assert reading('{"runs": [{"mean": 2.5}]}', json_path="runs.0.mean") == 2.5
    assert reading('starting\n{"runs": [1, "7"]}', json_path="runs.-1") == 7.0
    for printed, how, message in (
        ("b=1", {"metric": "a=(.)"}, "'a=\\(.\\)' is not in what it printed"),
        ("a=x", {"metric": "a=(.)"}, "'x' is no number"),
        ("{}", {"json_path": "a.b"}, "'a' is not in the JSON"),
        ('{"a": true}', {"json_path": "a"}, "'a' is no number"),
        ("a", {"json_path": "a"}, "is not JSON"),
    ):
        with pytest.raises(FailedRunError, match=message):
            reading(printed, **how)
    for how, message in (
        ({"metric": "a", "time": "wall"}, "one place"),
        ({"metric": "("}, "no regular expression"),
        ({"time": "cpu"}, "--time is wall, user, instructions"),
    ):
        with pytest.raises(InvalidSettingError, match=message):
            Reading(**how)


def test_an_expression_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.experiments.commands.reading._SECONDS_TO_MATCH", 0.5)
    with pytest.raises(FailedRunError, match=r"took more than 0\.5 s"):
        reading("a" * 60, metric="(a+)+$x")


def test_only_the_end_of_a_long_output_is_kept() -> None:
    ran = run_process([sys.executable, "-c", f"print('first ' + 'x' * {5 * KEPT_BYTES}); print(7)"])
    assert ran.is_cut
    assert len(ran.stdout) == KEPT_BYTES
    assert Reading().value(ran) == 7.0
    with pytest.raises(FailedRunError, match="not in the last 1,048,576 bytes"):
        Reading(metric="first").value(ran)


def test_failures_say_why_with_the_end_of_standard_error() -> None:
    for code, message in (
        ("import sys; print('1', file=sys.stderr); print('door\\x07 open', file=sys.stderr); sys.exit(3)",
         r"^exit code 3; the end of its standard error: 1 \| door\? open$"),
        ("import os; os.kill(os.getpid(), 11)", "^ended by SIGSEGV$"),
        ("import sys; print('a'); print('hm', file=sys.stderr)", "no number .*; the end of its standard error: hm"),
        ("import sys; print('x' * 10**6, file=sys.stderr); sys.exit(1)", "^exit code 1; .{1000,1100}$"),
    ):  # fmt: skip
        with pytest.raises(FailedRunError, match=message):
            python(code)(at())
    with pytest.raises(FailedRunError, match="the setup: exit code 1"):
        Command.of(["echo", "1"], SPACE, setup=["false"])(at())


def test_a_timeout_ends_everything_that_was_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    child = f"import time, pathlib; time.sleep(2); pathlib.Path({str(alive)!r}).touch()"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    with pytest.raises(FailedRunError, match="longer than the timeout"):
        python(code, timeout=0.7)(at())
    time.sleep(2)
    assert not alive.exists()


def test_what_a_command_leaves_running_is_not_waited_for() -> None:
    began = time.monotonic()
    code = "import subprocess, sys; subprocess.Popen(['sleep', '30']); print(5)"
    assert python(code)(at()) == 5.0
    assert time.monotonic() - began < 25


def test_a_run_that_somebody_stops() -> None:
    command = python("import time; time.sleep(60)")
    threading.Timer(0.3, command.stop.set).start()
    with pytest.raises(FailedRunError, match=r"^stopped$"):
        command(at())


def test_a_setup_may_make_the_program(tmp_path: Path) -> None:
    made = tmp_path / "made"
    command = Command.of(
        [str(made)], SPACE, setup=[f"printf '#!/bin/sh\\necho {{opt}}' > {made}; chmod +x {made}"], shell=True
    )
    assert command(at()) == 2.0
    plain = Command.of([str(made)], SPACE, setup=["true"])
    assert plain(at()) == 2.0


def test_setup_warmup_and_times(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = Command.of(
        ["sh", "-c", f"echo run{{opt}} >> {log}; echo 3"], SPACE, setup=["sh", "-c", f"echo setup >> {log}"], warmup=2
    )
    assert command(at()) == 3.0
    assert log.read_text().split() == ["setup", "run2", "run2", "run2"]
    ran = run_process([sys.executable, "-c", "import os; sum(range(10**7)); print(os.times().user)"])
    assert float(ran.stdout) <= ran.user + 0.02
    assert ran.user <= ran.wall + 0.02
    assert python("import time; time.sleep(0.3)", reading=Reading(time="wall"))(at()) >= 0.3
    assert python("import time; time.sleep(0.3)", reading=Reading(time="user"))(at()) < 0.3


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="counts instructions with valgrind")
def test_instructions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InstructionCounter, "find", classmethod(lambda cls: cls("valgrind")))
    counts = [Command.of(["expr", "7", "+", "5"], SPACE, reading=Reading(time="instructions"))(at()) for _ in range(2)]
    assert min(counts) > 10_000
    assert max(counts) < 1.05 * min(counts)


def test_instructions_need_something_that_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InvalidSettingError, match="install valgrind, or use --time user"):
        InstructionCounter.find()
    with pytest.raises(FailedRunError, match="perf counted no"):
        perf_count("<not supported>,,instructions:u,0,100.00,,\n")
