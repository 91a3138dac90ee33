"""The rows of a storage as they are, whatever happened to it: for checks, backups and repairs.

Nothing here trusts what it reads. A row is a dictionary with the types that the database gave; what cannot be read as
text stays bytes.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

import sqlalchemy as sa

from levers.errors import StorageError
from levers.studies.storage.schema import VERSION_TABLE, metadata
from levers.studies.storage.sql import new_engine, parse_url
from levers.studies.storage.sqlite_file import BUSY_SECONDS, read_only_reason

Row = dict[str, Any]
TABLES = ("studies", "events", "snapshots", "answers", "tokens", "storage")
"""What a storage consists of, in an order in which rows can be added."""
KEYS = {"studies": "id", "events": "study_id, seq", "snapshots": "study_id", "answers": "study_id, key", "tokens": "id"}
BATCH = 500


class Rows(Protocol):
    """All rows of a storage, as of one moment."""

    url: str

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table, by its key; any error of the database comes through."""

    def version(self) -> str | None:
        """The schema that it says it has; None where there is no such table."""

    def last_id(self) -> int:
        """The last id that the database gave to a study."""


@contextmanager
def reading(address: str) -> "Iterator[Rows]":
    """The rows of a storage. Nothing is made or changed, and a missing file is a StorageError."""
    url = parse_url(address)
    shown = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite":
        path = os.path.abspath(url.database or "")
        connection = open_to_look(path)
        try:
            yield SqliteRows(connection, shown)
        finally:
            connection.close()
        return
    engine = new_engine(url, patient=True)
    try:
        with engine.connect().execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        ) as connected:
            yield ServerRows(connected, shown)
    except sa.exc.SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StorageError(f"the storage {shown} cannot be read: {cause}") from error
    finally:
        engine.dispose()


def open_to_look(path: str, options: str | None = None) -> sqlite3.Connection:
    """A connection that can only read, and takes nothing in the file at its word."""
    if not os.path.isfile(path):
        raise StorageError(f"there is no file {path}")
    if options is None:
        log = path + "-wal"
        if os.path.exists(log) and os.path.getsize(log):
            options = "mode=ro"  # what is in the log stays there
        else:  # SQLite takes away again what it makes beside the file, if it may write there
            options = "mode=rw" if read_only_reason(path) is None else "immutable=1"
    connection = sqlite3.connect(
        f"file:{quote(path)}?{options}", uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = bytes
    connection.execute("PRAGMA trusted_schema=OFF").close()
    connection.execute("PRAGMA cell_size_check=ON").close()
    connection.execute("PRAGMA query_only=ON").close()
    return connection


def text(value: Any) -> Any:
    """What a column of text holds, as text if it is some."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


class SqliteRows:
    """Rows of a file; one read transaction, so that others may write meanwhile."""

    def __init__(self, connection: sqlite3.Connection, url: str) -> None:
        self.connection = connection
        self.url = url
        self._is_begun = False

    def begin(self) -> None:
        """From here on everything is as of one moment."""
        if not self._is_begun:
            self.connection.execute("BEGIN").close()
            self._is_begun = True

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table."""
        self.begin()
        names = [column.name for column in metadata.tables[table].columns]
        blobs = {c.name for c in metadata.tables[table].columns if isinstance(c.type, sa.LargeBinary)}
        order = f" ORDER BY {KEYS[table]}" if table in KEYS else ""
        listed = ", ".join(f'"{name}"' for name in names)
        for row in self.connection.execute(f'SELECT {listed} FROM "{table}"{order}'):
            yield {n: v if n in blobs else text(v) for n, v in zip(names, row, strict=True)}

    def version(self) -> str | None:
        """The schema that it says it has."""
        self.begin()
        known = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (VERSION_TABLE,)).fetchone()
        if known is None:
            return None
        found = self.connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall()
        return str(text(found[0][0])) if len(found) == 1 else f"{len(found)} of them"

    def last_id(self) -> int:
        """The last id that was given to a study."""
        self.begin()
        found = self.connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
        if not found:
            return 0
        if len(found) > 1 or text(found[0][0]) != "studies" or not isinstance(found[0][1], int):
            raise StorageError("sqlite_sequence has other rows than the last id of a study")
        return int(found[0][1])


class ServerRows:
    """Rows of a PostgreSQL database, in one snapshot."""

    def __init__(self, connection: sa.Connection, url: str) -> None:
        self.connection = connection
        self.url = url

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table."""
        found = metadata.tables[table]
        order = [found.c[name.strip()] for name in KEYS.get(table, "").split(",") if name]
        query = sa.select(found).order_by(*order).execution_options(yield_per=BATCH)
        for row in self.connection.execute(query).mappings():
            yield {name: bytes(v) if isinstance(v, memoryview) else v for name, v in row.items()}

    def version(self) -> str | None:
        """The schema that it says it has."""
        if not sa.inspect(self.connection).has_table(VERSION_TABLE):
            return None
        found = self.connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
        return str(found[0]) if len(found) == 1 else f"{len(found)} of them"

    def last_id(self) -> int:
        """The last id that was given to a study."""
        query = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM studies_id_seq"
        return int(self.connection.execute(sa.text(query)).scalar() or 0)
