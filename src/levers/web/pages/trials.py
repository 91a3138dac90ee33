"""All trials of a study, a page at a time."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from levers.core.space import Codes
from levers.errors import InvalidSettingError
from levers.studies.analysis import views
from levers.studies.events import Numbers, numbers
from levers.studies.sheets.cells import level_texts
from levers.studies.sheets.runs import block_numbers
from levers.studies.state import StudyState, TrialState
from levers.web.cache import Sight, who_told
from levers.web.pages.site import page
from levers.web.pages.study import became, context, opened

COLUMNS = ("trial", "block", "stage", "state", "outcome", "worker", "asked_at", "told_at")
"""What trials can be sorted by, besides their factors."""
HANDED_OUT, EVERY = "handed out", "all"
Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which trials, and in which order: `sort` is one of COLUMNS, or the name of a factor after `factor:`."""

    state: str = HANDED_OUT
    worker: str = ""
    factor: str = ""
    level: str = ""
    sort: str = "trial"
    down: bool = False


def find_trials(state: StudyState, wanted: Wanted) -> Numbers:
    """The numbers of the trials that fit, in order. What is not known comes last, whatever the order.

    >>> from levers.studies.library import create_study
    >>> study = create_study("oven", {"heat": ["low", "high"]}, tolerance=1.0, noise_sd=1.0, seed=1)
    >>> for trial, outcome in zip(study.ask(3), (2.0, 1.0, 3.0)): study.tell(trial, outcome)
    >>> find_trials(study.state, Wanted(sort="outcome")).tolist()
    [1, 0, 2]
    """
    found: Numbers = np.flatnonzero(_fits(state, wanted))
    if wanted.sort == "trial":
        return found[::-1] if wanted.down else found
    values, missing = _sort_key(state, wanted.sort, found)
    if wanted.down:
        values = -values
    return found[np.lexsort((found, values, missing))]


def _fits(state: StudyState, wanted: Wanted) -> NDArray[np.bool_]:
    table, n = state.trials, state.trials.n_trials
    states = table.state[:n]
    if wanted.state == HANDED_OUT:
        fits: NDArray[np.bool_] = (states != TrialState.WAITING) & (table.lease[:n] >= 0)
    elif wanted.state == EVERY:
        fits = np.ones(n, dtype=np.bool_)
    elif wanted.state in TrialState.__members__:
        fits = states == TrialState[wanted.state]
    else:
        known = ", ".join([HANDED_OUT, EVERY, *TrialState.__members__])
        raise InvalidSettingError(f"there is no state {wanted.state[:60]!r}; there are {known}")
    if wanted.worker:
        theirs = np.array([lease.worker == wanted.worker for lease in state.leases] + [False])
        fits &= theirs[table.lease[:n]]  # a trial that was never handed out has lease -1, the last entry
    if wanted.factor and wanted.level:
        k = state.spec.space.position(wanted.factor)
        texts = level_texts(state.spec.space.factors[k])
        if wanted.level not in texts:
            raise InvalidSettingError(f"{wanted.level[:60]!r} is not a level of {wanted.factor[:60]!r}")
        fits &= level_codes_of(state, k) == texts.index(wanted.level)
    return fits


def _sort_key(state: StudyState, sort: str, found: Numbers) -> tuple[Column, NDArray[np.bool_]]:
    table = state.trials
    if sort.startswith("factor:"):
        codes = level_codes_of(state, state.spec.space.position(sort.removeprefix("factor:")))[found]
        return codes.astype(np.int64), np.zeros(len(found), dtype=np.bool_)
    if sort not in COLUMNS:
        raise InvalidSettingError(f"trials cannot be sorted by {sort[:60]!r}; there are {', '.join(COLUMNS)}")
    leases = table.lease[found]
    if sort == "worker":
        names = [lease.worker for lease in state.leases]
        ranks = np.unique(np.array([*names, ""], dtype=object).astype(str), return_inverse=True)[1].ravel()
        return ranks[leases].astype(np.int64), leases < 0
    if sort == "stage":
        stages = np.unique([block.batch.stage for block in state.blocks], return_inverse=True)[1].ravel()
        return stages[table.block[found]].astype(np.int64), np.zeros(len(found), dtype=np.bool_)
    if sort in ("outcome", "asked_at", "told_at"):
        values = _numbers(state, sort, found)
        missing = np.isnan(values)
        return np.where(missing, 0.0, values), missing
    whole = (table.block if sort == "block" else table.state)[found].astype(np.int64)
    return whole, np.zeros(len(found), dtype=np.bool_)


