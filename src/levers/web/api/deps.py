"""What all operations share: finding the study, doing a change once, answering, and what is said about errors."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar

from fastapi import Header, Path, Query, Request, Response
from pydantic import BaseModel, Field, TypeAdapter
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticSerializationError

from levers.errors import InvalidSettingError
from levers.studies.study import MAX_KEY, Study
from levers.web.api.schemas import MOST, Problem
from levers.web.security import name_of
from levers.web.service import Limits, Service

F = TypeVar("F", bound=Callable[..., Any])
REPLAYED = "Idempotency-Replayed"
_PAGE = Limits().page_rows

Name = Annotated[str, Path(description="The study's name, percent-encoded: `a/b` is `a%2Fb`.")]
Absent = SkipJsonSchema[None]
"""What a parameter is when it is left out: there is no way to send it."""
Key = Annotated[
    Annotated[str, Field(max_length=MAX_KEY, pattern="^[!-~]+$")] | Absent,
    Header(
        alias="Idempotency-Key",
        description="A text of your own for each change. The same request with the same key happens once, and is "
        "answered the same; another request with it is refused.",
    ),
]
Insist = Annotated[
    bool,
    Query(
        description="Whether outcomes far from what the other runs lead one to expect are stored. If not, they are "
        "refused (409, SurprisingOutcomesError, with `flags`), and nothing is stored."
    ),
]
Offset = Annotated[int, Query(ge=0, le=MOST, description="How many to skip.")]
Limit = Annotated[int, Query(ge=1, le=_PAGE, description="How many to return at most.")]

_WORDS = {
    400: "The body cannot be read.",
    401: "The token is missing, wrong, revoked or has expired.",
    403: "The token does not allow this, or another site's page asks for a change.",
    404: "There is no such study or trial.",
    408: "The request took too long to arrive.",
    409: "The study, or the trial, is in a state that does not allow this.",
    413: "The request is larger than the service takes.",
    415: "The body is of a type that is not read here.",
    421: "The service is not called by that host name.",
    422: "The input is wrong; the message says what to change.",
    429: "The token is wrong, and too many wrong ones came from this address lately.",
    431: "The address and the headers are larger than the service takes.",
    503: "The storage does not answer, or too much is under way; `Retry-After` says when to try again.",
}
_ALWAYS = (401, 403, 421, 422, 429, 431, 503)
_REPLAY = {
    REPLAYED: {
        "description": "`true` when the request came before and this is the answer it got.",
        "schema": {"type": "string", "enum": ["true"]},
    }
}


def responses(*more: int, changes: int | None = None, only: tuple[int, ...] = ()) -> dict[int | str, Any]:
    """The errors that an operation documents: those that all have, and some of its own.

    >>> sorted(responses(404))
    [401, 403, 404, 421, 422, 429, 431, 503]
    """
    told = only or {*_ALWAYS, *more, *([408] if 413 in more else [])}  # what may be too large may be too slow
    found: dict[int | str, Any] = {n: {"model": Problem, "description": _WORDS[n]} for n in sorted(told)}
    if 401 in found:
        found[401]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    for busy in {429, 503} & set(found):
        found[busy]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    if changes is not None:
        found[changes] = {"headers": _REPLAY}
    return found


def service_of(request: Request) -> Service:
    """The service behind a request."""
    found: Service = request.app.state.service
    return found


def study_of(request: Request, name: str, role: str) -> Study:
    """The study at an address, for whoever asks, if they may."""
    return service_of(request).study(request, name_of(name), role)


def page_size(request: Request, limit: int) -> int:
    """How many items a page may have here."""
    return min(limit, service_of(request).limits.page_rows)


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None, *, kind: Any = None) -> Response:
    """A model, a dataclass or JSON text, as it is: FastAPI would check it again, on another thread.

    For a list, `kind` says of what.
    """
    return Response(_text(content, kind), status, headers, "application/json")


def _text(content: Any, kind: Any = None) -> str:
    if isinstance(content, str):
        return content
    found: Any = kind or type(content)
    return _adapter(found).dump_json(content).decode()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def operation(
    method: Callable[..., Any], path: str, name: str, summary: str, model: Any, **more: Any
) -> Callable[[F], F]:
    """An operation: its address, its name and title, and what it answers."""
    decorate: Callable[[F], F] = method(path, operation_id=name, summary=summary, response_model=model, **more)
    return decorate


def of_study(
    method: Callable[..., Any], where: str, name: str, summary: str, model: Any, *errors: int, **more: Any
) -> Callable[[F], F]:
    """An operation on one study, which is at `where` below the study's address."""
    path = f"/studies/{{name}}/{where}" if where else "/studies/{name}"
    return operation(method, path, name, summary, model, **{"responses": responses(404, *errors), **more})


def changed(
    request: Request,
    name: str,
    key: str | None,
    body: BaseModel,
    act: Callable[[Study], BaseModel],
    n_rows: int = 1,
    *,
    apart: bool = False,
) -> Response:
    """Make a change, once if it has a key, and answer what came of it. What is asked for is known by the address.

    What takes decisions, or fits all runs once more, may take seconds and is done `apart`.
    """
    study = study_of(request, name, "write")
    service_of(request).check_rows(n_rows)
    what = f"{request.url.path.rpartition('/')[2]} {body_text(body)}"
    text, headers = once(request, study, key, what, lambda: act(study), apart=apart)
    return answer(text, headers=headers)


def body_text(body: BaseModel) -> str:
    """A request's body as text, by which it is known again. JSON can spell half a character, which nothing can keep."""
    try:
        return body.model_dump_json()
    except PydanticSerializationError:
        raise InvalidSettingError("a text in the request has half a character (such as \\ud800); remove it") from None


def once(
    request: Request, study: Study, key: str | None, what: str, act: Callable[[], Any], *, apart: bool = False
) -> tuple[str, dict[str, str]]:
    """Make a change together with what others want of the study, or apart; with a key, only if it was not made before.

    Returns the text of the answer, and the headers that say whether it is an earlier one.
    """

    def change() -> tuple[str, dict[str, str]]:
        acted = False

        def acting() -> str:
            nonlocal acted
            acted = True
            return _text(act())

        text = acting() if key is None else study.once(key, what, acting)
        return text, {} if acted else {REPLAYED: "true"}

    return service_of(request).change(study, change, apart=apart)
