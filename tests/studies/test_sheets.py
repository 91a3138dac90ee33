import csv
import io
import math
import os
import random
import sys
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import levers
from levers.core.space import FREE, Factor, Level, Space, with_taken
from levers.errors import SheetError
from levers.studies.sheets.cells import ALONE, MAX_LISTED, raise_rows, taken_codes
from levers.studies.sheets.read import Sheet, read_sheet
from levers.studies.sheets.runs import write_runs
from levers.studies.sheets.write import sheet_text, write_sheet
from levers.studies.spec import RESERVED
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study

SPACE = Space.of({"heat": ["low", "mid", "high"], "dose": [1, 2.5, -3], "flag": [True, False]})
HEADER = "trial,block,heat,dose,flag,outcome\n"
KINDS = ("csv", "tsv", "xlsx")


def read(folder: Path, content: str | bytes, space: Space = SPACE, *, need_trials: bool = True) -> Sheet:
    path = folder / "sheet.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_sheet(path, space, need_trials=need_trials)


def error(folder: Path, content: str | bytes, space: Space = SPACE, *, need_trials: bool = True) -> str:
    with pytest.raises(SheetError) as caught:
        read(folder, content, space, need_trials=need_trials)
    return str(caught.value)


def outcomes(folder: Path, *cells: str, delimiter: str = ";") -> list[float]:
    lines = [f"{i}{delimiter}{cell}" for i, cell in enumerate(cells)]
    return list(read(folder, "\n".join([f"trial{delimiter}outcome", *lines])).outcomes)


def workbook(folder: Path, rows: list[list[object]]) -> Path:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    book.create_sheet("more").append(["trial", "nothing"])
    book.save(folder / "book.xlsx")
    return folder / "book.xlsx"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("states", [None, ["done", "=open", "a,b"]])
def test_what_is_written_is_read_back(tmp_path: Path, kind: str, states: list[str] | None) -> None:
    codes = np.array([[0, 1, 1], [2, 2, 0], [1, 0, 1]])
    given = np.array([0.1 + 0.2, np.nan, -1e-300])
    path = tmp_path / f"runs.{kind}"
    write_sheet(path, SPACE, trials=[7, 8, 10**15], blocks=[0, 0, 1], codes=codes, outcomes=given, states=states)
    sheet = read_sheet(path, SPACE)
    assert sheet.trials is not None
    assert sheet.trials.tolist() == [7, 8, 10**15]
    assert sheet.lines.tolist() == [2, 3, 4]
    assert np.array_equal(sheet.codes, codes)
    assert sheet.codes.dtype == np.int16
    assert np.array_equal(sheet.outcomes, given, equal_nan=True)
    assert sheet.filled.tolist() == [True, False, True]
    assert sheet.n_rows == 3
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # no draft is left


@pytest.mark.parametrize("kind", KINDS)
def test_a_sheet_without_rows_and_one_with_free_levels(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"runs.{kind}"
    write_sheet(path, SPACE, trials=[], blocks=[], codes=[], outcomes=None)
    assert read_sheet(path, SPACE).n_rows == 0
    write_sheet(path, SPACE, trials=[1], blocks=[0], codes=[[FREE, 0, 0]], outcomes=[1.0])
    assert read_sheet(path, SPACE).codes.tolist() == [[ALONE, 0, 0]]
    with pytest.raises(SheetError, match="row 2: factor 'heat' was left alone; past runs must have been set"):
        read_sheet(path, SPACE, need_trials=False)
    codes = with_taken([[FREE, 0, 0]], [[1, 0, 0]])
    write_sheet(path, SPACE, trials=[1], blocks=[0], codes=codes, outcomes=[1.0])
    assert taken_codes(read_sheet(path, SPACE).codes).tolist() == [[1, 0, 0]]


HOSTILE = st.text(
    st.sampled_from("a1b, ;\t\"'\n\r=+-@é\u2212\x0b\x85\ufeff_x000D2.") | st.characters(codec="utf-8"), max_size=9
)
NAMES = HOSTILE.filter(lambda text: text.strip() and "\0" not in text and text.strip().casefold() not in RESERVED)
LEVELS = st.one_of(NAMES, st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))


