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


def test_the_readmes_python_is_the_example() -> None:
    readme = (ROOT / "README.md").read_text()
    example = (ROOT / "examples" / "optimize_function.py").read_text()
    block = readme.split("```python\n")[1].split("```")[0]
    assert block.strip() in example
