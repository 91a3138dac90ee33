"""What a request may bring, by the role that its address needs; and how many of each kind are worked on at once.

Both are decided by the method and the address alone, before a byte of the body is read. What is allowed is decided
once more where the work is done, with the study at hand.
"""

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field

from anyio import move_on_after
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from levers.web.errors import RefusedError
from levers.web.limits import Limits

API = "/api/v1"
OPEN = ("/login", "/logout")
"""Where people without a token may send something."""
OPEN_BYTES = 64 << 10
SMALL = 16 << 10
"""A body so small that it costs less to read than to look up who sends it."""
LARGE = 256 << 10
"""A body so large that it is not read where everybody's requests come in."""
FOLLOWING = "following"
"""The lane of pages that follow a study: they keep their places as long as they are there."""
AGENTS, AGENTS_READS = "agents", "long reads of agents"
"""The lane of messages of agents, and that of their tools that read for long, which is inside of it."""
LEAVING = ("computing", AGENTS)
"""The lanes whose work ends when whoever asked for it leaves."""
_SAFE = ("GET", "HEAD", "OPTIONS")
_BYTES_A_SECOND = 1 << 19
_ADMIN = re.compile(r"/studies|/demo|/studies/[^/]+/(?:copy|merge|delete)")
_SHEET = re.compile(r"/studies/[^/]+/(?:sheet|sheet/corrections|sheet/past|upload)")
_LONG_READ = re.compile(
    r"/studies/[^/]+/(?:export/[^/]+|report|frame|sheet|diagnostics|checks|verify|verification|events|runs\.[^/]+"
    r"|verdict|effects)|/compare.*"
)
_QUICK = ("/health", "/metrics", "/favicon.ico")


def needed_role(method: str, path: str) -> str | None:
    """The role that a request needs; None where nobody has to say who they are.

    >>> needed_role("POST", "/api/v1/studies/oven/tell"), needed_role("POST", "/api/v1/studies")
    ('write', 'admin')
    >>> needed_role("POST", "/plan"), needed_role("GET", "/studies/oven"), needed_role("POST", "/login")
    ('read', 'read', None)
    """
    plain = path.removeprefix(API)
    if plain in OPEN:
        return None
    if method in _SAFE or plain == "/plan" or not plain.startswith(("/studies", "/demo")):
        return "read"
    return "admin" if method == "DELETE" or _ADMIN.fullmatch(plain) else "write"


def most_bytes(method: str, path: str, limits: Limits) -> int:
    """How large the body of a request may be: a reader's in kilobytes, rows and spaces in megabytes, sheets most.

    >>> [most_bytes("POST", path, Limits()) >> 10 for path in ("/plan", "/studies/oven/tell", "/studies/oven/upload")]
    [256, 8192, 65536]
    """
    plain = path.removeprefix(API)
    role = needed_role(method, path)
    if role is None or method in _SAFE:
        return min(OPEN_BYTES, limits.body_bytes)
    if role == "read":
        return min(limits.read_bytes, limits.body_bytes)
    if method != "DELETE" and _SHEET.fullmatch(plain):
        return limits.body_bytes
    return min(limits.json_bytes, limits.body_bytes)


def lane_of(method: str, path: str) -> str:
    """The kind of work that a request is: each kind has places of its own, so that none waits behind another.

    >>> lane_of("POST", "/api/v1/plan"), lane_of("POST", "/api/v1/studies/oven/tell"), lane_of("GET", "/health")
    ('computing', 'changes', '')
    >>> lane_of("POST", "/mcp")  # what it asks for is in the body
    'agents'
    """
    plain = path.removeprefix(API)
    if plain in _QUICK or plain.startswith("/static/"):
        return ""
    if method in _SAFE and plain.endswith("/stream"):
        return FOLLOWING
    if method in _SAFE:
        return "long reads" if _LONG_READ.fullmatch(plain) else "reads"
    if plain == "/mcp":
        return AGENTS
    if plain in ("/plan", "/studies") or plain.endswith("/merge"):
        return "computing"
    if _SHEET.fullmatch(plain) and not (method == "POST" and plain.endswith("/sheet")):
        return "computing"
    return "changes"


class Lane:
    """Places for one kind of work, and how long others wait for one."""

    def __init__(self, places: int, waiting: int, seconds: float) -> None:
        self.places, self.most = places, places + waiting
        self._free = asyncio.Semaphore(places)
        self._waiting, self._most_waiting, self._seconds = 0, waiting, seconds

    async def take(self) -> "Place":
        """A place; refused when there is none for too long."""
        taken = not self._free.locked()
        if taken:
            await self._free.acquire()
        elif self._waiting < self._most_waiting:
            self._waiting += 1
            try:
                with move_on_after(self._seconds):
                    await self._free.acquire()
                    taken = True
            finally:
                self._waiting -= 1
        if not taken:
            raise RefusedError(503, "too much of this kind is under way; try again in a few seconds", retry_after=5)
        return Place(self._free)


