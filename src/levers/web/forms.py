"""Forms of pages: what keeps another site from sending them, reading them, and the message after a redirect."""

import base64
import binascii
import hmac
import json
import secrets
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData, UploadFile

from levers.web.refusing import RefusedError

COOKIE = "levers_form"
"""Holds a random value that every form of a page repeats: another site can make a browser send neither."""
FIELD = "form_token"
_SAID = "levers_said"
_MOST_FIELDS, _MOST_FIELD_BYTES, _MOST_SAID = 5_000, 8 << 20, 1_500


def form_token(request: Request) -> str:
    """The value for the forms of this page: the browser's, or a new one of 256 random bits."""
    state = request.scope.setdefault("levers.state", {})
    if "form" not in state:
        known = request.cookies.get(COOKIE, "")
        state["form"] = known if len(known) == 43 and known.isascii() else secrets.token_urlsafe(32)
    return str(state["form"])


def keep_form_token(request: Request, answer: Response) -> None:
    """Give the browser the value that the page's forms repeat."""
    token = form_token(request)
    if request.cookies.get(COOKIE) != token:
        set_cookie(request, answer, COOKIE, token)


def set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int | None = None) -> None:
    """A cookie that no script can read and no other site makes a browser send."""
    answer.set_cookie(
        name, value, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )


async def posted(request: Request) -> AsyncIterator[FormData]:
    """The fields of a form that one of this service's own pages sent; anything else is refused."""
    async with request.form(max_files=1, max_fields=_MOST_FIELDS, max_part_size=_MOST_FIELD_BYTES) as form:
        check_form(request, form)
        yield form


def check_form(request: Request, form: FormData) -> None:
    """Refuse a form without the value that the browser got with the page."""
    known, given = request.cookies.get(COOKIE), form.get(FIELD)
    same = known and isinstance(given, str) and hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))
    if not same:
        raise RefusedError(
            403,
            "this form is not from a page that this browser was shown, or is from an earlier visit; nothing was "
            "stored. Go back, load the page again, and send it once more",
        )


Posted = Annotated[FormData, Depends(posted)]
"""The form of a request, checked."""


def text_of(form: FormData, name: str, most: int | None = None) -> str:
    """A field as text without spaces around it; empty when there is none.

    >>> text_of(FormData([("n", " 8 ")]), "n")
    '8'
    """
    found = form.get(name)
    return found.strip()[:most] if isinstance(found, str) else ""


def file_of(form: FormData, name: str) -> UploadFile | None:
    """A file that was chosen; browsers send an empty one when none was."""
    found = form.get(name)
    return found if isinstance(found, UploadFile) and found.filename else None


def back_to(request: Request, where: str, said: str = "", kind: str = "done") -> Response:
    """Show a page after a change was made, so that loading it again does not make the change again."""
    answer = RedirectResponse(where, 303)
    if said:
        text = json.dumps([kind, said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]} ..."])
        set_cookie(request, answer, _SAID, base64.urlsafe_b64encode(text.encode()).decode(), 120)
    return answer


def said(request: Request) -> tuple[str, str] | None:
    """The message that came with a redirect: its kind and its text."""
    try:
        kind, text = json.loads(base64.urlsafe_b64decode(request.cookies.get(_SAID, "")))
    except (ValueError, TypeError, binascii.Error):
        return None
    return (kind, text) if kind in ("done", "problem") and isinstance(text, str) else None


def forget_said(request: Request, answer: Response) -> None:
    """A message is shown once."""
    if _SAID in request.cookies:
        answer.delete_cookie(_SAID, httponly=True, samesite="strict")
