"""Run sheets of a study: write what was asked, take in what comes back, all of it or none."""

import hashlib
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from levers.core.space import FREE, Codes, Level, with_taken
from levers.errors import LeversError, SheetError, SurprisingOutcomesError
from levers.studies.events import Numbers, Values
from levers.studies.outcomes import (
    Surprise,
    check_correctable,
    corrected_levels,
    forbidden_rows,
    new_outcomes,
    off_scale,
    outcome_number,
)
from levers.studies.sheets.cells import ALONE, MAX_LISTED, listed, plain, raise_rows, shown, taken_codes
from levers.studies.sheets.read import Sheet, read_sheet
from levers.studies.sheets.write import SheetColumns, check_writable, write_sheet
from levers.studies.spec import LEAVE_ALONE
from levers.studies.state import Correction, StudyState, TrialState

if TYPE_CHECKING:
    from levers.studies.study import Study, TakenPast


@dataclass(frozen=True, slots=True)
class SheetReport:
    """What a sheet brought: new outcomes, known ones, rows not run yet, and rows that others have done.

    `flags` are new outcomes that are far from what the other runs lead one to expect.
    """

    n_new: int
    n_known: int
    n_empty: int
    n_late: int
    flags: tuple[Surprise, ...] = ()


AnySheet: TypeAlias = str | os.PathLike[str] | Sheet
"""A sheet's file; or its rows, for whoever reads them before anybody has to wait for the study."""


def _read(study: "Study", sheet: AnySheet, *, need_trials: bool = True) -> Sheet:
    if isinstance(sheet, Sheet):
        return sheet
    return read_sheet(sheet, study.spec.space, need_trials=need_trials, check=False)


def study_stamp(name: str, state: StudyState) -> str:
    """What the sheets of a study say about whose they are: its name, and a mark of its beginning.

    The mark stays when the study goes on, and another study has another, in another storage too. A copy has the log of
    the original, so it has its mark and takes its sheets.
    """
    begun = f"{state.created_at!r} {state.spec.seed} {state.spec.space.names}"
    return f"{name} #{hashlib.sha256(begun.encode()).hexdigest()[:8]}"


def _mark(stamp: str) -> str:
    return stamp.rpartition("#")[2].strip().lower()


def _check_study(name: str, state: StudyState, sheet: Sheet) -> list[tuple[int, str]]:
    """Refuse a sheet of another study; of a sheet that is put together from several, return the rows of others."""
    own, foreign = study_stamp(name, state), np.zeros(0, dtype=np.int64)
    if sheet.studies is not None and len(sheet.studies):
        marks = {text: _mark(text) for text in sheet.studies.unique() if text}
        other = [text for text, mark in marks.items() if mark != _mark(own)]
        foreign = np.flatnonzero(sheet.studies.is_in(other).to_numpy())
        if foreign.size and foreign.size == (sheet.studies != "").sum():
            theirs = shown(plain(other[0]))
            raise SheetError(f"this is a sheet of the study {theirs}, and not of {own!r}; nothing was stored")
    if sheet.problem:
        raise SheetError(f"this is no sheet of the study {own!r}: {sheet.problem}; nothing was stored")
    if sheet.studies is None:
        return []
    whose = [shown(plain(text)) for text in sheet.studies.gather(foreign)]
    lines = sheet.lines[foreign].tolist()
    return [(line, f"it is of the study {text}, not of {own!r}") for line, text in zip(lines, whose, strict=True)]


def _raise_all(sheet: Sheet, problems: list[tuple[int, str]]) -> None:
    """Raise everything that is wrong with the rows of a sheet at once: what cannot be read, and what does not fit."""
    rows = {line for line, _ in problems}
    raise_rows(sorted([*sheet.wrong.listed, *problems])[: 2 * MAX_LISTED], sheet.wrong.n + len(rows) or None)


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
    if _says_taken(study.state, sheet):
        what = "levels in it that levers took, and no outcome beside them"
        raise SheetError(f"{path} has {what}; fill it in, and `{first}`, or choose another file")


