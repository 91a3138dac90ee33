"""Runs the code blocks of a Markdown page, in an empty folder, as a reader would.

- A block of `python` or `toml` whose first line is a comment with a file's name is written to that file.
- Other blocks of `python` are run one after the other, in one namespace. If a block of `text` follows, it is what they
  print.
- In a block of `console` each line after `$ ` is a command, `levers ...` or `python FILE ...`, and the lines below it
  are what it prints; `...` stands for anything, and blanks do not count. `levers dashboard` is started on a free port,
  its first page is fetched, and it is stopped.

A page with any other kind of block is refused, so that no block goes unnoticed. The module needs Python alone, so that
the same pages can be run against an installed wheel: `python tutorials.py PAGE ...`.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Command = Callable[[list[str], Path], tuple[int, str]]
"""Runs `levers` with these arguments in a folder: the exit code, and what was printed."""
FILE = re.compile(r"# ([\w-]+\.(?:py|toml))\n")
WIDTH = {"COLUMNS": "120", "TERMINAL_WIDTH": "120"}
SECONDS = 120


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and its first line's number in the page."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page.

    >>> blocks("Run it:\\n\\n```console\\n$ levers studies\\n```\\n")
    [Block(language='console', text='$ levers studies\\n', line=4)]
    """
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [Block(one[1].strip(), one[2], page.count("\n", 0, one.start(2)) + 1) for one in found]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what it should print."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        while command.endswith("\\"):
            more, _, printed = printed.partition("\n")
            command = command[:-1] + more.strip()
        yield command, printed


def run_page(page: Path, folder: Path, levers: Command) -> list[str]:
    """Run all blocks of a page in a folder; what went otherwise than the page says, and where."""
    problems: list[str] = []
    names: dict[str, object] = {"__name__": "__main__"}
    found = blocks(page.read_text(encoding="utf-8"))
    for k, block in enumerate(found):
        where = f"{page.name}, line {block.line}"
        expected = found[k + 1].text if k + 1 < len(found) and found[k + 1].language == "text" else ""
        if file := FILE.match(block.text):
            (folder / file[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            problems += _compared(where, expected, *_python(block, page, names, folder))
        elif block.language == "console":
            for command, printed in commands(block):
                problems += _compared(f"{where}: {command}", printed, *_command(shlex.split(command), folder, levers))
        elif block.language != "text" or not k or found[k - 1].language != "python":
            problems.append(f"{where}: a block of {block.language or 'no language'} is not run by anything")
        if problems:
            break
    return problems


def agrees(expected: str, printed: str) -> bool:
    """Whether a text is what was expected, where `...` stands for anything, and blanks do not count.

    >>> agrees("4 runs\\n...\\nin ... s", "4 runs in  0.3  s"), agrees("4 runs", "14 runs")
    (True, False)
    """
    pieces = [re.escape(" ".join(piece.split())) for piece in expected.split("...")]
    return re.fullmatch(r"\s*.*\s*".join(pieces), " ".join(printed.split()), re.DOTALL) is not None


def _compared(where: str, expected: str, code: int, printed: str) -> list[str]:
    printed = "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n") + "\n"
    if code and not expected.strip():
        return [f"{where} ended with {code}:\n{printed}"]
    if expected.strip() and not agrees(expected, printed):
        return [f"{where} printed\n{printed}and not\n{expected}"]
    return []


def _python(block: Block, page: Path, names: dict[str, object], folder: Path) -> tuple[int, str]:
    out = io.StringIO()
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
    except Exception:
        return 1, out.getvalue() + traceback.format_exc()
    finally:
        os.chdir(before)
    return 0, out.getvalue()


def _command(words: list[str], folder: Path, levers: Command) -> tuple[int, str]:
    if words[:2] == ["levers", "dashboard"]:
        return _dashboard(words[1:], folder)
    if words[0] == "levers":
        return levers(words[1:], folder)
    if words[0] == "python":
        return run([sys.executable, *words[1:]], folder)
    return 127, f"{words[0]} is no command that a tutorial may use"


def run(words: list[str], folder: Path) -> tuple[int, str]:
    """A process's exit code, and its standard output; if it failed, its complaints too."""
    environment = {**os.environ, **WIDTH}
    done = subprocess.run(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def _dashboard(words: list[str], folder: Path) -> tuple[int, str]:
    """Serve until the first page has been fetched. What was printed, with the port that a reader would see."""
    serve = [sys.executable, "-u", "-m", "levers.cli.app", *words, "--port", "0"]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if address is None:
                return 1, line + process.stdout.read()
            with urllib.request.urlopen(address[0], timeout=SECONDS) as answer:
                return int(answer.status != 200), line.replace(address[1], "8080")
        finally:
            process.terminate()


def installed(words: list[str], folder: Path) -> tuple[int, str]:
    """`levers` as it is installed beside this Python."""
    return run([str(Path(sys.executable).parent / "levers"), *words], folder)


def main(pages: list[str]) -> int:
    """Run pages with the `levers` that is installed; the exit code is how many went wrong."""
    wrong = 0
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            problems = run_page(Path(page), Path(folder), installed)
        sys.stdout.write(f"{page}: {'as printed' if not problems else problems[0]}\n")
        wrong += bool(problems)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
