"""Requests that are sent until they are answered, and answers that are errors."""

import json
import logging
import os
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import numpy as np

from levers import errors
from levers.core.validation import check_positive
from levers.errors import (
    InvalidSettingError,
    LeversError,
    SheetError,
    StorageError,
    SurprisingOutcomesError,
    TokenError,
    UnreachableError,
    to_install,
)
from levers.studies.outcomes import Surprise

if TYPE_CHECKING:
    import httpx

API = "/api/v1"
_AGAIN = (502, 503, 504)
_ENDS = "levers-token-expires"
_SHORTEST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger("levers")


class Transport:
    """A connection to a service.

    A request that is not answered is sent again, with pauses that grow, for `patience` seconds. Changes carry a key
    by which the service knows them again, so that a lost answer never makes a change happen twice.
    """

    def __init__(self, url: str, token: str | None, timeout: float, patience: float) -> None:
        self.url = _checked_url(url)
        if token is not None and not (token and token.isascii() and token.isprintable()):
            raise TokenError("that is no token: `levers token create` prints one")
        self._token = token
        self._timeout = check_positive("timeout", timeout)
        self._patience = check_positive("patience", patience)
        self._made: httpx.Client | None = None
        self._warned = False
        self._process = os.getpid()

    def get(self, path: str, **params: Any) -> "httpx.Response":
        """Read something."""
        return self._send("GET", path, params)

    def get_json(self, path: str, **params: Any) -> Any:
        """Read something that is JSON."""
        return self.get(path, **params).json()

    def pages(self, path: str, offset: int = 0, limit: int | None = None) -> Iterator[Any]:
        """All items of something that comes page by page, so many at a time."""
        while True:
            page = self.get_json(path, offset=offset, limit=limit)
            yield from page["items"]
            offset += len(page["items"])
            if not page["items"] or offset >= page["total"]:
                return

    def change(self, path: str, body: Mapping[str, Any], **params: Any) -> Any:
        """Change something, once."""
        content = json.dumps(body, default=_plain).encode()
        return self.send("POST", path, content, "application/json", **params).json()

    def send(
        self, method: str, path: str, content: bytes | None = None, kind: str = "", **params: Any
    ) -> "httpx.Response":
        """Change something, once, with whatever body and answer."""
        headers = {"idempotency-key": uuid.uuid4().hex} | ({"content-type": kind} if kind else {})
        return self._send(method, path, params, content=content, headers=headers)

    def close(self) -> None:
        """Let go of the connections."""
        if self._made is not None and self._process == os.getpid():
            self._made.close()
        self._made = None

    def __del__(self) -> None:
        if getattr(self, "_made", None) is not None:  # not there when the address was refused
            self.close()

    @property
    def _http(self) -> "httpx.Client":
        if self._made is None or self._process != os.getpid():  # a forked process needs connections of its own
            self._made, self._process = self._new(), os.getpid()
        return self._made

    def _new(self) -> "httpx.Client":
        library = _httpx()
        found: httpx.Client = library.Client(
            base_url=self.url,
            headers={} if self._token is None else {"authorization": f"Bearer {self._token}"},
            timeout=library.Timeout(self._timeout, connect=min(self._timeout, 10.0)),
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,  # no proxy stands between a machine and itself
        )
        return found

    def _send(self, method: str, path: str, params: Mapping[str, Any], **more: Any) -> "httpx.Response":
        more["params"] = {name: value for name, value in params.items() if value is not None}
        unanswered = _httpx().TransportError
        until, pause, said = time.monotonic() + self._patience, _SHORTEST_WAIT, False
        while True:
            try:
                found: httpx.Response = self._http.request(method, API + path, **more)
            except unanswered as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if found.status_code not in _AGAIN:
                    self._warn_of_end(found)
                    return found if found.is_success else _fail(found)
                problem = f"status {found.status_code}"
            if time.monotonic() + pause > until:
                raise UnreachableError(
                    f"{self.url} does not answer ({problem}); is it running there? `levers dashboard` starts it, and "
                    "what was sent may be sent again"
                )
            if not said:
                said = True
                log.warning("%s does not answer (%s); trying again for %g s", self.url, problem, self._patience)
            time.sleep(pause * random.uniform(0.5, 1.0))  # so that many workers do not come back all at once
            pause = min(2 * pause, _LONGEST_WAIT)

    def _warn_of_end(self, found: "httpx.Response") -> None:
        """Say once that the token ends soon, if the service says so."""
        ends = found.headers.get(_ENDS)
        if ends and not self._warned:
            self._warned = True
            log.warning("the token for %s ends at %s; `levers token rotate` there makes a new one", self.url, ends[:40])


def _fail(response: "httpx.Response") -> NoReturn:
    """Raise what the service raised."""
    try:
        found = response.json()["error"]
        kind = error_of(str(found["kind"]), response.status_code)
        error = kind(str(found["message"]), field=found.get("field"), problems=found.get("problems", ()))
        if isinstance(error, SheetError):
            error.rows = tuple((int(row), str(why)) for row, why in found.get("rows", ()))
            error.n_wrong = int(found.get("n_wrong", 0))
        if isinstance(error, SurprisingOutcomesError):
            error.flags = surprises_of(found)
    except (ValueError, KeyError, TypeError):
        raise StorageError(
            f"{response.url.copy_with(path='', query=None)} answered with status {response.status_code}, "
            "not as a levers service does; is the address right?"
        ) from None
    raise error


def surprises_of(data: Mapping[str, Any]) -> tuple[Surprise, ...]:
    """The surprising outcomes of an answer. An older service names none."""
    names = Surprise.__dataclass_fields__
    return tuple(
        Surprise(**{name: value for name, value in one.items() if name in names}) for one in data.get("flags", ())
    )


def error_of(kind: str, status: int) -> type[LeversError]:
    """The exception for an error of the service.

    >>> error_of("NoSuchStudyError", 404).__name__, error_of("Refused", 403).__name__
    ('NoSuchStudyError', 'TokenError')
    """
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, LeversError):
        return found
    if status in (401, 403, 429):
        return TokenError
    return InvalidSettingError if status in (413, 415, 422) else StorageError


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except (ValueError, AttributeError, TypeError):
        raise InvalidSettingError("the address of a service looks like http://127.0.0.1:8080") from None
    if parts.username or parts.password:
        raise InvalidSettingError("give the token as token=, or in LEVERS_TOKEN, not in the address")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidSettingError(f"the address of a service looks like http://127.0.0.1:8080, not {url!r}")
    return url.rstrip("/")


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidSettingError(f"{value!r} cannot be sent; give numbers and texts")


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise InvalidSettingError(f"a client needs httpx: {to_install('client')}") from None
    return httpx
