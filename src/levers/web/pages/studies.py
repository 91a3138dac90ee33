"""Pages about several studies: the list, the demo, deleting one, comparing some, merging levers into another."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from levers.charts.drawings import COMPARE
from levers.charts.view import StudyView
from levers.errors import LeversError
from levers.studies.analysis.views import Status
from levers.studies.library import delete_study
from levers.web.demo import MOST_DEMOS, Demos
from levers.web.errors import message_of, status_of
from levers.web.limits import jobs
from levers.web.pages.filters import whole
from levers.web.pages.site import page, service_of
from levers.web.pages.study import MOST_TABLE_ROWS, Headline, context, opened, view_cache_of
from levers.web.security import Posted, address, back_to, name_of, text_of

SORTS = {"name": "name", "state": "state", "runs": "runs so far", "to_go": "to go", "updated": "updated"}
MOST_LISTED = 100
router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A study in the list; without a status when it cannot be read."""

    name: str
    status: Status | None
    problem: str = ""


@router.get("/")
def listing(request: Request, q: str = "", sort: str = "updated", order: str = "", page_number: int = 1) -> Response:
    """All studies that whoever looks may see."""
    service = service_of(request)
    access = service.allow(request, "read")
    every = service.names(access)
    sort = sort if sort in SORTS else "updated"
    down = order == "down" if order in ("up", "down") else sort in ("updated", "runs")
    wanted = [name for name in every if q.strip().casefold() in name.casefold()]
    lines = _sorted([_line(request, name) for name in wanted], sort, down)
    n_pages = max(1, -(-len(lines) // MOST_LISTED))
    at = min(max(page_number, 1), n_pages)
    given: dict[str, Any] = {"q": q[:200], "sort": sort, "down": down, "sorts": SORTS, "at": at, "n_pages": n_pages}
    given |= {"lines": lines[(at - 1) * MOST_LISTED : at * MOST_LISTED], "n_found": len(lines), "n_all": len(every)}
    given |= {"n_demos": demos_of(request).n_running, "most_demos": MOST_DEMOS}
    return page(request, "list.html", **given)


def _line(request: Request, name: str) -> Line:
    try:
        return Line(name, view_cache_of(request).view(service_of(request).open(name)).status)
    except LeversError as error:  # one damaged study must not hide the others
        return Line(name, None, message_of(error))


def _sorted(lines: list[Line], sort: str, down: bool) -> list[Line]:
    def key(line: Line) -> tuple[float, str]:
        status = line.status
        if status is None or sort == "name":
            return 0.0, line.name.casefold()
        if sort == "state":
            return float(("running", "in doubt", "confirming", "finished").index(status.state)), line.name.casefold()
        to_go = status.to_go.likely
        found = {"runs": status.n_complete, "to_go": -1 if to_go is None else to_go, "updated": status.updated_at}
        return float(found[sort]), line.name.casefold()

    return sorted(lines, key=key, reverse=down)


def demos_of(request: Request) -> Demos:
    """The demo studies under way."""
    found = request.app.state.demos
    assert isinstance(found, Demos)  # add_pages made it
    return found


@router.post("/demo")
def start_demo(request: Request, form: Posted) -> Response:
    """Begin a study of a simulated factory line, which goes on by itself."""
    access = service_of(request).allow(request, "admin")
    name = demos_of(request).start(access.who)
    said = "A simulated factory line with 12 levers. It asks, runs and tells by itself; watch it decide."
    return back_to(request, f"/studies/{address(name)}", said)


@router.get("/studies/{name}/delete")
def delete_page(request: Request, name: str) -> Response:
    """Ask whether it is meant."""
    _, view = opened(request, name, "admin")
    return page(request, "delete.html", wrong="", typed="", **context(view))


@router.post("/studies/{name}/delete")
def delete(request: Request, name: str, form: Posted) -> Response:
    """Remove a study for good, if its name was typed."""
    study, view = opened(request, name, "admin")
    typed = text_of(form, "typed_name", 300)
    if typed != study.name:
        wrong = "The name that was typed is another one; nothing was deleted."
        return page(request, "delete.html", 422, wrong=wrong, typed=typed, **context(view))
    demos_of(request).stop(study.name)
    delete_study(study.name, study.storage)
    service_of(request).forget_deleted()
    return back_to(request, "/", f"Deleted {name_of(name)}.")


MOST_COMPARED, MOST_FACTORS, MOST_CHOICES = 7, 200, 500


@router.get("/compare")
def compare_page(request: Request, study: Annotated[list[str] | None, Query()] = None) -> Response:
    """Settings, runs and answers of some studies, and how certainty grew in each."""
    service = service_of(request)
    names = service.names(service.allow(request, "read"))
    chosen = list(dict.fromkeys(study or []))
    wanted = [name for name in chosen if name in names]
    unknown = [name for name in chosen if name not in names]
    views: list[StudyView] = []
    failed: list[str] = []
    for name in wanted[:MOST_COMPARED]:
        try:
            views.append(view_cache_of(request).view(service.study(request, name, "read")))
        except LeversError:
            failed.append(name)
    factors = list(dict.fromkeys(name for view in views for name in view.state.spec.space.names))
    given: dict[str, Any] = {"names": names[:MOST_CHOICES], "chosen": wanted, "missing": [*unknown, *failed]}
    given |= {"n_left_out": max(len(wanted) - MOST_COMPARED, 0), "most": MOST_COMPARED, "most_rows": MOST_TABLE_ROWS}
    given |= {"views": views, "heads": [Headline.of(view) for view in views], "bests": [view.best for view in views]}
    given |= {"factors": factors[:MOST_FACTORS], "n_factors": len(factors)}
    return page(request, "compare.html", chart=COMPARE.both(views) if views else None, **given)


@router.get("/studies/{name}/merge")
def merge_page(request: Request, name: str) -> Response:
    """The form, with the levers of the address ticked."""
    study, _ = opened(request, name, "admin")
    return _form(request, name, request.query_params.getlist("factors"), f"{study.name[:180]}, merged")


@router.post("/studies/{name}/merge")
def merge(request: Request, name: str, form: Posted) -> Response:
    """Begin the new study, or show the form again with what is wrong."""
    study, _ = opened(request, name, "admin")
    chosen = [str(value) for value in form.getlist("factors")][:500]
    new_name, typed = text_of(form, "new_name", 300), text_of(form, "budget", 20)
    who = service_of(request).allow(request, "admin").who
    try:
        budget = whole(typed, "the budget") if typed else None
        service = service_of(request)
        past = study.storage.read(study.id, 0)
        found = service.compute(request, jobs.merged_study, study.name, past, new_name, chosen, budget=budget, who=who)
        made = service.begin(new_name, found, who)
    except LeversError as error:
        return _form(request, name, chosen, new_name, message_of(error), typed, status_of(error))
    n = sum(len(past.values) for past in made.state.past)
    said = f"The study has begun, with {n:,} runs of {study.name} as evidence. Ask for its first runs."
    return back_to(request, f"/studies/{address(made.name)}", said)


def _form(
    request: Request, name: str, chosen: list[str], new_name: str, wrong: str = "", budget: str = "", status: int = 200
) -> Response:
    _, view = opened(request, name, "admin")
    spec = view.state.spec
    typed = {"chosen": chosen, "new_name": new_name, "wrong": wrong, "budget": budget}
    offered = {"factors": spec.space.names, "has_budget": "budget" in dict(spec.options)}
    return page(request, "merge.html", status, **typed, **offered, **context(view))
