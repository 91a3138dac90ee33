"""Run sheets know their study: whose they are, which columns they have, and what a spreadsheet shows of them."""

from pathlib import Path

import openpyxl
import pytest

import levers
from levers.core.space import Space
from levers.errors import InvalidSpaceError, SheetError, StudyError
from levers.studies.library import copy_study
from levers.studies.sheets.read import read_sheet
from levers.studies.sheets.runs import study_stamp
from levers.studies.sheets.write import sheet_text
from levers.studies.spec import StudySpec
from levers.studies.storage.memory import MemoryStorage
from levers.studies.study import Study

SPACE: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2, 3]}
KINDS = ("csv", "tsv", "xlsx")


def begun(name: str, storage: MemoryStorage | None = None, space: dict[str, list[levers.Level]] = SPACE) -> Study:
    return levers.create_study(name, space, tolerance=0.5, noise_sd=1.0, seed=1, storage=storage)


def filled(study: Study, path: Path, values: tuple[float, ...] = (1.5, 2.5)) -> Path:
    """A sheet of some runs with their outcomes, as somebody would fill it in."""
    study.ask_sheet(path, len(values))
    if path.suffix == ".xlsx":
        book = openpyxl.load_workbook(path)
        column = [cell.value for cell in book.worksheets[0][1]].index("outcome") + 1
        for row, value in enumerate(values, 2):
            book.worksheets[0].cell(row, column, value)
        book.save(path)
        return path
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *(f"{row}{value}" for row, value in zip(rows, values, strict=True))]))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_sheet_of_another_study_is_refused(tmp_path: Path, kind: str) -> None:
    """Both have the same levers, seed and trial numbers: only the stamp tells them apart."""
    oven, kiln = begun("oven"), begun("kiln")
    oven.ask(2)
    path = filled(kiln, tmp_path / f"runs.{kind}")
    with pytest.raises(SheetError) as refused:
        oven.tell_sheet(path)
    assert study_stamp("kiln", kiln.state) in str(refused.value)
    assert study_stamp("oven", oven.state) in str(refused.value)
    with pytest.raises(SheetError, match="kiln #"):
        oven.correct_sheet(path, "typo")
    with pytest.raises(SheetError, match="no run sheet of this study"):
        oven.open_sheet(path)
    assert oven.status().n_complete == 0
    assert kiln.tell_sheet(path).n_new == 2


def test_rows_of_another_study_are_named_with_all_other_wrong_rows(tmp_path: Path) -> None:
    oven, kiln = begun("oven"), begun("kiln")
    path = filled(oven, tmp_path / "runs.csv", (1.0, 2.0, 3.0, 4.0))
    head, *rows = path.read_text().splitlines()
    rows[1] = rows[1].replace(study_stamp("oven", oven.state), study_stamp("kiln", kiln.state))
    rows[2] = rows[2].replace("3.0", "x")
    rows[3] = rows[3].replace(",low,", ",LOW,").replace(",high,", ",low,").replace(",LOW,", ",high,")
    path.write_text("\n".join([head, *rows, "99,1,,low,1,5"]))
    with pytest.raises(SheetError) as refused:
        oven.tell_sheet(path)
    assert refused.value.n_wrong == 4
    assert [row for row, _ in refused.value.rows] == [3, 4, 5, 6]
    reasons = dict(refused.value.rows)
    assert "it is of the study 'kiln #" in reasons[3]
    assert "outcome 'x' is not a number" in reasons[4]
    assert "was to be run at heat=" in reasons[5]
    assert "there is no trial 99" in reasons[6]
    assert oven.status().n_complete == 0


def test_another_study_is_named_even_if_it_has_other_levers(tmp_path: Path) -> None:
    oven, kiln = begun("oven"), begun("kiln", space={"humidity": [1, 2], "gas": ["a", "b"]})
    path = filled(kiln, tmp_path / "runs.csv")
    oven.ask(2)
    with pytest.raises(SheetError, match=r"of the study 'kiln #\w+', and not of 'oven #\w+'"):
        oven.tell_sheet(path)


def test_a_misnamed_column_is_refused(tmp_path: Path) -> None:
    study = begun("oven")
    path = filled(study, tmp_path / "runs.csv")
    whole = path.read_text()
    path.write_text(whole.replace("heat", "Hitze", 1))
    with pytest.raises(SheetError, match="there is no column 'heat', but 'Hitze'"):
        study.tell_sheet(path)
    assert study.status().n_complete == 0
    path.write_text(whole.replace("heat", " HEAT", 1))
    assert study.tell_sheet(path).n_new == 2


def test_sheets_from_before_are_taken(tmp_path: Path) -> None:
    """Without a stamp, with columns of people's own, or with trials and outcomes alone."""
    study = begun("oven")
    trials = study.ask(6)
    path = tmp_path / "old.csv"
    text = sheet_text(
        study.space,
        trials=[trial.number for trial in trials[:4]],
        blocks=[1] * 4,
        codes=[trial.params.codes for trial in trials[:4]],
        outcomes=[1.0, 2.0, 1.5, 2.5],
    )
    assert text.startswith("trial,block,heat,speed,outcome\n")
    path.write_text(text)
    assert study.tell_sheet(path).n_new == 4
    path.write_text("trial,outcome\n4,1.25\n")
    assert study.tell_sheet(path).n_new == 1
    path.write_text(f"trial,note,heat,speed,outcome\n5,late,{trials[5].params['heat']},{trials[5].params['speed']},2\n")
    assert study.tell_sheet(path).n_new == 1


