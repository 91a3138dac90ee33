"""The contract of a storage: it keeps the log of each study, and locks it for whoever writes.

A log is the truth about a study, and a chain: every event carries a digest over itself and the event before
(`storage.chain`), and the storage keeps where the log ends beside it. Snapshots of the state are kept too, and may be
thrown away. The tests of every storage inherit `levers.testing.storages.StorageContract`.
"""

import difflib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, replace
from typing import Protocol, get_args

from levers.core.codec import from_json, tag_of, to_json
from levers.errors import InvalidNameError, NoSuchStudyError, StudyError, StudyExistsError
from levers.studies.events import EDITION, Event, Record
from levers.studies.storage.chain import digest_of, event_digest, origin_digest

MAX_NAME = 200
"""The longest name of a study."""
MAX_NAMES_LISTED = 10
"""The most names that an error message lists."""
_UNREADABLE = "a newer version of levers may have written it, or the storage is damaged"
"""The likely reason why an event cannot be read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it is kept: the event as JSON text, and the digest that chains it to the record before.

    `rules` is the edition of the rules that it was written by (`events.EDITION`).
    """

    seq: int
    at: float
    who: str
    kind: str
    data: str
    digest: str = ""
    rules: int = EDITION

    def digest_after(self, before: str) -> str:
        """The digest that it must have after an event of digest `before`."""
        return event_digest(before, self.seq, self.at, self.who, self.kind, self.data, self.rules)

    def record(self) -> Record:
        """Decode the record; an event that cannot be read is a StudyError."""
        return decoded([self])[0]


def chained(records: Iterable[Stored], before: str) -> list[Stored]:
    """Records with their digests, the first of them after an event of digest `before`.

    >>> first, second = chained([Stored(1, 0.0, "ann", "Created", "{}"), Stored(2, 1.0, "ann", "Opened", "{}")], "")
    >>> second.digest == second.digest_after(first.digest)
    True
    """
    found = []
    for record in records:
        before = record.digest_after(before)
        found.append(replace(record, digest=before))
    return found


def new_log(name: str, records: Iterable[Stored]) -> list[Stored]:
    """Records as the beginning of a new study's log."""
    found = list(records)
    return chained(found, origin_digest(name, found[0].at))


def encoded(records: Sequence[Record]) -> list[Stored]:
    """Records as they are kept, not yet chained."""
    return [Stored(one.seq, one.at, one.who, tag_of(one.event), to_json(one.event)) for one in records]


def decoded(stored: Sequence[Stored]) -> list[Record]:
    """Records as they were written. Nothing is planned or checked; one that cannot be read is a StudyError."""
    records, known = [], get_args(Event)
    for one in stored:
        try:
            event = from_json(one.data, object)
        except Exception as error:  # whatever damaged text does to JSON, numbers and arrays
            raise StudyError(
                f"event {one.seq} ({one.kind}) of the log cannot be read: {error}; {_UNREADABLE}"
            ) from None
        if not isinstance(event, known):
            raise StudyError(f"event {one.seq} of the log is a {one.kind}, which is not known; {_UNREADABLE}")
        records.append(Record(one.seq, one.at, one.who, event))
    return records


@dataclass(frozen=True, slots=True)
class Header:
    """What a storage says of a study beside its log: its name, when it was created, and where the log ends.

    The log has `n_events` events, and `head` is the digest of the last. `last` is the digest that is found at event
    `n_events` of the log itself, None where there is no such event. Whoever waited for the lock may have an older
    `last`: then there are events to read, which tell.
    """

    name: str
    created_at: float
    n_events: int
    head: str
    last: str | None

    @property
    def origin(self) -> str:
        """What the first event is chained to."""
        return origin_digest(self.name, self.created_at)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after event `seq`, whose digest is `head`; and a digest over all of that."""

    seq: int
    head: str
    data: bytes
    digest: str

    @classmethod
    def of(cls, seq: int, head: str, data: bytes) -> "Snapshot":
        """A new snapshot.

        >>> Snapshot.of(1, "00", b"x").is_whole
        True
        """
        return cls(seq, head, data, digest_of("snapshot", seq, head, data))

    @property
    def is_whole(self) -> bool:
        """Whether it is as it was made."""
        return self.digest == digest_of("snapshot", self.seq, self.head, self.data)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request that carried an idempotency key, so that the same request again gets the same answer.

    `request` is the digest of what was asked.
    """

    key: str
    at: float
    request: str
    answer: str

    @property
    def digest(self) -> str:
        """The digest of the row that keeps it."""
        return digest_of("answer", self.key, self.at, self.request, self.answer)


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: never its secret, only the SHA-256 of it. `study` is an id, or None for all studies.

    One without `expires_at` has no end; those of before there was one are like that.
    """

    id: str
    role: str
    study: int | None
    note: str
    digest: str
    created_at: float
    revoked_at: float | None = None
    expires_at: float | None = None

    @property
    def row_digest(self) -> str:
        """The digest of the row that keeps it, with every field."""
        return digest_of("token", *astuple(self))


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that logged in with a token: the SHA-256 of its cookie's value, and when it was last seen."""

    value: str
    token_id: str
    created_at: float
    seen_at: float
    expires_at: float

    @property
    def row_digest(self) -> str:
        """The digest of the row that keeps it, with every field."""
        return digest_of("session", *astuple(self))


