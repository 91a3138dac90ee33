"""The cells of an Excel workbook's first sheet, read as a stream: what it costs is bounded, whatever the file holds.

A workbook is a zip archive of XML parts. Four are read: the list of sheets, the texts that cells share, the formats
that make a number a date, and the sheet. Fonts, colours, charts and other sheets are never unpacked. A small file can
unpack to a thousand times its size, so every part has a limit in bytes and in what it may list.
"""

import math
import posixpath
import pyexpat
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import IO, NamedTuple

from levers.errors import SheetError

MAX_UNPACKED = 1 << 30
MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
MAX_CELLS = 60_000_000
MAX_TEXTS = 4_000_000
MAX_FORMATS = 65_536
"""As many as Excel itself has of rows, columns and formats; of cells and texts, as many as fit into memory."""
_SUSPECT_SIZE, _SUSPECT_RATIO = 50 << 20, 200  # honest sheets shrink ten to fifty times
_SMALL_PART = 16 << 20  # the list of sheets, or the formats
_PIECE, _LONGEST_TOKEN = 1 << 18, 4 << 20
_SPACES = ("http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://purl.oclc.org/ooxml/spreadsheetml/main")
_TAGS = {
    f"{space} {tag}": tag
    for space in _SPACES
    for tag in ("sheet", "workbookPr", "si", "t", "rPh", "numFmt", "cellXfs", "xf", "row", "c", "v", "f", "is")
}
_DATES = {*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)}  # formats without a text of their own
_DURATION = 46
_NOT_FORMAT = re.compile(r'"[^"]*"|\[(?!h+\]|m+\]|s+\])[^\]]*\]|\\.|_.', re.IGNORECASE)
_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_COLUMN = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_EPOCHS = (datetime(1899, 12, 30), datetime(1904, 1, 1))
_LEAP = 60  # 29 February 1900, a day that there was only in Lotus 1-2-3, and is in Excel ever since
_BAD = "#VALUE!"
Attributes = Mapping[str, str]


class Row(NamedTuple):
    """A row that is there: its number, the texts of its cells by column from 0, and formulas without a result."""

    number: int
    texts: dict[int, str]
    formulas: set[int]


def sheet_rows(file: IO[bytes]) -> Iterator[Row]:
    """The rows of the first sheet, from the top. Dates are texts such as 2024-01-05, true and false are words.

    >>> import io
    >>> from levers.studies.sheets.workbook import Number, write_workbook
    >>> file = io.BytesIO()
    >>> write_workbook(file, iter([["trial", "outcome"], [Number(0), Number("2.50")]]), [5, 7], 1)
    >>> [(row.number, row.texts) for row in sheet_rows(file)]
    [(1, {0: 'trial', 1: 'outcome'}), (2, {0: '0', 1: '2.5'})]
    """
    with zipfile.ZipFile(file) as archive:
        _check_size(archive)
        parts = _Parts(archive)
        sheet = parts.first_sheet()
        reader = _SheetReader(parts.texts(), parts.formats(), _EPOCHS[parts.from_1904])
        for _ in _parsed(archive, sheet, MAX_UNPACKED, reader.start, reader.end, reader.text):
            yield from reader.rows
            reader.rows.clear()
        yield from reader.rows


def _check_size(archive: zipfile.ZipFile) -> None:
    """Refuse a workbook that says itself that it unpacks to far more than it is."""
    parts = archive.infolist()
    unpacked = sum(part.file_size for part in parts)
    packed = sum(part.compress_size for part in parts)
    if unpacked > MAX_UNPACKED or (unpacked > _SUSPECT_SIZE and unpacked > _SUSPECT_RATIO * packed):
        raise SheetError(f"it unpacks to {unpacked >> 20} MB, which is too much; save the sheet as .csv")


