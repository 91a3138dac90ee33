"""Connections: how many there may be, how long each may do nothing, and how much may come before a request begins.

The server library limits none of these. Its protocol is told here to count: the bytes of a head, the connections of
all and of each address, and the seconds in which a connection neither brings a request nor takes its answer.
"""

import asyncio
import contextlib
import heapq
import ipaddress
import logging
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from levers.web.limits import Limits

_SPARE_FILES = 256
"""Files that the service needs beside its connections: databases, sheets, libraries."""
_SWEEP_SECONDS = 1.0
_SETTLED_SECONDS = 5.0
"""How long a request may take to arrive before it has to give way to new ones where there are too many."""
_MOST_HEADERS = 100
_MOST_PARTS, _LEAST_PART = 20_000, 256
"""In how many chunks a body may come that are smaller on average than so many bytes."""
_PHRASES = {408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


def open_file_limit() -> int:
    """Let this process have as many files open as it may, and say how many that is.

    >>> open_file_limit() > 0
    True
    """
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return 1 << 20
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    if soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 0) or most


def most_connections(wanted: int, n_files: int, backlog: int) -> int:
    """How many connections there may be: each is an open file, and those that wait are accepted many at a time.

    >>> most_connections(1000, 20_000, 1024), most_connections(1000, 1024, 128)
    (1000, 640)
    """
    return max(min(wanted, n_files - backlog - _SPARE_FILES), 16)


