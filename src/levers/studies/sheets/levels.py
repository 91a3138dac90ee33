"""Levels of a factor as texts in cells, and back."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from levers.core.space import Factor, Level
from levers.studies.sheets.text import neutral, plain, trimmed

EMPTY, UNKNOWN = -2, -3
"""Codes of a cell that holds no level. Not FREE, which is a column that the sheet does not have."""

NEAR = 1e-8
"""How much of itself a number may lose in a spreadsheet that keeps only the digits it shows."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")


def level_texts(factor: Factor) -> tuple[str, ...]:
    """The text of each level, all different: a text that reads like a number level gets a quote before it.

    >>> level_texts(Factor("dose", [1, "1", 2.5, True, "=x"]))
    ('1', "'1", '2.5', 'true', "'=x")
    """
    texts = {k: _number_text(level) for k, level in enumerate(factor.levels) if not isinstance(level, str)}
    taken = set(texts.values())
    for k, level in enumerate(factor.levels):
        if isinstance(level, str):
            text = neutral(level)
            while text in taken:
                text = f"'{text}"
            taken.add(text)
            texts[k] = text
    return tuple(texts[k] for k in range(factor.n_levels))


def level_codes(cells: pl.Series, factor: Factor) -> NDArray[np.int16]:
    """The level positions that a column of texts stands for, EMPTY or UNKNOWN where there is none.

    >>> level_codes(pl.Series([" 2,5", "1.0", "high", ""]), Factor("dose", [1, 2.5])).tolist()
    [1, 0, -3, -2]
    """
    find = level_finder(factor)
    unique = cells.unique()
    codes = pl.Series([find(text) for text in unique], dtype=pl.Int16)
    found = cells.replace_strict(unique, codes, return_dtype=pl.Int16)
    return np.asarray(found.to_numpy(), dtype=np.int16)


def level_finder(factor: Factor) -> Callable[[str], int]:
    """What finds the position of the level that a cell's text means. The closer of two matches wins.

    >>> find = level_finder(Factor("flag", ["a", " a", True, 1 / 3]))
    >>> find("a"), find(" a"), find("a "), find("TRUE"), find("0.333333333")
    (0, 1, 0, 2, 3)
    """
    texts = [(k, level) for k, level in enumerate(factor.levels) if isinstance(level, str)]
    written = {text: k for k, text in enumerate(level_texts(factor))}
    exact = {level: k for k, level in texts}
    loose = _unambiguous([(trimmed(level), k) for k, level in texts])
    booleans = {str(level).casefold(): k for k, level in enumerate(factor.levels) if isinstance(level, bool)}
    numbers = {level: k for k, level in enumerate(factor.levels) if not isinstance(level, bool | str)}

    def find(cell: str) -> int:
        bare = cell.strip()
        if not bare:
            return EMPTY
        unquoted = plain(bare)
        for known, text in (
            (written, cell),
            (exact, cell),
            (written, bare),
            (exact, bare),
            (exact, unquoted),
            (loose, trimmed(unquoted)),
            (loose, trimmed(bare)),
            (booleans, unquoted.casefold()),
        ):
            if text in known:
                return known[text]
        readings = _readings(unquoted)
        found = {numbers[value] for value in readings if value in numbers}
        found = found or {k for level, k in numbers.items() if any(_is_near(value, level) for value in readings)}
        return found.pop() if len(found) == 1 else UNKNOWN

    return find


def _number_text(level: Level) -> str:
    return str(level).lower() if isinstance(level, bool) else repr(level)


def _is_near(value: int | float, level: int | float) -> bool:
    """Whether a number may be a level that lost its last digits. Two whole numbers are the same or not."""
    if isinstance(value, int) and isinstance(level, int):
        return False
    try:
        return math.isclose(value, level, rel_tol=NEAR)
    except OverflowError:  # a whole number beyond what floating point holds
        return False


def _unambiguous(pairs: Sequence[tuple[str, int]]) -> dict[str, int]:
    counts = Counter(text for text, _ in pairs)
    return {text: k for text, k in pairs if counts[text] == 1}


def _readings(text: str) -> list[int | float]:
    """The numbers that a text can mean: 1,234 is one and a bit, or more than a thousand."""
    text = text.replace("\u2212", "-")
    readings: list[int | float] = []
    if _WHOLE.fullmatch(text):
        readings.append(int(text))
    elif _NUMBER.fullmatch(text):
        readings.append(float(text))
    elif text.count(",") == 1 and "." not in text and _NUMBER.fullmatch(text.replace(",", ".")):
        readings.append(float(text.replace(",", ".")))
        if _GROUPED.fullmatch(text):
            readings.append(int(text.replace(",", "")))
    return readings
