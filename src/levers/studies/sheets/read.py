"""Read a sheet that somebody filled in: every row of it, or one error that says what to mend."""

import os
import stat
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from levers.core.space import FREE, Codes, Factor, Space
from levers.errors import SheetError
from levers.studies.sheets.cells import (
    ALONE,
    EMPTY,
    MAX_LISTED,
    UNKNOWN,
    Fault,
    Problems,
    is_date,
    level_codes,
    listed,
    outcome_numbers,
    raise_rows,
    shown,
    trial_numbers,
    utf8,
)
from levers.studies.sheets.table import Columns, Table, read_delimited
from levers.studies.sheets.workbook import read_workbook
from levers.studies.spec import check_names

MAX_TEXT_BYTES = 4 << 30
MAX_WORKBOOK_BYTES = 2 << 30
_ZIP, _OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


@dataclass(frozen=True, eq=False)
class Sheet:
    """The rows of a sheet: line numbers in the file, trial numbers, level positions, outcomes.

    A cell that says that its lever is or was left alone has a code of its own (`cells.ALONE`).

    `studies` are the stamps that say which study each row is of, empty where there is none. What is wrong with other
    rows is in `wrong`; `problem` says why the sheet as a whole cannot be of a study with these factors.
    """

    lines: NDArray[np.int64]
    trials: NDArray[np.int64] | None
    codes: Codes
    outcomes: NDArray[np.float64]
    studies: pl.Series | None = None
    wrong: Problems = field(default_factory=Problems)
    problem: str = ""

    @property
    def n_rows(self) -> int:
        """How many rows there are, without the header and blank rows."""
        return len(self.lines)

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which rows have an outcome."""
        return ~np.isnan(self.outcomes)


def read_sheet(
    path: str | os.PathLike[str],
    space: Space,
    *,
    need_trials: bool = True,
    name: str | None = None,
    check: bool = True,
) -> Sheet:
    """Read a .csv, .tsv or .xlsx file, whatever program and country it was saved in.

    `need_trials=False` is for past data: rows need no trial number, but a level for every factor, which was set. A
    column of trial
    numbers is read, and checked, whenever there is one. `name` is how messages call the file, if not by its path.
    Without `check` wrong rows are left out and told in the sheet, for whoever finds more that is wrong.

    >>> import tempfile
    >>> from pathlib import Path
    >>> space = Space.of({"heat": ["low", "high"], "dose": [1, 2.5]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "runs.csv")
    ...     _ = Path(path).write_text("Trial;dose;heat;outcome\\n0;2,5;low;-0,75\\n1;1,0;high;\\n")
    ...     sheet = read_sheet(path, space)
    >>> sheet.lines.tolist(), sheet.codes.tolist(), sheet.outcomes.tolist()
    ([2, 3], [[0, 1], [1, 0]], [-0.75, nan])
    """
    check_names(space)
    try:
        columns, table = _table(path, space, need_trials)
    except (OSError, SheetError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise SheetError(f"cannot read {name or repr(os.fspath(path))}: {reason}") from error
    sheet = _interpreted(space, columns, table, may_be_alone=need_trials)
    if check:
        if sheet.problem:
            raise SheetError(f"cannot read {name or repr(os.fspath(path))}: {sheet.problem}")
        raise_rows(sheet.wrong.listed, sheet.wrong.n)
    return sheet


def _table(path: str | os.PathLike[str], space: Space, need_trials: bool) -> tuple[Columns, Table]:
    if "\0" in os.fspath(path):
        raise SheetError("a file's name cannot have NUL characters")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise SheetError("it is not a file; give the path of a .csv, .tsv or .xlsx file")
    with open(path, "rb") as file:
        start = file.read(len(_ZIP))
        if start == _OLD_EXCEL:
            raise SheetError("it is an old or a password-protected Excel file; save it as .xlsx without password")
        is_workbook = start == _ZIP or os.fspath(path).lower().endswith((".xlsx", ".xlsm"))
        size, most = os.fstat(file.fileno()).st_size, MAX_WORKBOOK_BYTES if is_workbook else MAX_TEXT_BYTES
        if size > most:
            raise SheetError(f"it has {size >> 20} MB; at most {most >> 20} MB are possible, so split it")
        file.seek(0)
        if is_workbook:
            return read_workbook(file, space, need_trials=need_trials)
        data = file.read()
    return read_delimited(utf8(data), space, need_trials=need_trials)


def _interpreted(space: Space, columns: Columns, table: Table, *, may_be_alone: bool) -> Sheet:
    """Texts to numbers and codes; rows without a single entry are left out, wrong ones too, with the reasons."""
    trials = None
    studies = None if columns.study is None else table.cells.pop(columns.study).str.strip_chars()
    outcomes, faults = outcome_numbers(
        table.cells.pop(columns.outcome), decimal_comma=table.decimal_comma, workbook=table.workbook
    )
    blank = np.isnan(outcomes)
    for fault in faults:
        blank[fault.places] = False
    codes = np.full((len(table.lines), space.n_factors), FREE, dtype=np.int16)
    for k, (factor, place) in enumerate(zip(space.factors, columns.factors, strict=True)):
        if place is not None:
            cells = table.cells.pop(place)
            codes[:, k] = level_codes(cells, factor)
            blank &= codes[:, k] == EMPTY
            faults += _level_faults(cells, codes[:, k], factor)
            if not may_be_alone:
                faults.append(Fault(np.flatnonzero(codes[:, k] <= ALONE), partial(_was_alone, factor.name)))
    if columns.trial is not None:
        trials, trial_faults = trial_numbers(table.cells.pop(columns.trial), table.lines)
        faults += trial_faults
        blank &= trials < 0
        blank[trial_faults[1].places] = False
    wrong, problems = _wrong_rows(table, faults, ~blank)
    left_out = blank | wrong
    kept = slice(None) if not left_out.any() else ~left_out
    return Sheet(
        table.lines[kept],
        None if trials is None else trials[kept],
        codes[kept],
        outcomes[kept],
        None if studies is None else studies.filter(pl.Series(~left_out)),
        problems,
        columns.problem,
    )


def _was_alone(name: str, place: int) -> str:
    return f"factor {shown(name)} was left alone; past runs must have been set, so leave this row out"


def _level_faults(cells: pl.Series, codes: NDArray[np.int16], factor: Factor) -> list[Fault]:
    unknown = np.flatnonzero(codes == UNKNOWN)
    texts = {int(place): str(cells[int(place)]) for place in unknown[:MAX_LISTED]}  # the column itself can go
    name, levels = shown(factor.name), listed(factor.levels)
    spoilt = "; the spreadsheet took it for a date: format the column as text, and type the level again"

    def reason(place: int) -> str:
        text = texts[place]
        return (
            f"{shown(text)} is not a level of factor {name}; its levels are {levels}{spoilt if is_date(text) else ''}"
        )

    return [
        Fault(unknown, reason),
        Fault(np.flatnonzero(codes == EMPTY), lambda place: f"factor {name} is empty"),
    ]


def _wrong_rows(table: Table, faults: list[Fault], counted: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Problems]:
    """Which rows are wrong, and why: the first of them with reasons, and those that could not even be split."""
    wrong = np.zeros(len(table.lines), dtype=np.bool_)
    for fault in faults:
        wrong[fault.places] = True
    wrong &= counted
    first = np.flatnonzero(wrong)[:MAX_LISTED]
    reasons = [
        (int(table.lines[place]), fault.reason(int(place)))
        for fault in faults
        for place in first[np.isin(first, fault.places)]
    ]
    return wrong, Problems([*table.problems.listed, *reasons], int(wrong.sum()) + table.problems.n)
