"""A sheet as a table: which column is which, and text files with commas, semicolons or tabs as columns of texts."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper

import numpy as np
import polars as pl
from numpy.typing import NDArray

from levers.core.space import Space
from levers.errors import SheetError
from levers.studies.sheets.cells import Problems, column_key, listed, neutral, shown
from levers.studies.spec import RESERVED, STAMP, has_stamp

DELIMITERS = (",", ";", "\t")
_SEP_LINE = re.compile(rb"\s*\"?sep=(.)\"?[ ]*(?:\r\n|\r|\n|$)", re.IGNORECASE)
_PIECE = 1 << 24
_BATCH = 2_000  # few enough to stay in the processor's cache


@dataclass(frozen=True)
class Columns:
    """Positions of the columns that are read; None for those that a sheet does not have.

    `problem` says why a run sheet cannot be of a study with these factors. It waits until it is known whose it is.

    >>> space = Space.of({"heat": ["low", "high"], "=dose": [1, 2]})
    >>> match_columns(["Trial", " heat", "notes", "'=dose", "outcome"], space, need_trials=True)
    Columns(trial=0, outcome=4, factors=(1, 3), study=None, problem='')
    """

    trial: int | None
    outcome: int
    factors: tuple[int | None, ...]
    study: int | None = None
    problem: str = ""

    @property
    def used(self) -> tuple[int, ...]:
        """The positions that are read, from left to right."""
        return tuple(sorted(k for k in (self.trial, self.outcome, self.study, *self.factors) if k is not None))


def recognised(header: Sequence[str], space: Space) -> int:
    """How many of the names in a header are known: what tells the right delimiter from the others.

    >>> recognised(["trial", "heat;outcome"], Space.of({"heat": [1, 2]}))
    1
    """
    known = {"trial", "outcome", STAMP, *(column_key(neutral(name)).casefold() for name in space.names)}
    return len(known & {column_key(cell).casefold() for cell in header})


def match_columns(header: Sequence[str], space: Space, *, need_trials: bool) -> Columns:
    """Find the columns by their names: factors by exact name, else without spaces around it, else in any case.

    Columns that are not known may stand beside those of all factors. If one of these is missing, another column may be
    it under a wrong name, with levels that nobody would check.
    """
    keys = [column_key(cell) for cell in header]
    fixed: dict[str, int | None] = {STAMP: None}
    for name in ("trial", "outcome", *([STAMP] if has_stamp(space) else [])):
        places = [k for k, key in enumerate(keys) if key.casefold() == name]
        if len(places) > 1:
            raise SheetError(f"{len(places)} columns are named {name!r}; keep one of them")
        fixed[name] = places[0] if places else None
    factors = _match_factors(header, keys, space.names, {k for k in fixed.values() if k is not None})
    missing = ["outcome"] if fixed["outcome"] is None else []
    missing = ["trial", *missing] if need_trials and fixed["trial"] is None else missing
    unnamed = [name for name, k in zip(space.names, factors, strict=True) if k is None]
    found = listed([cell for cell in header if cell.strip()]) or "none"
    missing = missing if need_trials else [*missing, *unnamed]
    if missing or fixed["outcome"] is None:
        raise SheetError(
            f"there is no column {listed(missing)}; the columns found are {found}. "
            "The first row must hold the names, with commas, semicolons or tabs between them"
        )
    others = [header[k] for k, key in enumerate(keys) if k not in factors and key and key.casefold() not in RESERVED]
    problem = f"there is no column {listed(unnamed)}, but {listed(others)}" if unnamed and others else ""
    return Columns(fixed["trial"], fixed["outcome"], factors, fixed[STAMP], problem)


def _match_factors(
    header: Sequence[str], keys: Sequence[str], names: Sequence[str], taken: set[int]
) -> tuple[int | None, ...]:
    found: dict[int, int] = {}
    used = set(taken)
    name_keys = [column_key(neutral(name)) for name in names]
    rounds: tuple[tuple[Sequence[str], Sequence[str]], ...] = (
        (header, [neutral(name) for name in names]),
        (header, names),
        (keys, name_keys),
        ([key.casefold() for key in keys], [key.casefold() for key in name_keys]),
    )
    for number, (cells, wanted) in enumerate(rounds):
        by_cell = _grouped([(cell, k) for k, cell in enumerate(cells) if k not in used])
        by_name = _grouped([(text, k) for k, text in enumerate(wanted) if k not in found])
        for text, factors in by_name.items():
            places = by_cell.get(text, [])
            if len(places) > 1:
                raise SheetError(f"{len(places)} columns are named {shown(text)}; keep one of them")
            if places and len(factors) > 1:
                raise SheetError(
                    f"column {shown(header[places[0]])} can be factor {' or '.join(shown(names[k]) for k in factors)}; "
                    "write the name as it is in the study"
                )
            if places:
                found[factors[0]] = places[0]
                used.add(places[0])
        if number == 2:  # what is left under the name of a factor is a second column of it
            again = [k for k, key in enumerate(keys) if k not in used and key in name_keys]
            if again:
                raise SheetError(f"2 columns are named {shown(keys[again[0]])}; keep one of them")
    return tuple(found.get(k) for k in range(len(names)))


def _grouped(pairs: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for text, k in pairs:
        groups.setdefault(text, []).append(k)
    return groups


@dataclass(frozen=True, eq=False)
class Table:
    """The texts of the columns that are read, the file's row of each, and the rows that could not be split."""

    lines: NDArray[np.int64]
    cells: dict[int, pl.Series]
    problems: Problems
    decimal_comma: bool
    workbook: bool = False