def _says_taken(state: StudyState, sheet: Sheet) -> bool:
    """Whether somebody wrote down what a lever took that was left alone, in a run that was not told yet."""
    assert sheet.trials is not None  # see tell_sheet
    if not state.spec.free:
        return False
    told = state.trials.state[sheet.trials] == TrialState.COMPLETE
    taken = (trial_codes(state, sheet.trials) == FREE) & (taken_codes(sheet.codes) >= 0)
    return bool((taken.any(axis=1) & ~told).any())


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
    write_sheet(path, state.spec.space, **sheet_columns(state, trials, study=study.name))


def tell_sheet(study: "Study", path: AnySheet, *, insist: bool = True) -> SheetReport:
    """Take in a filled-in run sheet. A wrong row refuses the whole sheet, with row numbers and reasons.

    So does, without `insist`, an outcome that is a surprise.
    """
    sheet = _read(study, path)
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    filled = np.flatnonzero(sheet.filled)
    with study.writing() as transaction:
        problems = _check_study(study.name, transaction.state, sheet) + _wrong_settings(transaction.state, sheet)
        taken, wrong = _taken(transaction.state, sheet), {line for line, _ in problems}
        accepted = new_outcomes(transaction.state, sheet.trials[filled], sheet.outcomes[filled], taken)
        found = [(int(sheet.lines[filled[i]]), i, reason) for i, reason in accepted.problems]
        problems += [(line, why) for line, i, why in found if line not in wrong or i not in accepted.unobserved]
        _raise_all(sheet, problems)
        flags = study.surprises(transaction.state, accepted.trials, accepted.values)
        if flags and not insist:
            raise SurprisingOutcomesError.of(flags)
        study.take(transaction, accepted.trials, accepted.values, accepted.observed)
    n_new, n_late = len(accepted.trials), len(accepted.late)
    return SheetReport(n_new, len(filled) - n_new - n_late, sheet.n_rows - len(filled), n_late, flags)


def correct_sheet(study: "Study", path: AnySheet, reason: str) -> list[Correction]:
    """Correct the outcomes that are another in a sheet than was told. Rows are checked as `tell_sheet` does.

    So are levels that levers took which were left alone. Rows that others have done first are left out here too.
    """
    sheet = _read(study, path)
    assert sheet.trials is not None  # read_sheet needs them unless told otherwise
    state, filled = study.state, np.flatnonzero(sheet.filled)
    problems = _check_study(study.name, state, sheet) + _wrong_settings(state, sheet)
    trials, values = sheet.trials[filled], sheet.outcomes[filled]
    taken = _taken(state, sheet)
    checked = new_outcomes(state, trials, values, taken)
    news = {*checked.trials.tolist(), *(int(trials[i]) for i, _ in checked.problems)}
    wanted: dict[int, float] = {}
    observed: dict[int, dict[str, Level]] = {}
    rows = {} if taken is None else dict(zip(trials.tolist(), taken, strict=True))
    for line, trial, value in zip(sheet.lines[filled].tolist(), trials.tolist(), values.tolist(), strict=True):
        if trial in news:
            try:
                levels = corrected_levels(state, trial, rows.get(trial))
                check_correctable(state, trial, outcome_number(trial, value), same=levels is not None)
                wanted[trial] = value
                if levels is not None:
                    pairs = zip(state.spec.space.factors, rows[trial].tolist(), strict=True)
                    observed[trial] = {factor.name: factor.levels[code] for factor, code in pairs if code >= 0}
            except LeversError as error:
                problems.append((line, str(error)))
    _raise_all(sheet, problems)
    if not wanted:
        raise SheetError("every outcome of this sheet is the one that is known; there is nothing to correct")
    return study.correct_many(wanted, reason, observed=observed)  # checks again, under the lock


def _taken(state: StudyState, sheet: Sheet) -> Codes | None:
    """The levels that rows with an outcome say, where the study leaves levers alone."""
    return taken_codes(sheet.codes[sheet.filled]) if state.spec.free else None


def is_of_study(study: "Study", sheet: Sheet) -> bool:
    """Whether a sheet can be one that this study wrote: its trials were asked for, at the levels that it says."""
    assert sheet.trials is not None  # see tell_sheet
    state = study.state
    try:
        if _check_study(study.name, state, sheet):
            return False
    except SheetError:
        return False
    known = bool((sheet.trials < state.trials.n_trials).all())
    asked = known and not (state.trials.state[sheet.trials] == TrialState.WAITING).any()
    return asked and not _wrong_settings(state, sheet)