def unique_level(level: Level) -> object:
    return (isinstance(level, bool), level)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_hostile_names_and_levels_come_back(tmp_path: Path, data: st.DataObject, kind: str) -> None:
    names = data.draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    levels = st.lists(LEVELS, min_size=2, max_size=5, unique_by=unique_level)
    space = Space([Factor(name, data.draw(levels)) for name in names])
    n = max(space.n_levels)
    codes = np.array([[i % m for m in space.n_levels] for i in range(n)])
    values = data.draw(st.lists(st.floats(allow_infinity=False), min_size=n, max_size=n))
    path = tmp_path / f"runs.{kind}"
    write_sheet(path, space, trials=range(n), blocks=[0] * n, codes=codes, outcomes=values)
    for need_trials in (True, False):
        sheet = read_sheet(path, space, need_trials=need_trials)
        assert sheet.codes.tolist() == codes.tolist()
        assert np.array_equal(sheet.outcomes, values, equal_nan=True)
        assert sheet.lines.tolist() == list(range(2, n + 2))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("sep", [False, True])
def test_encodings_line_ends_and_delimiters(tmp_path: Path, encoding: str, end: str, delimiter: str, sep: bool) -> None:
    space = Space.of({"heat °": ["très", "low"]})
    rows = ["trial,heat °,outcome", "4,très,1.5", "", ' 5.0 ,"low",', ",,", ""]
    text = end.join(row.replace(",", delimiter) for row in rows)
    text = f"sep={delimiter}{end}{text}" if sep else text
    for content in (text, text.replace('"', "")):  # once row by row, once the fast way
        sheet = read(tmp_path, content.encode(encoding), space)
        assert sheet.trials is not None
        assert (sheet.trials.tolist(), sheet.codes.ravel().tolist()) == ([4, 5], [0, 1])
        assert sheet.lines.tolist() == [2, 4]
        assert np.array_equal(sheet.outcomes, [1.5, math.nan], equal_nan=True)


def test_header_names_notes_and_trailing_delimiters(tmp_path: Path) -> None:
    header = "\nnotes; HEAT ;Trial;OUTCOME;Flag;dose;;\n"
    sheet = read(tmp_path, f'{header}"a;\nb";mid;3;1,5;true;1;;\n;;;;;;;\n;low;4;;false;2,5;;\n')
    assert sheet.codes.tolist() == [[1, 0, 0], [0, 1, 1]]
    assert sheet.lines.tolist() == [3, 5]
    fewer = read(tmp_path, "block; HEAT ;Trial;OUTCOME;;\n1;mid;3;1,5;;\n")  # columns that somebody has deleted
    assert fewer.codes.tolist() == [[1, FREE, FREE]]
    assert "no column 'dose', 'flag', but 'Dosis'" in error(tmp_path, "trial,heat,Dosis,outcome\n1,mid,1,2\n")
    both = Space.of({"heat": ["a", "b"], " heat": ["c", "d"]})
    assert read(tmp_path, "trial, heat,heat,outcome\n1,d,a,1\n", both).codes.tolist() == [[0, 1]]
    assert "can be factor 'heat' or ' heat'" in error(tmp_path, "trial,heat ,outcome\n1,d,1\n", both)
    cased = Space.of({"heat": ["a", "b"], "Heat": ["c", "d"]})
    assert read(tmp_path, "trial,Heat,heat,outcome\n1,d,a,1\n", cased).codes.tolist() == [[0, 1]]
    assert "can be factor" in error(tmp_path, "trial,HEAT,outcome\n1,d,1\n", cased)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("heat,outcome", "no column 'trial'; the columns found are 'heat', 'outcome'"),
        ("trial,heat", "no column 'outcome'"),
        ("hello", "no column 'trial', 'outcome'; the columns found are 'hello'"),
        ("trial,outcome, Outcome", "2 columns are named 'outcome'"),
        ("trial,heat, heat ,outcome", "2 columns are named 'heat'"),
        ("trial,HEAT,Heat,outcome", "2 columns are named 'heat'"),
        ("sep=|\ntrial|outcome", "separated by '|'"),
        ('"trial,outcome', "a quote that is not closed"),
        ("", "it is empty"),
        ("\n \n", "it is empty"),
    ],
)
def test_headers_that_do_not_do(tmp_path: Path, header: str, message: str) -> None:
    assert message in error(tmp_path, header + "\n")


