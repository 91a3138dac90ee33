"""Backup and restore: a whole storage, with tokens and answers, as one SQLite file; of either database, into either."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa

from levers.errors import StorageError
from levers.studies.storage.care.check import Report, check_storage
from levers.studies.storage.care.rows import BATCH, TABLES, Row, Rows, SqliteRows, open_to_look, reading
from levers.studies.storage.schema import SCHEMA, check_schema, metadata, schema_of
from levers.studies.storage.sql import new_engine, parse_url, upgrade_storage

FLUSH_BYTES = 4_000_000
"""About how much is held at once while rows are copied."""


def backup_storage(address: str, path: str | os.PathLike[str], *, force: bool = False) -> Report:
    """Copy a whole storage into one SQLite file, while others write to it; returns what a check of the copy says.

    The copy is as of one moment. It is checked before it gets its name, so a file that is there is whole. A file that
    exists is only written over with `force`.

    >>> import levers, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> url = f"sqlite:///{folder}/levers.db"
    >>> _ = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=url)
    >>> backup_storage(url, f"{folder}/saved.db").counts["events"]
    3
    """
    target = os.path.abspath(path)
    if os.path.exists(target) and not force:
        raise StorageError(f"{target} exists already; give another name, or write over it with --force")
    if not os.path.isdir(os.path.dirname(target)):
        raise StorageError(f"there is no folder {os.path.dirname(target)} for the backup")
    _refuse_itself(address, target)
    with _unfinished(target) as part, reading(address) as rows:
        if isinstance(rows, SqliteRows):
            _copy_pages(rows, part)
        else:
            _copy_rows(rows, part)
        report = check_storage(f"sqlite:///{part}")
        if report.damages:  # one of an older version is copied before it is upgraded, and cannot be checked before
            raise StorageError(
                f"the storage {rows.url} is damaged, so no backup was made: {report.damages[0]}; "
                "`levers storage check` says more, `levers storage repair` saves what can be read"
            )
        os.replace(part, target)
    for side in ("-wal", "-shm"):  # of the file that was there before
        with suppress(FileNotFoundError):
            os.unlink(target + side)
    return report


def _refuse_itself(address: str, target: str) -> None:
    url = parse_url(address)
    same = url.get_backend_name() == "sqlite" and os.path.realpath(url.database or "") == os.path.realpath(target)
    if same:
        raise StorageError(f"{target} is the storage itself; give the backup another name")


@contextmanager
def _unfinished(target: str) -> Iterator[str]:
    """A file beside the target that goes away unless it was given the target's name."""
    part = f"{target}.{os.getpid()}.part"
    try:
        yield part
    finally:
        for side in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(part + side)


def _copy_pages(rows: SqliteRows, part: str) -> None:
    """SQLite's own online backup: pages as of one moment, with what is in the write-ahead log."""
    copy = sqlite3.connect(part)
    try:
        rows.connection.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE").close()  # so that it is one file
        _drop_sessions(copy)
        copy.commit()
    except sqlite3.Error as error:
        raise StorageError(
            f"the storage {rows.url} cannot be copied: {error}; `levers storage check` says more"
        ) from error
    finally:
        copy.close()
    _sync(part)


