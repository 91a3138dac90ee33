"""`levers run` tunes a command from beginning to verdict, and goes on after whatever ended it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import levers
from levers.cli.app import app
from levers.studies.library import load_study
from levers.studies.workers.journal import journals

BENCH = """
# arguments: a file for notes, -O1 to -O3, perhaps -funroll-loops, perhaps -g
notes=$1; shift
slow=350
for flag in "$@"; do
    case $flag in
        -O*) slow=$((slow - 100 * ${flag#-O})) ;;
        -g) slow=$((slow + 100)) ;;
        -funroll-loops) slow=$((slow - 50)) ;;
    esac
done
echo "$@" >> "$notes"
sleep "${PAUSE:-0}"
# noise that looks random and is the same for the third run of a setting, whoever makes it and when
again=$(grep -cxe "$*" "$notes")
noise=0
for i in 1 2 3 4; do
    sum=$(echo "$*/$again/$i" | cksum); sum=${sum%% *}
    noise=$((noise + sum % 11 - 5))
done
echo "took $((slow + noise)) ms"
"""
SPACE = '[factors]\nopt = [1, 2, 3]\nunroll = ["-funroll-loops", ""]\ndebug = ["on", "off"]\n'


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "bench.sh").write_text(BENCH)
    (tmp_path / "flags.toml").write_text(SPACE)
    monkeypatch.chdir(tmp_path)
    return ["--", "sh", "bench.sh", "notes", "-O{opt}", "{unroll}", "{debug?-g}"]


NEW = ["run", "flags", "--space", "flags.toml", "--goal", "minimize", "--budget", "18", "--seed", "1"]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_from_nothing_to_the_verdict_and_again(bench: list[str]) -> None:
    first = run(*NEW, "--baseline", "opt=1,unroll=,debug=on", "--n-runs", "7", *bench)
    assert first.exit_code == 3, first.output
    assert "the same command goes on" in first.stderr
    assert "created 'flags' in sqlite:///" in first.stderr
    assert "no estimate yet; " in first.stderr
    done = run("run", "flags", *bench)
    assert done.exit_code == 0, done.output
    assert "Set opt=3, unroll=-funroll-loops, debug=off." in done.stdout
    assert "Gain over the baseline: 3" in done.stdout
    assert "best now: opt=" in done.stderr
    notes = Path("notes").read_text().splitlines()
    assert len(notes) == 18, "each run was made once"
    assert {"-O1 -g", "-O3 -funroll-loops"} <= set(notes), "what is off is no argument"
    again = run(*NEW, "--baseline", "opt=1,unroll=,debug=on", *bench)
    assert (again.exit_code, again.stdout) == (0, done.stdout)
    assert len(Path("notes").read_text().splitlines()) == 18
    study = load_study("flags", "sqlite:///levers.db")
    asked = [study.trial(i).params for i in range(18)]
    told = [f"-O{p['opt']}{' -funroll-loops' * (p['unroll'] != '(none)')}{' -g' * (p['debug'] == 'on')}" for p in asked]
    assert notes == told, "runs are made in the order in which they were designed"


def test_other_settings_and_wrong_words_are_refused_before_anything_runs(bench: list[str]) -> None:
    assert "there is no study 'flags' yet" in str(run("run", "flags", *bench).exception)
    assert "{opt2} in '{opt2}' is no lever" in str(run(*NEW, *bench, "{opt2}").exception)
    assert not Path("levers.db").exists()
    assert run(*NEW, "--n-runs", "1", *bench).exit_code == 3
    for words, message in (
        (["--budget", "25"], "budget was 18 and is 25 here; take another name, or leave these out"),
        (["--goal", "maximize"], "goal was 'minimize' and is 'maximize' here"),
        (["--factor", "opt=1,2", "--factor", "unroll=a,b", "--factor", "debug=on,off"], "other settings: space"),
        (["--seed", "2"], "seed was 1 and is 2 here"),
        (["--metric", "x", "--time", "wall"], "one place"),
        (["--forbid", "opt=3,debug=on"], "go with the levers"),
        (["--hard-to-change", "opt"], "go with the levers"),
    ):
        found = run("run", "flags", *words, *bench)
        assert message in str(found.exception), found.output
    unused = run("run", "flags", "--n-runs", "1", *bench[:-1])
    assert "note: no argument has {debug}; the command sees it only as LEVERS_DEBUG" in unused.stderr
    assert len(Path("notes").read_text().splitlines()) == 2
    Path("free.toml").write_text('[factors]\nopt = {levels = [1, 2], free = true}\ndebug = ["on", "off"]\n')
    left = run("run", "free", "--space", "free.toml", "--budget", "9", "--", "echo", "{opt}", "{debug}")
    assert "none can be left alone" in str(left.exception)


def test_failures_in_a_row_end_it_and_are_in_the_log(bench: list[str]) -> None:
    failed = run(*NEW, "--max-failures", "2", "--", "sh", "-c", "echo 'no {opt} here' >&2; exit 1")
    assert "the last 2 runs gave no outcome" in str(failed.exception)
    log = run("log", "flags", "--format", "csv").output
    assert log.count("exit code 1; the end of its standard error: ") == 2
    assert "standard error: no " in log
    assert run("run", "flags", *bench).exit_code == 0


def test_a_verdict_in_doubt_has_its_exit_code(bench: list[str]) -> None:
    levers_of = ["--factor", "a=0,1", "--factor", "b=0,1"]
    words = ["run", "x", *levers_of, "--budget", "16", "--noise-sd", "0.001", "--seed", "1"]
    doubted = run(*words, "--", "expr", "5", "+", "{a}", "*", "{b}")
    assert doubted.exit_code == 4, doubted.output
    assert "IN DOUBT" in doubted.stdout


@pytest.mark.parametrize(("how", "jobs"), [(signal.SIGINT, "1"), (signal.SIGTERM, "2")], ids=["ctrl-c", "sigterm"])
def test_whoever_ends_it_keeps_everything(bench: list[str], how: signal.Signals, jobs: str) -> None:
    command = [sys.executable, "-m", "levers.cli.app", *NEW, "--jobs", jobs, *bench]
    environment = {**os.environ, "PAUSE": "0.1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and (not Path("notes").exists() or len(Path("notes").read_text().splitlines()) < 4):
        time.sleep(0.02)
    process.send_signal(how)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    study = load_study("flags", "sqlite:///levers.db")
    kept = study.status().n_complete
    assert f"stopped; {kept} runs are kept in sqlite:///" in said
    assert kept >= 4 - int(jobs)
    assert study.n_running == 0, "what was under way is free for others at once"
    assert journals() == []
    done = run(*NEW, *bench)
    assert done.exit_code == 0, done.output
    assert study.verdict().n_runs == 18


def test_several_at_once_are_a_fleet(bench: list[str]) -> None:
    command = [sys.executable, "-m", "levers.cli.app", *NEW, *bench]
    crew = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in crew:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "Set opt=3, unroll=-funroll-loops, debug=off." in out
    study = load_study("flags", "sqlite:///levers.db")
    assert study.verdict().n_runs == len(Path("notes").read_text().splitlines()) == 18
    assert levers.list_studies("sqlite:///levers.db") == ["flags"]