def test_past_data_needs_factors_and_no_trials(tmp_path: Path) -> None:
    sheet = read(tmp_path, "heat,dose,flag,outcome\nlow,1.0,TRUE,2\nhigh,-3,false,\n", need_trials=False)
    assert sheet.trials is None
    assert sheet.codes.tolist() == [[0, 0, 0], [2, 2, 1]]
    assert "no column 'dose', 'flag'" in error(tmp_path, "heat,outcome\nlow,1\n", need_trials=False)


def test_all_problems_come_at_once_and_nothing_else(tmp_path: Path) -> None:
    rows = ["1,0,low,1,true,1.5", "x,0,low,1,true,1", "-1,0,low,1,true,1", ",0,low,1,true,1", "1,0,low,1,true,1.5"]
    rows += [
        "5,0,lo,1,true,x",
        "6,0,,1,true,",
        "7,0,low",
        "8,0,low,1,true,1,9",
        "9,0,low,7,yes,1",
        "1.5,0,low,1,true,2",
    ]
    message = error(tmp_path, HEADER + "\n".join(rows))
    for part in (
        "10 rows are wrong; nothing was stored. row 3: trial 'x' is not a whole number",
        "row 4: trial '-1' is not",
        "row 5: trial is empty",
        "row 6: trial 1 is in row 2 already",
        "row 7: outcome 'x' is not a number; leave the cell empty",
        "'lo' is not a level of factor 'heat'; its levels are 'low', 'mid', 'high'",
        "row 8: factor 'heat' is empty",
        "row 9: it has 3 cells and the header has 6",
        "row 10: it has 7 cells",
        "'7' is not a level of factor 'dose'; its levels are 1, 2.5, -3, 'yes' is not a level",
        "row 12: trial '1.5' is not",
    ):
        assert part in message
    many = error(tmp_path, "trial,outcome\n" + "\n".join(f"{i},x" for i in range(57)))
    assert many.startswith("57 rows are wrong")
    assert many.endswith("and 37 more")
    assert many.count("row ") == MAX_LISTED


def test_rows_are_raised_once_each() -> None:
    raise_rows([])
    with pytest.raises(SheetError, match=r"^1 row is wrong; nothing was stored\. row 4: a, b$"):
        raise_rows([(4, "a"), (4, "b")])


@pytest.mark.parametrize("content", ['1,0,"low,1,true,1\n2,0,mid,1,true,1\n', '1,0,"low"x,1,true,1\n'])
def test_quotes_that_do_not_fit(tmp_path: Path, content: str) -> None:
    assert "row 3: a quote is not closed" in error(tmp_path, HEADER + "0,0,low,1,true,1\n" + content)


def test_outcomes_that_are_numbers(tmp_path: Path) -> None:
    given = ["1.5", " +2 ", "-3e2", "\u22124.25", ".5", "7.", "1E-3", "0012"]
    assert outcomes(tmp_path, *given) == [1.5, 2, -300, -4.25, 0.5, 7, 0.001, 12]
    assert outcomes(tmp_path, "1,5", "-,25", "3", "1,234", "2,5e-1") == [1.5, -0.25, 3, 1.234, 0.25]
    assert outcomes(tmp_path, '"1,5"', '"1,234"', delimiter=",") == [1.5, 1.234]


@pytest.mark.parametrize(
    "cell",
    [
        *("nan", "NaN", "inf", "-Infinity", "#N/A", "#DIV/0!", "failed", "1_000", "0x1", "1e999", "1.234,5", "1,234.5"),
        *(
            "1 000",
            "1'000",
            "1,234,567",
            "--1",
            "1e",
            "e5",
            "٣",
            "5%",
            "2024-01-05",
            "01.02.2024",
            "true",
            ".",
            "1d5",
            ",",
        ),
    ],
)
def test_outcomes_that_are_none(tmp_path: Path, cell: str) -> None:
    message = error(tmp_path, f"trial;outcome\n1;{cell}\n2;3\n")
    assert message.startswith(f"1 row is wrong; nothing was stored. row 2: outcome {cell!r} is ")
    if not any(character.isdigit() for character in cell) and len(cell) > 1:
        assert "is not a number; leave the cell empty, or report the run as failed (`levers fail`)" in message