@dataclass(frozen=True)
class _Header:
    row: int
    names: tuple[str, ...]
    delimiter: str


def read_delimited(data: bytes, space: Space, *, need_trials: bool) -> tuple[Columns, Table]:
    """Split the UTF-8 text of a file.

    >>> space = Space.of({"heat": ["low", "high"]})
    >>> columns, table = read_delimited(b"trial;heat;outcome\\n0;low;1,5\\n", space, need_trials=True)
    >>> table.lines.tolist(), table.cells[columns.outcome].to_list(), table.decimal_comma
    ([2], ['1,5'], True)
    """
    delimiters: Sequence[str] = DELIMITERS
    if mark := _SEP_LINE.match(data):
        delimiters = (mark[1].decode("latin-1"),)
        if delimiters[0] not in DELIMITERS:
            raise SheetError(f"its cells are separated by {delimiters[0]!r}; use commas, semicolons or tabs")
        data = data[mark.end() :]
    header = _find_header(data, space, delimiters)
    columns = match_columns(header.names, space, need_trials=need_trials)
    table = _read_plain(data, header, columns)
    return columns, table or _read_quoted(data, header, columns)


def _records(data: bytes, delimiter: str) -> Iterator[list[str]]:
    lines = TextIOWrapper(BytesIO(data), encoding="utf-8", newline="")
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _find_header(data: bytes, space: Space, delimiters: Sequence[str]) -> _Header:
    """The first row that is not blank, split by the delimiter that makes most sense of it."""
    best, score = None, (-1, -1)
    for delimiter in delimiters:
        try:
            for row, names in enumerate(_records(data, delimiter), 1):
                if "".join(names).strip():
                    known = (recognised(names, space), len(names))
                    if known > score:
                        best, score = _Header(row, tuple(names), delimiter), known
                    break
        except csv.Error:  # with this delimiter the quotes do not fit; another may do
            continue
    if best is None:
        what = "its first row has a quote that is not closed" if data.strip() else "it is empty"
        raise SheetError(f"{what}; the first row must hold the names of the columns")
    return best


def _read_plain(data: bytes, header: _Header, columns: Columns) -> Table | None:
    """The fast way, for files without quotes whose rows all have as many cells as the header; None for others."""
    if b'"' in data:
        return None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data.endswith(b"\n"):
        data += b"\n"
    ends, counts = _line_ends(data, header.delimiter)
    lengths = np.diff(ends, prepend=-1) - 1
    rows = np.flatnonzero(lengths[header.row :]) + header.row
    if (counts[rows] != len(header.names) - 1).any():
        return None
    body = data[ends[header.row - 1] + 1 :]
    if len(rows) < len(ends) - header.row:
        body = re.sub(rb"\n{2,}", b"\n", body).lstrip(b"\n")
    used = list(columns.used)
    cells = {k: pl.Series([], dtype=pl.String) for k in used}
    if len(rows):
        try:
            frame = pl.read_csv(
                body, has_header=False, separator=header.delimiter, quote_char=None, infer_schema=False, columns=used
            )
        except pl.exceptions.PolarsError:  # the slow way says what is wrong, and where
            return None
        if frame.height != len(rows):
            return None
        cells = dict(zip(used, frame.fill_null("").get_columns(), strict=True))
    return Table(rows.astype(np.int64) + 1, cells, Problems(), header.delimiter == ";")


def _line_ends(data: bytes, delimiter: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where lines end, and how many delimiters each has. In pieces, as an index of all delimiters is a large thing."""
    everything = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(everything == ord("\n"))
    before = np.zeros(len(ends) + 1, dtype=np.int64)
    seen = line = 0
    for start in range(0, len(data), _PIECE):
        places = np.flatnonzero(everything[start : start + _PIECE] == ord(delimiter)) + start
        stop = int(np.searchsorted(ends, start + _PIECE))
        before[line + 1 : stop + 1] = seen + np.searchsorted(places, ends[line:stop])
        seen, line = seen + len(places), stop
    return ends, np.diff(before)


def _read_quoted(data: bytes, header: _Header, columns: Columns) -> Table:
    """The careful way: row by row, with quotes, and a reason for each row that cannot be split."""
    n_cells, problems = len(header.names), Problems()
    lines: list[int] = []
    batch: list[list[str]] = []
    parts: dict[int, list[pl.Series]] = {k: [pl.Series([], dtype=pl.String)] for k in columns.used}

    def flush() -> None:
        for k in columns.used:
            parts[k].append(pl.Series([cells[k] for cells in batch], dtype=pl.String))
        batch.clear()

    row = 0
    try:
        for row, cells in enumerate(_records(data, header.delimiter), 1):
            if row <= header.row:
                continue
            if len(cells) == n_cells:
                lines.append(row)
                batch.append(cells)
                if len(batch) == _BATCH:
                    flush()
            elif "".join(cells).strip():
                problems.add(row, f"it has {len(cells)} cells and the header has {n_cells}")
    except csv.Error:
        problems.add(row + 1, "a quote is not closed, or has text after it, so the rows from here on cannot be read")
    flush()
    joined = {k: pl.concat(series) for k, series in parts.items()}
    return Table(np.array(lines, dtype=np.int64), joined, problems, header.delimiter == ";")
