"""Tokens: who may do what over the network. Only a digest of the secret is ever kept."""

import hashlib
import hmac
import secrets
import time

from levers.core.validation import check_choice
from levers.errors import TokenError
from levers.studies.storage.base import Storage, Token

ROLES = ("read", "write", "admin")
"""What a token allows, each including the ones before: look; ask, tell and correct; create, copy and delete."""

PREFIX = "levers"
MAX_NOTE = 200


def create_token(storage: Storage, role: str, study: str | None = None, note: str = "") -> str:
    """A new token, as text: the only time that it can be read. With a study's name it opens that study alone.

    The secret has 256 random bits, so a plain SHA-256 of it can be kept: there is nothing to guess.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> text = create_token(storage, "read")
    >>> find_token(storage, text).role
    'read'
    """
    check_choice("role", role, ROLES)
    if not isinstance(note, str) or len(note) > MAX_NOTE or (note and not note.isprintable()):
        raise TokenError(f"a token's note is a text of at most {MAX_NOTE} characters on one line")
    if role == "admin" and study is not None:
        raise TokenError("an admin token is for all studies; use the role write for one of them")
    only = None if study is None else storage.find(study)
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    storage.add_token(Token(token_id, role, only, note, _digest(secret), time.time()))
    return f"{PREFIX}_{token_id}_{secret}"


def find_token(storage: Storage, text: str) -> Token | None:
    """The token that a text is the secret of; None when it is wrong or revoked."""
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    found = storage.token(token_id) if prefix == PREFIX and token_id.isascii() and token_id.isalnum() else None
    # compared also when there is no such token, so that time does not tell which ids exist
    same = hmac.compare_digest(_digest(secret), _digest("") if found is None else found.digest)
    return found if found is not None and same and found.revoked_at is None else None


def revoke_token(storage: Storage, token_id: str) -> None:
    """Let a token open nothing any more, from the next request on."""
    if not storage.revoke_token(token_id, time.time()):
        known = [token.id for token in storage.tokens() if token.revoked_at is None]
        listed = f"tokens in use: {', '.join(known)}" if known else "no token is in use"
        raise TokenError(f"there is no token {token_id!r} that could be revoked; {listed}")


def active_tokens(storage: Storage) -> list[Token]:
    """The tokens that open something."""
    return [token for token in storage.tokens() if token.revoked_at is None]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