def test_outcomes_that_can_be_read_in_two_ways(tmp_path: Path) -> None:
    assert "outcome '1,234' can be 1.234 or 1234" in error(tmp_path, 'trial,outcome\n1,"1,234"\n2,5\n')
    mixed = error(tmp_path, "trial;outcome\n1;1,5\n2;2.5\n3;3.5\n")
    assert mixed.startswith("1 row is wrong")
    assert "row 2: outcome '1,5' is ambiguous, as other rows have a decimal point" in mixed


def test_trials_with_separators_of_thousands_are_refused(tmp_path: Path) -> None:
    assert error(tmp_path, "trial;outcome\n1.000;1\n1,000;2\n").startswith("2 rows are wrong")
    assert "whole number" in error(tmp_path, "trial;outcome\n99999999999999999999;1\n")


def test_the_closer_level_wins(tmp_path: Path) -> None:
    space = Space([Factor("x", [1, "1", "1.0", 0, False, "true", "=a", "'=a", "b", " b"])])
    cells = ["1", "'1", "1.0", "0.00", "FALSE", "true", "=a", "''=a", "b", " b", "1,00", "'=a", "b  "]
    expected = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 6, 8]
    text = "trial;x;outcome\n" + "".join(f"{i};{cell};\n" for i, cell in enumerate(cells))
    assert read(tmp_path, text, space).codes.ravel().tolist() == expected
    thousand = Space.of({"x": [1, 1000]})
    assert "not a level" in error(tmp_path, 'trial;x;outcome\n1;"1,000";\n', thousand)


def test_a_level_that_lost_digits_in_a_spreadsheet(tmp_path: Path) -> None:
    third = 1 / 3
    space = Space([Factor("x", [third, 2 / 3, 1e-7 / 3, 5, 1.5000000001, 1.5000000002, 10**9, "0.3333333333"])])
    cells = [
        "0.333333333",
        "0,666666667",
        "3.33333333E-08",
        "5.00000000001",
        "0.3333333333",
        repr(third),
        "1.5000000001",
    ]
    text = "trial;x;outcome\n" + "".join(f"{i};{cell};\n" for i, cell in enumerate(cells))
    assert read(tmp_path, text, space).codes.ravel().tolist() == [0, 1, 2, 3, 7, 0, 4]
    for cell in ("0.33333", "1.5", "1000000001", "5.001", "1e999", "9" * 400):
        assert "is not a level" in error(tmp_path, f"trial;x;outcome\n1;{cell};\n", space)


def test_formulas_are_defused() -> None:
    space = Space([Factor("=cmd()", ["+a", "-b", "@c", " =d", "\te", "\rf", "ok", -5])])
    text = sheet_text(space, trials=range(8), blocks=[0] * 8, codes=np.arange(8)[:, None], states=["=x"] * 8)
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["trial", "block", "'=cmd()", "outcome", "state"]
    assert [row[2] for row in rows[1:]] == ["'+a", "'-b", "'@c", "' =d", "'\te", "'\rf", "ok", "-5"]
    assert {row[4] for row in rows[1:]} == {"'=x"}


def test_workbooks_hold_texts_and_numbers_but_no_formulas(tmp_path: Path) -> None:
    space = Space([Factor("=x", ["=1+1", "#N/A", "007", 2.5])])
    write_sheet(
        tmp_path / "a.xlsx", space, trials=range(4), blocks=[0] * 4, codes=[[0], [1], [2], [3]], outcomes=[1] * 4
    )
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").worksheets[0]
    assert [row[2].data_type for row in sheet.iter_rows()] == ["s", "s", "s", "s", "n"]
    assert [row[2].value for row in sheet.iter_rows()] == ["'=x", "'=1+1", "#N/A", "007", 2.5]
    assert [row[3].data_type for row in sheet.iter_rows()] == ["s", "n", "n", "n", "n"]


