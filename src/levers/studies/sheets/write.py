"""Write a sheet for people to fill in: safe to open in a spreadsheet, and read back as it was."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Required, TypedDict, Unpack

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from levers.core.space import Space, levels_had
from levers.errors import SheetError, raise_together
from levers.studies.sheets.cells import left_alone_text, level_texts, neutral, shown
from levers.studies.sheets.files import target_of, whole_file
from levers.studies.sheets.ooxml import MAX_ROWS
from levers.studies.sheets.workbook import Number, write_workbook
from levers.studies.spec import LEAVE_ALONE, STAMP, check_names, has_stamp

_MAX_COLUMNS = 16_384
_MAX_TEXT = 32_767  # what a cell of Excel holds
_TO_QUOTE = re.compile(r"[\",;\t\r\n]|^\s|\s$|^$")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, eq=False)
class _Rows:
    """The columns of a sheet to be written, of one length."""

    space: Space
    trials: NDArray[np.int64]
    blocks: NDArray[np.int64]
    codes: NDArray[np.int16]
    outcomes: NDArray[np.float64]
    states: Sequence[str] | None
    study: str | None = None

    def __post_init__(self) -> None:
        check_names(self.space)
        n, k = len(self.trials), self.space.n_factors
        lengths = {len(self.blocks), len(self.outcomes), n if self.states is None else len(self.states)}
        if lengths != {n} or self.codes.shape != (n, k):
            raise SheetError(f"the columns of a sheet of {n} rows and {k} factors differ in length")
        levels = levels_had(self.codes)
        if n and (levels >= np.array(self.space.n_levels)).any():
            raise SheetError("the codes are not those of the space's levels")
        if np.isinf(self.outcomes).any():
            raise SheetError("an outcome is infinite; outcomes are finite numbers, or NaN for none")
        texts = [*self.space.names, *(text for factor in self.space.factors for text in level_texts(factor))]
        wrong = [f"{shown(text)} cannot be in a sheet: {reason}" for text in texts if (reason := _wrong(text))]
        if wrong:
            raise_together(SheetError, wrong)

    @property
    def header(self) -> list[str]:
        names = [neutral(name) for name in self.space.names]
        stamp = () if self.study is None else (STAMP,)
        return ["trial", "block", *stamp, *names, "outcome", *(() if self.states is None else ("state",))]


class SheetColumns(TypedDict, total=False):
    """The columns of a sheet, all of one length, and the study that they are of. Only the first three are needed."""

    trials: Required[ArrayLike]
    blocks: Required[ArrayLike]
    codes: Required[ArrayLike]
    outcomes: ArrayLike | None
    states: Sequence[str] | None
    study: str | None


def sheet_text(space: Space, **columns: Unpack[SheetColumns]) -> str:
    """The sheet as CSV text. A cell is empty where there is no outcome (NaN).

    A lever that is FREE is to be left alone; one that was, and took a level, is as `core.space.with_taken` has it.

    >>> space = Space.of({"heat": ["low", "=high"], "dose": [1, 2.5]})
    >>> print(sheet_text(space, trials=[0, 1], blocks=[0, 0], codes=[[0, 1], [1, 0]], outcomes=[0.5, np.nan]), end="")
    trial,block,heat,dose,outcome
    0,0,low,2.5,0.5
    1,0,'=high,1,
    """
    return _delimited(_rows(space, **columns), ",")


def write_sheet(path: str | os.PathLike[str], space: Space, **columns: Unpack[SheetColumns]) -> None:
    """Write a .csv, .tsv or .xlsx file, by the path's suffix. It is there whole or not at all.

    >>> write_sheet("runs.pdf", Space.sized([2]), trials=[0], blocks=[0], codes=[[0]])
    Traceback (most recent call last):
    levers.errors.SheetError: cannot write 'runs.pdf': its name must end in .csv, .tsv or .xlsx
    """
    target, suffix = target_of(path, (*_DELIMITERS, ".xlsx"), SheetError)
    rows = _rows(space, **columns)
    if suffix == ".xlsx" and (len(rows.trials) >= MAX_ROWS or len(rows.header) > _MAX_COLUMNS):
        raise SheetError(f"cannot write {str(target)!r}: it is too large for Excel; write a .csv file")
    with whole_file(target, SheetError) as file:
        _write(rows, file, suffix)


def check_writable(path: str | os.PathLike[str], space: Space) -> None:
    """Refuse a path to which `write_sheet` could not write, by writing an empty sheet that is gone at once."""
    target, suffix = target_of(path, (*_DELIMITERS, ".xlsx"), SheetError)
    try:
        with tempfile.TemporaryFile(dir=target.parent) as file:
            _write(_rows(space, trials=[], blocks=[], codes=[]), file, suffix)
    except OSError as error:
        raise SheetError(f"cannot write {str(target)!r}: {error.strerror or error}") from error


def _write(rows: _Rows, file: IO[bytes], suffix: str) -> None:
    if suffix == ".xlsx":
        write_workbook(file, _cells(rows), _widths(rows), rows.header.index("outcome"))
        return
    text = _delimited(rows, _DELIMITERS[suffix])
    # without the mark, Excel takes the text for that of an old Windows
    file.write(text.encode("utf-8" if text.isascii() else "utf-8-sig"))


def _rows(space: Space, **columns: Unpack[SheetColumns]) -> _Rows:
    numbers = np.asarray(columns["trials"], dtype=np.int64)
    codes = np.asarray(columns["codes"], dtype=np.int16)
    codes = codes.reshape(-1, space.n_factors) if len(numbers) == 0 else codes
    given = columns.get("outcomes")
    outcomes = np.array(np.full(len(numbers), np.nan) if given is None else given, dtype=np.float64)  # None becomes NaN
    blocks = np.asarray(columns["blocks"], dtype=np.int64)
    study = columns.get("study") if has_stamp(space) else None
    return _Rows(space, numbers, blocks, codes, outcomes, columns.get("states"), study)


def _delimited(rows: _Rows, delimiter: str) -> str:
    columns = [pl.Series(rows.trials), pl.Series(rows.blocks)]
    if rows.study is not None:
        columns.append(pl.Series([_quoted(neutral(rows.study))] * len(rows.trials), dtype=pl.String))
    for k, factor in enumerate(rows.space.factors):
        texts = pl.Series([_quoted(text) for text in cell_texts(level_texts(factor))], dtype=pl.String)
        columns.append(texts.gather(cell_places(rows.codes[:, k], factor.n_levels)))
    columns.append(pl.Series(rows.outcomes).fill_nan(None))
    if rows.states is not None:
        columns.append(pl.Series([_quoted(neutral(state)) for state in rows.states], dtype=pl.String))
    frame = pl.DataFrame([column.alias(str(k)) for k, column in enumerate(columns)])
    body = frame.write_csv(include_header=False, separator=delimiter, quote_style="never")
    return delimiter.join(_quoted(name) for name in rows.header) + "\n" + body


def _cells(rows: _Rows) -> Iterator[Sequence[Any]]:
    yield rows.header
    cells = [
        [*map(_value, factor.levels, level_texts(factor)), *cell_texts(level_texts(factor))[factor.n_levels :]]
        for factor in rows.space.factors
    ]
    sizes = rows.space.n_levels
    places = np.column_stack([cell_places(rows.codes[:, k], m) for k, m in enumerate(sizes)])
    for i, (trial, block, outcome) in enumerate(zip(rows.trials, rows.blocks, rows.outcomes.tolist(), strict=True)):
        levels = [cells[k][place] for k, place in enumerate(places[i].tolist())]
        value = None if np.isnan(outcome) else Number(repr(outcome))
        state = () if rows.states is None else (neutral(rows.states[i]),)
        stamp = () if rows.study is None else (neutral(rows.study),)
        yield [Number(trial), Number(block), *stamp, *levels, value, *state]


def cell_texts(levels: Sequence[str]) -> list[str]:
    """What the cells of a factor can say: its levels, that it is to be left alone, and that it was and took a level.

    >>> cell_texts(["low", "high"])
    ['low', 'high', 'leave alone', 'left alone: low', 'left alone: high']
    """
    return [*levels, LEAVE_ALONE, *map(left_alone_text, levels)]


def cell_places(codes: NDArray[np.int16], n_levels: int) -> NDArray[np.int64]:
    """Which of these texts the codes of a factor stand for.

    >>> cell_places(np.array([1, -1, -2], dtype=np.int16), 2).tolist()
    [1, 2, 3]
    """
    wide = codes.astype(np.int64)
    return np.where(wide < 0, n_levels - 1 - wide, wide)


def _widths(rows: _Rows) -> list[int]:
    """How many characters the widest cell of each column has, as far as it is to be seen at once."""
    widths = [len(name) for name in rows.header]
    first = 2 if rows.study is None else 3
    if rows.study is not None:
        widths[2] = max(widths[2], len(rows.study))
    for k, factor in enumerate(rows.space.factors, first):
        texts = cell_texts(level_texts(factor)) if (rows.codes[:, k - first] < 0).any() else level_texts(factor)
        widths[k] = max(widths[k], *(len(text) for text in texts))
    return widths


def _value(level: object, text: str) -> object:
    if isinstance(level, bool):
        return level
    return text if isinstance(level, str) else Number(text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _TO_QUOTE.search(text) else text


def _wrong(text: str) -> str:
    if "\0" in text:
        return "it has a NUL character"
    if len(text) > _MAX_TEXT:
        return f"it has more than {_MAX_TEXT} characters"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it has half a character"
    return ""
