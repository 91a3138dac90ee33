"""From an address to a database engine."""

import os
import re
import time
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from levers.errors import StorageError

BUSY_SECONDS = 120
"""How long a write waits for others before it gives up."""

# as many connections as threads can use at once, and kept: opening one costs more than most statements
_POOL: dict[str, Any] = {"pool_size": 15, "max_overflow": 0, "pool_timeout": BUSY_SECONDS}


def new_engine(url: URL) -> Engine:
    """Connections to a database, as studies need them."""
    if url.get_backend_name() == "sqlite":
        assert url.database is not None  # parse_url refuses others
        here = url.set(database=os.path.abspath(url.database))  # connections are made later, maybe from elsewhere
        engine = create_engine(here, connect_args={"timeout": BUSY_SECONDS}, **_POOL)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_immediate)
        return engine
    try:
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10}, **_POOL)
    except ModuleNotFoundError as error:
        raise StorageError(f"{error}; install levers[postgresql]") from None


def _prepare_sqlite(connection: Any, _: object) -> None:
    """WAL, so that readers and a writer do not wait for each other; FULL, so that what was told survives power loss."""
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    for attempt in range(50):
        try:
            # changing the mode needs the file alone, and does not wait by itself
            connection.execute("PRAGMA journal_mode=WAL").close()
            break
        except Exception as error:
            if "readonly" in str(error):  # looking is still possible
                return
            if "locked" not in str(error) or attempt == 49:
                raise
            time.sleep(0.05)
    connection.execute("PRAGMA synchronous=FULL").close()
    connection.execute("PRAGMA foreign_keys=ON").close()


def _begin_immediate(connection: Connection) -> None:
    # a transaction that begins by reading could find its snapshot too old to write: take the lock first
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def parse_url(text: str) -> URL:
    """An address such as sqlite:///levers.db, checked.

    >>> parse_url("sqlite:///levers.db").database
    'levers.db'
    """
    examples = "sqlite:///levers.db or postgresql+psycopg://user@host/database"
    try:
        url = make_url(text)
    except (SQLAlchemyError, ValueError):
        shown = re.sub(r":[^:@/]*@", ":***@", text)  # an address that is nearly right may hold a password
        raise StorageError(f"{shown!r} is not a storage; use {examples}") from None
    if url.get_backend_name() == "postgresql" and url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise StorageError(f"there is no storage {url.drivername!r}; use {examples}")
    if url.get_backend_name() == "sqlite" and url.query:
        raise StorageError(f"an address of SQLite has no options: sqlite:///file.db, not {text!r}")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise StorageError("a study in memory is storage=None; sqlite needs a file: sqlite:///levers.db")
    return url
