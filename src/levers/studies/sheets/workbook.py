"""Excel workbooks: the first sheet as columns of texts, and a new workbook that holds no formula."""

import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import IO, Any

import numpy as np
import polars as pl

from levers.core.space import Space
from levers.errors import SheetError, to_install
from levers.studies.sheets.cells import Problems
from levers.studies.sheets.ooxml import MAX_ROWS, sheet_rows
from levers.studies.sheets.table import Columns, Table, match_columns

_NARROWEST, _WIDEST = 8, 40
_NO_RESULT = "a formula without a stored result; save it in a spreadsheet program"
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def read_workbook(file: IO[bytes], space: Space, *, need_trials: bool) -> tuple[Columns, Table]:
    """Read the first sheet of a workbook. Whatever is wrong with the file is a SheetError."""
    lines: list[int] = []
    problems = Problems()
    try:
        rows = sheet_rows(file)
        top = next((row for row in rows if any(text.strip() for text in row.texts.values())), None)
        if top is None:
            raise SheetError("its first sheet is empty; the first row must hold the names of the columns")
        names = [_text(top.texts.get(k, "")) for k in range(max(top.texts) + 1)]
        columns = match_columns(names, space, need_trials=need_trials)
        cells: dict[int, list[str]] = {k: [] for k in columns.used}
        for row in rows:
            unknown = next((k for k in columns.used if k in row.formulas), None)
            if unknown is not None:
                problems.add(row.number, f"{names[unknown].strip()!r} is {_NO_RESULT}")
            elif row.texts:
                lines.append(row.number)
                for k, column in cells.items():
                    column.append(_text(row.texts.get(k, "")))
    except SheetError:
        raise
    except Exception as error:  # a damaged archive raises nearly anything
        raise SheetError(
            f"it cannot be read as an Excel workbook ({type(error).__name__}); save it again as .xlsx or as .csv"
        ) from error
    series = {k: pl.Series(column, dtype=pl.String) for k, column in cells.items()}
    return columns, Table(np.array(lines, dtype=np.int64), series, problems, decimal_comma=False, workbook=True)


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
        raise SheetError(f"Excel workbooks need openpyxl: {to_install('excel')}, or use a .csv file") from None
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


def _text(found: str) -> str:
    """A text without the escapes of characters that XML cannot hold."""
    if "_x" not in found:
        return found
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), found).encode("utf-8", "replace").decode()
