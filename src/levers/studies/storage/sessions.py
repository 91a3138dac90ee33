"""Sessions: a browser that showed a token once goes on with a value of its own, which ends by itself.

The storage has a digest of the value, so that a copy of the storage opens nothing, and a service that starts again
knows its visitors. A session ends with its token.
"""

import hashlib
import secrets

from levers.studies.storage.base import Session, Storage, Token

IDLE_SECONDS = 12 * 3600.0
"""A session that is not used for so long is over."""
LONGEST_SECONDS = 7 * 86_400.0
"""A session is over after so long in any case."""
SEEN_EVERY = 300.0
"""How often it is written down that a session is in use: not at every request."""


def start_session(storage: Storage, token: Token, now: float) -> str:
    """A new session of a token's bearer; returns its value, which is kept nowhere here. Sessions that are over go.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> from levers.studies.storage.tokens import create_token, find_token
    >>> storage = MemoryStorage()
    >>> token = find_token(storage, create_token(storage, "read"))
    >>> value = start_session(storage, token, now=100.0)
    >>> find_session(storage, value, now=200.0).token_id == token.id
    True
    >>> find_session(storage, value, now=100.0 + IDLE_SECONDS + 1) is None
    True
    """
    value = secrets.token_urlsafe(32)
    until = now + LONGEST_SECONDS if token.expires_at is None else min(now + LONGEST_SECONDS, token.expires_at)
    storage.forget_sessions(now, now - IDLE_SECONDS)
    storage.add_session(Session(digest_of_value(value), token.id, now, now, until))
    return value


def find_session(storage: Storage, value: str, now: float) -> Session | None:
    """The session of a value; None when there is none, or it is over. Its token may have ended all the same."""
    found = storage.session(digest_of_value(value)) if value else None
    return found if found is not None and is_open(found, now) else None


def is_open(session: Session, now: float) -> bool:
    """Whether a session goes on.

    >>> is_open(Session("d", "ab", 0.0, 100.0, 1e6), now=100.0 + IDLE_SECONDS)
    True
    """
    return now < session.expires_at and now <= session.seen_at + IDLE_SECONDS


def end_session(storage: Storage, value: str) -> None:
    """Let a value open nothing any more."""
    if value:
        storage.end_session(digest_of_value(value))


def digest_of_value(value: str) -> str:
    """What is kept of a value: 256 random bits have nothing to guess, so a plain digest will do."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
