"""Live pages: a stream of server-sent events that says when a study has changed."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from anyio import to_thread
from prometheus_client import Gauge

from levers.errors import LeversError, StorageError
from levers.web.errors import RefusedError
from levers.web.service import Service

LOOK_SECONDS = 0.5
"""How often the storage is looked at while somebody follows: other processes write to it too."""
_BEAT_SECONDS = 15.0


class Live:
    """Follows studies for as many pages as there are; each study is looked at once for all of them."""

    def __init__(self, service: Service, followers: Gauge) -> None:
        self._service = service
        self._followers = followers
        self._looks: dict[str, tuple[float, asyncio.Task[int]]] = {}

    async def follow(self, name: str, since: int, check: Callable[[], object]) -> AsyncIterator[str]:
        """Events, as text: `changed` with the place in the log, `gone` when the study was deleted.

        `check` raises when whoever follows may not any more.
        """
        self._followers.inc()
        try:
            yield "retry: 2000\n\n"
            last = checked = time.monotonic()
            while not self._service.stopping.is_set():
                try:
                    seq = await self._look(name)
                    if time.monotonic() - checked > _BEAT_SECONDS:  # a token may have been revoked
                        await to_thread.run_sync(check)
                        checked = time.monotonic()
                except StorageError:  # it may come back
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                except (LeversError, RefusedError):
                    yield "event: gone\ndata: \n\n"
                    return
                if seq != since:
                    since, last = seq, time.monotonic()
                    yield f"event: changed\nid: {seq}\ndata: {seq}\n\n"
                elif time.monotonic() - last > _BEAT_SECONDS:
                    last = time.monotonic()
                    yield ": still here\n\n"  # so that both ends notice when the other is gone
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._followers.dec()

    async def _look(self, name: str) -> int:
        """The study's place in its log, at most LOOK_SECONDS old."""
        found = self._looks.get(name)
        if found is None or time.monotonic() - found[0] > LOOK_SECONDS:
            task = asyncio.ensure_future(to_thread.run_sync(lambda: self._service.open(name).state.seq))
            found = self._looks[name] = (time.monotonic(), task)
        return await asyncio.shield(found[1])
