"""Who looks: a token that is typed in once, kept by the browser, and forgotten on request."""

from fastapi import APIRouter, Request, Response

from levers.studies.tokens import find_token
from levers.web.forms import Posted, back_to, set_cookie, text_of
from levers.web.pages.rendering import page, service_of
from levers.web.service import COOKIE

KEPT_SECONDS = 30 * 86_400
router = APIRouter(include_in_schema=False)


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
    return page(request, "login.html", status, wrong=wrong, then=safe_place(then))


@router.post("/login")
def take_token(request: Request, form: Posted) -> Response:
    """Keep a token in the browser, if it is a good one."""
    token, then = text_of(form, "token", 500), safe_place(text_of(form, "then", 2000))
    if find_token(service_of(request).storage, token) is None:
        wrong = "The token is wrong or was revoked. It looks like levers_..., and `levers token create` makes one."
        return login(request, 401, wrong, then)
    answer = back_to(request, then)
    set_cookie(request, answer, COOKIE, token, KEPT_SECONDS)
    return answer


@router.post("/logout")
def logout(request: Request, form: Posted) -> Response:
    """Let the browser forget the token."""
    answer = back_to(request, "/login" if service_of(request).needs_token else "/")
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
