"""The outcome of a run of a command: a number that it printed, or how long it took."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levers.errors import FailedRunError, InvalidSettingError
from levers.experiments.commands.process import KEPT_BYTES, Ran

TIMES = ("wall", "user", "instructions")
_SECONDS_TO_MATCH = 10.0
_NUMBER = re.compile(
    r"(?<![\w.,])[-+]?(?:[0-9][0-9,]*(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]+)?|(?<!\w)[-+]?(?:nan|inf(?:inity)?)\b",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_MATCHER = """
import re, sys
found = None
for found in re.finditer(sys.argv[1], sys.stdin.buffer.read().decode(errors="replace"), re.MULTILINE):
    pass
if found is None:
    sys.exit(3)
text = found[1] if found.re.groups else found[0]
sys.stdout.write("" if text is None else text)
"""
"""A process of its own: an expression that takes for ever on some output is ended with it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the outcome is: the last number printed, an expression's first group, a value in JSON, or a time."""

    metric: str | None = None
    json_path: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in (self.metric, self.json_path, self.time) if name is not None]
        if len(given) > 1:
            raise InvalidSettingError("the outcome comes from one place: give --metric, --json or --time, and not two")
        if self.time is not None and self.time not in TIMES:
            raise InvalidSettingError(f"--time is {', '.join(TIMES)}, not {self.time!r}")
        if self.metric is not None:
            try:
                re.compile(self.metric)
            except re.error as error:
                raise InvalidSettingError(f"--metric {self.metric!r} is no regular expression: {error}") from None

    def value(self, ran: Ran) -> float:
        """The outcome; FailedRunError when there is none.

        >>> Reading().value(Ran(0, b"size 12 kB, took 3.5s\\n", b"", False, 1.0, 0.5))
        3.5
        """
        if self.time is not None:
            return ran.wall if self.time == "wall" else ran.user
        text = ran.stdout.decode(errors="replace")
        if self.metric is not None:
            return number(_matched(self.metric, ran))
        if self.json_path is not None:
            if ran.is_cut:
                raise FailedRunError(f"it printed more than {KEPT_BYTES:,} bytes, which is too long to be read as JSON")
            return _in_json(text, self.json_path)
        return last_number(text)


def last_number(text: str) -> float:
    """The last number in a text.

    >>> last_number("n = 20, took 1,234.5 ms"), last_number("-3e-2 V2")
    (1234.5, -0.03)
    """
    found = [match[0] for match in _NUMBER.finditer(text)]
    if not found:
        raise FailedRunError("no number is in what it printed; --metric or --json says where it is")
    return number(found[-1].rstrip(","))


def number(text: str) -> float:
    """A number as programs print it; FailedRunError for anything else, and for what can be read in two ways.

    >>> number("12"), number("1,234,567")
    (12.0, 1234567.0)
    >>> number("3,5")
    Traceback (most recent call last):
    levers.errors.FailedRunError: '3,5' can be read in two ways; print a decimal point, or say where the number is
    """
    plain = text.strip()
    if "," in plain:
        if not _THOUSANDS.fullmatch(plain):
            raise FailedRunError(
                f"{plain[:60]!r} can be read in two ways; print a decimal point, or say where the number is"
            )
        plain = plain.replace(",", "")
    try:
        value = float(plain)
    except ValueError:
        raise FailedRunError(f"{plain[:60]!r} is no number") from None
    if not math.isfinite(value):
        raise FailedRunError(f"the outcome is {plain[:60]}")
    return value


def _matched(expression: str, ran: Ran) -> str:
    """What an expression finds last, looked for in a process that is ended if it takes too long."""
    try:
        found = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _MATCHER, expression],
            input=ran.stdout,
            capture_output=True,
            timeout=_SECONDS_TO_MATCH,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FailedRunError(f"looking for {expression!r} took more than {_SECONDS_TO_MATCH:g} s") from None
    if found.returncode == 0:
        return found.stdout.decode(errors="replace")
    where = f"the last {KEPT_BYTES:,} bytes that it printed" if ran.is_cut else "what it printed"
    raise FailedRunError(f"{expression!r} is not in {where}")


def _in_json(text: str, path: str) -> float:
    """A number in JSON: the whole output, or its last line."""
    found: Any = None
    for candidate in (text, text.strip().rpartition("\n")[2]):
        try:
            found = json.loads(candidate)
            break
        except (ValueError, RecursionError):
            continue
    else:
        raise FailedRunError("what it printed is not JSON, and neither is its last line")
    for i, key in enumerate(path.split(".")):
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise FailedRunError(f"{'.'.join(path.split('.')[: i + 1])!r} is not in the JSON that it printed") from None
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise FailedRunError(f"{path!r} is no number in the JSON that it printed")
    return number(str(found))


class InstructionCounter:
    """Counts the instructions of a program: with `perf`, or with Valgrind, which makes it slower and not the count."""

    def __init__(self, program: str) -> None:
        self.program = program

    @classmethod
    def find(cls) -> "InstructionCounter":
        """What this machine can count with; InvalidSettingError where it cannot."""
        if shutil.which("perf") is not None:
            counter = cls("perf")
            with (
                suppress(FailedRunError, OSError, subprocess.SubprocessError),
                counter.counting(["true"]) as (arguments, count),
            ):
                subprocess.run(arguments, capture_output=True, check=True, timeout=30)
                count()
                return counter
        if shutil.which("valgrind") is not None:
            return cls("valgrind")
        raise InvalidSettingError(
            "instructions are counted by perf, which may not count here, or by valgrind, which is not installed; "
            "install valgrind, or use --time user"
        )

    @contextmanager
    def counting(self, arguments: Sequence[str]) -> Iterator[tuple[list[str], Callable[[], float]]]:
        """The command that counts, and a function that says how many instructions there were."""
        with tempfile.TemporaryDirectory(prefix="levers-count-") as folder:
            if self.program == "perf":
                file = Path(folder) / "count"
                yield (
                    ["perf", "stat", "-x", ",", "-e", "instructions:u", "-o", str(file), "--", *arguments],
                    lambda: perf_count(file.read_text(errors="replace")),
                )
            else:
                options = ["--tool=cachegrind", "--cache-sim=no", "--trace-children=yes"]
                files = [f"--log-file={folder}/%p", f"--cachegrind-out-file={os.devnull}"]
                yield (
                    ["valgrind", *options, *files, *arguments],
                    lambda: sum(valgrind_count(file.read_text(errors="replace")) for file in Path(folder).iterdir()),
                )


def perf_count(text: str) -> float:
    """The count in what `perf stat -x,` writes.

    >>> perf_count("# started on Mon\\n\\n127785,,instructions:u,2700000,100.00,,\\n")
    127785.0
    """
    for line in text.splitlines():
        count, _, rest = line.partition(",")
        if "instructions" in rest and count.isdigit():
            return float(count)
    raise FailedRunError("perf counted no instructions")


def valgrind_count(text: str) -> float:
    """The count in what Valgrind's cachegrind writes.

    >>> valgrind_count("==7== I   refs:      127,785")
    127785.0
    """
    found = re.search(r"I\s+refs:\s+([0-9,]+)", text)
    if found is None:
        raise FailedRunError("valgrind counted no instructions")
    return float(found[1].replace(",", ""))
