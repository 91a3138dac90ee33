"""When sessions of browsers were last in use: noted beside the requests, which never wait for it."""

import logging
import threading

from levers.errors import StorageError
from levers.studies.storage.base import Session, Storage
from levers.studies.storage.sessions import SEEN_EVERY

log = logging.getLogger("levers.web")


class Sightings:
    """Writes down which sessions are in use, on a thread of its own that is there while there is something to write.

    Looking must not need the lock of a writer: whoever holds it would shut out everybody who only looks. A note that
    cannot be written is dropped; the next use of the session makes another, and without one the session ends earlier.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> storage, session = MemoryStorage(), Session("d", "ab", 0.0, 0.0, 1e6)
    >>> storage.add_session(session)
    >>> sightings = Sightings(storage)
    >>> sightings.note(session, now=SEEN_EVERY)
    >>> sightings.settle(10.0), storage.session("d").seen_at
    (True, 300.0)
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._due: dict[str, float] = {}  # at most one note of each session
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()

    def note(self, session: Session, now: float) -> None:
        """Note that a session is in use, if that was not noted a few minutes ago."""
        if now - session.seen_at < SEEN_EVERY:
            return
        with self._lock:
            self._due[session.value] = max(now, self._due.get(session.value, now))
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="levers-sightings", daemon=True)
                self._writer.start()

    def settle(self, seconds: float) -> bool:
        """Wait until nothing is left to write; whether that is so."""
        with self._lock:
            writer = self._writer
        if writer is not None:
            writer.join(seconds)
        return writer is None or not writer.is_alive()

    def _write(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._writer = None
                    return
                value, at = self._due.popitem()
            try:
                self._storage.see_session(value, at)
            except StorageError:
                log.debug("that a session is in use was not noted", exc_info=True)
            except Exception:  # whatever it is, the next note needs a writer
                log.exception("that a session is in use was not noted")
