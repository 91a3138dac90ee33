"""Run sheets: what people print, fill in with a spreadsheet, and hand back. All of a sheet is read, or none of it."""

from levers.studies.reserved import RESERVED
from levers.studies.sheets.reading import Sheet, read_sheet
from levers.studies.sheets.rows import MAX_LISTED, raise_rows
from levers.studies.sheets.writing import sheet_text, write_sheet

__all__ = ["MAX_LISTED", "RESERVED", "Sheet", "raise_rows", "read_sheet", "sheet_text", "write_sheet"]
