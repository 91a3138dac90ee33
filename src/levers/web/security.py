"""The gate that every request passes: where it goes, who may send it, and what keeps other sites from sending forms."""

import asyncio
import base64
import binascii
import hmac
import json
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, unquote_to_bytes

from anyio import to_thread
from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import FormData, Headers, MutableHeaders, UploadFile
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from levers.errors import StorageError
from levers.web.access.network import LOOPBACK as LOOPBACK
from levers.web.access.network import Network
from levers.web.errors import RefusedError, message_of
from levers.web.limits.admission import (
    FOLLOWING,
    LARGE,
    LEAVING,
    SMALL,
    Body,
    Held,
    Place,
    lane_of,
    lanes,
    most_bytes,
    needed_role,
)
from levers.web.limits.asks import AskQueues, asked_study
from levers.web.limits.large import form_of
from levers.web.limits.pool import Job
from levers.web.service import Service, is_secure, log

COOKIE = "levers_form"
"""Holds a random value that every form of a page repeats: another site can make a browser send neither."""
FIELD = "form_token"
_SAID = "levers_said"
_MOST_FIELDS, _MOST_FIELD_BYTES, _MOST_SAID = 5_000, 8 << 20, 1_500


def form_token(request: Request) -> str:
    """The value for the forms of this page: the browser's, or a new one of 256 random bits."""
    state = request.scope.setdefault("levers.state", {})
    if "form" not in state:
        known = request.cookies.get(form_cookie(request), "")
        state["form"] = known if len(known) == 43 and known.isascii() else secrets.token_urlsafe(32)
    return str(state["form"])


def renew_cookies(request: Request, answer: Response) -> None:
    """Give the browser the value that the page's forms repeat; the message of a redirect was shown, so forget it."""
    if request.cookies.get(form_cookie(request)) != form_token(request):
        set_cookie(request, answer, form_cookie(request), form_token(request))
    if _SAID in request.cookies:
        drop_cookie(request, answer, _SAID)


def form_cookie(request: Request) -> str:
    """The name of the cookie with a form's value: over https no other host of the domain can set it."""
    return f"__Host-{COOKIE}" if is_secure(request) else COOKIE


def set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int | None = None) -> None:
    """A cookie that no script can read and no other site makes a browser send."""
    secure = is_secure(request)
    answer.set_cookie(name, value, max_age=seconds, httponly=True, samesite="strict", secure=secure)


def drop_cookie(request: Request, answer: Response, name: str) -> None:
    """Let the browser forget a cookie."""
    answer.delete_cookie(name, httponly=True, samesite="strict", secure=is_secure(request))


async def posted(request: Request) -> AsyncIterator[FormData]:
    """The fields of a form that has the value which the browser got with the page; any other is refused."""
    form = await form_of(request, max_files=1, max_fields=_MOST_FIELDS, max_part_size=_MOST_FIELD_BYTES)
    try:
        known, given = request.cookies.get(form_cookie(request), ""), form.get(FIELD)
        sent = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        if not known or not hmac.compare_digest(known.encode(), sent):
            why = "this form is not from a page that this browser was shown, or is from an earlier visit; nothing was "
            raise RefusedError(403, f"{why}stored. Go back, load the page again, and send it once more")
        yield form
    finally:
        await form.close()


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


def routed(scope: Scope) -> str:
    """The path to route by: each part decoded, but slashes and percent signs inside of a part encoded again.

    The name of a study may have any printable character. Servers hand over the path decoded, where a study called
    `a/b` looks like two parts; the raw path still tells.

    >>> routed({"raw_path": b"/studies/a%2Fb%20%25%C3%BC/ask", "path": ""})
    '/studies/a%2Fb %25ü/ask'
    """
    if scope.get("raw_path") is None:
        return str(scope["path"])
    parts = [unquote_to_bytes(part).decode("utf-8", "replace") for part in raw_path(scope).split("/")]
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def raw_path(scope: Scope) -> str:
    """The path as it came, without the query: no letter of it can break a line of the log."""
    return bytes(scope.get("raw_path") or b"").split(b"?")[0].decode("ascii", "replace")


