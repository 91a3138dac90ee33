"""Run sheets of a study: write what was asked, take in what comes back, all of it or none."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from levers.errors import SheetError
from levers.studies.accepting import new_outcomes
from levers.studies.events import Numbers
from levers.studies.fold import StudyState
from levers.studies.sheets import MAX_LISTED, Sheet, raise_rows, read_sheet, sheet_text, write_sheet
from levers.studies.trials import TrialState

if TYPE_CHECKING:
    from levers.studies.study import Study


@dataclass(frozen=True, slots=True)
class SheetReport:
    """What a sheet brought: new outcomes, outcomes that were known, rows not run yet, and rows that others have done."""

    n_new: int
    n_known: int
    n_empty: int
    n_late: int


def write_runs(study: "Study", trials: Numbers, path: str | os.PathLike[str]) -> None:
    """Write a run sheet (.csv, .tsv or .xlsx) of some trials, with an empty column for the outcomes."""
    state = study.state
    write_sheet(path, state.spec.space, **sheet_columns(state, trials))


def runs_text(study: "Study", trials: Numbers) -> str:
    """The same as CSV text."""
    state = study.state
    return sheet_text(state.spec.space, **sheet_columns(state, trials))


def tell_sheet(study: "Study", path: str | os.PathLike[str]) -> SheetReport:
    """Take in a filled-in run sheet. A wrong row refuses the whole sheet, with row numbers and reasons."""
    sheet = read_sheet(path, study.space)
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    filled = np.flatnonzero(sheet.filled)
    with study.writing() as pen:
        problems = _wrong_settings(pen.state, sheet)
        accepted = new_outcomes(pen.state, sheet.trials[filled], sheet.outcomes[filled])
        problems += [(int(sheet.lines[filled[i]]), reason) for i, reason in accepted.problems]
        raise_rows(sorted(problems)[:MAX_LISTED], len({line for line, _ in problems}) or None)
        study.take(pen, accepted.trials, accepted.values)
    n_new, n_late = len(accepted.trials), len(accepted.late)
    return SheetReport(n_new, len(filled) - n_new - n_late, sheet.n_rows - len(filled), n_late)


def import_sheet(study: "Study", path: str | os.PathLike[str], note: str) -> int:
    """Take in past runs that the study did not ask for: a column for each factor, and `outcome`."""
    sheet = read_sheet(path, study.space, need_trials=False)
    if not sheet.filled.any():
        raise SheetError("no row of this sheet has an outcome; there is nothing to import")
    return study.import_arrays(sheet.codes[sheet.filled], sheet.outcomes[sheet.filled], note)


def sheet_columns(state: StudyState, trials: Numbers) -> dict[str, Any]:
    """The columns of a sheet; runs are grouped as the study's block_size says, or by the blocks of its design."""
    codes = np.empty((len(trials), state.spec.space.n_factors), dtype=np.int16)
    blocks = state.trials.block[trials]
    for i in np.unique(blocks):
        here = blocks == i
        inner = state.blocks[i].batch.codes[state.trials.row[trials[here]]]
        codes[here] = state.spec.merging.expand(inner)
    size = state.spec.block_size
    groups = blocks if size is None else np.arange(len(trials)) // size
    return {"trials": trials, "blocks": groups + 1, "codes": codes}


def _wrong_settings(state: StudyState, sheet: Sheet) -> list[tuple[int, str]]:
    """Rows whose levels are not those that their trial was to be run at: a sheet that was sorted in part, say."""
    assert sheet.trials is not None  # see tell_sheet
    known = np.flatnonzero((sheet.trials >= 0) & (sheet.trials < state.trials.n_trials))
    asked = known[state.trials.state[sheet.trials[known]] != TrialState.WAITING]
    if not asked.size:
        return []
    expected = sheet_columns(state, sheet.trials[asked])["codes"]
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