def import_sheet(study: "Study", path: AnySheet, note: str, *, insist: bool = True) -> "TakenPast":
    """Take in past runs that the study did not ask for: a column for each factor, and `outcome`."""
    sheet = _read(study, path, need_trials=False)
    _raise_all(sheet, [])
    if not sheet.filled.any():
        raise SheetError("no row of this sheet has an outcome; there is nothing to import")
    if sheet.trials is not None and is_of_study(study, sheet):
        raise SheetError("this is a run sheet of this very study; `levers tell` takes it, and nothing is counted twice")
    filled = sheet.filled
    lines, outcomes, codes = sheet.lines[filled].tolist(), sheet.outcomes[filled], sheet.codes[filled]
    wrong = [
        (lines[i], f"the outcome is {outcomes[i]:g}; {why}") for i, why in off_scale(study.spec.outcome_scale, outcomes)
    ]
    wrong += [(lines[i], why) for i, why in forbidden_rows(study.spec, codes)]
    _raise_all(sheet, wrong)
    return study.take_past(codes, outcomes, note, insist=insist, lines=lines)


def sheet_columns(
    state: StudyState,
    trials: Numbers,
    outcomes: Values | None = None,
    states: Sequence[str] | None = None,
    study: str | None = None,
) -> SheetColumns:
    """The columns of a sheet of some trials, with the stamp of the study of that name.

    Where a trial was told, so is what levers took that it left alone.
    """
    blocks, codes = state.block_numbers(trials), trial_codes(state, trials)
    told = np.flatnonzero(state.trials.state[trials] == TrialState.COMPLETE)
    codes[told] = with_taken(codes[told], had_codes(state, trials[told]))
    stamp = None if study is None else study_stamp(study, state)
    return SheetColumns(trials=trials, blocks=blocks, codes=codes, outcomes=outcomes, states=states, study=stamp)


def trial_codes(state: StudyState, trials: Numbers) -> Codes:
    """The level positions that trials are to be run at, one row a trial; FREE for a lever to leave alone."""
    return _codes(state, trials, [block.batch.codes for block in state.blocks])


def had_codes(state: StudyState, trials: Numbers) -> Codes:
    """The level positions that the rows of trials had; FREE where it is not known what a lever took left alone."""
    made = [block.batch.codes if block.observed is None else block.observed for block in state.blocks]
    return _codes(state, trials, made)


def _codes(state: StudyState, trials: Numbers, by_block: Sequence[Codes]) -> Codes:
    codes = np.empty((len(trials), state.spec.space.n_factors), dtype=np.int16)
    blocks = state.trials.block[trials]
    for i in np.unique(blocks):
        here = blocks == i
        inner = by_block[i][state.trials.row[trials[here]]]
        codes[here] = state.spec.expand(inner)
    return codes


def _wrong_settings(state: StudyState, sheet: Sheet) -> list[tuple[int, str]]:
    """Rows whose levels are not those that their trial was to be run at: a sheet that was sorted in part, say.

    And rows with an outcome that do not say what a lever took that was left alone.
    """
    assert sheet.trials is not None  # see tell_sheet
    known = np.flatnonzero((sheet.trials >= 0) & (sheet.trials < state.trials.n_trials))
    asked = known[state.trials.state[sheet.trials[known]] != TrialState.WAITING]
    if not asked.size:
        return []
    expected = trial_codes(state, sheet.trials[asked])
    given = sheet.codes[asked]
    is_set, was_set = expected != FREE, given >= 0
    differs = is_set & (was_set | (given <= ALONE)) & (given != expected)
    unsaid = ~is_set & (given == ALONE) & sheet.filled[asked][:, None]
    problems = []
    for i in np.flatnonzero((differs | unsaid).any(axis=1)):
        k = int(np.flatnonzero(differs[i] | unsaid[i])[0])
        factor, place = state.spec.space.factors[k], asked[i]
        trial = f"trial {sheet.trials[place]}"
        if unsaid[i, k]:
            reason = f"{trial} left {factor.name!r} alone: write the level that it took over {LEAVE_ALONE!r}, one of "
            reason += listed(factor.levels)
        else:
            was, now = factor.levels[expected[i, k]], factor.levels[given[i, k]] if was_set[i, k] else LEAVE_ALONE
            reason = f"{trial} was to be run at {factor.name}={was}, the sheet says {now}"
        problems.append((int(sheet.lines[place]), reason))
    return problems
