"""All trials of a study, a page at a time."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from levers.studies import views
from levers.studies.events import numbers
from levers.studies.sheet_runs import block_numbers
from levers.studies.sheets.levels import level_texts
from levers.studies.trials import TrialState
from levers.web.pages.open_runs import became
from levers.web.pages.rendering import page
from levers.web.pages.study import context, opened
from levers.web.pages.trial_table import COLUMNS, EVERY, HANDED_OUT, Wanted, find_trials
from levers.web.seen import Sight, who_told

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
