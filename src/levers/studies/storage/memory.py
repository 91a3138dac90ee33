"""Logs in memory: for tries and tests, gone with the process."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from levers.errors import StudyError
from levers.studies.storage.base import Stored
from levers.studies.storage.naming import no_such_study


@dataclass(slots=True)
class _Log:
    name: str
    records: list[Stored]
    snapshot: tuple[int, bytes] | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)


@dataclass(slots=True)
class _Writing:
    log: _Log
    added: list[Stored] = field(default_factory=list)
    snapshot: tuple[int, bytes] | None = None

    def read(self, after: int) -> list[Stored]:
        return self.log.records[after:]

    def append(self, records: Sequence[Stored]) -> None:
        self.added.extend(records)

    def save_snapshot(self, seq: int, data: bytes) -> None:
        self.snapshot = (seq, data)


class MemoryStorage:
    """Logs in lists.

    >>> MemoryStorage().names()
    []
    """

    def __init__(self) -> None:
        self.url = "memory"
        self._logs: dict[int, _Log] = {}
        self._next = 1
        self._lock = threading.Lock()

    def create(self, name: str, records: Sequence[Stored]) -> int:
        """A new log."""
        with self._lock:
            if any(log.name == name for log in self._logs.values()):
                raise StudyError(f"there is a study called {name!r} already; load it, or choose another name")
            study, self._next = self._next, self._next + 1
            self._logs[study] = _Log(name, list(records))
            return study

    def names(self) -> list[tuple[int, str]]:
        """All logs."""
        return [(study, log.name) for study, log in self._logs.items()]

    def find(self, name: str) -> int:
        """The id of a log."""
        for study, known in self.names():
            if known == name:
                return study
        raise no_such_study(name, [known for _, known in self.names()], self.url)

    def delete(self, study: int) -> None:
        """Forget a log."""
        self._log(study)
        del self._logs[study]

    def read(self, study: int, after: int) -> list[Stored]:
        """Records after a place."""
        return self._log(study).records[after:]

    def snapshot(self, study: int) -> tuple[int, bytes] | None:
        """The last snapshot."""
        return self._log(study).snapshot

    @contextmanager
    def writing(self, study: int) -> Iterator[_Writing]:
        """Lock a log; what was added is kept on a clean end only."""
        log = self._log(study)
        with log.lock:
            writing = _Writing(log)
            yield writing
            log.records.extend(writing.added)
            log.snapshot = writing.snapshot or log.snapshot

    def close(self) -> None:
        """Nothing to let go of."""

    def _log(self, study: int) -> _Log:
        if study not in self._logs:
            raise StudyError("this study was deleted")
        return self._logs[study]
