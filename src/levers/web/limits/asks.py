"""Asks for runs that are all with others: they wait at the door until there are some, or for a moment.

A fleet that is larger than a round asks again and again, and gets nothing. If each of these asks were worked on, the
few outcomes that everybody waits for would stand in a line behind them. So as many asks are let in as there are runs
to hand out, and a few more each second: they see what other processes did, and whose lease is over.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable

from starlette.types import Receive

from levers.web.limits.admission import API

RATE, BURST = 50.0, 16.0
"""Asks a second, for one study, that are let in though nothing is known to be there for them, and how many at once."""
LONGEST = 5.0
"""Seconds that an ask waits at most: with more waiting than RATE lets in by then, more are let in."""
_TICK = 0.04


def asked_study(method: str, path: str) -> str | None:
    """The study, as a part of the path, that a request asks for runs; None for any other request.

    >>> asked_study("POST", "/api/v1/studies/oven/ask"), asked_study("POST", "/api/v1/studies/oven/tell")
    ('oven', None)
    """
    return study_part(path) if method == "POST" and path.startswith(API) and path.endswith("/ask") else None


def study_part(path: str) -> str | None:
    """The part of a path that names a study.

    >>> study_part("/api/v1/studies/oven/ask"), study_part("/studies/oven"), study_part("/health")
    ('oven', 'oven', None)
    """
    parts = path.removeprefix(API).split("/")
    return parts[2] if len(parts) > 2 and parts[1] == "studies" else None


class AskQueue:
    """The asks for one study: those that are worked on, and those that wait, first come first served.

    `n_free` says how many runs wait to be handed out, as far as this process knows; None where it does not.
    """

    def __init__(self, n_free: Callable[[], int | None], is_stopping: Callable[[], bool]) -> None:
        self._n_free, self._is_stopping = n_free, is_stopping
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._under_way = 0
        self._allowance, self._counted_at = BURST, asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits and nothing is worked on."""
        return not self._waiting and not self._under_way

    def enter_at_once(self) -> bool:
        """Begin with an ask, if it need not wait."""
        if self._waiting or not (self._is_due() or self._is_allowed()):
            return False
        self._under_way += 1
        return True

    async def enter(self, receive: Receive) -> bool:
        """Wait for one's turn; says whether the client is still there, for whom a run would be set aside."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._watch_the_clock()
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((turn, gone), return_when=asyncio.FIRST_COMPLETED)
            if turn.done() and gone.done():
                self.leave()
            return turn.done() and not gone.done()
        except BaseException:
            if turn.done():
                self.leave()
            raise
        finally:
            gone.cancel()
            if not turn.done():
                turn.cancel()
                self._waiting.remove(turn)

    def leave(self) -> None:
        """An ask was answered."""
        self._under_way -= 1
        self.let_in()

    def let_in(self) -> None:
        """Begin with those who wait, as far as there is something for them."""
        while self._waiting and (self._is_due() or self._is_allowed()):
            self._under_way += 1
            self._waiting.popleft().set_result(None)

    def _is_due(self) -> bool:
        n_free = self._n_free()
        return n_free is None or self._under_way < n_free or self._is_stopping()

    def _is_allowed(self) -> bool:
        now, rate = asyncio.get_running_loop().time(), max(RATE, len(self._waiting) / LONGEST)
        self._allowance = min(self._allowance + rate * (now - self._counted_at), max(BURST, math.ceil(rate * _TICK)))
        self._counted_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    def _watch_the_clock(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.let_in()
        if self._waiting:
            self._watch_the_clock()


class AskQueues:
    """The queues of all studies that are asked for runs right now."""

    def __init__(self, n_free: Callable[[str], int | None], is_stopping: Callable[[], bool]) -> None:
        self._n_free, self._is_stopping = n_free, is_stopping
        self._queues: dict[str, AskQueue] = {}

    async def enter(self, study: str, receive: Receive, check: Callable[[], Awaitable[None]]) -> bool:
        """Wait until an ask may be worked on; False if whoever sent it has left. Only those wait whom `check` lets."""
        queue = self._queues.get(study)
        if queue is None:
            queue = self._queues[study] = AskQueue(lambda: self._n_free(study), self._is_stopping)
        if queue.enter_at_once():
            return True
        try:
            await check()
            # once more: it is dropped when it is idle, also while somebody looks up who asks
            return await self._queues.setdefault(study, queue).enter(receive)
        finally:
            self._forget(study)

    def leave(self, study: str) -> None:
        """An ask that had entered was answered."""
        self._queues[study].leave()
        self._forget(study)

    def look(self, path: str) -> None:
        """Something may have changed at this address: let those in for whom there is something now."""
        study = study_part(path) if self._queues else None
        if study in self._queues:
            self._queues[study].let_in()

    def _forget(self, study: str) -> None:
        queue = self._queues.get(study)
        if queue is not None and queue.is_idle:
            del self._queues[study]


async def _until_gone(receive: Receive) -> None:
    """Until the client leaves, which is all that can come after its request."""
    while (await receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)