def test_workbooks_filled_in_by_people(tmp_path: Path) -> None:
    rows: list[list[object]] = [["Trial", "heat", "dose", "flag", "Outcome", None, "notes"]]
    rows += [[1.0, "low", 2.5, True, 3], [], ["2", " mid ", "1", "FALSE", "1.5", "x"], [3, "high", -3.0, False]]
    sheet = read_sheet(workbook(tmp_path, rows), SPACE)
    assert sheet.codes.tolist() == [[0, 1, 0], [1, 0, 1], [2, 2, 1]]
    assert sheet.lines.tolist() == [2, 4, 5]
    assert np.array_equal(sheet.outcomes, [3, 1.5, math.nan], equal_nan=True)


def test_workbook_cells_that_are_no_outcomes(tmp_path: Path) -> None:
    day = np.datetime64("2024-01-05").item()
    rows: list[list[object]] = [["trial", "outcome"], [1, day], [2, "=1+1"], [3, True], [4, "#N/A"], ["=5", "=6"]]
    with pytest.raises(SheetError) as caught:
        read_sheet(workbook(tmp_path, rows), SPACE)
    message = str(caught.value)
    assert message.startswith("5 rows are wrong")
    assert "row 2: outcome '2024-01-05' is not a number but a date" in message
    assert "row 3: 'outcome' is a formula without a stored result" in message
    assert "row 4: outcome 'true' is not a number" in message
    assert "row 6: 'trial' is a formula without" in message


def test_files_that_are_no_sheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = workbook(tmp_path, [["trial", "outcome"], [1, 2]]).read_bytes()
    texts: list[bytes] = [
        b"\0" * 50,
        b"trial,outcome\n1,\0\n",
        b"\x81\x82\xff",
        b"\x80\x01abc",
        b"\xff\xfea",
        bytes(range(256)),
    ]
    for content in [*texts, b"\xef\xbb\xbf\xff", b"\xd0\xcf\x11\xe0old", b"PK\x03\x04", good[:-30], good[:200]]:
        assert "cannot read" in error(tmp_path, content)
    for path in (tmp_path, tmp_path / "none.csv", tmp_path / "a\0b.csv", Path("/dev/null")):
        with pytest.raises(SheetError, match="cannot read"):
            read_sheet(path, SPACE)
    (tmp_path / "text.xlsx").write_text("trial,outcome\n1,2\n")
    with pytest.raises(SheetError, match="cannot be read as an Excel workbook"):
        read_sheet(tmp_path / "text.xlsx", SPACE)
    monkeypatch.setattr("levers.studies.sheets.read.MAX_TEXT_BYTES", 10)
    assert "split it" in error(tmp_path, "trial,outcome\n1,2\n")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "good.xlsx").write_bytes(good)
    assert read_sheet(tmp_path / "good.xlsx", SPACE).outcomes.tolist() == [2.0]  # only writing needs it
    with pytest.raises(SheetError, match=r"pip install '\.\[excel\]' in a checkout"):
        write_sheet(tmp_path / "new.xlsx", SPACE, trials=[0], blocks=[0], codes=[[0, 0, 0]])


def test_workbooks_that_unpack_to_too_much(tmp_path: Path) -> None:
    path = workbook(tmp_path, [["trial", "outcome"], [1, 2]])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/bomb.bin", bytes(60 << 20))
    with pytest.raises(SheetError, match="unpacks to 60 MB"):
        read_sheet(path, SPACE)
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "lol" * 100}">' for i in range(9))
    root = "worksheet"
    laughs = f"<!DOCTYPE x [{entities}]><{root}><sheetData><row><c><v>&a8;</v></c></row></sheetData></{root}>"
    names = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    far = f'<{root} {names}><sheetData><row r="999999999999"/></sheetData></{root}>'
    for part in (laughs, far):
        with zipfile.ZipFile(workbook(tmp_path, [["trial", "outcome"]])) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        [first] = [name for name in parts if name.endswith("sheet1.xml")]
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in (parts | {first: part.encode()}).items():
                archive.writestr(name, content)
        with pytest.raises(SheetError, match="cannot read"):
            read_sheet(path, SPACE)


