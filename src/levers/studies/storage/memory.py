"""Logs in memory, for trials and tests; they end with the process."""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from levers.studies.storage.base import (
    Answer,
    Header,
    Session,
    Snapshot,
    Storage,
    Stored,
    Token,
    deleted,
    exists_already,
    no_such_study,
)


@dataclass(slots=True)
class _Log:
    """One study."""

    name: str
    records: list[Stored]
    snapshot: Snapshot | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    answers: dict[str, Answer] = field(default_factory=dict)

    def header(self) -> Header:
        records = self.records  # others may add to it meanwhile
        n = len(records)
        return Header(self.name, records[0].at, n, records[n - 1].digest, records[n - 1].digest)


@dataclass(slots=True)
class _Writing:
    """A transaction: what is added here is copied to the log when the block ends without an error."""

    log: _Log
    added: list[Stored] = field(default_factory=list)
    snapshot: Snapshot | None = None
    answered: dict[str, Answer] = field(default_factory=dict)
    oldest: float = -math.inf

    def header(self) -> Header:
        return self.log.header()

    def read(self, after: int) -> list[Stored]:
        return self.log.records[after:]

    def append(self, records: Sequence[Stored]) -> None:
        self.added.extend(records)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def answer(self, key: str) -> Answer | None:
        return self.answered.get(key) or self.log.answers.get(key)

    def keep_answer(self, answer: Answer) -> None:
        self.answered[answer.key] = answer

    def forget_answers(self, before: float) -> None:
        self.oldest = before

    def take_long(self) -> None:
        """It may: there is no limit."""


class MemoryStorage(Storage):
    """Logs in lists.

    >>> MemoryStorage().names()
    []
    """

    def __init__(self) -> None:
        self.url = "memory"
        self._logs: dict[int, _Log] = {}
        self._next = 1
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._sessions: dict[str, Session] = {}

    def create(self, name: str, records: Sequence[Stored]) -> int:
        with self._lock:
            if any(log.name == name for log in self._logs.values()):
                raise exists_already(name)
            study, self._next = self._next, self._next + 1
            self._logs[study] = _Log(name, list(records))
            return study

    def names(self) -> list[tuple[int, str]]:
        return [(study, log.name) for study, log in self._logs.items()]

    def find(self, name: str) -> int:
        for study, known in self.names():
            if known == name:
                return study
        raise no_such_study(name, [known for _, known in self.names()], self.url)

    def delete(self, study: int) -> None:
        self._log(study)
        del self._logs[study]
        self._tokens = {t.id: t for t in self._tokens.values() if t.study != study}
        self._sessions = {s.value: s for s in self._sessions.values() if s.token_id in self._tokens}

    def header(self, study: int) -> Header:
        return self._log(study).header()

    def read(self, study: int, after: int) -> list[Stored]:
        return self._log(study).records[after:]

    def snapshot(self, study: int) -> Snapshot | None:
        return self._log(study).snapshot

    @contextmanager
    def writing(self, study: int) -> Iterator[_Writing]:
        log = self._log(study)
        with log.lock:
            writing = _Writing(log)
            yield writing
            log.records.extend(writing.added)
            log.snapshot = writing.snapshot or log.snapshot
            kept = {key: answer for key, answer in log.answers.items() if answer.at >= writing.oldest}
            log.answers = kept | writing.answered

    def tokens(self) -> list[Token]:
        return list(self._tokens.values())

    def token(self, token_id: str) -> Token | None:
        return self._tokens.get(token_id)

    def add_token(self, token: Token) -> None:
        self._tokens[token.id] = token

    def revoke_token(self, token_id: str, at: float) -> bool:
        found = self._tokens.get(token_id)
        if found is None or found.revoked_at is not None:
            return False
        self._tokens[token_id] = replace(found, revoked_at=at)
        return True

    def expire_token(self, token_id: str, at: float) -> bool:
        found = self._tokens.get(token_id)
        if found is None or found.revoked_at is not None:
            return False
        self._tokens[token_id] = replace(found, expires_at=at)
        return True

    def session(self, value: str) -> Session | None:
        return self._sessions.get(value)

    def sessions(self) -> list[Session]:
        return sorted(self._sessions.values(), key=lambda session: (session.created_at, session.value))

    def add_session(self, session: Session) -> None:
        self._sessions[session.value] = session

    def see_session(self, value: str, at: float) -> None:
        if value in self._sessions:
            self._sessions[value] = replace(self._sessions[value], seen_at=at)

    def end_session(self, value: str) -> None:
        self._sessions.pop(value, None)

    def forget_sessions(self, expired: float, idle: float) -> None:
        kept = [one for one in self._sessions.values() if one.expires_at > expired and one.seen_at >= idle]
        self._sessions = {one.value: one for one in kept}

    def close(self) -> None:
        """Nothing to let go of."""

    def _log(self, study: int) -> _Log:
        if study not in self._logs:
            raise deleted()
        return self._logs[study]
