"""The gate that every request passes: where it goes, who may send it, and what keeps other sites from sending forms."""

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

from anyio import move_on_after, to_thread
from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import FormData, Headers, MutableHeaders, UploadFile
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from levers.errors import StorageError
from levers.web.access.network import LOOPBACK as LOOPBACK
from levers.web.access.network import Network
from levers.web.errors import RefusedError, message_of
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
    async with request.form(max_files=1, max_fields=_MOST_FIELDS, max_part_size=_MOST_FIELD_BYTES) as form:
        known, given = request.cookies.get(form_cookie(request), ""), form.get(FIELD)
        sent = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        if not known or not hmac.compare_digest(known.encode(), sent):
            why = "this form is not from a page that this browser was shown, or is from an earlier visit; nothing was "
            raise RefusedError(403, f"{why}stored. Go back, load the page again, and send it once more")
        yield form


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
_OPEN, _OPEN_BYTES = ("/login", "/logout"), 1 << 16  # where, and how much, people without a token may send
BODY_SECONDS = 120
"""How long a request may take to arrive."""

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
        self._network = Network.of(hosts, public, proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on, log."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # routes get the path by parts; the raw path stays as it came
        inner = {**scope, "path": routed(scope), "root_path": "", "levers.state": self._network.seen(scope)}
        began, answered = time.perf_counter(), _Answered(send, inner["levers.state"])
        try:
            self._check(scope)
            if self._service.needs_token and _brings_much(scope) and inner["path"] not in _OPEN:
                await to_thread.run_sync(self._service.access, Request(inner))  # before a byte of the body is read
            receive = await self._whole(scope, receive, _OPEN_BYTES if inner["path"] in _OPEN else None)
            await self._app(inner, receive, answered)
        except Exception as error:
            status, message = _outcome(error, inner)
            if answered.status is None:  # an answer that has begun cannot become another
                told = {"kind": "Refused" if status < 500 else "Internal", "message": message}
                headers = {"www-authenticate": "Bearer"} if status == 401 else dict(getattr(error, "headers", {}))
                await JSONResponse({"error": told}, status, headers)(inner, receive, answered)
        finally:
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

    async def _whole(self, scope: Scope, receive: Receive, most: int | None) -> Receive:
        """Take in the body: refuse one that is too large, by its stated length or as it comes, or too slow."""
        most = most or self._service.limits.body_bytes
        headers = Headers(scope=scope)
        stated = headers.get("content-length", "0")
        too_large = f"the request has more than {most >> 10:,} kB; send it in parts"
        if not stated.isdigit() or int(stated) > most:
            raise RefusedError(413, too_large)
        if stated == "0" and "transfer-encoding" not in headers:
            return receive
        parts: list[bytes] = []
        size, more = 0, True
        with move_on_after(BODY_SECONDS) as limit:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > most:
                    raise RefusedError(413, too_large)
        if limit.cancelled_caught:
            raise RefusedError(408, f"the request took more than {BODY_SECONDS} s to arrive; send it in parts")
        waiting = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def replayed() -> Message:
            return waiting.pop() if waiting else await receive()

        return replayed


def _brings_much(scope: Scope) -> bool:
    """Whether a body is long enough to be worth knowing first who sends it."""
    headers = Headers(scope=scope)
    stated = headers.get("content-length", "0")
    return "transfer-encoding" in headers or not stated.isdigit() or int(stated) > _OPEN_BYTES


class _Answered:
    """Passes an answer on with the headers that every answer has, and remembers its status."""

    def __init__(self, send: Send, state: Mapping[str, Any]) -> None:
        self._send, self._state = send, state
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
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
