"""The contract of a storage: logs by study name, appended to under a lock, and snapshots that may be thrown away."""

import difflib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, get_args

from levers.core.codec import from_json, tag_of, to_json
from levers.errors import InvalidNameError, LeversError, NoSuchStudyError, StudyError, StudyExistsError
from levers.studies.events import Event, Record

MAX_NAME = 200


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


def no_such_study(name: str, known: Sequence[str], url: str) -> NoSuchStudyError:
    """The error for a name that is not there, with what might have been meant.

    >>> str(no_such_study("lin", ["line", "farm"], "sqlite:///x.db"))
    "there is no study 'lin' in sqlite:///x.db (did you mean 'line'?); there are: line, farm"
    """
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    listed = ", ".join(known[:10]) + (" ..." if len(known) > 10 else "")
    there = f"there are: {listed}" if known else "there is none yet; `levers create` makes one"
    return NoSuchStudyError(f"there is no study {name!r} in {url}{hint}; {there}")


def exists_already(name: str) -> StudyExistsError:
    """The error for a name that is taken."""
    return StudyExistsError(f"there is a study called {name!r} already; load it, or choose another name")


def deleted() -> NoSuchStudyError:
    """The error for a study that was removed while somebody held it."""
    return NoSuchStudyError("this study was deleted")


_NEWER = "a newer version of levers may have written it, or the storage is damaged"


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it is kept: the event as JSON text."""

    seq: int
    at: float
    who: str
    kind: str
    data: str

    def record(self) -> Record:
        """The record again."""
        return decoded([self])[0]


def encoded(records: Sequence[Record]) -> list[Stored]:
    """Records as they are kept."""
    return [Stored(one.seq, one.at, one.who, tag_of(one.event), to_json(one.event)) for one in records]


def decoded(stored: Sequence[Stored]) -> list[Record]:
    """Records as they were written. Nothing is planned or checked on the way."""
    records, known = [], get_args(Event)
    for one in stored:
        try:
            event = from_json(one.data, object)
        except (LeversError, ValueError) as error:
            raise StudyError(f"event {one.seq} ({one.kind}) of the log cannot be read: {error}; {_NEWER}") from None
        if not isinstance(event, known):
            raise StudyError(f"event {one.seq} of the log is a {one.kind}, which is not known; {_NEWER}")
        records.append(Record(one.seq, one.at, one.who, event))
    return records


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to a request that carried a key, kept with what the request did. `request` is its digest."""

    key: str
    at: float
    request: str
    answer: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: never its secret, only the SHA-256 of it. `study` is an id, or None for all studies."""

    id: str
    role: str
    study: int | None
    note: str
    digest: str
    created_at: float
    revoked_at: float | None = None


class Writing(Protocol):
    """The end of one study's log, which nobody else can write to meanwhile. All or nothing."""

    def read(self, after: int) -> list[Stored]:
        """The records after a place in the log."""

    def append(self, records: Sequence[Stored]) -> object:
        """Add records; they are kept when the block is left without an error."""

    def save_snapshot(self, seq: int, data: bytes) -> None:
        """Keep a snapshot of the state at a place in the log, instead of the last one."""

    def answer(self, key: str) -> Answer | None:
        """What was answered to a request with this key."""

    def keep_answer(self, answer: Answer) -> None:
        """Keep an answer, if the block is left without an error."""

    def forget_answers(self, before: float) -> None:
        """Drop answers that are older."""


class Storage(Protocol):
    """Logs of studies. A study is known by its id; names can be listed and looked up."""

    url: str

    def create(self, name: str, records: Sequence[Stored]) -> int:
        """A new study with its first records. A name that exists is refused with StudyError."""

    def names(self) -> list[tuple[int, str]]:
        """All studies, oldest first."""

    def find(self, name: str) -> int:
        """The id of a study; StudyError if there is none, with names that are close."""

    def delete(self, study: int) -> None:
        """Remove a study and its log."""

    def read(self, study: int, after: int) -> list[Stored]:
        """The records after a place in the log."""

    def snapshot(self, study: int) -> tuple[int, bytes] | None:
        """The last snapshot and its place."""

    def writing(self, study: int) -> AbstractContextManager[Writing]:
        """Lock the end of a study's log."""

    def tokens(self) -> list[Token]:
        """All tokens, oldest first, also those that were revoked."""

    def token(self, token_id: str) -> Token | None:
        """One token."""

    def add_token(self, token: Token) -> None:
        """Keep a new token."""

    def revoke_token(self, token_id: str, at: float) -> bool:
        """Let a token count no longer; False when there is none, or it was revoked before."""

    def close(self) -> None:
        """Let go of connections."""
