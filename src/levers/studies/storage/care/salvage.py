"""Every row that can still be read from a damaged storage.

A SQLite file is read in two ways: through SQLite, around the places where it gives up, and page by page without it,
because a page that is damaged in the middle of a tree hides whole pages that are not. What is read twice is kept twice
if it differs; the digests say later which of the two is right.
"""

import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from levers.errors import StorageError
from levers.studies.storage.care.check import of_right_types
from levers.studies.storage.care.rows import TABLES, Row, ServerRows, open_to_look, reading, text
from levers.studies.storage.care.tables import _CONSTANTS, _MAGIC
from levers.studies.storage.schema import metadata
from levers.studies.storage.sql import parse_url

MOST_PROBES = 200_000
"""How many single rows are looked for between the last that can be read from either end."""
_LEAF = 13
"""The type of a page that holds rows."""

Salvaged = dict[str, list[Row]]


def salvaged_rows(address: str) -> Salvaged:
    """The readable rows of each table, in no order, some of them twice."""
    url = parse_url(address)
    if url.get_backend_name() != "sqlite":
        with reading(address) as rows:
            assert isinstance(rows, ServerRows)
            return {table: list(_server_rows(rows, table)) for table in TABLES}
    path = os.path.abspath(url.database or "")
    if not os.path.isfile(path):
        raise StorageError(f"there is no file {path}")
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy.db")
        shutil.copyfile(path, copy)
        if os.path.exists(path + "-wal"):
            shutil.copyfile(path + "-wal", copy + "-wal")
        _mend_header(copy)
        found: Salvaged = {table: [] for table in TABLES}
        for table in TABLES:
            with suppress(sqlite3.Error):
                found[table] += _sql_rows(copy, table)
        with suppress(sqlite3.Error):  # what is in the log goes into the pages, as far as that can be
            connection = sqlite3.connect(copy)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
            connection.close()
        for table, row in _carved_rows(copy):
            if row not in found[table]:
                found[table].append(row)
        return found


def _mend_header(path: str) -> None:
    """A file whose first bytes are damaged opens again when what is the same in every file is put in place."""
    with open(path, "r+b") as file:
        header = bytearray(file.read(100))
        if len(header) < 100:
            return
        header[:16] = _MAGIC
        size, page = os.path.getsize(path), int.from_bytes(header[16:18], "big")
        if page != 1 and (page < 512 or page & (page - 1) or size % page):
            header[16:18] = (4096).to_bytes(2, "big")
        for at, (wanted, _) in _CONSTANTS.items():
            header[at : at + len(wanted)] = wanted
        header[18:20] = b"\2\2" if os.path.exists(path + "-wal") else b"\1\1"
        header[92:96] = header[24:28]
        file.seek(0)
        file.write(header)


def _sql_rows(path: str, table: str) -> list[Row]:
    """By the order in the file: forwards until SQLite gives up, backwards until it does, and one by one between."""
    connection = open_to_look(path, "mode=rw")
    try:
        names = [column.name for column in metadata.tables[table].columns]
        query = f"SELECT rowid, {', '.join(names)} FROM {table} NOT INDEXED"
        found: dict[int, Row] = {}

        def take(rows: Iterator[tuple[Any, ...]]) -> int | None:
            """Rows as far as they come; where it ended, None if all came."""
            last = None
            try:
                for rowid, *values in rows:
                    found[rowid] = _row(table, names, values)
                    last = rowid
            except sqlite3.Error:
                return -1 if last is None else int(last)
            return None

        first = take(connection.execute(f"{query} ORDER BY rowid"))
        if first is not None:
            last = take(connection.execute(f"{query} ORDER BY rowid DESC"))
            between = range(first + 1, min(last if last not in (None, -1) else first, first + MOST_PROBES))
            for rowid in between:
                with suppress(sqlite3.Error):
                    take(connection.execute(f"{query} WHERE rowid = ?", (rowid,)))
        return list(found.values())
    finally:
        connection.close()


def _row(table: str, names: list[str], values: Any) -> Row:
    blobs = {column.name for column in metadata.tables[table].columns if isinstance(column.type, sa.LargeBinary)}
    return {name: v if name in blobs else text(v) for name, v in zip(names, values, strict=True)}


def _carved_rows(path: str) -> Iterator[tuple[str, Row]]:
    """Rows from the pages themselves: those that have the columns of one of our tables."""
    with open(path, "rb") as file:
        data = file.read()
    kinds = {table: _reader(table) for table in ("studies", "events", "answers", "tokens", "storage")}
    for rowid, values in records(data):
        for table, read in kinds.items():
            row = read(rowid, values)
            if row is not None:
                yield table, row


