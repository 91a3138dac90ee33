"""What must be true of a SQLite file of levers before its rows are looked at: its header, its pages, its tables."""

import os
import re
import sqlite3
from collections.abc import Iterator
from functools import cache

import sqlalchemy as sa

from levers.studies.storage.care.rows import text
from levers.studies.storage.schema import configuration, metadata, version_table

Found = Iterator[tuple[str, str]]
MOST_OF_SQLITE = 100
"""How many errors SQLite is asked to list."""

_MAGIC = b"SQLite format 3\0"
_CONSTANTS = {
    20: (b"\0", "reserved space"),
    21: (b"\x40\x20\x20", "payload fractions"),
    44: (b"\0\0\0\4", "schema format"),
    48: (b"\0\0\0\0", "cache size"),
    52: (b"\0\0\0\0", "largest root page"),
    56: (b"\0\0\0\1", "text encoding"),
    60: (b"\0\0\0\0", "user version"),
    64: (b"\0\0\0\0", "incremental vacuum"),
    68: (b"\0\0\0\0", "application id"),
    72: (b"\0" * 20, "bytes that are not used"),
}
"""What stands at these places of the header in every file that we make: https://www.sqlite.org/fileformat2.html."""


def check_file(connection: sqlite3.Connection) -> Found:
    """The header of the file, and SQLite's own check of all pages and indexes."""
    path = str(text(connection.execute("PRAGMA database_list").fetchone()[2]))
    yield from (("file", what) for what in header_damages(path))
    # asked for before a transaction begins, so that it sees what the rows are read from or a moment before
    for (line,) in connection.execute(f"PRAGMA integrity_check({MOST_OF_SQLITE})"):
        if (said := str(text(line))) != "ok":
            yield "file", said.replace("\n", " ")
    for row in connection.execute("PRAGMA foreign_key_check"):
        yield f"table {text(row[0])}", "a row belongs to a study that there is not"


def header_damages(path: str) -> list[str]:
    """What is wrong with the first 100 bytes of a file, in words."""
    for _ in range(3):  # somebody may be writing it
        found = _header_damages(path)
        if not found:
            break
    return found


def _header_damages(path: str) -> list[str]:
    with open(path, "rb") as file:
        header = file.read(100)
        size = file.seek(0, 2)
    if len(header) < 100:
        return [] if not header else ["it is too short to be a database"]
    found = [] if header.startswith(_MAGIC) else ["it does not begin as a database does"]
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    if page < 512 or page & (page - 1) or size % page:
        found.append("its page size is not one that it can have")
    elif int.from_bytes(header[28:32], "big") > size // page:
        found.append("its end is missing")
    if header[18:20] not in (b"\1\1", b"\2\2"):
        found.append("its header names a version of the format that there is not")
    for at, (wanted, name) in _CONSTANTS.items():
        # a file is made without tables, and has none until its log is brought in for the first time
        is_new = at in (44, 56) and not any(header[40:48]) and os.path.exists(path + "-wal")
        if header[at : at + len(wanted)] != wanted and not is_new:
            found.append(f"its header is damaged ({name})")
    if header[24:28] != header[92:96] or not 3_000_000 <= int.from_bytes(header[96:100], "big") < 4_000_000:
        found.append("its header is damaged (who wrote it last)")
    return found


def check_tables(connection: sqlite3.Connection) -> Found:
    """The tables and indexes are those that we make, and there is nothing else: no trigger, view or table."""
    there = {}
    for kind, name, table, made in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        key = f"{text(kind)} {text(name)} of {text(table)}"
        there[key] = "" if made is None else words(str(text(made)))
    wanted = expected_tables()
    wrong = [key for key, made in wanted.items() if there and there.get(key) != made]
    if wrong:  # a file that an older version made has columns that came later at the end
        migrated = migrated_tables()
        wrong = [key for key in wrong if there.get(key) != migrated.get(key)]
    for key in wrong:
        yield "tables", f"{key} is not as it was made" if key in there else f"{key} is missing"
    for key in there.keys() - wanted.keys():
        yield "tables", f"{key} is not one of levers"


def words(sql: str) -> str:
    """A statement without the ways in which the same can be written.

    >>> words('CREATE TABLE "a" (x  INTEGER)') == words("CREATE TABLE a (x INTEGER)")
    True
    """
    return " ".join(re.findall(r"[A-Za-z0-9_]+|'[^']*'|[^ \n\tA-Za-z0-9_'\"]", sql))


@cache
def expected_tables() -> dict[str, str]:
    """The tables of this version in a new file."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        metadata.create_all(connection)
        version_table().create(connection)
        return _tables(connection)


@cache
def migrated_tables() -> dict[str, str]:
    """The tables of this version in a file that the first version made."""
    from alembic import command

    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        command.upgrade(configuration(connection), "head")
        return _tables(connection)


def _tables(connection: sa.Connection) -> dict[str, str]:
    rows = connection.execute(sa.text("SELECT type, name, tbl_name, sql FROM sqlite_master")).all()
    return {f"{kind} {name} of {table}": "" if made is None else words(made) for kind, name, table, made in rows}
