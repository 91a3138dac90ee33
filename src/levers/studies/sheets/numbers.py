"""Columns of texts as trial numbers and outcomes, without guessing what a person meant."""

import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from levers.studies.sheets.rows import Fault, shown

_TRIAL = r"^[0-9]{1,18}(?:[.,]0{1,2})?$"  # not 1.000 or 1,000, which some spreadsheets write for a thousand
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?$"
_POINT = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)" + _EXPONENT
_COMMA = r"^[+-]?[0-9]*,[0-9]+" + _EXPONENT
_GROUPED = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
_BOTH = re.compile(r"[+-]?[0-9]+(?:[.,' \u00a0\u202f][0-9]+)+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}")


def trial_numbers(cells: pl.Series, lines: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Fault]]:
    """Trial numbers, -1 where the cell is empty, and what is wrong with them.

    >>> trial_numbers(pl.Series(["7", " 8.0 ", ""]), np.array([2, 3, 4]))[0].tolist()
    [7, 8, -1]
    """
    text = pl.col("text")
    frame = cells.str.strip_chars().to_frame("text")  # one query for all: each has a cost of its own
    frame = frame.with_columns(
        empty=text == "",
        good=text.str.contains(_TRIAL),
        number=text.str.extract(r"^([0-9]{1,18})", 1).cast(pl.Int64, strict=False).fill_null(-1),
    )
    texts, empty, good = frame["text"], _mask(frame["empty"]), _mask(frame["good"])
    trials = np.where(good, frame["number"].to_numpy(), np.int64(-1))
    order = np.argsort(trials, kind="stable")
    again = order[1:][(trials[order[1:]] == trials[order[:-1]]) & (trials[order[1:]] >= 0)]

    def first(place: int) -> str:
        return f"trial {trials[place]} is in row {lines[np.argmax(trials == trials[place])]} already"

    return trials, [
        Fault(np.flatnonzero(empty), lambda place: "trial is empty"),
        Fault(np.flatnonzero(~good & ~empty), lambda i: f"trial {shown(texts[i])} is not a whole number, 0 or more"),
        Fault(again, first),
    ]


def outcome_numbers(cells: pl.Series, *, decimal_comma: bool) -> tuple[NDArray[np.float64], list[Fault]]:
    """Outcomes, NaN where the cell is empty, and what is wrong with them.

    `decimal_comma` says that a comma cannot separate thousands here, as in a file with semicolons between cells.

    >>> outcome_numbers(pl.Series(["1.5", "", " +2e3"]), decimal_comma=False)[0].tolist()
    [1.5, nan, 2000.0]
    """
    text = pl.col("text")
    frame = cells.to_frame("text").select(text.str.strip_chars().str.replace_all("\u2212", "-", literal=True))
    frame = frame.with_columns(
        empty=text == "",
        point=text.str.contains(_POINT),
        comma=text.str.contains(_COMMA),
        value=text.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False).fill_null(np.nan),
    )
    texts, empty = frame["text"], _mask(frame["empty"])
    point, comma = _mask(frame["point"]), _mask(frame["comma"])
    outcomes = np.where(point | comma, frame["value"].to_numpy(), np.nan)
    faults = [
        Fault(np.flatnonzero(~(empty | point | comma)), lambda i: _not_a_number(texts[i])),
        Fault(np.flatnonzero(np.isinf(outcomes)), lambda i: f"outcome {shown(texts[i])} is too large"),
    ]
    if comma.any():
        pointed = point & _mask(texts.str.contains(".", literal=True))
        grouped = comma & _mask(texts.str.contains(_GROUPED))
        if not decimal_comma and (comma == grouped).all():
            faults.append(Fault(np.flatnonzero(grouped), lambda i: _grouped(texts[i])))
        if pointed.any():
            few, other = (comma, "point") if comma.sum() <= pointed.sum() else (pointed, "comma")
            faults.append(Fault(np.flatnonzero(few), lambda i: _mixed(texts[i], other)))
    return outcomes, faults


def _mask(series: pl.Series) -> NDArray[np.bool_]:
    return np.asarray(series.to_numpy(), dtype=np.bool_)


def _not_a_number(text: str) -> str:
    start = f"outcome {shown(text)} is not a number"
    if _DATE.match(text):
        return f"{start} but a date; format the cells as numbers"
    if _BOTH.fullmatch(text):
        return f"{start} that can be read in one way only; write it without separators of thousands"
    if any("0" <= character <= "9" for character in text):
        return start
    return f"{start}; leave the cell empty, or report the run as failed (`levers fail`)"


def _grouped(text: str) -> str:
    point, whole = text.replace(",", "."), text.replace(",", "")
    return f"outcome {shown(text)} can be {point} or {whole}; write it with a decimal point or without separators"


def _mixed(text: str, other: str) -> str:
    return f"outcome {shown(text)} is ambiguous, as other rows have a decimal {other}; use one of them throughout"
