"""Levers as people write them: a space file (TOML or JSON), lines such as `heat: low, mid, high`, rows of a table.

The command line and the form read levels, forbidden combinations and merged levers with the same functions, so that a
text means the same in both.
"""

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from levers.core.outcome_scale import LINEAR, LOG
from levers.core.space import Factor, Level, Space
from levers.errors import InvalidSettingError, InvalidSpaceError, about
from levers.studies.sheets.cells import level_finder, typed_number

_EXAMPLE = '[factors]\nheat = ["low", "high"]\nspeed = [1, 2, 3]'
# each character of a pattern can be read in one way only, so that no text takes longer than its length
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_POINT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_TABLE = re.compile(r"^[ \t]*\[\[?[ \t]*(?:factors|forbidden)[ \t]*\]", re.MULTILINE)
_MOST_DOTS = 100
MOST_FACTORS, MOST_LEVELS = 1_000, 20_000
"""More than anybody types; a study over the API or the command line may have more."""


class Typed(NamedTuple):
    """Factors with their levels, and what a file says besides: what is forbidden, merged, free, hard to change."""

    factors: list[tuple[str, list[Level]]]
    forbidden: list[Mapping[str, Any]]
    merged: list[list[str]]
    free: Sequence[str] = ()
    hard_to_change: Sequence[str] = ()

    @property
    def space(self) -> Space:
        """The space of these factors; one error names all that is wrong with them."""
        counts = Counter(name for name, _ in self.factors)
        doubled = next((name for name, n in counts.items() if n > 1), None)
        if doubled is not None:
            raise InvalidSpaceError(f"factor {doubled!r} is given twice")
        return Space.of(dict(self.factors))


def read_space(path: str | os.PathLike[str]) -> Typed:
    """The factors, the forbidden combinations and the merged levers in a .toml or .json file.

    A `[factors]` table has one line `name = [levels]` for each lever, or `name = {levels = [levels], free = true}` for
    one that may be left alone; `[[forbidden]]` tables name levels that cannot be run together; `merged = [["heat",
    "speed"]]`, before the tables, names levers that influence each other, and `hard_to_change = ["mould"]` those to
    change seldom, the hardest first.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidSpaceError(f"cannot read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidSpaceError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    return parse_space(text, is_json=file.suffix.lower() == ".json", name=str(file))


def parse_space(text: str, *, is_json: bool = False, name: str = "the space file") -> Typed:
    """The same from text.

    >>> found = parse_space('[factors]\\nheat = ["low", "high"]\\nspeed = [1, 2]')
    >>> found.factors, found.forbidden, found.merged
    ([('heat', ['low', 'high']), ('speed', [1, 2])], [], [])
    >>> parse_space('[factors]\\nheat = {levels = ["low", "high"], free = true}').free
    ['heat']
    """
    try:
        found = json.loads(text) if is_json else _toml(text)
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        kind = "JSON" if is_json else "TOML"
        raise InvalidSpaceError(f"{name} is not {kind}: {error}. A space looks like this:\n{_EXAMPLE}") from None
    factors = found.get("factors") if isinstance(found, dict) else None
    if not isinstance(factors, dict) or not factors:
        raise InvalidSpaceError(f"{name} has no table of factors. A space looks like this:\n{_EXAMPLE}")
    unknown = sorted(set(found) - {"factors", "forbidden", "merged", "hard_to_change"})
    if unknown:
        raise InvalidSpaceError(
            f"{name} has {unknown[0]!r}, which is not known; there are factors, forbidden, merged and hard_to_change"
        )
    free = [key for key, given in factors.items() if isinstance(given, dict) and given.get("free") is True]
    factors = {key: _levels(key, given, name) for key, given in factors.items()}
    forbidden, merged, hard = found.get("forbidden", []), found.get("merged", []), found.get("hard_to_change", [])
    if not isinstance(forbidden, list):
        raise InvalidSpaceError(
            f"forbidden in {name} must be a list of tables, each naming a level of two factors", field="forbidden"
        )
    if not isinstance(merged, list):
        raise InvalidSpaceError(
            f'merged in {name} must be a list of groups of factors, as in [["heat", "speed"]]', field="merged"
        )
    if not isinstance(hard, list) or not all(isinstance(one, str) for one in hard):
        raise InvalidSpaceError(
            f'hard_to_change in {name} must be a list of factors, the hardest first, as in ["mould"]',
            field="hard_to_change",
        )
    return Typed(list(factors.items()), forbidden, merged, free, hard)


def _toml(text: str) -> dict[str, Any]:
    """The tables of a text. The library's time grows with the square of how often keys are nested: `a.a.a = 1`."""
    run = 0
    for piece in text.split(".")[1:]:
        run = 0 if any(mark in piece for mark in ",\n=") else run + 1
        if run > _MOST_DOTS:
            raise ValueError(f"there are more than {_MOST_DOTS} dots in a row of keys")
    import tomllib

    return tomllib.loads(text)


