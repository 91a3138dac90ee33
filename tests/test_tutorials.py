"""Every code block of the tutorials runs, and prints what the page says."""

import contextlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.tutorials import blocks, commands, run_page
from levers.cli.app import app
from levers.errors import LeversError

PAGES = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.md"))


def levers(words: list[str], folder: Path) -> tuple[int, str]:
    """The command in this process, which is quicker than a new one each time."""
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, words, prog_name="levers", env={"COLUMNS": "120", "TERMINAL_WIDTH": "120"})
    if isinstance(result.exception, LeversError):
        return 2, f"{result.output}error: {result.exception}\n"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output if result.exit_code else result.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_tutorial_run_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LEVERS_STORAGE", "LEVERS_URL", "LEVERS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    assert run_page(page, tmp_path, levers) == []


def test_there_is_a_tutorial_for_each_kind_of_user() -> None:
    assert [page.stem for page in PAGES] == ["engineer", "experimenter", "researcher"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "printed\n2\nand not\n3"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```console\n$ levers status oven\n```\n", "ended with 2"),
        ("```console\n$ levers studies\nnone at all\n```\n", "and not\nnone at all"),
        ("```console\n$ rm -r .\n```\n", "no command that a tutorial may use"),
        ("```sh\nlevers studies\n```\n", "a block of sh is not run"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(text: str, problem: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    [found] = run_page(page, tmp_path, levers)
    assert problem in found


def test_commands_may_go_on_in_the_next_line() -> None:
    [block] = blocks("```console\n$ levers plan \\\n    --levels 2,2\nout\n```\n")
    assert list(commands(block)) == [("levers plan --levels 2,2", "out\n")]
