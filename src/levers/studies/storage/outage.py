"""Which errors of a database pass by themselves: whoever waits and tries again may succeed."""

import sqlite3
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_SQLITE = {5: "busy", 6: "locked", 10: "input or output failed", 13: "the disk is full", 14: "cannot open the file"}
"""SQLite's primary result codes (https://www.sqlite.org/rescode.html) of what another moment may mend."""
_POSTGRES = ("08", "53", "57P", "25P03", "40001", "40P01", "55P03", "57014")
"""How PostgreSQL's codes begin (its manual, appendix A): connections, resources, shutdown, timeouts, deadlocks."""
_REFUSED = ("authentication failed", "does not exist", "no pg_hba.conf entry")
"""Words of a server that answers at the door, and refuses. The driver has no code for those."""


def is_outage(error: Exception) -> bool:
    """Whether an error says that the database is away or busy now, not that something is wrong with the request.

    It may be SQLAlchemy's or a driver's own.

    >>> try:
    ...     sqlite3.connect("/nowhere/x.db")
    ... except sqlite3.Error as error:
    ...     is_outage(error)
    True
    >>> try:
    ...     sqlite3.connect(":memory:").execute("SELECT CAST(x'ff' AS TEXT)").fetchall()
    ... except sqlite3.Error as error:
    ...     is_outage(error)
    False
    """
    if isinstance(error, PoolTimeoutError):  # all connections were taken for too long
        return True
    cause: Any = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        # without a code it is the driver's own error, such as text that is not UTF-8: the file is damaged, and stays so
        code = getattr(cause, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in _SQLITE
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_POSTGRES)
    broken = getattr(error, "connection_invalidated", False) or type(cause).__name__ == "OperationalError"
    return broken and not any(words in str(cause) for words in _REFUSED)