def _levels(factor: str, given: object, name: str) -> list[Level]:
    """The levels of a factor in a space file: a list, or a table with the list and whether it may be left alone."""
    found = given
    if isinstance(given, dict):
        unknown = sorted(set(given) - {"levels", "free"})
        if unknown:
            raise InvalidSpaceError(
                f"{factor!r} in {name} has {unknown[0]!r}, which is not known; there are levels and free"
            )
        if not isinstance(given.get("free", False), bool):
            raise InvalidSpaceError(
                f"free of {factor!r} in {name} is true or false, not {given['free']!r}", field="free"
            )
        found = given.get("levels")
    if not isinstance(found, list):
        raise InvalidSpaceError(f"the levels of {factor!r} in {name} must be a list, as in\n{_EXAMPLE}")
    return found


def parse_text(text: str) -> Typed:
    """What is meant by a text: lines of factors and levels, a table, or a space file.

    >>> parse_text("heat: low, mid, high\\nspeed;1,5;2").factors
    [('heat', ['low', 'mid', 'high']), ('speed', [1.5, 2.0])]
    >>> parse_text('[factors]\\nheat = ["low", "high"]').factors
    [('heat', ['low', 'high'])]
    """
    if text.lstrip().startswith("{") or _TABLE.search(text):
        return parse_space(text, is_json=text.lstrip().startswith("{"), name="the text")
    lines = [_line(line, i) for i, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"]
    return Typed(lines, [], [])


def _line(line: str, i: int) -> tuple[str, list[Level]]:
    """A line of either kind. In a table, levels are in the cells after the name."""
    delimiter = next((mark for mark in ("\t", ";") if mark in line), ",")
    mark = re.search(r"[:=]", line)
    if mark is None or (delimiter != "," and line.index(delimiter) < mark.start()):
        name, *levels = _cells(line, delimiter)
    else:
        name, levels = line[: mark.start()], _cells(line[mark.end() :], delimiter)
    if not levels:
        raise InvalidSpaceError(f"line {i} has no levels; write it as `heat: low, mid, high`")
    return name.strip().strip('"'), _numbered(levels)


def parse_factor(text: str) -> tuple[str, list[Level]]:
    """A lever and its levels as the command line has them. Other than in a line of text, only `=` ends the name.

    >>> parse_factor("speed=1,2,4"), parse_factor("ratio 1:2=0,5; 1,5"), parse_factor("size=1_000,2_000")
    (('speed', [1, 2, 4]), ('ratio 1:2', [0.5, 1.5]), ('size', ['1_000', '2_000']))
    """
    name, sign, levels = text.partition("=")
    if not sign or not name.strip():
        raise InvalidSpaceError(f"a factor looks like heat=low,mid,high, not {text!r}")
    return name.strip(), parse_levels(levels)


def parse_levels(text: str) -> list[Level]:
    """The levels of one factor, with commas between them, or semicolons where numbers have decimal commas.

    >>> parse_levels("1, 2, 3"), parse_levels("0,5; 1,5"), parse_levels('"a, b", c')
    ([1, 2, 3], [0.5, 1.5], ['a, b', 'c'])
    """
    return _numbered(_cells(text, next((mark for mark in ("\t", ";", "\n") if mark in text), ",")))


def _cells(text: str, delimiter: str) -> list[str]:
    if delimiter == "\n":
        found = text.splitlines()
    else:
        try:
            found = next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
        except csv.Error as error:  # a quote that is not closed, or a cell of more characters than a reader takes
            raise InvalidSpaceError(f"levels cannot be read ({error}); write them as `low, mid, high`") from None
    return [cell.strip() for cell in found if cell.strip()]


def _numbered(texts: list[str]) -> list[Level]:
    """Levels that are all numbers become numbers."""
    plain = [text.replace("\u2212", "-") for text in texts]
    if all(_WHOLE.fullmatch(text) for text in plain):
        return [int(text) for text in plain]
    if all(_POINT.fullmatch(text) or _COMMA.fullmatch(text) for text in plain):
        return [float(text.replace(",", ".")) for text in plain]
    return list(texts)


def made_space(factors: list[tuple[str, list[Level]]]) -> Space:
    """The space of factors that were typed, or one error that names all that is wrong with it."""
    if not factors:
        raise InvalidSpaceError("there is no factor yet; give at least one, with two or more levels")
    if len(factors) > MOST_FACTORS or sum(len(levels) for _, levels in factors) > MOST_LEVELS:
        raise InvalidSpaceError(f"at most {MOST_FACTORS:,} factors with {MOST_LEVELS:,} levels can be entered here")
    problems, made = [], []
    for name, levels in factors:
        try:
            made.append(Factor(name, levels))
        except InvalidSpaceError as error:
            problems.append(str(error))
    if problems:
        raise InvalidSpaceError("; ".join(problems[:10]), problems=problems)
    return Space(made)


def parse_forbidden(space: Space, text: str) -> list[dict[str, Level]]:
    """Combinations that cannot be run, one a line, with each level as the space has it: `heat=high, speed=4`.

    >>> space = Space.of({"heat": ["low", "high"], "speed": [1, 4], "pressure": [1.5, 2.5]})
    >>> parse_forbidden(space, "heat=high, speed=4.0\\nspeed=1, pressure=2,5")
    [{'heat': 'high', 'speed': 4}, {'speed': 1, 'pressure': 2.5}]
    """
    with about("forbidden"):
        return [_combination(space, line) for line in text.splitlines() if line.strip()]


def parse_setting(space: Space, text: str) -> dict[str, Level]:
    """A setting as people type it, on one line or several: `heat=low, speed=2`.

    >>> space = Space.of({"heat": ["low", "high"], "pressure": [1.5, 2.5]})
    >>> parse_setting(space, "heat=low, pressure=2,5"), parse_setting(space, "pressure=1.5\\nheat=high")
    ({'heat': 'low', 'pressure': 2.5}, {'pressure': 1.5, 'heat': 'high'})
    """
    with about("baseline"):
        return _combination(space, ", ".join(text.split("\n")), "a setting")


def tolerance_amount(given: float | str | None, baseline_outcome: float | None, scale: str = LINEAR) -> float | None:
    """A tolerance as a number, from one or from a text: in the outcome's unit, in which 5% is of the outcome today.

    On a log scale it is a share: 5% is 0.05, whatever the outcome is.

    >>> tolerance_amount("5%", 70.0), tolerance_amount("2,5 %", -40.0), tolerance_amount("0.5", None)
    (3.5, 1.0, 0.5)
    >>> tolerance_amount("5%", None, "log"), tolerance_amount("0.05", None, "log")
    (0.05, 0.05)
    >>> tolerance_amount("5%", None)
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: a tolerance of 5% is of the outcome today: give the baseline's outcome too; \
on a log scale it needs none
    """
    if not isinstance(given, str):
        return given
    text = given.strip()
    with about("tolerance"):
        if not text.endswith("%"):
            return typed_number(text, "the tolerance", hint="; give a number, or a percentage such as 5%")
        share = typed_number(text.removesuffix("%"), "the tolerance")
        if scale == LOG:
            return share / 100
        if baseline_outcome is None:
            raise InvalidSettingError(
                f"a tolerance of {text} is of the outcome today: give the baseline's outcome too; on a log scale "
                "it needs none"
            )
        if baseline_outcome == 0:
            raise InvalidSettingError(f"{text} of an outcome of 0 is nothing; give the tolerance in the outcome's unit")
        return share / 100 * abs(baseline_outcome)


def _combination(space: Space, line: str, what: str = "a forbidden combination") -> dict[str, Level]:
    looks = f"{what} looks like heat=high, speed=4, not {line.strip()!r}"
    parts: list[list[str]] = []  # a piece without a name goes on with the level before it, as the 5 of pressure=2,5
    for piece in re.split(r"(?<=[,;])", line):
        if "=" in piece:
            parts.append([piece])
        elif piece.strip():
            if not parts:
                raise InvalidSettingError(looks)
            parts[-1].append(piece)
    found: dict[str, Level] = {}
    finders: dict[str, Callable[[str], int]] = {}
    for pieces in parts:
        name, _, level = "".join(pieces).partition("=")
        factor, text = space.factors[space.position(name.strip())], level.strip().rstrip(",;").strip()
        if factor.name not in finders:
            finders[factor.name] = level_finder(factor)
        place = finders[factor.name](text)
        if place < 0 and len(pieces) > 1:
            raise InvalidSettingError(looks)
        found[factor.name] = factor.levels[place] if place >= 0 else text
    return found


def parse_merged(space: Space, text: str) -> list[list[str]]:
    """Levers that influence each other, one group a line, with commas or semicolons between the names.

    >>> parse_merged(Space.of({"heat; zone 1": [1, 2], "speed": [1, 2]}), "heat; zone 1, speed")
    [['heat; zone 1', 'speed']]
    """
    return [_names(space, line) for line in text.splitlines() if line.strip()]


def parse_names(space: Space, text: str) -> list[str]:
    """Levers by name, with commas or semicolons between them, or one a line.

    >>> parse_names(Space.of({"heat; zone 1": [1, 2], "speed": [1, 2]}), "heat; zone 1, speed")
    ['heat; zone 1', 'speed']
    """
    return [name for names in parse_merged(space, text) for name in names]


def parse_observed(space: Space, text: str) -> dict[str, Level]:
    """What levers took that were left alone, as people type it: `heat=low, speed=2`.

    >>> parse_observed(Space.of({"heat": ["low", "high"], "speed": [1, 2]}), "heat=low")
    {'heat': 'low'}
    """
    with about("observed"):
        return _combination(space, ", ".join(text.split("\n")), "what a lever took")


def _names(space: Space, line: str) -> list[str]:
    """The reading in which all are names of factors, if there is one."""
    by_comma, by_semicolon = _cells(line, ","), _cells(line, ";")
    known = [names for names in (by_comma, by_semicolon) if set(names) <= set(space.names)]
    return known[0] if known else by_semicolon if ";" in line else by_comma
