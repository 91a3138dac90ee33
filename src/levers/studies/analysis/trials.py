"""Trials that fit a filter, in an order: the one finder behind the page, the API and the command line."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levers.core.space import FREE
from levers.errors import InvalidSettingError
from levers.studies.analysis.tables import trial_outcomes
from levers.studies.events import Numbers
from levers.studies.sheets.cells import level_texts
from levers.studies.spec import reads_alone
from levers.studies.state import StudyState, TrialState

COLUMNS = ("trial", "block", "stage", "state", "outcome", "worker", "asked_at", "told_at")
"""What trials can be sorted by, besides their factors."""
HANDED_OUT, EVERY = "handed out", "all"
STATES = (HANDED_OUT, EVERY, *TrialState.__members__)
"""What trials can be filtered by: all that were ever handed out, all of them, or those in one state."""
FACTOR = "factor:"
Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TrialFilter:
    """Which trials, and in which order.

    `state` is one of STATES. With `factor` and `level` only those at this level, written as in a sheet, or those that
    `leave alone` the factor. `worker` is who
    has or had it, `block` the block as people count it, from 1; None is any. `sort` is one of COLUMNS or the name of a
    factor; `factor:` before the name makes it a factor even if it is called like a column.
    """

    state: str = EVERY
    worker: str | None = None
    factor: str | None = None
    level: str | None = None
    block: int | None = None
    sort: str = "trial"
    descending: bool = False


def find_trials(state: StudyState, wanted: TrialFilter) -> Numbers:
    """The numbers of the trials that fit, in order. What is not known comes last, whatever the order.

    >>> from levers.studies.library import create_study
    >>> study = create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> for trial, outcome in zip(study.ask(3), (2.0, 1.0, 3.0)): study.tell(trial, outcome)
    >>> find_trials(study.state, TrialFilter("COMPLETE", sort="outcome")).tolist()
    [1, 0, 2]
    """
    found: Numbers = np.flatnonzero(_fits(state, wanted))
    if wanted.sort == "trial":
        return found[::-1] if wanted.descending else found
    values, missing = _sort_key(state, wanted.sort, found)
    if wanted.descending:
        values = -values
    return found[np.lexsort((found, values, missing))]


def _fits(state: StudyState, wanted: TrialFilter) -> NDArray[np.bool_]:
    table, n = state.trials, state.trials.n_trials
    states = table.state[:n]
    if wanted.state == HANDED_OUT:
        fits: NDArray[np.bool_] = (states != TrialState.WAITING) & (table.lease[:n] >= 0)
    elif wanted.state == EVERY:
        fits = np.ones(n, dtype=np.bool_)
    elif wanted.state.upper() in TrialState.__members__:
        fits = states == TrialState[wanted.state.upper()]
    else:
        raise InvalidSettingError(f"there is no state {wanted.state[:60]!r}; there are {', '.join(STATES)}")
    if wanted.block is not None:
        fits &= state.block_numbers(np.arange(n)) == wanted.block
    if wanted.worker is not None:
        theirs = np.array([lease.worker == wanted.worker for lease in state.leases] + [False])
        fits &= theirs[table.lease[:n]]  # a trial that was never handed out has lease -1, the last entry
    if wanted.factor is not None and wanted.level is not None:
        k = state.spec.space.position(wanted.factor)
        texts = level_texts(state.spec.space.factors[k])
        alone = wanted.factor in state.spec.free and reads_alone(wanted.level)
        if wanted.level not in texts and not alone:
            raise InvalidSettingError(f"{wanted.level[:60]!r} is not a level of {wanted.factor[:60]!r}")
        fits &= level_codes_of(state, k) == (FREE if alone else texts.index(wanted.level))
    return fits


def _sort_key(state: StudyState, sort: str, found: Numbers) -> tuple[Column, NDArray[np.bool_]]:
    """What to sort by, and which have no value."""
    table, none_missing = state.trials, np.zeros(len(found), dtype=np.bool_)
    if sort not in COLUMNS:
        factor = sort.removeprefix(FACTOR)
        if not sort.startswith(FACTOR) and factor not in state.spec.space.names:
            known = ", ".join(COLUMNS)
            raise InvalidSettingError(f"trials cannot be sorted by {sort[:60]!r}; there are {known}, and the factors")
        codes = level_codes_of(state, state.spec.space.position(factor))[found]
        return codes.astype(np.int64), codes == FREE
    leases = table.lease[found]
    if sort == "worker":
        names = [lease.worker for lease in state.leases]
        ranks = np.unique(np.array([*names, ""], dtype=object).astype(str), return_inverse=True)[1].ravel()
        return ranks[leases].astype(np.int64), leases < 0
    if sort == "stage":
        stages = np.unique([block.batch.stage for block in state.blocks], return_inverse=True)[1].ravel()
        return stages[table.block[found]].astype(np.int64), none_missing
    if sort in ("block", "state"):
        whole = state.block_numbers(found) if sort == "block" else table.state[found].astype(np.int64)
        return whole, none_missing
    if sort == "outcome":
        values = trial_outcomes(state, found)
    elif sort == "asked_at":
        values = np.array([*(lease.at for lease in state.leases), np.nan])[leases]
    else:
        values = np.where(table.state[found] == TrialState.COMPLETE, table.told_at[found], np.nan)
    missing = np.isnan(values)
    return np.where(missing, 0.0, values), missing


def level_codes_of(state: StudyState, k: int) -> NDArray[np.int16]:
    """The level position at which each trial sets one factor, whoever merged factors along the way; FREE if none."""
    columns = [state.spec.expand(block.batch.codes)[:, k] for block in state.blocks]
    below_each_other: NDArray[np.int16] = np.concatenate([np.zeros(0, dtype=np.int16), *columns])
    return below_each_other[state.rows_of(np.arange(state.trials.n_trials))]
