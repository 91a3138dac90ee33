"""The examples run, and say what they should."""

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


def test_the_readmes_python_is_the_example() -> None:
    readme = (ROOT / "README.md").read_text()
    example = (ROOT / "examples" / "optimize_function.py").read_text()
    block = readme.split("```python\n")[1].split("```")[0]
    assert block.strip() in example
