"""The application: the API, the pages and the static files behind one guard."""

from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from levers.errors import LeversError, NoSuchStudyError
from levers.web.api import router as api
from levers.web.guard import Guard
from levers.web.live import Live
from levers.web.metrics import Metrics
from levers.web.pages import add_pages, error_page
from levers.web.refusing import RefusedError, message_of, status_of
from levers.web.service import Service, log

API = "/api/v1"


def make_app(service: Service, hosts: tuple[str, ...] | None = None) -> ASGIApp:
    """Everything that is served. `hosts` are the host names it answers to; None is any.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> app = make_app(Service(MemoryStorage()))
    """
    metrics = Metrics()
    app = FastAPI(
        title="levers",
        version=version("levers"),
        summary="Studies of levers over HTTP: ask for runs, tell outcomes, get the verdict.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # both load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service, app.state.metrics, app.state.live = service, metrics, Live(service, metrics.followers)
    for kind in (LeversError, RefusedError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer)
    app.include_router(api, prefix=API)
    _add_health(app, service, metrics)
    add_pages(app)
    return Guard(app, service, hosts, metrics.observe)


def _add_health(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/health", tags=["service"], response_class=JSONResponse)
    def health() -> Any:
        """Whether the service and its storage answer."""
        service.storage.token("none")
        return {"status": "ok"}

    @app.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    def counts(request: Request) -> Any:
        """Requests and times, for Prometheus."""
        service.allow(request, "read")
        return PlainTextResponse(metrics.text())


async def _answer(request: Request, error: Exception) -> Response:
    """Any error as an answer: JSON for programs, a page for people."""
    status, kind, message = _told(error)
    if isinstance(error, NoSuchStudyError):
        request.app.state.service.forget_deleted()
    if status >= 500:
        log.error("%s: %s", kind, error)
    for_program = request.url.path.startswith(("/api/", "/health", "/metrics"))
    make: Callable[..., Awaitable[Response] | Response] = _problem if for_program else error_page
    made = make(request, status, kind, message)
    answer = await made if isinstance(made, Awaitable) else made
    for name, value in (getattr(error, "headers", None) or {}).items():
        answer.headers[name] = value
    if status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    return answer


def _problem(request: Request, status: int, kind: str, message: str) -> Response:
    return JSONResponse({"error": {"kind": kind, "message": message}}, status)


def _told(error: Exception) -> tuple[int, str, str]:
    if isinstance(error, LeversError):
        return status_of(error), type(error).__name__, message_of(error)
    if isinstance(error, RefusedError):
        return error.status, "Refused", str(error)
    if isinstance(error, RequestValidationError):
        found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:10]]
        return 422, "InvalidRequest", "; ".join(found)
    assert isinstance(error, HTTPException)
    return error.status_code, "Refused", str(error.detail)
