"""Excel workbooks: the first sheet as columns of texts, and a new workbook that holds no formula."""

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from pathlib import PurePosixPath
from types import ModuleType
from typing import IO, Any

import numpy as np
import polars as pl

from levers.core.space import Space
from levers.errors import SheetError
from levers.studies.sheets.cells import Problems
from levers.studies.sheets.table import Columns, Table, match_columns

MAX_ROWS = 1_048_576
MAX_CELLS = 60_000_000
MAX_UNPACKED = 1 << 30
_NARROWEST, _WIDEST = 8, 40
_SUSPECT_SIZE, _SUSPECT_RATIO = 50 << 20, 200  # honest sheets shrink ten to fifty times
_FORMULA_TAG = re.compile(rb"<(?:\w+:)?f[\s/>]")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def read_workbook(file: IO[bytes], space: Space, *, need_trials: bool) -> tuple[Columns, Table]:
    """Read the first sheet of a workbook. Whatever is wrong with the file is a SheetError."""
    openpyxl = _openpyxl()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and dates that are of no interest here
            has_formulas = _check_parts(file)
            rows = enumerate(_rows(openpyxl, file), 1)
            top, names = next(((row, cells) for row, cells in rows if "".join(cells).strip()), (0, []))
            if not top:
                raise SheetError("its first sheet is empty; the first row must hold the names of the columns")
            columns = match_columns(names, space, need_trials=need_trials)
            lines: list[int] = []
            cells: dict[int, list[str]] = {k: [] for k in columns.used}
            for row, texts in rows:
                if texts:
                    lines.append(row)
                    for k, column in cells.items():
                        column.append(texts[k] if k < len(texts) else "")
            formulas = set(_formulas(openpyxl, file, columns)) if has_formulas else set()
    except SheetError:
        raise
    except Exception as error:  # a damaged workbook makes openpyxl raise nearly anything
        raise SheetError(
            f"it cannot be read as an Excel workbook ({type(error).__name__}); save it again as .xlsx or as .csv"
        ) from error
    problems, wrong = Problems(), set()
    for place, row in enumerate(lines):
        for k in columns.used if formulas else ():
            if (row, k) in formulas and not cells[k][place]:
                wrong.add(place)
                problems.add(
                    row, f"{names[k].strip()!r} is a formula without a stored result; save it in a spreadsheet program"
                )
                break
    kept = [place for place in range(len(lines)) if place not in wrong]
    series = {k: pl.Series([column[i] for i in kept], dtype=pl.String) for k, column in cells.items()}
    return columns, Table(np.array(lines, dtype=np.int64)[kept], series, problems, decimal_comma=False, workbook=True)


def write_workbook(file: IO[bytes], rows: Iterator[Sequence[Any]], widths: Sequence[int], outcome: int) -> None:
    """Write rows of cells: texts as texts, `Number` texts as numbers, None as nothing.

    The header stays in sight, columns are as wide as their texts, and the column of outcomes takes numbers alone.
    """
    openpyxl = _openpyxl()
    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet("runs")
    sheet.freeze_panes = "A2"
    letter = openpyxl.utils.get_column_letter
    for k, width in enumerate(widths, 1):
        sheet.column_dimensions[letter(k)].width = min(max(width + 2, _NARROWEST), _WIDEST)
    numbers = openpyxl.worksheet.datavalidation.DataValidation(
        type="decimal",
        operator="between",
        formula1="-1E+100",
        formula2="1E+100",
        allow_blank=True,
        showErrorMessage=True,
        errorTitle="Not a number",
        error="Type the outcome as a number. Leave the cell empty while the run has not been made.",
    )
    numbers.add(f"{letter(outcome + 1)}2:{letter(outcome + 1)}{MAX_ROWS}")
    sheet.data_validations.append(numbers)
    for row in rows:
        sheet.append([_cell(openpyxl, sheet, value) for value in row])
    workbook.save(file)


class Number(str):
    """The text of a number, to be stored as a number with all its digits."""

    __slots__ = ()


def _openpyxl() -> ModuleType:
    try:
        import openpyxl
        import openpyxl.cell
        import openpyxl.worksheet.datavalidation
    except ImportError:
        raise SheetError("Excel workbooks need openpyxl: pip install 'levers[excel]', or use a .csv file") from None
    return openpyxl


def _cell(openpyxl: ModuleType, sheet: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool):
        return openpyxl.cell.WriteOnlyCell(sheet, value)
    text = value if isinstance(value, Number) else _TO_ESCAPE.sub(lambda m: f"_x{ord(m[0]):04X}_", value)
    cell = openpyxl.cell.WriteOnlyCell(sheet, str(text))
    # set by hand: openpyxl takes some texts for formulas or errors, and cuts numbers to 16 digits
    cell.data_type = "n" if isinstance(value, Number) else "s"
    return cell


def _check_parts(file: IO[bytes]) -> bool:
    """Refuse a workbook that unpacks to far more than it is; say whether it has formulas."""
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        packed = sum(part.compress_size for part in parts)
        if unpacked > MAX_UNPACKED or (unpacked > _SUSPECT_SIZE and unpacked > _SUSPECT_RATIO * packed):
            raise SheetError(f"it unpacks to {unpacked >> 20} MB, which is too much; save the sheet as .csv")
        for part in parts:
            if PurePosixPath(part.filename).parent.name == "worksheets":
                with archive.open(part) as stream:
                    tail = b""
                    while piece := stream.read(1 << 20):
                        if _FORMULA_TAG.search(tail + piece):
                            return True
                        tail = piece[-64:]
    return False


def _sheet_rows(openpyxl: ModuleType, file: IO[bytes], *, data_only: bool) -> Iterator[tuple[Any, ...]]:
    file.seek(0)
    workbook = openpyxl.load_workbook(file, read_only=True, data_only=data_only, keep_links=False)
    if not workbook.worksheets:
        raise SheetError("it has no sheet with cells; put the rows into its first sheet")
    sheet = workbook.worksheets[0]
    sheet.reset_dimensions()  # what a file says about its size is often wrong
    rows: Iterator[tuple[Any, ...]] = sheet.iter_rows(max_row=MAX_ROWS)
    return rows


def _rows(openpyxl: ModuleType, file: IO[bytes]) -> Iterator[list[str]]:
    n_cells = 0
    for row in _sheet_rows(openpyxl, file, data_only=True):
        n_cells += len(row)  # a cell far to the right makes a row as long, at no cost to whoever sends it
        if n_cells > MAX_CELLS:
            raise SheetError(f"it has more than {MAX_CELLS:,} cells; remove what is far right, or save it as .csv")
        yield [_text(cell.value) for cell in row]


def _formulas(openpyxl: ModuleType, file: IO[bytes], columns: Columns) -> Iterator[tuple[int, int]]:
    for row, cells in enumerate(_sheet_rows(openpyxl, file, data_only=False), 1):
        for k in columns.used:
            if k < len(cells) and cells[k].data_type == "f":
                yield row, k


def _text(value: object) -> str:
    """A cell's value as the text that a CSV file would have."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    text = str(value)
    if "_x" in text:
        text = _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text).encode("utf-8", "replace").decode()
    return text
