"""Templates to answers: one environment for all pages, and what every page has around it."""

from functools import lru_cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from levers.errors import StorageError
from levers.studies.words import several
from levers.web import forms
from levers.web.pages import words
from levers.web.pages.static import static
from levers.web.paths import address
from levers.web.refusing import RefusedError
from levers.web.service import Access, Service


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
    for name in ("count", "number", "exact", "percent", "level_text", "moment", "named", "lines_of"):
        made.filters[name] = getattr(words, name)
    made.filters["address"] = address
    made.globals |= {"static": static, "several": several}
    return made


def service_of(request: Request) -> Service:
    """What is served."""
    found = request.app.state.service
    assert isinstance(found, Service)  # the application was made with it
    return found


def here(request: Request) -> str:
    """The address that was asked for, as it came."""
    path = bytes(request.scope.get("raw_path") or b"/").split(b"?")[0].decode("ascii", "replace")
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

    def may(role: str) -> bool:
        return access is not None and access.allows(role) and (role != "admin" or access.study is None)

    text = (
        environment()
        .get_template(template)
        .render(access=access, may=may, form_token=forms.form_token(request), form_field=forms.FIELD, **context)
    )
    return Markup(text)  # the templates escape whatever they are given


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A whole page."""
    given = {"said": forms.said(request), "here": here(request), "needs_token": service_of(request).needs_token}
    text = fragment(request, template, **{**given, **context})
    answer = part(text, status)
    forms.keep_form_token(request, answer)
    forms.forget_said(request, answer)
    return answer


def part(text: str, status: int = 200) -> HTMLResponse:
    """Rendered text as an answer. A name may hold half a character, which no answer can."""
    return HTMLResponse(text.encode("utf-8", "replace"), status)