def _numbers(state: StudyState, sort: str, found: Numbers) -> NDArray[np.float64]:
    table = state.trials
    if sort == "asked_at":
        times = np.array([*(lease.at for lease in state.leases), np.nan])
        return times[table.lease[found]]
    complete = table.state[found] == TrialState.COMPLETE
    if sort == "told_at":
        return np.where(complete, table.told_at[found], np.nan)
    flat = np.concatenate([np.zeros(0), *(block.values for block in state.blocks)])
    begins = np.cumsum([0, *(block.n_runs for block in state.blocks)])
    return np.where(complete, flat[begins[table.block[found]] + table.row[found]], np.nan)


def level_codes_of(state: StudyState, k: int) -> NDArray[np.int16]:
    """The level position of one factor in each trial, whoever merged factors along the way."""
    merging = state.spec.merging
    columns = [
        _column(merging.expand(block.batch.codes) if merging.is_merged else block.batch.codes, k)
        for block in state.blocks
    ]
    flat = np.concatenate([np.zeros(0, dtype=np.int16), *columns])
    begins = np.cumsum([0, *(block.n_runs for block in state.blocks)])
    n = state.trials.n_trials
    found: NDArray[np.int16] = flat[begins[state.trials.block[:n]] + state.trials.row[:n]]
    return found


def _column(codes: Codes, k: int) -> NDArray[np.int16]:
    return np.asarray(codes[:, k], dtype=np.int16)


SIZES = (50, 200, 1000)
MOST_COLUMNS, MOST_OPTIONS = 200, 500
router = APIRouter(include_in_schema=False)


@router.get("/studies/{name}/trials")
def trials_page(
    request: Request,
    name: str,
    state: str = HANDED_OUT,
    worker: str = "",
    factor: str = "",
    level: str = "",
    sort: str = "trial",
    order: str = "up",
    at: int = 1,
    size: int = SIZES[0],
) -> Response:
    """Trials that fit a filter, sorted, one page of them."""
    _, sight = opened(request, name)
    wanted = Wanted(state, worker, factor, level, sort, order == "down")
    found = find_trials(sight.state, wanted)
    size = size if size in SIZES else SIZES[0]
    n_pages = max(1, -(-len(found) // size))
    at = min(max(at, 1), n_pages)
    shown = found[(at - 1) * size : at * size]
    query = {"state": state, "worker": worker, "factor": factor, "level": level, "sort": sort}
    query |= {"order": "down" if wanted.down else "up", "size": str(size)}

    def link(**changed: object) -> str:
        """The same page with something else about it."""
        every = {**query, **{key: str(value) for key, value in changed.items()}}
        return "?" + urlencode({key: value for key, value in every.items() if value}, errors="replace")

    space = sight.state.spec.space
    chosen = next((f for f in space.factors if f.name == factor), None)
    return page(
        request,
        "trials.html",
        rows=list(views.trials(sight.state, shown)),
        blocks=block_numbers(sight.state, shown).tolist(),
        n_found=len(found),
        first=(at - 1) * size + 1,
        at=at,
        n_pages=n_pages,
        sizes=SIZES,
        size=size,
        wanted=wanted,
        link=link,
        states=[HANDED_OUT, EVERY, *TrialState.__members__],
        workers=_workers(sight),
        names=space.names[:MOST_COLUMNS],
        n_factors=space.n_factors,
        levels=level_texts(chosen)[:MOST_OPTIONS] if chosen is not None else (),
        columns=COLUMNS,
        **context(sight),
    )


def _workers(sight: Sight) -> list[str]:
    found: list[str] = sight.kept(
        "workers", lambda: sorted({lease.worker for lease in sight.state.leases})[:MOST_OPTIONS]
    )
    return found


@router.get("/studies/{name}/trials/{number}")
def trial_page(request: Request, name: str, number: int) -> Response:
    """One trial: what to set, what came of it, and its corrections."""
    study, sight = opened(request, name)
    trial = views.trial(sight.state, number)
    teller = who_told(study, sight.state, [number]).get(number)
    return page(
        request,
        "trial.html",
        trial=trial,
        block=int(block_numbers(sight.state, numbers([number]))[0]),
        became=became(trial, teller),
        corrections=[c for c in sight.state.corrections if c.trial == number],
        **context(sight),
    )
