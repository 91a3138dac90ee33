"""The pages of the service: what people see in a browser."""

import difflib
import re

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from levers.errors import NoSuchStudyError
from levers.web.cache import ViewCache
from levers.web.demo import Demos
from levers.web.errors import Problem
from levers.web.pages import course, files, new_study, runs, site, studies, study, trials, verdict
from levers.web.pages.site import here, is_quiet, page, service_of, visitor
from levers.web.security import name_of, routed

_WORDS = {
    400: "That request makes no sense here",
    401: "A token is needed",
    403: "That is not allowed",
    404: "There is no such page",
    405: "That cannot be done here",
    409: "That cannot be done now",
    413: "That is too large",
    422: "Something is not right with what was sent",
    503: "Not now",
}


def add_pages(app: FastAPI) -> None:
    """Add all pages and static files."""
    service = app.state.service
    app.state.view_cache, app.state.demos = ViewCache(), Demos(service)
    # `new_study` before `study`: /studies/new is the form, unless a study has that name
    for module in (site, studies, new_study, files, runs, course, trials, verdict, study):
        app.include_router(module.router)


def error_page(request: Request, problem: Problem) -> Response:
    """An error as a page, or in words for a script of a page."""
    status, lines = problem.status, problem.lines
    title = _WORDS.get(status, "Something went wrong" if status >= 500 else "That did not work")
    if problem.kind == NoSuchStudyError.__name__:  # its own words name studies that not everybody may see
        title, lines = "There is no such study", ("It may have been deleted, or its name may be another one.",)
    if is_quiet(request):
        return JSONResponse({"kind": "problem", "message": "\n".join(lines)}, status)
    if status == 401:
        wrong = "" if problem.no_token else f"{problem.message[:1].upper()}{problem.message[1:]}."
        return site.login(request, 401, wrong, here(request) if request.method == "GET" else "/")
    close = _close_names(request) if status == 404 else []
    return page(request, "error.html", status, title=title, lines=lines, close=close, code=status)


def _close_names(request: Request) -> list[str]:
    """Studies whose name is like the one in the address, of those that whoever asks may see."""
    found = re.match(r"/studies/([^/]+)", routed(request.scope))
    who = visitor(request)
    if found is None or who is None or not who.allows("read"):
        return []
    names = service_of(request).names(who)
    folded = {name.casefold(): name for name in reversed(names)}
    close = difflib.get_close_matches(name_of(found[1]).casefold(), list(folded), n=5, cutoff=0.5)
    return [folded[name] for name in close]
