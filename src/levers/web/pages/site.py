"""What every page has around it: templates, static files, sign-in, the list of the API's operations, errors."""

import hashlib
import mimetypes
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from levers.charts.html import style_sheet
from levers.errors import StorageError
from levers.studies.analysis.describe import several
from levers.studies.sheets.cells import level_texts
from levers.studies.storage.sessions import LONGEST_SECONDS, end_session, start_session
from levers.web import security
from levers.web.errors import RefusedError
from levers.web.pages import filters
from levers.web.security import Posted, address, back_to, drop_cookie, set_cookie, text_of
from levers.web.service import Access, Service, session_cookie

FOLDER = Path(__file__).parent.parent / "static"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOR_GOOD, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"

router = APIRouter(include_in_schema=False)


@lru_cache(maxsize=1)
def files() -> dict[str, bytes]:
    """All static files, read once; the charts' style sheet is where charts are, for pages that are files."""
    own = {file.name: file.read_bytes() for file in sorted(FOLDER.iterdir()) if file.is_file()}
    return {**own, "charts.css": style_sheet().encode()}


@lru_cache(maxsize=1)
def version() -> str:
    """Changes when any of the files does."""
    digest = hashlib.sha256()
    for name, content in files().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


def static(name: str) -> str:
    """The address of a static file."""
    return f"/static/{version()}/{name}"


@router.get("/static/{asked}/{name}")
def static_file(asked: str, name: str) -> Response:
    """One static file; an old version's address gives the file as it is now, for pages loaded before an update."""
    content = files().get(name)
    if content is None:
        raise RefusedError(404, "there is no such file")
    kind = _KINDS.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    keep = _FOR_GOOD if asked == version() else _ASK_AGAIN
    return Response(content, media_type=kind, headers={"cache-control": keep})


@router.get("/favicon.ico")
def favicon() -> Response:
    """Browsers ask for it wherever they are."""
    return static_file(version(), "icon.svg")


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, compiled once. A name that a template misspells is an error, not an empty place."""
    made = Environment(
        loader=PackageLoader("levers.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in ("count", "number", "amount", "certified", "exact", "percent", "level_text", "moment", "named"):
        made.filters[name] = getattr(filters, name)
    made.filters["address"] = address
    made.filters["level_texts"] = level_texts
    made.globals |= {"static": static, "several": several}
    return made


def service_of(request: Request) -> Service:
    """What is served."""
    found = request.app.state.service
    assert isinstance(found, Service)  # the application was made with it
    return found


def here(request: Request) -> str:
    """The address that was asked for, as it came."""
    path = security.raw_path(request.scope) or "/"
    query = bytes(request.scope.get("query_string") or b"").decode("ascii", "replace")
    return f"{path}?{query}" if query else path


def visitor(request: Request) -> Access | None:
    """Who looks, for what a page offers; None when they have to say so first."""
    try:
        return service_of(request).access(request)
    except (RefusedError, StorageError):
        return None


def fragment(request: Request, template: str, **context: Any) -> Markup:
    """A part of a page."""
    access = visitor(request)
    given: dict[str, Any] = {"access": access, "may": frozenset() if access is None else access.offered()}
    given |= {"form_token": security.form_token(request), "form_field": security.FIELD}
    text = environment().get_template(template).render(**given, **context)
    return Markup(text)  # the templates escape whatever they are given


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A whole page."""
    given = {"said": security.said(request), "here": here(request), "needs_token": service_of(request).needs_token}
    answer = part(fragment(request, template, **{**given, **context}), status)
    security.renew_cookies(request, answer)
    return answer


def part(text: str, status: int = 200) -> HTMLResponse:
    """Rendered text as an answer. A name may hold half a character, which no answer can."""
    return HTMLResponse(text.encode("utf-8", "replace"), status)


QUIET = "x-levers-quiet"
"""The header with which a script of the page sends a form, to be answered in words."""


def is_quiet(request: Request) -> bool:
    """Whether a script sent the form."""
    return QUIET in request.headers


def answered(request: Request, where: str, said: str, kind: str = "done", status: int = 200, **more: Any) -> Response:
    """What was done. A browser without scripts is sent on to a page that says so."""
    if is_quiet(request):
        return JSONResponse({"kind": kind, "message": said, **more}, status)
    return back_to(request, where, said, kind)


def safe_place(where: str) -> str:
    """An address of this service to go on to, never one of another site.

    >>> safe_place("/studies/oven?x=1"), safe_place("//evil.example"), safe_place("https://evil.example")
    ('/studies/oven?x=1', '/', '/')
    """
    plain = where.isascii() and where.isprintable() and "\\" not in where
    return where if plain and where.startswith("/") and not where.startswith("//") else "/"


@router.get("/login")
def login_page(request: Request, then: str = "/") -> Response:
    """Where a token is typed in."""
    return login(request, 200, "", then)


def login(request: Request, status: int, wrong: str, then: str) -> Response:
    """The page for the token."""
    shown = page(request, "login.html", status, wrong=wrong, then=safe_place(then))
    is_shown = request.headers.get("sec-fetch-dest", "document") == "document"  # to a person, not to a script
    if status == 401 and is_shown and session_cookie(request) in request.cookies:  # it opens nothing any more
        drop_cookie(request, shown, session_cookie(request))
    return shown


@router.post("/login")
def take_token(request: Request, form: Posted) -> Response:
    """Begin a session, if the token is a good one. The browser never keeps the token."""
    service, then = service_of(request), safe_place(text_of(form, "then", 2000))
    try:
        token = service.token(request, text_of(form, "token", 500))
    except RefusedError as refused:
        wrong = f"{str(refused)[:1].upper()}{str(refused)[1:]}."
        if refused.status == 401:
            wrong = f"{wrong} It looks like levers_..., and whoever runs the service makes one."
        answer = login(request, refused.status, wrong, then)
        answer.headers.update(refused.headers)
        return answer
    end_session(service.storage, request.cookies.get(session_cookie(request), ""))
    value = start_session(service.storage, token, service.clock())
    answer = back_to(request, then)
    set_cookie(request, answer, session_cookie(request), value, int(LONGEST_SECONDS))
    return answer


@router.post("/logout")
def logout(request: Request, form: Posted) -> Response:
    """End the session, here and in the browser."""
    service, name = service_of(request), session_cookie(request)
    end_session(service.storage, request.cookies.get(name, ""))
    answer = back_to(request, "/login" if service.needs_token else "/")
    drop_cookie(request, answer, name)
    return answer


_METHODS = ("get", "post", "put", "patch", "delete")


@router.get("/api")
def api_page(request: Request) -> Response:
    """What programs can ask of this service, from its OpenAPI document."""
    service_of(request).allow(request, "read")
    return page(request, "api.html", groups=operations(request.app.openapi()))


def operations(document: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The operations by their first tag.

    >>> operations({"paths": {"/health": {"get": {"summary": "Health", "tags": ["service"]}}}})
    {'service': [{'method': 'GET', 'path': '/health', 'summary': 'Health', 'about': ''}]}
    """
    groups: dict[str, list[dict[str, str]]] = {}
    paths = document.get("paths", {}).items()
    for path, method, found in [(path, m, methods[m]) for path, methods in paths for m in _METHODS if m in methods]:
        about = " ".join((found.get("description") or "").strip().split("\n\n")[0].split())
        line = {"method": method.upper(), "path": path, "summary": found.get("summary", ""), "about": about}
        groups.setdefault((found.get("tags") or ["studies"])[0], []).append(line)
    return groups