def _reader(table: str) -> Callable[[int, list[Any]], Row | None]:
    columns = list(metadata.tables[table].columns)
    names = [column.name for column in columns]
    keys = [c.name for c in columns if c.primary_key]
    alias = keys[0] if len(keys) == 1 and isinstance(metadata.tables[table].c[keys[0]].type, sa.Integer) else None

    def read(rowid: int, values: list[Any]) -> Row | None:
        later = columns[len(values) :]  # a row from before a column was added does not have it
        if len(values) > len(names) or not all(column.nullable for column in later):
            return None
        row = _row(table, names, [*values, *(None for _ in later)])
        if alias is not None:
            if row[alias] is not None:
                return None
            row[alias] = rowid  # SQLite does not keep it twice
        for column in columns:
            if isinstance(column.type, sa.Double) and isinstance(row[column.name], int):
                row[column.name] = float(row[column.name])  # which is how SQLite keeps whole numbers
        return row if of_right_types(table, row) and isinstance(row.get("study_id", 0), int | None) else None

    return read


def records(data: bytes) -> Iterator[tuple[int, list[Any]]]:
    """The records on all leaf pages of a SQLite file, with their row numbers; damaged ones are left out."""
    page = int.from_bytes(data[16:18], "big")
    page = 65536 if page == 1 else page
    if page < 512 or page & (page - 1):
        return
    for begin in range(0, len(data), page):
        head = begin + (100 if begin == 0 else 0)
        if head + 8 > len(data) or data[head] != _LEAF:
            continue
        n_cells = int.from_bytes(data[head + 3 : head + 5], "big")
        for i in range(min(n_cells, page // 4)):
            at = head + 8 + 2 * i
            place = int.from_bytes(data[at : at + 2], "big")
            with suppress(ValueError, IndexError, struct.error, OverflowError):
                yield _cell(data, page, begin + place, begin + page)


def _cell(data: bytes, page: int, at: int, end: int) -> tuple[int, list[Any]]:
    """https://www.sqlite.org/fileformat2.html: a cell of a table leaf page, and its record."""
    if not at < end <= len(data):
        raise ValueError
    size, at = _varint(data, at)
    rowid, at = _varint(data, at)
    if size > len(data):
        raise ValueError
    most, least = page - 35, (page - 12) * 32 // 255 - 23
    local = size
    if size > most:
        spilled = least + (size - least) % (page - 4)
        local = spilled if spilled <= most else least
    if at + local > end:
        raise ValueError
    payload = data[at : at + local]
    further = int.from_bytes(data[at + local : at + local + 4], "big") if local < size else 0
    parts, left, n_pages = [payload], size - local, 0
    while left > 0:
        begin = (further - 1) * page
        if further < 2 or begin + page > len(data) or n_pages > len(data) // page:
            raise ValueError
        parts.append(data[begin + 4 : begin + 4 + min(left, page - 4)])
        further, left, n_pages = int.from_bytes(data[begin : begin + 4], "big"), left - (page - 4), n_pages + 1
    signed = rowid - (1 << 64) if rowid >> 63 else rowid
    return signed, _values(b"".join(parts))


def _values(payload: bytes) -> list[Any]:
    header, at = _varint(payload, 0)
    kinds = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        size = (kind - 12) // 2 if kind >= 12 else (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind] if kind < 10 else -1
        if size < 0 or at + size > len(payload):
            raise ValueError
        part = payload[at : at + size]
        at += size
        if kind == 0:
            values.append(None)
        elif kind in (8, 9):
            values.append(kind - 8)
        elif kind == 7:
            values.append(struct.unpack(">d", part)[0])
        elif kind < 7:
            values.append(int.from_bytes(part, "big", signed=True))
        else:
            values.append(bytes(part))
    return values


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for i in range(9):
        byte = data[at + i]
        if i == 8:
            return (found << 8) | byte, at + 9
        found = (found << 7) | (byte & 0x7F)
        if byte < 0x80:
            return found, at + i + 1
    raise ValueError


def _server_rows(rows: ServerRows, table: str) -> Iterator[Row]:
    """All of a table; where the server cannot read some page, row by row."""
    try:
        found = list(rows.rows(table))
    except sa.exc.DBAPIError:
        rows.connection.rollback()
        yield from _one_by_one(rows, table)
        return
    yield from found


def _one_by_one(rows: ServerRows, table: str) -> Iterator[Row]:
    """By the places of rows on their pages: whoever cannot be read is left out."""
    pages = rows.connection.execute(
        sa.text("SELECT pg_relation_size(CAST(:name AS regclass)) / current_setting('block_size')::int"),
        {"name": table},
    ).scalar()
    for page in range(int(pages or 0)):
        for item in range(1, 300):
            query = sa.select(metadata.tables[table]).where(sa.text(f"ctid = '({page},{item})'::tid"))
            try:
                row = rows.connection.execute(query).mappings().one_or_none()
            except sa.exc.DBAPIError:
                rows.connection.rollback()
                break
            if row is not None:
                yield {name: bytes(v) if isinstance(v, memoryview) else v for name, v in row.items()}
