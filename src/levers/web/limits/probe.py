"""Whether the storage answers, asked on a thread of its own, so that nobody who works or waits is in the way."""

import asyncio
import threading
from concurrent.futures import Future

from levers.errors import StorageError
from levers.studies.storage.base import Storage


class Probe:
    """Asks the storage something small. Whoever asks while that goes on shares its answer.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> asyncio.run(Probe(MemoryStorage()).check())
    """

    def __init__(self, storage: Storage, seconds: float = 2.0) -> None:
        self._storage = storage
        self._seconds = seconds
        self._lock = threading.Lock()
        self._asked: Future[None] | None = None

    async def check(self) -> None:
        """StorageError when it does not answer, or not in time."""
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._answer())), self._seconds)
        except TimeoutError:
            raise StorageError(f"the storage has not answered for {self._seconds:g} s") from None

    def _answer(self) -> "Future[None]":
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = Future()
                threading.Thread(target=self._ask, args=(self._asked,), name="levers-health", daemon=True).start()
            return self._asked

    def _ask(self, asked: "Future[None]") -> None:
        try:
            self._storage.ping()
        except BaseException as error:
            asked.set_exception(error)
        else:
            asked.set_result(None)