def name_of(part: str) -> str:
    """The name in a routed part.

    >>> name_of("a%2Fb %25ü")
    'a/b %ü'
    """
    return part.replace("%2F", "/").replace("%25", "%")


def address(name: str) -> str:
    """A name as a part of an address.

    >>> address("a/b %")
    'a%2Fb%20%25'
    """
    return quote(name, safe="")


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_SAFE = ("GET", "HEAD", "OPTIONS")

API = "/api/v1"
ENDS = "levers-token-expires"
"""The header of every answer to a token in its last week: when it ends."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """Requests by route, method and status, how long they took, and how many pages follow a study.

    >>> metrics = Metrics()
    >>> metrics.observe({"method": "GET", "route": None}, 404, 0.001)
    >>> 'levers_requests_total{method="GET",route="other",status="404"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        labels = ("method", "route")
        self._requests = Counter("levers_requests", "Requests.", (*labels, "status"), registry=registry)
        self._seconds = Histogram(
            "levers_request_seconds", "Time to answer.", labels, buckets=_BUCKETS, registry=registry
        )
        self.followers = Gauge("levers_followers", "Pages that follow a study live.", registry=registry)

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one request. Routes are counted by their pattern, so that names of studies do not become labels."""
        found = getattr(scope.get("route"), "path", None) or "other"
        if found != "other" and not found.startswith(API) and str(scope.get("path")).startswith(API):
            found = API + found  # the router leaves out under what it is included
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._requests.labels(method, found, str(status)).inc()
        self._seconds.labels(method, found).observe(seconds)

    def text(self) -> str:
        """All of it."""
        return generate_latest(self._registry).decode()


class Guard:
    """An ASGI application around the real one. `hosts` are the names it answers to; None is any."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        hosts: tuple[str, ...] | None,
        metrics: Metrics,
        public: str | None = None,
        proxies: tuple[str, ...] = (),
    ) -> None:
        self._app, self._service, self._metrics = app, service, metrics
        limits = service.limits
        self._network = Network.of(hosts, public, proxies)
        self._lanes, self._held = lanes(limits), Held.of(limits)
        self._asks = AskQueues(lambda part: service.n_free(name_of(part)), service.stopping.is_set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on, log."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # routes get the path by parts; the raw path stays as it came
        inner = {**scope, "path": routed(scope), "root_path": "", "levers.state": self._network.seen(scope)}
        began, answered = time.perf_counter(), _Answered(send, inner["levers.state"])
        method, path, limits = scope["method"], inner["path"], self._service.limits
        body = Body(scope, most_bytes(method, path, limits), limits, self._held)
        try:
            self._check(scope)
            if body.check_stated():
                if body.stated() > SMALL:  # who sends it is known before a byte of it is read
                    await self._check_role(Request(inner))
                await self._with_body(inner, receive, answered, body)
            else:
                await self._in_lane(inner, receive, answered)
        except Exception as error:
            status, message = _outcome(error, inner)
            if answered.status is None:  # an answer that has begun cannot become another
                told = {"kind": "Refused" if isinstance(error, RefusedError) else "Internal", "message": message}
                headers = dict(getattr(error, "headers", {})) | (
                    {"www-authenticate": "Bearer"} if status == 401 else {}
                )
                await JSONResponse({"error": told}, status, headers)(inner, receive, answered)
        finally:
            body.let_go()
            answered.give_back()
            if method not in _SAFE:
                self._asks.look(path)
            seconds, status = time.perf_counter() - began, answered.status or 499
            self._metrics.observe(inner, status, seconds)
            token, caller = inner["levers.state"].get("token") or "-", inner["levers.state"]["caller"]
            took = f"{status} {1000 * seconds:.1f} ms token={token} from={caller}"
            log.info("%s %s %s", scope["method"], raw_path(scope), took)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._network.answers_to(host):
            # a page of somebody else's can make its own name point here, and then read what this service answers
            how = f"if {host[:100]!r} is one of them, start it with --allow-host" if host else "the request names none"
            raise RefusedError(421, f"this service answers to the names of this machine only; {how}")
        if scope["method"] in _SAFE:
            return
        origin = headers.get("origin")
        own = origin is None or self._network.is_own_origin(origin, host)
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") or not own:
            raise RefusedError(403, "changes are taken from this service's own pages only, not from another site's")

    async def _with_body(self, scope: Scope, receive: Receive, answered: "_Answered", body: Body) -> None:
        """Take the body in, and work on the request; what takes long ends when whoever sent it leaves."""
        state = scope["levers.state"]
        body.sender = f"token {state['token']}" if "token" in state else str(state["caller"])
        whole = await body.take(receive)
        asked = asked_study(scope["method"], scope["path"])
        if asked is not None and body.size <= SMALL:
            await self._in_turn(asked, scope, receive, whole, answered)
            return
        if lane_of(scope["method"], scope["path"]) not in LEAVING:
            if body.size > LARGE:
                answered.places.append(await self._lanes["large"].take())
            await self._in_lane(scope, whole, answered)
            return
        job = state["job"] = Job()
        watch = asyncio.ensure_future(_cancel_when_gone(receive, job))
        try:
            await self._in_lane(scope, whole, answered)
        finally:
            watch.cancel()

    async def _in_turn(self, asked: str, scope: Scope, receive: Receive, whole: Receive, answered: "_Answered") -> None:
        """Work on an ask when there is a run for it, or after a moment; not at all if whoever sent it has left."""

        async def check() -> None:
            await self._check_role(Request(scope))
            scope["levers.state"].pop("access", None)  # a token may end while it waits

        if not await self._asks.enter(asked, receive, check):
            return
        try:
            await self._in_lane(scope, whole, answered)
        finally:
            self._asks.leave(asked)

    async def _check_role(self, request: Request) -> None:
        place = await self._lanes["roles"].take()
        try:
            await to_thread.run_sync(check_role, self._service, request)
        finally:
            place.give_back()

    async def _in_lane(self, scope: Scope, receive: Receive, answered: "_Answered") -> None:
        name = lane_of(scope["method"], scope["path"])
        place = None if name == "" else await self._lanes[name].take()
        if place is not None and name != FOLLOWING:
            answered.places.append(place)
        try:
            await self._app(scope, receive, answered)
        finally:
            if place is not None:
                place.give_back()


async def _cancel_when_gone(receive: Receive, job: Job) -> None:
    """Wait for the client to leave, which is all that can come after its request."""
    while (await receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)
    await to_thread.run_sync(job.cancel)


def check_role(service: Service, request: Request) -> None:
    """Refuse whoever may not do what is at an address, before anything that they sent is looked at."""
    role = needed_role(request.method, request.scope["path"])
    if role is not None:
        service.allow(request, role)


class _Answered:
    """Passes an answer on with the headers that every answer has, and remembers its status."""

    def __init__(self, send: Send, state: Mapping[str, Any]) -> None:
        self._send, self._state = send, state
        self.status: int | None = None
        self.places: list[Place] = []

    def give_back(self) -> None:
        """Leave the places of the request to the next one."""
        for place in self.places:
            place.give_back()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.give_back()  # the work is done; a client that takes its answer slowly holds nobody up
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
            if "token_ends" in self._state:
                headers[ENDS] = datetime.fromtimestamp(self._state["token_ends"], UTC).isoformat(timespec="seconds")
        await self._send(message)


def _outcome(error: Exception, scope: Scope) -> tuple[int, str]:
    """Status and message of an error that nothing inside answered. One that nobody expected goes to the log whole."""
    if isinstance(error, StorageError):
        log.error("%s", error)
        return 503, message_of(error)
    if isinstance(error, RefusedError):
        return error.status, str(error)
    name = scope["levers.state"].get("error") or uuid.uuid4().hex[:12]
    log.error("error %s in %s %s", name, scope["method"], raw_path(scope), exc_info=error)
    return 500, f"something went wrong here; the log of the service has it as {name}"
