"""The examples run, and say what they should."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("optimize_function.py", ["'heat': 'mid', 'speed': 3"]),
        ("ask_and_tell.py", ["'dose': 30, 'feed': "]),
        ("study.py", ["of the best with probability 90%"]),
        ("interaction.py", ["heat and speed seem to interact", "yields 1.9"]),
        (
            "left_alone.py",
            [
                "set {'X1': 3, 'X2': 3}, leave alone: X\n",
                "no sign that something hidden drives both heat and the outcome",
            ],
        ),
    ],
)
def test_examples_run(name: str, expected: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)], capture_output=True, text=True, timeout=120, check=True
    )
    assert [text for text in expected if text not in done.stdout] == []


def test_a_command_is_tuned(tmp_path: Path) -> None:
    folder = ROOT / "examples" / "tune_command"
    settings = ["--goal", "minimize", "--budget", "9", "--seed", "1"]
    words = ["run", "zlib", "--space", str(folder / "levers.toml"), *settings]
    command = [sys.executable, str(folder / "compress.py"), "{level}", "{memory}", "{strategy}", "{window}"]
    done = subprocess.run(
        [sys.executable, "-m", "levers.cli.app", *words, "--", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode in (0, 4), done.stderr  # the text is another one every time, and may bring a doubt
    assert "memory=" in done.stdout
    assert "Runs: 9." in done.stdout


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("valgrind")), reason="compiles, and counts instructions")
def test_flags_of_a_compiler_are_tuned(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "examples" / "compiler_flags", tmp_path / "flags")
    done = subprocess.run(
        ["sh", str(folder / "tune.sh"), "instructions", "--budget", "4", "--seed", "1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "LEVERS": f"{sys.executable} -m levers.cli.app"},
    )
    assert done.returncode in (0, 4), done.stderr
    assert "unroll_loops=-f" in done.stdout
    assert "Runs: 4." in done.stdout


def test_pragmas_are_tuned_and_the_setting_is_measured_afresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "sqlite_pragmas.py"), "--budget", "4", "--fresh", "2"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "WORKLOAD_SIZE": "0.1"},
    )
    assert done.returncode == 0, done.stderr
    assert "4 runs; nothing is certified" in done.stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"][
        2:
    ]
    assert [row[:2] for row in rows] == [["levers run", "4"], ["Optuna's TPE", "4"], ["SQLite's defaults", "0"]]
    means = [float(row[2].replace(",", "")) for row in rows]
    assert min(means) > 0
    assert [float(row[4].split()[0]) for row in rows] == pytest.approx(
        [100 * (m / means[2] - 1) for m in means], abs=0.06
    )


def test_a_pragma_that_is_not_taken_is_an_error() -> None:
    job = ROOT / "examples" / "sqlite_pragmas" / "workload.py"
    done = subprocess.run(
        [sys.executable, job, "cache_sise=5"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "PRAGMA cache_sise = 5 was not taken" in done.stderr


def test_the_readmes_python_is_the_example() -> None:
    readme = (ROOT / "README.md").read_text()
    example = (ROOT / "examples" / "optimize_function.py").read_text()
    block = readme.split("```python\n")[1].split("```")[0]
    assert block.strip() in example
