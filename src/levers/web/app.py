"""The application: the API, the pages and the static files behind one guard."""

import uuid
from importlib.metadata import version
from typing import Any

from anyio import to_thread
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp

from levers.errors import LeversError, NoSuchStudyError
from levers.web.access.head import HeadAsGet
from levers.web.api import bearer
from levers.web.api import router as api
from levers.web.api.deps import responses
from levers.web.errors import Problem, RefusedError, sendable
from levers.web.limits.probe import Probe
from levers.web.live import Live
from levers.web.pages import add_pages, error_page
from levers.web.security import API, METHODS, Guard, Metrics, check_role
from levers.web.service import Service, log


def make_app(
    service: Service,
    hosts: tuple[str, ...] | None = None,
    public: str | None = None,
    proxies: tuple[str, ...] = (),
) -> ASGIApp:
    """Everything that is served. `hosts` are the host names it answers to; None is any.

    `public` is the address (https://lab.example.org) by which a proxy in front of it is called, and `proxies` are the
    addresses of proxies on other machines, whose word about where a request comes from counts.

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
        redirect_slashes=False,  # a redirect would have to spell names again; no address here ends in a slash
    )
    app.state.service, app.state.metrics, app.state.live = service, metrics, Live(service, metrics.followers)
    for kind in (LeversError, RefusedError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(Exception, _unexpected)
    app.include_router(api, prefix=API)
    _add_health(app, service, metrics)
    add_pages(app)
    return Guard(HeadAsGet(app), service, hosts, metrics, public, proxies)


def _add_health(app: FastAPI, service: Service, metrics: Metrics) -> None:
    probe = Probe(service.storage, service.limits.health_seconds)

    @app.get(
        "/health",
        tags=["service"],
        operation_id="getHealth",
        summary="Whether the service answers",
        response_model=dict[str, str],
        responses=responses(only=(421, 431, 503)),
    )
    async def health() -> Any:
        """Whether the service and its storage answer. It waits for nothing else, and for the storage not for long."""
        await probe.check()
        return JSONResponse({"status": "ok"})

    @app.get(
        "/metrics",
        tags=["service"],
        operation_id="getMetrics",
        summary="Counts and times",
        response_class=Response,
        responses={**responses(only=(401, 403, 421, 429, 431, 503)), 200: {"content": {"text/plain": {}}}},
        dependencies=[Depends(bearer)],
    )
    def counts(request: Request) -> Any:
        """Requests and times, for Prometheus."""
        service.allow(request, "read")
        return PlainTextResponse(metrics.text())


async def _answer(request: Request, error: Exception) -> Response:
    """Any error as an answer: JSON for programs, a page for people."""
    if isinstance(error, RequestValidationError) or getattr(error, "status_code", 0) == 400:
        error = await to_thread.run_sync(_access_first, request, error)
    problem = Problem.of(error)
    if isinstance(error, NoSuchStudyError):
        await to_thread.run_sync(request.app.state.service.forget_deleted)
    if problem.status >= 500 and not isinstance(error, RefusedError):  # what was refused is counted, and no error
        log.error("%s: %s", problem.kind, error)
    answer = await _said(request, problem)
    for name, value in (getattr(error, "headers", None) or {}).items():
        answer.headers[name] = value
    if problem.status == 503:
        answer.headers.setdefault("retry-after", "5")
    if problem.status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    if problem.status == 405:
        answer.headers["allow"] = ", ".join(_methods(request))
    return answer


async def _unexpected(request: Request, error: Exception) -> Response:
    """An error that nobody expected. The framework raises it once more, and the guard writes it to the log."""
    name = request.scope["levers.state"]["error"] = uuid.uuid4().hex[:12]
    message = f"something went wrong here; the log of the service has it as {name}"
    return await _said(request, Problem(500, "Internal", message, (message,)))


async def _said(request: Request, problem: Problem) -> Response:
    """As JSON for a program. As a page for people, on a thread, because it looks at the storage for who is there."""
    if request.url.path.startswith(("/api/", "/health", "/metrics")):
        error = {"kind": problem.kind, "message": sendable(problem.message), **problem.about}
        return JSONResponse({"error": error}, problem.status)
    return await to_thread.run_sync(error_page, request, problem)


def _access_first(request: Request, error: Exception) -> Exception:
    """What is wrong with a request is told to those who may ask; the framework looks at it before we do."""
    try:
        check_role(request.app.state.service, request)
    except (RefusedError, LeversError) as refused:
        return refused
    return error


def _methods(request: Request) -> list[str]:
    """What may be done at an address: the router itself only says what the first route that matches can."""
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    routes = request.app.router.routes
    found = [m for m, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in routes)]
    return [m for m in METHODS if m in found or (m == "HEAD" and "GET" in found)]
