"""Checks of settings and outcomes, made before anything is computed. An error names the setting in its `field`."""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levers.errors import InvalidOutcomeError, InvalidSettingError, OutcomeMismatchError

LARGEST_SCALE = 1e100
"""The largest number on the scale of outcomes; the smallest is one over it. Squares and ratios of such stay finite."""

MAX_TEXT = 10_000
"""The most characters of a reason or a note."""
MAX_NAME = 200
"""The most characters of the name of whoever works or runs: what a column of a database has room for."""
# control characters, what ends a line elsewhere, what turns the direction of a text around, halves of characters
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


def check_positive(name: str, value: float) -> float:
    """A finite number above zero.

    >>> check_positive("tolerance", 0.5)
    0.5
    >>> check_positive("tolerance", -1)
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: tolerance must be a finite number above 0, not -1
    """
    if not _is_number(value) or not math.isfinite(value) or value <= 0:
        raise InvalidSettingError(f"{name} must be a finite number above 0, not {value!r}", field=name)
    return float(value)


def check_scale(name: str, value: float) -> float:
    """A number above zero on the scale of outcomes whose square neither vanishes nor overflows.

    >>> check_scale("noise_sd", 1e-300)
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: noise_sd must be between 1e-100 and 1e+100, not 1e-300; choose another unit
    """
    number = check_positive(name, value)
    if not 1 / LARGEST_SCALE <= number <= LARGEST_SCALE:
        raise InvalidSettingError(
            f"{name} must be between {1 / LARGEST_SCALE:g} and {LARGEST_SCALE:g}, not {value:g}; choose another unit",
            field=name,
        )
    return number


def check_number(name: str, value: float) -> float:
    """A finite number.

    >>> check_number("baseline_outcome", -2)
    -2.0
    """
    if not _is_number(value) or not math.isfinite(value):
        raise InvalidSettingError(f"{name} must be a finite number, not {value!r}", field=name)
    return float(value)


def check_probability(name: str, value: float) -> float:
    """A number strictly between 0 and 1.

    >>> check_probability("failure_prob", 1)
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: failure_prob must lie strictly between 0 and 1 (for example 0.1), not 1
    """
    if not _is_number(value) or not 0 < value < 1:
        raise InvalidSettingError(
            f"{name} must lie strictly between 0 and 1 (for example 0.1), not {value!r}", field=name
        )
    return float(value)


def check_count(name: str, value: int, at_least: int = 1, at_most: int | None = None) -> int:
    """A whole number in a range.

    >>> check_count("max_parents", 3, at_most=10)
    3
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        allowed = f"at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise InvalidSettingError(f"{name} must be a whole number {allowed}, not {value!r}", field=name)
    return int(value)


def check_choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """One of a few names.

    >>> check_choice("goal", "best", ["maximize", "minimize"])
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: goal must be one of maximize, minimize, not 'best'
    """
    if value not in allowed:
        raise InvalidSettingError(f"{name} must be one of {', '.join(allowed)}, not {value!r}", field=name)
    return value


def check_question(tolerance: object, budget: object) -> None:
    """What a study is asked for must be one of two: to come so close to the best, or to make the most of so many runs.

    >>> check_question(0.5, None)
    >>> check_question(None, None)
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: give either a tolerance or a budget of runs: how close to the best it must be, \
or how many runs you can make
    """
    if tolerance is not None and budget is not None:
        raise InvalidSettingError("give either a tolerance or a budget of runs, and not both", field="budget")
    if tolerance is None and budget is None:
        raise InvalidSettingError(
            "give either a tolerance or a budget of runs: how close to the best it must be, or how many runs you can "
            "make",
            field="budget",
        )


def check_text(name: str, value: str, at_most: int = MAX_TEXT) -> str:
    """A text for the log: one line, and nothing in it that moves a cursor or forges another line.

    >>> check_text("reason", "the oven was open")
    'the oven was open'
    >>> check_text("worker", "bench 2\\x1b[2J")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: the worker has the character '\\x1b' at place 8; write plain text on one line
    """
    if not isinstance(value, str) or len(value) > at_most:
        came = f"{len(value):,} characters" if isinstance(value, str) else repr(value)
        raise InvalidSettingError(
            f"the {name} must be a text of at most {at_most:,} characters, not {came}", field=name
        )
    found = _UNPRINTABLE.search(value)
    if found is not None:
        what = "half a character" if _HALF.match(found[0]) else f"the character {found[0]!r}"
        where = f"at place {found.start() + 1}; write plain text on one line"
        raise InvalidSettingError(f"the {name} has {what} {where}", field=name)
    return value


def half_character(text: str) -> str | None:
    """The first half of a character (a lone surrogate), which no file, database or answer can hold; None if none.

    >>> half_character("a" + chr(0xD800)), half_character("\N{GRINNING FACE}")
    ("'\\\\ud800'", None)
    """
    found = _HALF.search(text)
    return None if found is None else repr(found[0])


def visible(text: str) -> str:
    """A text on one line, with whatever a terminal would obey spelt out.

    >>> visible("a\\x1b[31mb\\nc")
    'a\\\\x1b[31mb\\\\nc'
    """
    return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


def check_outcomes(outcomes: ArrayLike, n_runs: int) -> NDArray[np.float64]:
    """One finite number for each run, or an error that says which is wrong.

    >>> check_outcomes([1, 2], 2)
    array([1., 2.])
    >>> check_outcomes([1, float("nan")], 2)
    Traceback (most recent call last):
    levers.errors.InvalidOutcomeError: outcome 2 of 2 is nan; every outcome must be a finite number
    """
    try:
        y = np.asarray(outcomes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidOutcomeError(f"outcomes must be numbers, one per run: {error}") from None
    if y.shape != (n_runs,):
        came = f"{y.size} outcomes came" if y.ndim == 1 else f"an array of shape {y.shape} came"
        raise OutcomeMismatchError(
            f"the batch has {n_runs} runs but {came}; send a flat list of {n_runs}, in the batch's order"
        )
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise InvalidOutcomeError(
            f"outcome {bad[0] + 1} of {n_runs} is {y[bad[0]]}; every outcome must be a finite number"
        )
    return y


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
