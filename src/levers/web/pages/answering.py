"""How a page's form is answered: with another page, or, to a script that keeps the page, with a few words."""

from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from levers.web.forms import back_to

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
