"""Numbers on the command line: trials, and outcomes that may be negative or have a decimal comma."""

import math
import re
from typing import Any

import polars as pl
from typer.core import TyperCommand

from levers.errors import InvalidSettingError
from levers.studies.sheets.numbers import outcome_numbers

_NEGATIVE = re.compile(r"-[0-9.,][0-9.,eE+-]*")
_MINUS = "\u2212"


class CommandWithNumbers(TyperCommand):
    """A command whose arguments may be negative numbers. Whatever else begins with a dash has to be an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The minus of a number is spelt in a way that is no option; `outcome` reads both. All options take a value."""
        of_option = [False, *(arg.startswith("-") and "=" not in arg and not _NEGATIVE.fullmatch(arg) for arg in args)]
        given = [
            f"{_MINUS}{arg[1:]}" if _NEGATIVE.fullmatch(arg) and not taken else arg
            for arg, taken in zip(args, of_option, strict=False)
        ]
        parsed: list[str] = super().parse_args(ctx, given)
        return parsed


def trial_number(text: str) -> int:
    """A trial's number.

    >>> trial_number("x")
    Traceback (most recent call last):
    levers.errors.InvalidSettingError: the trial must be a whole number, not 'x'
    """
    plain = text.strip().replace(_MINUS, "-")
    if not re.fullmatch(r"-?[0-9]{1,18}", plain):
        raise InvalidSettingError(f"the trial must be a whole number, not {plain!r}")
    return int(plain)


def outcome(text: str) -> float:
    """An outcome, read as in a sheet; nan is for a run that gave none.

    >>> outcome("1,5"), outcome("-2e3"), outcome("nan")
    (1.5, -2000.0, nan)
    """
    plain = text.strip().replace(_MINUS, "-")
    if plain.lower() == "nan":
        return math.nan
    values, faults = outcome_numbers(pl.Series([plain]), decimal_comma=False)
    if any(fault.places.size for fault in faults) and not math.isnan(values[0]):
        raise InvalidSettingError(next(fault.reason(0) for fault in faults if fault.places.size))
    if math.isnan(values[0]):
        raise InvalidSettingError(f"the outcome must be a number, not {plain!r}; `levers fail` reports a run without")
    return float(values[0])