def test_sheets_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, space: Space, message: str, codes: object = ((0,),), outcome: float = 1.0) -> None:
        with pytest.raises(SheetError, match=message):
            write_sheet(path, space, trials=[0], blocks=[0], codes=codes, outcomes=[outcome])  # type: ignore[arg-type]
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder.csv"]

    (tmp_path / "folder.csv").mkdir()
    good = Space.sized([2])
    refused(tmp_path / "a.pdf", good, r"must end in \.csv, \.tsv or \.xlsx")
    refused(tmp_path / "none" / "a.csv", good, "there is no folder")
    refused(tmp_path / "folder.csv", good, "cannot write")
    refused(tmp_path / "a.csv", good, "differ in length", codes=[[0, 0]])
    refused(tmp_path / "a.csv", good, "codes are not those", codes=[[2]])
    refused(tmp_path / "a.csv", good, "infinite", outcome=math.inf)
    monkeypatch.setattr("levers.core.space.half_character", lambda text: None)  # as in studies of before it was refused
    for name, message in ((" Outcome", "rename"), ("a\0", "NUL"), ("\ud800", "half"), ("x" * 40_000, "more than")):
        refused(tmp_path / "a.xlsx", Space.of({name: [1, 2]}), message)
    with pytest.raises(SheetError, match="rename"):
        read_sheet(tmp_path / "a.csv", Space.of({"TRIAL": [1, 2]}))