class Writing(Protocol):
    """A transaction on one study's log, which nobody else can write to meanwhile. All of it is kept, or nothing."""

    def header(self) -> Header:
        """Where the log ended when the transaction began."""

    def read(self, after: int) -> list[Stored]:
        """The records after event number `after`."""

    def append(self, records: Sequence[Stored]) -> object:
        """Add records, which carry their digests, at the end of the log; the header's end moves with them."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot of the state, in place of the one before."""

    def answer(self, key: str) -> Answer | None:
        """The answer that is kept for a key."""

    def keep_answer(self, answer: Answer) -> None:
        """Keep an answer together with what the transaction adds."""

    def forget_answers(self, before: float) -> None:
        """Drop answers that are older than a time."""

    def take_long(self) -> None:
        """Say that it may be a while until the transaction ends, where a storage ends those that do nothing."""


class Storage(Protocol):
    """Logs of studies. A study is known by its id; names can be listed and looked up."""

    url: str

    def create(self, name: str, records: Sequence[Stored]) -> int:
        """A new study with its first records (`new_log`), created when the first of them was.

        A name that exists is refused with StudyError.
        """

    def names(self) -> list[tuple[int, str]]:
        """All studies, oldest first."""

    def find(self, name: str) -> int:
        """The id of a study; StudyError if there is none, with names that are close."""

    def delete(self, study: int) -> None:
        """Remove a study and its log."""

    def header(self, study: int) -> Header:
        """The study's name and creation, and where its log ends, all as of one moment."""

    def read(self, study: int, after: int) -> list[Stored]:
        """The records after event number `after`."""

    def snapshot(self, study: int) -> Snapshot | None:
        """The last snapshot."""

    def writing(self, study: int) -> AbstractContextManager[Writing]:
        """A transaction: the log is locked until the block ends, and nothing is kept of one that ends with an error."""

    def tokens(self) -> list[Token]:
        """All tokens, oldest first, also those that were revoked."""

    def token(self, token_id: str) -> Token | None:
        """One token."""

    def add_token(self, token: Token) -> None:
        """Keep a new token."""

    def revoke_token(self, token_id: str, at: float) -> bool:
        """Revoke a token; False when there is none, or it was revoked before."""

    def ping(self) -> None:
        """A StorageError unless it answers: soon, also while others wait for locks or for a connection."""
        self.token("none")

    def expire_token(self, token_id: str, at: float) -> bool:
        """Let a token end at another time; False when there is none, or it was revoked."""

    def session(self, value: str) -> Session | None:
        """The session that a digest of a cookie's value belongs to; None also for a row that somebody changed."""

    def sessions(self) -> list[Session]:
        """All sessions that are kept, oldest first."""

    def add_session(self, session: Session) -> None:
        """Keep a new session. It goes with its token's study."""

    def see_session(self, value: str, at: float) -> None:
        """Note when a session was used last."""

    def end_session(self, value: str) -> None:
        """Remove a session, if there is one."""

    def forget_sessions(self, expired: float, idle: float) -> None:
        """Remove sessions that have expired by one time, and those that were last seen before another."""

    def close(self) -> None:
        """Close all connections."""


def check_name(name: str) -> str:
    """A name that can be typed on a command line and shown on one line.

    >>> check_name("line 3")
    'line 3'
    """
    if not isinstance(name, str) or not name.strip() or name != name.strip() or len(name) > MAX_NAME:
        raise InvalidNameError(
            f"a study's name is a text of 1 to {MAX_NAME} characters without spaces around it, not {name!r}"
        )
    if name.startswith("-"):
        raise InvalidNameError(
            f"a study's name cannot begin with a dash, because commands take that for an option: {name!r}"
        )
    if name in (".", ".."):
        raise InvalidNameError(f"a study cannot be called {name!r}, because a web address takes that for a folder")
    if not name.isprintable():
        raise InvalidNameError(f"a study's name must be printable on one line, not {name!r}")
    return name


def no_such_study(name: str, known: Sequence[str], url: str | None = None) -> NoSuchStudyError:
    """The error for a name that is not there, with what might have been meant.

    >>> str(no_such_study("lin", ["line", "farm"], "sqlite:///x.db"))
    "there is no study 'lin' in sqlite:///x.db (did you mean 'line'?); there are: line, farm"
    """
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    listed = ", ".join(known[:MAX_NAMES_LISTED]) + (" ..." if len(known) > MAX_NAMES_LISTED else "")
    there = f"there are: {listed}" if known else "there is none yet; `levers create` makes one"
    place = "" if url is None else f" in {url}"
    return NoSuchStudyError(f"there is no study {name!r}{place}{hint}; {there}")


def exists_already(name: str) -> StudyExistsError:
    """The error for a name that is taken."""
    return StudyExistsError(f"there is a study called {name!r} already; load it, or choose another name")


def deleted() -> NoSuchStudyError:
    """The error for a study that was deleted while somebody worked with it."""
    return NoSuchStudyError("this study was deleted")