def test_a_copy_takes_the_sheets_of_the_original(tmp_path: Path) -> None:
    storage, other = MemoryStorage(), MemoryStorage()
    study = begun("oven", storage)
    path = filled(study, tmp_path / "runs.csv")
    copy = copy_study("oven", "oven 2", storage, other)
    assert study_stamp("oven 2", copy.state).startswith("oven 2 #")
    assert copy.tell_sheet(path).n_new == 2
    assert begun("oven", MemoryStorage()).spec.seed == study.spec.seed  # made alike, but another study
    with pytest.raises(SheetError, match="and not of 'oven #"):
        begun("oven", MemoryStorage()).tell_sheet(path)


def test_runs_of_another_study_can_be_imported(tmp_path: Path) -> None:
    oven, kiln = begun("oven"), begun("kiln")
    path = filled(kiln, tmp_path / "runs.csv")
    oven.ask(2)
    assert oven.import_sheet(path, "from the kiln") == 2
    with pytest.raises(SheetError, match="this very study"):
        oven.import_sheet(filled(oven, tmp_path / "own.csv"), "mine")


def test_every_forbidden_row_of_past_runs_is_named(tmp_path: Path) -> None:
    space: dict[str, list[levers.Level]] = {"heat": ["low", "high"], "speed": [1, 2]}
    study = levers.create_study("oven", space, forbidden=[{"heat": "high", "speed": 2}], tolerance=0.5, seed=1)
    path = tmp_path / "past.csv"
    path.write_text("heat,speed,outcome\nhigh,2,1.5\nlow,2,1\nhigh,2,2\n")
    with pytest.raises(SheetError, match="row 2: the study forbids heat=high, speed=2") as refused:
        study.import_sheet(path, "old")
    assert [row for row, _ in refused.value.rows] == [2, 4]
    with pytest.raises(StudyError, match="run 2 of 2 cannot have been made: the study forbids heat=high, speed=2"):
        study.import_runs([{"heat": "low", "speed": 2}, {"heat": "high", "speed": 2}], [1.0, 2.0], "old")


def test_a_factor_cannot_be_called_study_any_more() -> None:
    with pytest.raises(InvalidSpaceError, match="'Study'"):
        begun("oven", space={"Study": [1, 2], "heat": [1, 2]})
    old = Space.of({"Study": ["a", "b"], "heat": [1, 2]})  # of a study from before: it goes on, without a stamp
    assert StudySpec(old, tolerance=0.5, noise_sd=1.0).space == old
    text = sheet_text(old, trials=[0], blocks=[1], codes=[[0, 1]], study="oven #1234")
    assert text == "trial,block,Study,heat,outcome\n0,1,a,2,\n"


def test_a_workbook_is_ready_to_be_filled_in(tmp_path: Path) -> None:
    study = begun("a study with a rather long name")
    study.ask_sheet(tmp_path / "runs.xlsx", 3)
    sheet = openpyxl.load_workbook(tmp_path / "runs.xlsx").worksheets[0]
    header = [cell.value for cell in sheet[1]]
    assert header == ["trial", "block", "study", "heat", "speed", "outcome"]
    assert sheet.freeze_panes == "A2"
    assert sheet.column_dimensions["C"].width == 40
    assert sheet.column_dimensions["D"].width >= 8
    (rule,) = sheet.data_validations.dataValidation
    assert (rule.type, rule.allow_blank, str(rule.sqref).split(":")[0]) == ("decimal", True, "F2")


@pytest.mark.parametrize(("text", "level"), [("WAHR", 0), ("falsch", 1), ("VRAI", 0), ("Onwaar", 1)])
def test_true_and_false_in_other_countries(tmp_path: Path, text: str, level: int) -> None:
    path = tmp_path / "runs.csv"
    for levels in ([True, False], ["TRUE", "FALSE"]):
        path.write_text(f"trial;flag;outcome\n0;{text};1,5\n")
        space = Space.of({"flag": levels})
        assert read_sheet(path, space).codes.tolist() == [[level]]


@pytest.mark.parametrize("cell", ["2-Jan", "02. Jan", "2026-01-02", "Dez 26"])
def test_a_level_that_became_a_date_is_explained(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "past.csv"
    path.write_text(f"ratio;outcome\n{cell};1,5\n")
    study = begun("oven", space={"ratio": ["1-2", "1-3"]})
    with pytest.raises(SheetError, match="took it for a date"):
        study.import_sheet(path, "old")


def test_a_text_among_numbers_of_a_workbook(tmp_path: Path) -> None:
    study = begun("oven")
    path = filled(study, tmp_path / "runs.xlsx", (1.5, 2.5, 3.5))
    book = openpyxl.load_workbook(path)
    book.worksheets[0].cell(3, 6, "70,75")
    book.save(path)
    with pytest.raises(SheetError, match="row 3: outcome '70,75' is a text where other cells are numbers"):
        study.tell_sheet(path)
