"""The log as a chain: digests that bind every event to all events before it, and rows to the study they belong to.

Whoever changes, adds or removes a row without computing the digests anew is noticed: when the log is read, by `levers
verify`, and by `levers storage check`. Somebody who may write the whole database can compute all of them anew. Against
that only a head that is kept elsewhere helps (`levers verify STUDY --head DIGEST`).
"""

import hashlib
import struct
from collections.abc import Iterable

from levers.errors import StorageError

NOTHING = "0" * 64
"""The total of no digests."""
_MODULUS = 1 << 256
Value = str | bytes | float | int | None
"""What a column of a row holds."""


def digest_of(*values: Value) -> str:
    """SHA-256 over values, in an encoding that no other values have.

    Each value is encoded as a letter for its kind, the length of its bytes (8 bytes, highest first), and its bytes:
    `n` nothing; `f` a number as an IEEE double (8 bytes, highest first), so that 5 and 5.0 are the same; `s` a text in
    UTF-8; `b` bytes.

    >>> digest_of("ab", "c") == digest_of("a", "bc")
    False
    >>> digest_of(5, None) == digest_of(5.0, None)
    True
    """
    parts = []
    for value in values:
        if isinstance(value, str):
            kind, data = b"s", value.encode("utf-8", "surrogatepass")
        elif value is None:
            kind, data = b"n", b""
        elif isinstance(value, bytes):
            kind, data = b"b", value
        else:
            kind, data = b"f", struct.pack(">d", value)
        parts += [kind, len(data).to_bytes(8, "big"), data]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def origin_digest(name: str, created_at: float) -> str:
    """What the first event of a log is chained to: the study's name, and when it was created.

    origin = digest_of("levers study", name, created_at)

    >>> origin_digest("oven", 10.0)[:16]
    'b58bcd0a1e694184'
    """
    return digest_of("levers study", name, created_at)


def event_digest(before: str, seq: int, at: float, who: str, kind: str, data: str, rules: int) -> str:
    """The digest of an event: over the digest of the event before it, and everything that is kept of the event.

    digest[n] = digest_of(digest[n - 1], n, at, who, kind, data, rules), with digest[0] = origin

    >>> event_digest(origin_digest("oven", 10.0), 1, 10.0, "ann", "Created", "{}", 1)[:16]
    '78880a2ff3c3e89d'
    """
    return digest_of(before, seq, at, who, kind, data, rules)


def total_of(digests: Iterable[str], start: str = NOTHING) -> str:
    """Digests added up (modulo 2^256), in any order: what tells that a row of many is missing, without reading a list.

    >>> one, other = digest_of("a"), digest_of("b")
    >>> total_of([one, other]) == total_of([other], start=total_of([one]))
    True
    """
    return f"{(_number(start) + sum(map(_number, digests))) % _MODULUS:064x}"


def without(total: str, digests: Iterable[str]) -> str:
    """A total less some digests that were in it.

    >>> without(total_of([digest_of("a"), digest_of("b")]), [digest_of("b")]) == digest_of("a")
    True
    """
    return f"{(_number(total) - sum(map(_number, digests))) % _MODULUS:064x}"


def _number(digest: str) -> int:
    try:
        return int(digest, 16)
    except ValueError:
        raise StorageError(
            f"the storage is damaged: {digest[:70]!r} stands where a digest was kept; `levers storage check` says more"
        ) from None
