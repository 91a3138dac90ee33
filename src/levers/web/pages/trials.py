"""All trials of a study, a page at a time."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from levers.charts.view import StudyView
from levers.studies.analysis import views
from levers.studies.analysis.trials import HANDED_OUT, STATES, TrialFilter, find_trials
from levers.studies.events import numbers
from levers.studies.outcomes import is_correctable
from levers.studies.sheets.cells import level_texts
from levers.web.cache import who_told
from levers.web.pages.site import page
from levers.web.pages.study import became, context, opened

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
    _, view = opened(request, name)
    wanted = TrialFilter(state, worker or None, factor or None, level or None, sort=sort, descending=order == "down")
    found = find_trials(view.state, wanted)
    size = size if size in SIZES else SIZES[0]
    n_pages = max(1, -(-len(found) // size))
    at = min(max(at, 1), n_pages)
    shown = found[(at - 1) * size : at * size]
    query = {"state": state, "worker": worker, "factor": factor, "level": level, "sort": sort}
    query |= {"order": "down" if order == "down" else "up", "size": str(size)}

    def link(**changed: object) -> str:
        """The same page with something else about it."""
        every = {**query, **{key: str(value) for key, value in changed.items()}}
        return "?" + urlencode({key: value for key, value in every.items() if value}, errors="replace")

    space = view.state.spec.space
    chosen = next((f for f in space.factors if f.name == factor), None)
    given: dict[str, Any] = {"wanted": query, "link": link, "states": STATES, "workers": _workers(view)}
    given |= {"at": at, "n_pages": n_pages, "size": size, "sizes": SIZES}
    given |= {"n_found": len(found), "first": (at - 1) * size + 1, "rows": list(views.trials(view.state, shown))}
    given |= {"names": space.names[:MOST_COLUMNS], "n_factors": space.n_factors}
    given["blocks"] = view.state.block_numbers(shown).tolist()
    given["excluded"] = {one.trial: one for one in view.state.exclusions}
    given["levels"] = () if chosen is None else level_texts(chosen)[:MOST_OPTIONS]
    return page(request, "trials.html", **given, **context(view))


def _workers(view: StudyView) -> list[str]:
    return view.keep("workers", lambda: sorted({lease.worker for lease in view.state.leases})[:MOST_OPTIONS])


@router.get("/studies/{name}/trials/{number}")
def trial_page(request: Request, name: str, number: int) -> Response:
    """One trial: what to set, what came of it, and its corrections."""
    study, view = opened(request, name)
    trial = views.trial(view.state, number)
    teller = who_told(study, view.state, [number]).get(number)
    given: dict[str, Any] = {"trial": trial, "became": became(trial, teller)}
    given["block"] = int(view.state.block_numbers(numbers([number]))[0])
    given["excluded"] = next((one for one in view.state.exclusions if one.trial == number), None)
    given["correctable"] = is_correctable(view.state, number)
    given["corrections"] = [c for c in view.state.corrections if c.trial == number]
    return page(request, "trial.html", **given, **context(view))