def _parsed(
    archive: zipfile.ZipFile,
    name: str,
    most: int,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Parse a part in pieces, and pause after each, so that what was found can be taken.

    A part without definitions of its own cannot make a few bytes stand for many.
    """
    parser = pyexpat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = _no_definitions
    size = 0
    with archive.open(name) as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)  # what the archive says about sizes need not be true
            if size > most:
                raise SheetError(f"its part {name[:60]!r} unpacks to more than {most >> 20} MB; save the sheet as .csv")
            parser.Parse(piece, False)
            if size - parser.CurrentByteIndex > _LONGEST_TOKEN:  # which is looked at again with every piece
                raise SheetError(f"its part {name[:60]!r} has a name or a value of megabytes; save the sheet as .csv")
            yield
    parser.Parse(b"", True)


def _no_definitions(*_: object) -> None:
    raise SheetError("it defines names for texts, which no spreadsheet program does; save it again as .xlsx")


@dataclass
class _Parts:
    """The parts of a workbook by what they are for."""

    archive: zipfile.ZipFile
    from_1904: bool = False
    _related: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def first_sheet(self) -> str:
        """The part of the first sheet that has cells; charts have sheets of their own."""
        book = next((target for _, target in self._relations("", "/officeDocument")), "xl/workbook.xml")
        folder, name = posixpath.split(book)
        self._links = f"{folder}/_rels/{name}.rels"
        sheets = dict(self._relations(self._links, "/worksheet", folder))
        order: list[str] = []

        def start(tag: str, found: Attributes) -> None:
            kind = _TAGS.get(tag)
            if kind == "workbookPr":
                self.from_1904 = found.get("date1904", "0").lower() in ("1", "true")
            elif kind == "sheet":
                order.extend(value for key, value in found.items() if key.endswith(" id"))

        self._read(book, start)
        known = [sheets[one] for one in order if one in sheets]
        if not known:
            raise SheetError("it has no sheet with cells; put the rows into its first sheet")
        return known[0]

    def texts(self) -> list[str]:
        """The texts that cells share, without what says how they are pronounced."""
        texts: list[str] = []
        pieces: list[str] = []
        inside = spoken = 0

        def start(tag: str, _: Attributes) -> None:
            nonlocal inside, spoken
            kind = _TAGS.get(tag)
            if kind == "rPh":
                spoken += 1
            elif kind == "t" and not spoken:
                inside += 1

        def end(tag: str) -> None:
            nonlocal inside, spoken
            kind = _TAGS.get(tag)
            if kind == "si":
                texts.append("".join(pieces))
                pieces.clear()
                if len(texts) > MAX_TEXTS:
                    raise SheetError(f"it has more than {MAX_TEXTS:,} texts; save the sheet as .csv")
            elif kind == "rPh":
                spoken -= 1
            elif kind == "t" and not spoken:
                inside -= 1

        def text(found: str) -> None:
            if inside:
                pieces.append(found)

        for _, part in self._relations(self._links, "/sharedStrings", posixpath.dirname(self._links)[: -len("/_rels")]):
            self._read(part, start, end, text, MAX_UNPACKED)
        return texts

    def formats(self) -> list[str]:
        """For each format of cells whether it shows a number as a "date", as a "duration", or as itself: ""."""
        own: dict[str, str] = {}
        kinds: list[str] = []
        inside = False

        def start(tag: str, found: Attributes) -> None:
            nonlocal inside
            kind = _TAGS.get(tag)
            if kind == "cellXfs":
                inside = True
            elif kind == "numFmt" and "numFmtId" in found:
                own[found["numFmtId"]] = _kind_of(found.get("formatCode", ""))
            elif kind == "xf" and inside:
                kinds.append(found.get("numFmtId", "0"))
            if len(kinds) > MAX_FORMATS or len(own) > MAX_FORMATS:
                raise SheetError(f"it has more than {MAX_FORMATS:,} formats of cells; save the sheet as .csv")

        def end(tag: str) -> None:
            nonlocal inside
            inside = inside and _TAGS.get(tag) != "cellXfs"

        for _, part in self._relations(self._links, "/styles", posixpath.dirname(self._links)[: -len("/_rels")]):
            self._read(part, start, end)
        return [own[one] if one in own else _known_kind(one) for one in kinds]

    def _relations(self, part: str, kind: str, folder: str = "") -> list[tuple[str, str]]:
        """Names and parts that a part refers to, of one kind."""
        part = part or "_rels/.rels"
        if part not in self._related:
            found: list[tuple[str, str]] = []
            self._related[part] = found

            def start(tag: str, given: Attributes) -> None:
                if tag.endswith(" Relationship") and given.get("TargetMode") != "External":
                    found.append((given.get("Type", ""), given.get("Id", "") + "\n" + given.get("Target", "")))

            if part in self.archive.namelist():
                self._read(part, start)
        pairs = [joined.partition("\n") for type_, joined in self._related[part] if type_.endswith(kind)]
        return [(name, posixpath.normpath(posixpath.join("/", folder, target))[1:]) for name, _, target in pairs]

    def _read(
        self,
        part: str,
        start: Callable[[str, Attributes], None],
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
        most: int | None = None,
    ) -> None:
        for _ in _parsed(self.archive, part, most or _SMALL_PART, start, end, text):
            pass


def _kind_of(code: str) -> str:
    plain = _NOT_FORMAT.sub("", code[:500].partition(";")[0])
    if _ELAPSED.search(plain):
        return "duration"
    return "date" if any(letter in "dmhysDMHYS" for letter in plain) else ""


def _known_kind(number: str) -> str:
    known = int(number) if number.isdigit() and len(number) < 6 else 0
    return "date" if known in _DATES else "duration" if known == _DURATION else ""


class _SheetReader:
    """Makes rows of what the parser finds in a sheet."""

    def __init__(self, texts: list[str], formats: list[str], epoch: datetime) -> None:
        self._texts, self._formats, self._epoch = texts, formats, epoch
        self.rows: list[Row] = []
        self._row: Row | None = None
        self._number = self._column = self._n_cells = 0
        self._in_cell = self._in_value = self._has_formula = False
        self._spoken = 0
        self._kind = self._format = ""
        self._pieces: list[str] = []

    def start(self, tag: str, found: Attributes) -> None:
        """An element begins."""
        kind = _TAGS.get(tag)
        if kind == "c" and self._row is not None:
            self._begin_cell(found)
        elif self._in_cell and (kind == "v" or (kind == "t" and not self._spoken)):
            self._in_value = True
        elif kind == "f":
            self._has_formula = self._in_cell
        elif kind == "rPh":
            self._spoken += 1
        elif kind == "row":
            self._number = _number(found["r"], MAX_ROWS) if "r" in found else self._number + 1
            if self._number > MAX_ROWS:
                raise SheetError(f"it has more than {MAX_ROWS:,} rows; split it")
            self._row, self._column = Row(self._number, {}, set()), -1

    def end(self, tag: str) -> None:
        """An element ends."""
        kind = _TAGS.get(tag)
        if kind in ("v", "t"):
            self._in_value = False
        elif kind == "c" and self._in_cell and self._row is not None:
            self._in_cell = False
            text = self._value("".join(self._pieces)) if self._pieces else ""
            if text:
                self._row.texts[self._column] = text
            elif self._has_formula:
                self._row.formulas.add(self._column)
        elif kind == "row" and self._row is not None:
            self.rows.append(self._row)
            self._row = None
        elif kind == "rPh":
            self._spoken -= 1

    def text(self, found: str) -> None:
        """The text of an element, or a part of it."""
        if self._in_value:
            self._pieces.append(found)

    def _begin_cell(self, found: Attributes) -> None:
        self._n_cells += 1
        if self._n_cells > MAX_CELLS:
            raise SheetError(f"it has more than {MAX_CELLS:,} cells; remove what is not needed, or save it as .csv")
        self._column = _column(found["r"]) if "r" in found else self._column + 1
        if self._column >= MAX_COLUMNS:
            raise SheetError(f"it has more than {MAX_COLUMNS:,} columns; remove what is far right")
        self._kind, self._format = found.get("t", "n"), found.get("s", "")
        self._in_cell, self._in_value, self._has_formula = True, False, False
        self._pieces.clear()

    def _value(self, text: str) -> str:
        """A cell's value as the text that a CSV file would have."""
        match self._kind:
            case "n":
                return self._shown(text.strip())
            case "s":
                return self._texts[int(text)]  # one that there is not makes the workbook a damaged one
            case "b":
                return "true" if int(text) else "false"
            case "d":
                return _moment(datetime.fromisoformat(text.strip()))
        return text

    def _shown(self, text: str) -> str:
        if len(text) > 400:
            raise SheetError("a cell holds a number of more than 400 digits")
        if not text:
            return ""
        place = int(self._format) if self._format.isdigit() else 0
        kind = self._formats[place] if place < len(self._formats) else ""
        value = float(text)
        if kind:
            return _dated(value, kind, self._epoch)
        if not any(mark in text for mark in ".eE"):
            return str(int(text))
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _number(text: str, most: int) -> int:
    return int(text) if len(text) < 8 else most + 1


def _column(reference: str) -> int:
    """The position of a column, from 0, by its letters.

    >>> _column("A1"), _column("AB12")
    (0, 27)
    """
    found = _COLUMN.fullmatch(reference.upper())
    if found is None:
        raise SheetError(f"it has a cell at {reference[:20]!r}, which no sheet has; save it again as .xlsx")
    place = 0
    for letter in found[1]:
        place = 26 * place + ord(letter) - ord("A") + 1
    return place - 1


def _dated(value: float, kind: str, epoch: datetime) -> str:
    """A number of days as the date, the time of a day or the duration that it is shown as.

    >>> _dated(45296.0, "date", _EPOCHS[0]), _dated(0.25, "date", _EPOCHS[0]), _dated(1.5, "duration", _EPOCHS[0])
    ('2024-01-05', '06:00:00', '1 day, 12:00:00')
    """
    try:
        days = math.floor(value)
        length = timedelta(days, milliseconds=round((value - days) * 86_400_000))
        if kind == "duration":
            return str(length)
        if 0 <= value < 1 and length.days == 0:
            return (datetime.min + length).time().isoformat()
        if 0 < value < _LEAP and epoch == _EPOCHS[0]:
            length += timedelta(1)
        return _moment(epoch + length)
    except (OverflowError, ValueError):
        return _BAD


def _moment(found: datetime) -> str:
    return found.date().isoformat() if found.time() == time() else found.isoformat()