def independent(data: bytes) -> list[tuple[int, float | None, list[int]]]:
    """A second reading of a sheet, for the fuzz test: slow, and only for what the first accepted."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("cp1252")
    by_delimiter = []
    for delimiter in ",;\t":
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [row for row in lines if any(cell.strip() for cell in row)]
        head = [cell.strip().casefold() for cell in rows[0]]
        by_delimiter.append((sum(name in head for name in ("trial", "outcome", *SPACE.names)), rows, head))
    _, rows, head = max(by_delimiter, key=lambda entry: entry[0])
    read = []
    for row in rows[1:]:
        cells = {name: row[head.index(name)].strip() for name in ("trial", "outcome", *SPACE.names) if name in head}
        if any(cells.values()):
            codes = [independent_code(factor, cells.get(factor.name)) for factor in SPACE.factors]
            outcome = cells["outcome"].replace("\u2212", "-").replace(",", ".")
            read.append((int(float(cells["trial"].replace(",", "."))), float(outcome) if outcome else None, codes))
    return read


def independent_code(factor: Factor, cell: str | None) -> int:
    if cell is None:
        return FREE
    cell = "false" if cell.lower() == "falso" else cell  # as a spreadsheet in Rome has it, one letter from Excel's
    for code, level in enumerate(factor.levels):
        if isinstance(level, bool | str):
            if cell == level or (isinstance(level, bool) and cell.lower() == str(level).lower()):
                return code
        elif (
            cell[:1] in "+-.,0123456789'\u2212"
            and float(cell.lstrip("'").replace(",", ".").replace("\u2212", "-")) == level
        ):
            return code
    raise AssertionError(f"{cell!r} is no level of {factor}")


def mutated(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(8)
        if kind == 0:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[at + rng.choice((1, 1, 5)) :]
        elif kind == 2:
            token = rng.choice(
                [
                    "0",
                    ",",
                    ";",
                    "\t",
                    '"',
                    "\r",
                    "\n",
                    " ",
                    ".",
                    "-",
                    "'",
                    "e",
                    "é",
                    "\0",
                    "\ufeff",
                    "\u2212",
                    '""',
                    ",,",
                ]
            )
            data = data[:at] + token.encode() + data[at:]
        elif kind == 3:
            data = data.replace(
                rng.choice([b",", b"\n", b".", b'"']), rng.choice([b";", b"\r\n", b",", b"\r", b"\t", b""])
            )
        elif kind == 4:
            data = data[:at]
        else:
            lines = data.splitlines(keepends=True) or [b""]
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            if kind == 5:
                lines[i], lines[j] = lines[j], lines[i]
            elif kind == 6:
                lines.insert(i, lines[j])
            else:
                del lines[i]
            data = b"".join(lines)
    return data


def test_damaged_files_are_refused_or_read_as_they_are(tmp_path: Path) -> None:
    rng = random.Random(5)
    quoted = HEADER + "".join(f'{i},0,"mid",2.5,true,{i}.25\n' for i in range(8))
    free = HEADER.replace(",", ";") + "".join(f"{i};0;high;-3;false;{i},5\n" for i in range(8))
    plain = HEADER + "".join(f"{i},0,low,1,FALSE,{-i / 8 if i % 3 else ''}\n" for i in range(8))
    n_read = 0
    for _ in range(400):
        data = mutated(rng.choice((quoted, free, plain)).encode(), rng)
        try:
            sheet = read(tmp_path, data)
        except SheetError:
            continue
        n_read += 1
        assert sheet.trials is not None
        values = [None if math.isnan(value) else value for value in sheet.outcomes.tolist()]
        found = list(zip(sheet.trials.tolist(), values, sheet.codes.tolist(), strict=True))
        assert found == independent(data), data
    assert 40 < n_read < 360


@pytest.mark.parametrize("part", range(4))
def test_a_damaged_sheet_is_refused_whole_or_told_as_it_is(tmp_path: Path, part: int) -> None:
    """Mutations in four parts: a clear error and nothing stored, or exactly what the sheet says.

    LEVERS_SHEET_MUTATIONS=10000 makes as many in all; every run makes 600.
    """
    rng = random.Random(100 + part)
    source = MemoryStorage()
    study = levers.create_study("s", SPACE, tolerance=0.5, noise_sd=1.0, seed=1, storage=source)
    path = tmp_path / "runs.csv"
    write_runs(study, study.ask_numbers(10), path)
    rows = path.read_text().splitlines()
    lines = [rows[0]] + [f"{row}{i * 1.25 - 3:g}" for i, row in enumerate(rows[1:])]
    plain = "\n".join(lines) + "\n"
    comma = plain.replace(",", ";").replace(".", ",")
    records, n_told = source.read(source.find("s"), 0), 0
    for _ in range(int(os.environ.get("LEVERS_SHEET_MUTATIONS", "600")) // 4):
        data = mutated(rng.choice((plain, plain, comma)).encode(), rng)
        path.write_bytes(data)
        target = MemoryStorage()
        fresh = Study("s", target, target.create("s", records))
        try:
            report = fresh.tell_sheet(path)
        except SheetError:
            assert len(target.read(1, 0)) == len(records), data
            continue
        said = {trial: value for trial, value, _ in independent(data) if value is not None}
        told = {t: fresh.trial(t).value for t in range(10) if fresh.trial(t).value is not None}
        assert told == said, data
        assert report.n_new == len(said)
        n_told += 1
    assert n_told > 5


def test_damaged_workbooks_are_refused_or_read_as_they_are(tmp_path: Path) -> None:
    rng = random.Random(6)
    path = tmp_path / "runs.xlsx"
    write_sheet(path, SPACE, trials=range(8), blocks=[0] * 8, codes=[[0, 1, 0]] * 8, outcomes=np.arange(8) / 8)
    good, data = read_sheet(path, SPACE), path.read_bytes()
    for _ in range(80):
        bad = bytearray(data)
        for _ in range(rng.choice((1, 3))):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        path.write_bytes(bad[: rng.choice((len(bad), len(bad), rng.randrange(len(bad))))])
        try:
            sheet = read_sheet(path, SPACE)
        except SheetError:
            continue
        assert np.array_equal(sheet.outcomes, good.outcomes)
        assert np.array_equal(sheet.codes, good.codes)


def test_both_ways_of_splitting_agree(tmp_path: Path) -> None:
    rows = [
        f"{i},0,{'low' if i % 7 else 'high'},{2.5 if i % 3 else 1},true,{i / 7 if i % 2 else ''}" for i in range(5000)
    ]
    fast = read(tmp_path, HEADER + "\n".join(rows))
    careful = read(tmp_path, HEADER + "\n".join(row.replace("true", '"true"') for row in rows))
    assert np.array_equal(fast.codes, careful.codes)
    assert np.array_equal(fast.outcomes, careful.outcomes, equal_nan=True)
    assert np.array_equal(fast.lines, careful.lines)
    assert os.listdir(tmp_path) == ["sheet.csv"]
