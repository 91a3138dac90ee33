"""Run sheets of a study: write what was asked, take in what comes back, all of it or none."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from levers.core.space import Codes
from levers.errors import LeversError, SheetError
from levers.studies.events import Numbers, Values
from levers.studies.outcomes import check_correctable, new_outcomes, outcome_number
from levers.studies.sheets.cells import MAX_LISTED, raise_rows
from levers.studies.sheets.read import Sheet, read_sheet
from levers.studies.sheets.write import SheetColumns, check_writable, write_sheet
from levers.studies.state import Correction, StudyState, TrialState

if TYPE_CHECKING:
    from levers.studies.study import Study


@dataclass(frozen=True, slots=True)
class SheetReport:
    """What a sheet brought: new outcomes, known ones, rows not run yet, and rows that others have done."""

    n_new: int
    n_known: int
    n_empty: int
    n_late: int


AnySheet: TypeAlias = str | os.PathLike[str] | Sheet
"""A sheet's file; or its rows, for whoever reads them before anybody has to wait for the study."""


def _read(study: "Study", sheet: AnySheet, *, need_trials: bool = True) -> Sheet:
    return sheet if isinstance(sheet, Sheet) else read_sheet(sheet, study.spec.space, need_trials=need_trials)


def check_target(study: "Study", path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, or that holds something, before any run is handed out."""
    target = Path(path)
    if target.exists():
        _check_overwritable(study, target)
    check_writable(target, study.spec.space)


def _check_overwritable(study: "Study", path: Path) -> None:
    """Refuse to lose what somebody typed, and files that are something else."""
    foreign = SheetError(f"{path} is there already and is no run sheet of this study; choose another file")
    first = shlex.join(["levers", "tell", study.name, "--sheet", str(path)])
    filled_in = SheetError(f"{path} has outcomes in it; `{first}` first, or choose another file")
    try:
        sheet = read_sheet(path, study.spec.space)
    except SheetError as error:
        raise (filled_in if error.n_wrong else foreign) from None  # a wrong row is a typo, which `tell` explains
    if not is_of_study(study, sheet):
        raise foreign
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    typed = zip(sheet.trials[sheet.filled].tolist(), sheet.outcomes[sheet.filled].tolist(), strict=True)
    if any(study.trial(number).value != value for number, value in typed):
        raise filled_in


def write_asked(study: "Study", trials: Numbers, path: str | os.PathLike[str]) -> int:
    """Write a run sheet of trials that are out already, if there are any; returns how many."""
    if trials.size:
        try:
            write_runs(study, trials, path)
        except (LeversError, OSError) as error:
            again = shlex.join(["levers", "ask", study.name, "--again", "--sheet", os.fspath(path)])
            raise SheetError(f"{error}; the runs are out: {again}") from error
    return len(trials)


def write_runs(study: "Study", trials: Numbers, path: str | os.PathLike[str]) -> None:
    """Write a run sheet (.csv, .tsv or .xlsx) of some trials, with an empty column for the outcomes."""
    state = study.state
    write_sheet(path, state.spec.space, **sheet_columns(state, trials))


def tell_sheet(study: "Study", path: AnySheet) -> SheetReport:
    """Take in a filled-in run sheet. A wrong row refuses the whole sheet, with row numbers and reasons."""
    sheet = _read(study, path)
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    filled = np.flatnonzero(sheet.filled)
    with study.writing() as transaction:
        problems = _wrong_settings(transaction.state, sheet)
        accepted = new_outcomes(transaction.state, sheet.trials[filled], sheet.outcomes[filled])
        problems += [(int(sheet.lines[filled[i]]), reason) for i, reason in accepted.problems]
        raise_rows(sorted(problems)[:MAX_LISTED], len({line for line, _ in problems}) or None)
        study.take(transaction, accepted.trials, accepted.values)
    n_new, n_late = len(accepted.trials), len(accepted.late)
    return SheetReport(n_new, len(filled) - n_new - n_late, sheet.n_rows - len(filled), n_late)


def correct_sheet(study: "Study", path: AnySheet, reason: str) -> list[Correction]:
    """Correct the outcomes that are another in a sheet than was told. Rows are checked as `tell_sheet` does.

    Rows that others have done first are left out here too.
    """
    sheet = _read(study, path)
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    state, filled = study.state, np.flatnonzero(sheet.filled)
    problems = _wrong_settings(state, sheet)
    trials, values = sheet.trials[filled], sheet.outcomes[filled]
    checked = new_outcomes(state, trials, values)
    news = {*checked.trials.tolist(), *(int(trials[i]) for i, _ in checked.problems)}
    wanted = {}
    for line, trial, value in zip(sheet.lines[filled].tolist(), trials.tolist(), values.tolist(), strict=True):
        if trial in news:
            try:
                check_correctable(state, trial, outcome_number(trial, value))
                wanted[trial] = value
            except LeversError as error:
                problems.append((line, str(error)))
    raise_rows(sorted(problems)[:MAX_LISTED], len({line for line, _ in problems}) or None)
    if not wanted:
        raise SheetError("every outcome of this sheet is the one that is known; there is nothing to correct")
    return study.correct_many(wanted, reason)  # checks again, under the lock


def is_of_study(study: "Study", sheet: Sheet) -> bool:
    """Whether a sheet can be one that this study wrote: its trials were asked for, at the levels that it says."""
    assert sheet.trials is not None  # see tell_sheet
    state = study.state
    known = bool((sheet.trials < state.trials.n_trials).all())
    asked = known and not (state.trials.state[sheet.trials] == TrialState.WAITING).any()
    return asked and not _wrong_settings(state, sheet)


def import_sheet(study: "Study", path: AnySheet, note: str) -> int:
    """Take in past runs that the study did not ask for: a column for each factor, and `outcome`."""
    sheet = _read(study, path, need_trials=False)
    if not sheet.filled.any():
        raise SheetError("no row of this sheet has an outcome; there is nothing to import")
    if sheet.trials is not None and is_of_study(study, sheet):
        raise SheetError("this is a run sheet of this very study; `levers tell` takes it, and nothing is counted twice")
    return study.import_arrays(sheet.codes[sheet.filled], sheet.outcomes[sheet.filled], note)


def sheet_columns(
    state: StudyState, trials: Numbers, outcomes: Values | None = None, states: Sequence[str] | None = None
) -> SheetColumns:
    """The columns of a sheet of some trials."""
    blocks, codes = state.block_numbers(trials), trial_codes(state, trials)
    return SheetColumns(trials=trials, blocks=blocks, codes=codes, outcomes=outcomes, states=states)


def trial_codes(state: StudyState, trials: Numbers) -> Codes:
    """The level positions that trials are to be run at, one row a trial."""
    codes = np.empty((len(trials), state.spec.space.n_factors), dtype=np.int16)
    blocks = state.trials.block[trials]
    for i in np.unique(blocks):
        here = blocks == i
        inner = state.blocks[i].batch.codes[state.trials.row[trials[here]]]
        codes[here] = state.spec.expand(inner)
    return codes


def _wrong_settings(state: StudyState, sheet: Sheet) -> list[tuple[int, str]]:
    """Rows whose levels are not those that their trial was to be run at: a sheet that was sorted in part, say."""
    assert sheet.trials is not None  # see tell_sheet
    known = np.flatnonzero((sheet.trials >= 0) & (sheet.trials < state.trials.n_trials))
    asked = known[state.trials.state[sheet.trials[known]] != TrialState.WAITING]
    if not asked.size:
        return []
    expected = trial_codes(state, sheet.trials[asked])
    given = sheet.codes[asked]
    differs = (given >= 0) & (given != expected)
    problems = []
    for i in np.flatnonzero(differs.any(axis=1)):
        k = int(np.flatnonzero(differs[i])[0])
        factor = state.spec.space.factors[k]
        was, now = factor.levels[expected[i, k]], factor.levels[given[i, k]]
        place = asked[i]
        reason = f"trial {sheet.trials[place]} was to be run at {factor.name}={was}, the sheet says {now}"
        problems.append((int(sheet.lines[place]), reason))
    return problems
