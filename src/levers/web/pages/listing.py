"""The list of studies, what to do when there is none, deleting one, and the demo."""

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from levers.errors import LeversError
from levers.studies.managing import delete_study
from levers.studies.views import Status
from levers.web.demo import MOST_DEMOS, Demos
from levers.web.forms import Posted, back_to, text_of
from levers.web.pages.rendering import page, service_of
from levers.web.pages.study import context, opened, sights_of
from levers.web.paths import address, name_of
from levers.web.refusing import message_of

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
    return page(
        request,
        "list.html",
        lines=lines[(at - 1) * MOST_LISTED : at * MOST_LISTED],
        n_found=len(lines),
        n_all=len(every),
        q=q[:200],
        sort=sort,
        down=down,
        sorts=SORTS,
        at=at,
        n_pages=n_pages,
        n_demos=demos_of(request).n_running,
        most_demos=MOST_DEMOS,
    )


def _line(request: Request, name: str) -> Line:
    try:
        sight = sights_of(request).of(service_of(request).open(name))
        return Line(name, sight.kept("status", lambda: sight.views.status))
    except LeversError as error:  # one damaged study must not hide the others
        return Line(name, None, message_of(error))


def _sorted(lines: list[Line], sort: str, down: bool) -> list[Line]:
    def key(line: Line) -> tuple[float, str]:
        status = line.status
        if status is None or sort == "name":
            return 0.0, line.name.casefold()
        if sort == "state":
            return float(status.state == "finished"), line.name.casefold()
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
    _, sight = opened(request, name, "admin")
    return page(request, "delete.html", wrong="", typed="", **context(sight))


@router.post("/studies/{name}/delete")
def delete(request: Request, name: str, form: Posted) -> Response:
    """Remove a study for good, if its name was typed."""
    study, sight = opened(request, name, "admin")
    typed = text_of(form, "typed_name", 300)
    if typed != study.name:
        wrong = "The name that was typed is another one; nothing was deleted."
        return page(request, "delete.html", 422, wrong=wrong, typed=typed, **context(sight))
    demos_of(request).stop(study.name)
    delete_study(study.name, study.storage)
    service_of(request).forget_deleted()
    return back_to(request, "/", f"Deleted {name_of(name)}.")
