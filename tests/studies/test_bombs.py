"""Small files and texts that would take minutes or gigabytes: refused, or read in time that grows with their length.

Where the failure is a matter of time, the work is done in a process that is ended after a generous while, so that a
test fails in place of hanging.
"""

import subprocess
import sys
import zipfile
from datetime import date, datetime, time
from pathlib import Path

import openpyxl
import pytest

from levers.core.space import Space
from levers.errors import InvalidSpaceError, SheetError
from levers.studies.sheets.read import read_sheet
from levers.studies.space_text import parse_forbidden, parse_space, parse_text

SPACE = Space.of({"heat": ["low", "high"], "dose": [1, 2.5]})
SECONDS = 20  # for what takes a tenth of one, or minutes
NAMES = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def in_time(program: str) -> None:
    """Run a program, and fail if it does not end."""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=SECONDS)


def with_part(folder: Path, name: str, content: str) -> Path:
    """A good workbook in which one part is another."""
    book = openpyxl.Workbook()
    for row in (["trial", "heat", "dose", "outcome"], [0, "low", 2.5, 1.5]):
        book.worksheets[0].append(row)
    book.save(folder / "good.xlsx")
    with zipfile.ZipFile(folder / "good.xlsx") as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    if name not in parts:  # some writers put texts into the cells
        assert name == "xl/sharedStrings.xml"
        links = parts["xl/_rels/workbook.xml.rels"].decode()
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
        added = f'<Relationship Id="rId99" Type="{kind}" Target="sharedStrings.xml"/></Relationships>'
        parts["xl/_rels/workbook.xml.rels"] = links.replace("</Relationships>", added).encode()
    with zipfile.ZipFile(folder / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for one, found in (parts | {name: content.encode()}).items():
            archive.writestr(one, found)
    return folder / "bomb.xlsx"


def test_a_workbook_of_very_many_formats_is_refused(tmp_path: Path) -> None:
    formats = f"<styleSheet {NAMES}><cellXfs>{'<xf/>' * 70_000}</cellXfs></styleSheet>"
    path = with_part(tmp_path, "xl/styles.xml", formats)
    assert path.stat().st_size < 30_000
    with pytest.raises(SheetError, match="more than 65,536 formats of cells"):
        read_sheet(path, SPACE)


def test_a_workbook_of_very_many_texts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.studies.sheets.ooxml.MAX_TEXTS", 10_000)
    texts = f"<sst {NAMES}>{'<si/>' * 20_000}</sst>"
    with pytest.raises(SheetError, match="more than 10,000 texts"):
        read_sheet(with_part(tmp_path, "xl/sharedStrings.xml", texts), SPACE)


def test_a_part_is_counted_as_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levers.studies.sheets.ooxml._SMALL_PART", 1 << 20)
    formats = f"<styleSheet {NAMES}>{' ' * (2 << 20)}</styleSheet>"
    with pytest.raises(SheetError, match="unpacks to more than 1 MB"):
        read_sheet(with_part(tmp_path, "xl/styles.xml", formats), SPACE)


@pytest.mark.parametrize(
    "part", ["xl/sharedStrings.xml", "xl/styles.xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"]
)
def test_definitions_of_entities_are_refused_in_every_part(part: str, tmp_path: Path) -> None:
    laughs = f'<!DOCTYPE x [<!ENTITY a "lol">]><sst {NAMES}><si><t>&a;</t></si></sst>'
    with pytest.raises(SheetError, match="defines names"):
        read_sheet(with_part(tmp_path, part, laughs), SPACE)


def test_a_value_of_megabytes_is_refused(tmp_path: Path) -> None:
    sheet = f'<worksheet {NAMES}><sheetData note="{" " * (6 << 20)}"/></worksheet>'
    with pytest.raises(SheetError, match="a value of megabytes"):
        read_sheet(with_part(tmp_path, "xl/worksheets/sheet1.xml", sheet), SPACE)


@pytest.mark.parametrize("place", ["ZZZZ1", "XFE1", "A0x", "1"])
def test_cells_where_no_sheet_has_any(place: str, tmp_path: Path) -> None:
    cell = f'<worksheet {NAMES}><sheetData><row r="1"><c r="{place}"><v>1</v></c></row></sheetData></worksheet>'
    with pytest.raises(SheetError, match=r"which no sheet has|columns"):
        read_sheet(with_part(tmp_path, "xl/worksheets/sheet1.xml", cell), SPACE)


def test_cells_of_every_kind_are_read_as_the_spreadsheet_shows_them(tmp_path: Path) -> None:
    kinds: list[object] = [datetime(2024, 1, 5), datetime(2024, 1, 5, 6, 30), date(1900, 2, 28), time(6, 0), True, "x"]
    kinds += [1e300, -0.5, 1234567890123456, "#N/A", " spaced ", "a_x000D_b"]
    book = openpyxl.Workbook()
    book.worksheets[0].append(["trial", *SPACE.names, "outcome"])
    for i, value in enumerate(kinds):
        book.worksheets[0].append([i, "low", 1, value])
    book.save(tmp_path / "kinds.xlsx")
    read = read_sheet(tmp_path / "kinds.xlsx", SPACE, check=False)
    reasons = dict(read.wrong.listed)
    shown = ["2024-01-05", "2024-01-05T06:30:00", "1900-02-28", "06:00:00", "true", "x"]
    for row, text in zip(range(2, 8), shown, strict=True):
        assert f"outcome '{text}'" in reasons[row]
    assert read.outcomes.tolist() == [1e300, -0.5, 1234567890123456]
    assert set(reasons) == {2, 3, 4, 5, 6, 7, 11, 12, 13}


def test_a_text_of_newlines_is_read_in_no_time() -> None:
    in_time("from levers.studies.space_text import parse_text; assert parse_text('\\n' * 150_000).factors == []")


def test_a_level_of_digits_is_read_in_no_time() -> None:
    in_time("from levers.studies.space_text import parse_levels; parse_levels('1' * 100_000 + 'x; 2')")


def test_keys_in_keys_are_refused() -> None:
    in_time(
        "from levers.studies.space_text import parse_space\n"
        "try: parse_space('[factors]\\n' + 'a.' * 20_000 + 'a = 1')\n"
        "except Exception as error: assert 'dots' in str(error), error\n"
        "else: raise AssertionError"
    )


def test_combinations_look_up_a_lever_once() -> None:
    in_time(
        "from levers.core.space import Space; from levers.studies.space_text import parse_forbidden\n"
        "space = Space.of({'dose': list(range(20_000))})\n"
        "parse_forbidden(space, ', '.join(['dose=1'] * 5_000))"
    )
    assert parse_forbidden(SPACE, "heat=low, dose=2,5") == [{"heat": "low", "dose": 2.5}]


@pytest.mark.parametrize(
    "text", ["[factors]\nheat = [1" + "0" * 5_000 + ", 2]", '{"factors": {"heat": [' + "1" * 5_000 + ", 2]}}"]
)
def test_numbers_of_thousands_of_digits_are_refused(text: str) -> None:
    with pytest.raises(InvalidSpaceError, match="is not"):
        parse_space(text, is_json=text[0] == "{")


def test_a_cell_longer_than_any_reader_takes_is_refused() -> None:
    with pytest.raises(InvalidSpaceError, match="levels cannot be read"):
        parse_text("heat: " + "x" * 200_000 + ", y")
