"""Tokens: who may do what over the network, and until when. Only a digest of the secret is ever kept."""

import hashlib
import hmac
import re
import secrets
import time
from typing import Literal

from levers.core.validation import check_choice, check_text
from levers.errors import InvalidSettingError, TokenError
from levers.studies.storage.base import Storage, Token

ROLES = ("read", "write", "admin")
"""What a token allows, each including the ones before: look; ask, tell and correct; create, copy and delete."""

PREFIX = "levers"
MAX_NOTE = 200
DAY = 86_400.0
DEFAULT_SECONDS = 90 * DAY
"""How long a token works if nothing else is said."""
WARN_SECONDS = 7 * DAY
"""How long before its end the use of a token is warned of."""
_UNITS = {"m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}
MAX_WHO = 200
"""The longest name in a log."""


def create_token(
    storage: Storage,
    role: str,
    study: str | None = None,
    note: str = "",
    *,
    seconds: float | None = DEFAULT_SECONDS,
    now: float | None = None,
) -> str:
    """A new token, as text: the only time that it can be read. With a study's name it opens that study alone.

    It works for `seconds`, 90 days if nothing else is said; None is for ever. The secret has 256 random bits, so a
    plain SHA-256 of it can be kept: there is nothing to guess.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> text = create_token(storage, "read")
    >>> find_token(storage, text).role
    'read'
    """
    check_choice("role", role, ROLES)
    if not isinstance(note, str) or len(note) > MAX_NOTE or (note and not note.isprintable()):
        raise TokenError(f"a token's note is a text of at most {MAX_NOTE} characters on one line")
    check_text("note", note, MAX_NOTE)
    if role == "admin" and study is not None:
        raise TokenError("an admin token is for all studies; use the role write for one of them")
    return _add(storage, role, None if study is None else storage.find(study), note, seconds, now)


def _add(
    storage: Storage, role: str, study: int | None, note: str, seconds: float | None, now: float | None = None
) -> str:
    if seconds is not None and not 0 < seconds < 1000 * 365 * DAY:
        raise TokenError("a token works for more than no time, and less than a thousand years; `never` has no end")
    at = time.time() if now is None else now
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    until = None if seconds is None else at + seconds
    storage.add_token(Token(token_id, role, study, note, _digest(secret), at, None, until))
    return f"{PREFIX}_{token_id}_{secret}"


def find_token(storage: Storage, text: str, now: float | None = None) -> Token | None:
    """The token that a text is the secret of; None when it is wrong, revoked or has expired."""
    found = known_token(storage, text)
    return found if found is not None and why_not(found, now) is None else None


def known_token(storage: Storage, text: str) -> Token | None:
    """The token that a text is the secret of, also one that has ended; None when it is wrong."""
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    found = storage.token(token_id) if prefix == PREFIX and token_id.isascii() and token_id.isalnum() else None
    # compared also when there is no such token, so that time does not tell which ids exist
    same = hmac.compare_digest(_digest(secret), _digest("") if found is None else found.digest)
    return found if found is not None and same else None


def why_not(token: Token, now: float | None = None) -> str | None:
    """Why a token opens nothing any more; None when it does.

    >>> why_not(Token("ab", "read", None, "", "", 0.0, None, 50.0), now=51.0)
    'has expired'
    """
    at = time.time() if now is None else now
    if token.revoked_at is not None:
        return "was revoked"
    return "has expired" if token.expires_at is not None and token.expires_at <= at else None


def rotate_token(
    storage: Storage,
    token_id: str,
    *,
    grace: float = 0.0,
    seconds: float | Literal["as before"] | None = "as before",
    now: float | None = None,
) -> str:
    """A new token in place of another, for the same role, study and note; the old one works for `grace` more seconds.

    The new one has an id of its own, so that the log tells the two apart, and works as long as the old one was made to,
    or for `seconds` (None: for ever). In place of one that had no end, it gets the default.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> old = create_token(storage, "write", note="bench 2")
    >>> new = rotate_token(storage, old.split("_")[1])
    >>> find_token(storage, old), find_token(storage, new).note
    (None, 'bench 2')
    """
    at = time.time() if now is None else now
    old = storage.token(token_id)
    if old is None or why_not(old, at) is not None:
        raise _not_in_use(storage, token_id, "rotated", at)
    if not 0 <= grace < 1000 * 365 * DAY:
        raise TokenError("the old token works for 0 seconds or more after it was rotated")
    if seconds == "as before":
        seconds = DEFAULT_SECONDS if old.expires_at is None else old.expires_at - old.created_at
    text = _add(storage, old.role, old.study, old.note, seconds, at)
    if grace:
        storage.expire_token(token_id, min(at + grace, old.expires_at or at + grace))
    else:
        storage.revoke_token(token_id, at)
    return text


def revoke_token(storage: Storage, token_id: str) -> None:
    """Let a token open nothing any more, from the next request on."""
    if not storage.revoke_token(token_id, time.time()):
        raise _not_in_use(storage, token_id, "revoked", time.time())


def active_tokens(storage: Storage, now: float | None = None) -> list[Token]:
    """The tokens that open something."""
    return [token for token in storage.tokens() if why_not(token, now) is None]


def name_in_log(token: Token) -> str:
    """What the log calls whoever comes with a token: its note, and always its id, which no other token has.

    >>> name_in_log(Token("3f2a91c04b7d", "write", None, "bench 2", "", 0.0))
    'bench 2 (token 3f2a91c04b7d)'
    >>> name_in_log(Token("3f2a91c04b7d", "write", None, "", "", 0.0))
    'token 3f2a91c04b7d'
    """
    if not token.note:
        return f"token {token.id}"
    own = f" (token {token.id})"
    return f"{token.note[: MAX_WHO - len(own)]}{own}"


def short_name(who: str) -> str:
    """A name of a log for people who work side by side: without the token's id, where a note stands before it.

    >>> short_name("bench 2 (token 3f2a91c04b7d)"), short_name("token 3f2a91c04b7d"), short_name("ann")
    ('bench 2', 'token 3f2a91c04b7d', 'ann')
    """
    return re.sub(r"(?<=.) \(token [0-9a-f]{12}\)$", "", who)


def days_left(token: Token, now: float | None = None) -> float | None:
    """Days until a token ends, below 0 when it has; None when it has no end.

    >>> days_left(Token("ab", "read", None, "", "", 0.0, None, 2 * DAY), now=DAY)
    1.0
    """
    at = time.time() if now is None else now
    return None if token.expires_at is None else (token.expires_at - at) / DAY


def lifetime(text: str) -> float | None:
    """Seconds from a text such as 30d, 12h or 2w; None for `never`.

    >>> lifetime("30d"), lifetime("never")
    (2592000.0, None)
    """
    if text.strip().lower() == "never":
        return None
    found = re.fullmatch(r"\s*([0-9]{1,6})\s*([mhdw])\s*", text.lower())
    if found is None:
        raise InvalidSettingError(f"a time is a number with m, h, d or w, such as 30d, or `never`, not {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def _not_in_use(storage: Storage, token_id: str, what: str, now: float) -> TokenError:
    known = [token.id for token in active_tokens(storage, now)]
    listed = f"tokens in use: {', '.join(known)}" if known else "no token is in use"
    return TokenError(f"there is no token {token_id!r} that could be {what}; {listed}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