def _drop_sessions(copy: sqlite3.Connection) -> None:
    """What is of browsers that are logged in, and of no study, is left out."""
    copy.execute("PRAGMA secure_delete=ON").close()
    there = {row[0] for row in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for name in there & (metadata.tables.keys() - set(TABLES)):
        copy.execute(f"DELETE FROM {name}").close()


def _copy_rows(rows: Rows, part: str) -> None:
    """From PostgreSQL, in one snapshot."""
    version = rows.version()
    if version != SCHEMA:
        raise StorageError(
            f"the storage {rows.url} has schema {version}, and not {SCHEMA}; `levers storage upgrade` first"
        )
    write_rows(f"sqlite:///{part}", {table: rows.rows(table) for table in TABLES}, rows.last_id())
    closing = sqlite3.connect(part)
    closing.execute("PRAGMA journal_mode=DELETE").close()
    closing.close()
    _sync(part)


def _sync(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def restore_storage(path: str | os.PathLike[str], address: str) -> Report:
    """Bring a backup back into an empty storage of either database; returns what a check of it says.

    Ids, names, logs, digests, answers and tokens are the same. A storage that has studies or tokens is refused. That
    is also how a storage moves from one database to the other.

    >>> import levers, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> url = f"sqlite:///{folder}/levers.db"
    >>> _ = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=url)
    >>> _ = backup_storage(url, f"{folder}/saved.db")
    >>> _ = restore_storage(f"{folder}/saved.db", f"sqlite:///{folder}/again.db")
    >>> levers.list_studies(f"sqlite:///{folder}/again.db")
    ['oven']
    """
    source = os.path.abspath(path)
    _refuse_itself(address, source)
    with _of_this_version(source) as current:
        report = check_storage(f"sqlite:///{current}")
        if not report.ok:
            raise StorageError(
                f"the backup {source} is damaged, so nothing was restored: {report.damages[0]}; "
                "`levers storage repair` saves what can be read"
            )
        connection = open_to_look(current)
        try:
            rows = SqliteRows(connection, source)
            write_rows(address, {table: rows.rows(table) for table in TABLES}, rows.last_id())
        finally:
            connection.close()
    return check_storage(address)


@contextmanager
def _of_this_version(source: str) -> Iterator[str]:
    """The backup itself, or a copy that was brought to this version's schema."""
    connection = open_to_look(source)
    try:
        rows = SqliteRows(connection, source)
        try:
            version = rows.version()
        except sqlite3.Error as error:
            raise StorageError(f"the backup {source} cannot be read: {error}") from error
        if version == SCHEMA or version is None or not version.isdigit() or version > SCHEMA:
            yield source  # what is wrong with it the check says
            return
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "upgraded.db")
            connection.rollback()
            _copy_pages(rows, copy)
            upgrade_storage(f"sqlite:///{copy}")
            yield copy
    finally:
        connection.close()


def write_rows(address: str, contents: Mapping[str, Iterable[Row]], last_id: int) -> None:
    """Write a whole storage, rows and ids as they are, in one transaction. A storage that has something is refused."""
    url = parse_url(address)
    shown, engine = url.render_as_string(hide_password=True), new_engine(url, patient=True)
    try:
        if schema_of(engine) is None:
            check_schema(engine, shown)
        elif (found := schema_of(engine)) != SCHEMA:
            raise StorageError(f"the storage {shown} has schema {found}, and not {SCHEMA}; use a new one")
        with engine.begin() as connection:
            for table in ("studies", "tokens"):
                if connection.execute(sa.select(sa.func.count()).select_from(metadata.tables[table])).scalar():
                    raise StorageError(f"the storage {shown} is not empty: it has {table}; restore into a new one")
            connection.execute(sa.delete(metadata.tables["storage"]))
            for table in TABLES:
                for batch in _batches(contents.get(table, ())):
                    connection.execute(sa.insert(metadata.tables[table]), batch)
            _set_last_id(connection, last_id)
    except sa.exc.SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StorageError(f"nothing was written to {shown}: {cause}") from error
    finally:
        engine.dispose()


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.get("data", ""))
        if len(batch) == BATCH or size > FLUSH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _set_last_id(connection: sa.Connection, last_id: int) -> None:
    """Ids are never used again, so the next study's follows the last that there was."""
    if not last_id:
        return
    given: dict[str, Any] = {"last": last_id}
    if connection.dialect.name == "sqlite":
        connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = 'studies'"))
        connection.execute(sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES ('studies', :last)"), given)
    else:
        connection.execute(sa.text("SELECT setval('studies_id_seq', :last)"), given)