@dataclass
class Place:
    """A place in a lane."""

    free: asyncio.Semaphore
    is_held: bool = True

    def give_back(self) -> None:
        """For the next one; once is enough."""
        if self.is_held:
            self.is_held = False
            self.free.release()


def lanes(limits: Limits) -> dict[str, Lane]:
    """The lanes of a service. Looking never holds up changes, and what takes long never holds up what does not."""
    computing = limits.workers + limits.waiting
    return {
        "computing": Lane(computing, 0, 0.0),
        AGENTS_READS: Lane(2, 8, 20.0),
        AGENTS: Lane(computing + 10 + 10, 200, 20.0),  # when all tools that take long are taken, ten are left
        "long reads": Lane(2, 50, 20.0),
        "reads": Lane(8, 1_000, 30.0),  # more threads would only take turns
        "changes": Lane(100, 2_000, 60.0),
        "large": Lane(1, 20, 20.0),
        "roles": Lane(8, 2_000, 30.0),
        FOLLOWING: Lane(limits.followers, 0, 0.0),
    }


@dataclass
class Held:
    """The bytes of all large bodies that are in memory, and how many of them one sender may have there.

    Small ones do not count: there are no more of them than connections, and nobody may shut them out.
    """

    most: int
    share: int
    now: int = 0
    by_sender: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, limits: Limits) -> "Held":
        """As limits say: a quarter for one sender, or what one body may have.

        >>> Held.of(Limits()).share >> 20
        128
        """
        most = max(limits.held_bytes, limits.body_bytes)
        return cls(most, max(most // 4, limits.body_bytes))

    def add(self, sender: str, n: int) -> None:
        """So many bytes more, or fewer."""
        self.now += n
        self.by_sender[sender] += n
        if self.by_sender[sender] == 0:
            del self.by_sender[sender]


@dataclass
class Body:
    """The body of a request, as it comes: refused when it is too large, too slow, or too much beside all others."""

    scope: Scope
    most: int
    limits: Limits
    held: Held
    sender: str = ""
    """A token, or an address where there is none; it is to be known before a large body is taken."""
    size: int = 0
    counted: int = 0
    parts: list[bytes] = field(default_factory=list)

    def check_stated(self) -> bool:
        """Whether there is one; refuse one that says itself that it is too large."""
        headers = Headers(scope=self.scope)
        stated = headers.get("content-length", "0")
        if not stated.isdigit() or len(stated) > 18 or int(stated) > self.most:
            raise self._too_large()
        return stated != "0" or "transfer-encoding" in headers

    def stated(self) -> int:
        """How many bytes it says it has; more than any where it does not say."""
        headers = Headers(scope=self.scope)
        return 1 << 60 if "transfer-encoding" in headers else int(headers.get("content-length", "0"))

    async def take(self, receive: Receive) -> Receive:
        """All of it; then what it came from, with the body as one piece."""
        stated = min(self.stated(), self.most)
        seconds = self.limits.body_seconds + stated / _BYTES_A_SECOND
        more = True
        with move_on_after(seconds) as limit:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                part = message.get("body", b"")
                self.parts.append(part)
                self.size += len(part)
                more = message.get("more_body", False)
                if self.size > self.most:
                    raise self._too_large()
                if self.size > LARGE:
                    self._count()
        if limit.cancelled_caught:
            raise RefusedError(408, f"the request took more than {seconds:.0f} s to arrive; send it in parts")
        waiting = [{"type": "http.request", "body": b"".join(self.parts), "more_body": False}]
        self.parts.clear()

        async def replayed() -> Message:
            return waiting.pop() if waiting else await receive()

        return replayed

    def let_go(self) -> None:
        """It is in memory no longer."""
        self.held.add(self.sender, -self.counted)
        self.size = self.counted = 0
        self.parts.clear()

    def _count(self) -> None:
        self.held.add(self.sender, self.size - self.counted)
        self.counted = self.size
        if self.held.now > self.held.most:
            raise RefusedError(503, "too many large requests are under way; try again", retry_after=5)
        if self.held.by_sender[self.sender] > self.held.share:
            raise RefusedError(503, "too many large requests of yours are under way; try again", retry_after=5)

    def _too_large(self) -> RefusedError:
        return RefusedError(413, f"the request has more than {self.most >> 10:,} kB; send it in parts")
