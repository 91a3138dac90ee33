"""The notebooks run from top to bottom in a real kernel, and show what they say."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
SHOWN = {
    "experimenter": [
        "far from what the other runs lead one to expect",
        "mid",
        "of the best with probability at least 90%",
        "<svg",
        "supplier",
    ],
    "engineer": [
        r"prefetch and batch interact \(p",
        "<svg",
        r"parents=\('pool', 'compression', 'prefetch', 'batch'\)",
        r"1\d\.\d ms faster",
    ],
    "researcher": [r"\('heat', 'time'\)", r"\d of 30 failed", "18 settings", "modl"],
}
"""What each shows, as regular expressions."""


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def shown(notebook: Any) -> str:
    """All that the cells of a notebook have put out."""
    outputs = [one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs]
    texts = [one.get("text", "") for one in outputs]
    texts += [text for one in outputs for kind, text in one.get("data", {}).items() if kind.startswith("text/")]
    return "\n".join(texts)


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERS_JOURNAL", str(tmp_path / "journals"))
    notebook = read(name)
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    found = shown(notebook)
    assert [text for text in SHOWN[name] if re.search(text, found) is None] == []


def test_notebooks_are_kept_without_outputs() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.ipynb")) == sorted(SHOWN)
    for name in SHOWN:
        for cell in read(name).cells:
            assert cell.get("outputs", []) == [], f"{name}: clear all outputs before it is kept"
            assert cell.get("execution_count") is None