class Connections:
    """All connections of a service. The oldest that do nothing end when there are too many."""

    def __init__(self, limits: Limits, most: int | None = None, *, by_address: bool = True) -> None:
        self.limits = limits
        self.most = limits.connections if most is None else most
        self._by_address = by_address
        self._open: set[LimitedProtocol] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, one: "LimitedProtocol") -> None:
        """Take a new connection in; another one, or it, ends if there are too many."""
        self._open.add(one)
        self._sweep_later(one.loop)
        if len(self._open) > self.most:
            self._make_room(one, self._open)
        elif self._by_address and one.address is not None:
            alike = {other for other in self._open if other.address == one.address}
            if len(alike) > max(self.most // 2, 1):
                self._make_room(one, alike)

    def remove(self, one: "LimitedProtocol") -> None:
        """One has ended."""
        self._open.discard(one)

    def _make_room(self, new: "LimitedProtocol", among: "set[LimitedProtocol]") -> None:
        """End some that do nothing: a tenth at a time, as looking for them takes a while where there are many."""
        now = time.monotonic()
        idle, slow = [], []
        for one in among:
            if one is new:
                continue
            if one.is_idle:
                idle.append(one)
            elif one.is_arriving and now - one.since > _SETTLED_SECONDS:
                slow.append(one)
        # those that never brought a request go first
        found = heapq.nsmallest(max(self.most // 10, 1), idle, key=lambda one: (one.cycle is not None, one.since))
        found = found or heapq.nsmallest(max(self.most // 10, 1), slow, key=lambda one: one.since)
        for one in found:
            self._open.discard(one)
            one.end()
        if not found:
            new.refuse(503, "there are too many connections; try again in a moment")

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._sweeper is None and self._open:
            self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """End connections that have done nothing for too long."""
        self._sweeper = None
        now = time.monotonic()
        for one in list(self._open):
            one.check(now)
        self._sweep_later(loop)


class LimitedProtocol(HttpToolsProtocol):
    """A connection that counts what comes before it is used."""

    def __init__(self, *args: Any, connections: Connections, **more: Any) -> None:
        super().__init__(*args, **more)
        self._all = connections
        self._unused = 0  # bytes since the last that made a request, or a part of its body
        self._n_parts = self._n_bytes = 0  # of the body that comes
        self._in_head = True
        self._refused = False
        self._unsent = 0
        self._stalled = 0.0
        self.since = time.monotonic()
        self.address: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is no request under way."""
        return self.cycle is None or bool(self.cycle.response_complete)

    @property
    def is_arriving(self) -> bool:
        """Whether a request has begun and is not whole yet."""
        return self._in_head if self.is_idle else bool(self.cycle.more_body) and not self.cycle.response_started

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(transport)
        if self.client is not None and not _is_loopback(self.client[0]):
            self.address = self.client[0]
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client has gone."""
        self._all.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if self._refused:
            return
        self._unused += len(data)
        super().data_received(data)
        if self._unused > self._all.limits.head_bytes + len(data):
            self._too_large()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self.since, self._in_head = time.monotonic(), True

    def on_headers_complete(self) -> None:
        """A head is whole."""
        if self._is_large():
            raise ValueError("the head is too large")  # comes back as an error of the parser
        self._unused, self._in_head = 0, False
        self._n_parts = self._n_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._unused = 0
        self._n_parts, self._n_bytes = self._n_parts + 1, self._n_bytes + len(body)
        if self._n_parts > _MOST_PARTS and self._n_bytes < _LEAST_PART * self._n_parts:
            raise ValueError("the body comes in too many pieces")  # each costs as much as a large one
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._unused = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request was answered."""
        self.since = time.monotonic()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """What the parser cannot read is refused; what is only too large is told so."""
        if self._refused:
            return
        if self._in_head and self.headers is not None and self._is_large():
            self._too_large()
        else:
            self._refused = True
            super().send_400_response(msg)

    def _is_large(self) -> bool:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        return size > self._all.limits.head_bytes or len(self.headers) > _MOST_HEADERS

    def _too_large(self) -> None:
        most = self._all.limits.head_bytes >> 10
        self.refuse(431, f"the address and the headers have more than {most} kB, or {_MOST_HEADERS} headers; send less")

    def refuse(self, status: int, message: str) -> None:
        """Answer without a request, and end."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        if self.is_idle:
            text = b'{"error":{"kind":"Refused","message":"%s"}}' % message.encode("ascii")
            head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(text)}\r\nconnection: close\r\n"
            head += "retry-after: 5\r\n\r\n" if status == 503 else "\r\n"
            self.transport.write(head.encode() + text)
        self.transport.close()

    def end(self) -> None:
        """Give way to another."""
        self._refused = True
        self.transport.abort() if self.is_arriving and not self.is_idle else self.transport.close()

    def check(self, now: float) -> None:
        """End a connection that has taken too long: to bring a head, to stop sending, or to take its answer."""
        limits = self._all.limits
        left = self.transport.get_write_buffer_size()
        if left == 0 or left != self._unsent:
            self._unsent, self._stalled = left, now
        elif now - self._stalled > limits.stalled_seconds:
            self.transport.abort()
            return
        if self.is_idle and self.timeout_keep_alive_task is None and now - self.since > limits.head_seconds:
            if self._in_head and self._unused:
                self.refuse(408, f"the head of a request took more than {limits.head_seconds:g} s to arrive")
            else:  # it brought nothing, or the rest of a request that was refused
                self.end()


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True  # a socket file


class FewRepeats(logging.Filter):
    """Lets the same warning or error into a log once in some seconds, and says how often it came meanwhile.

    >>> few = FewRepeats()
    >>> record = logging.LogRecord("a", logging.ERROR, "", 0, "no more files", None, None)
    >>> few.filter(record), few.filter(record)
    (True, False)
    """

    def __init__(self, seconds: float = 10.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._last: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it."""
        if record.levelno < logging.WARNING:
            return True
        now, text = time.monotonic(), str(record.getMessage())[:200]
        at, n = self._last.get(text, (-self._seconds, 0))
        if now - at < self._seconds:
            self._last[text] = (at, n + 1)
            return False
        if len(self._last) > 1_000:
            self._last.clear()
        self._last[text] = (now, 0)
        if n:
            record.msg, record.args = f"{record.getMessage()} (and {n:,} times more since)", None
        return True
