"""Check a whole storage: the database's own checks, the tables, and every digest of every row."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import sqlalchemy as sa

from levers.errors import LeversError, StorageError
from levers.studies.storage.base import Answer, Session, Snapshot, Stored, Token, decoded
from levers.studies.storage.care.rows import TABLES, Row, Rows, ServerRows, SqliteRows, reading
from levers.studies.storage.care.tables import check_file, check_tables
from levers.studies.storage.chain import NOTHING, origin_digest, total_of
from levers.studies.storage.schema import SCHEMA, metadata, storage_row, study_digest

MOST_SHOWN = 20
"""How many things that are wrong are printed of one kind; all are counted."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong: where (the file, a table or a study), with which event if it is one, and what."""

    where: str
    what: str
    seq: int | None = None

    def __str__(self) -> str:
        return f"{self.where}{'' if self.seq is None else f', event {self.seq}'}: {self.what}"


@dataclass
class Report:
    """What a check looked at, and what is wrong. `unchecked` is why rows were not looked at, where they were not."""

    url: str
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    unchecked: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything was looked at, and nothing is wrong."""
        return not self.damages and not self.unchecked

    def add(self, where: str, what: str, seq: int | None = None) -> None:
        """Something is wrong."""
        self.damages.append(Damage(where, what, seq))


def check_storage(address: str) -> Report:
    """Look at everything in a storage, without changing anything; others may go on writing to it.

    >>> import levers, os, tempfile
    >>> url = f"sqlite:///{os.path.join(tempfile.mkdtemp(), 'levers.db')}"
    >>> _ = levers.create_study("oven", {"heat": [1, 2]}, tolerance=1.0, noise_sd=1.0, seed=1, storage=url)
    >>> report = check_storage(url)
    >>> report.ok, report.counts["studies"], report.counts["events"]
    (True, 1, 3)
    """
    report = Report(address)
    try:
        with reading(address) as rows:
            report.url = rows.url
            _check(rows, report)
    except StorageError as error:  # as far as we came; the address itself may be wrong
        if report.url == address and not report.damages:
            raise
        report.add("storage", str(error))
    return report


def _check(rows: Rows, report: Report) -> None:
    """Each step on its own: one that fails on damaged bytes must not hide what the others would say."""
    if isinstance(rows, SqliteRows):
        _step(report, "file", lambda: _noted(report, check_file(rows.connection)))
    versions: list[str | None] = []
    _step(report, "schema", lambda: versions.append(rows.version()))
    if not versions:
        return
    found = versions[0]
    if found is None:
        report.add("schema", _NO_TABLES)
    elif found in OLDER and any(mark > found and table in rows.tables() for mark, table in MARKS.items()):
        report.add("schema", f"it says that it is {found}, and has tables of a later one")
    elif found in OLDER:
        report.unchecked = f"its schema is {found}; `levers storage upgrade` first, then its rows can be checked"
    elif found != SCHEMA:
        report.add("schema", f"it is {found!r}, and this version needs {SCHEMA}; a newer levers may have made it")
    else:
        _step(report, "tables", lambda: _check_tables(rows, report))
        RowChecks(rows, report).all()


def _check_tables(rows: Rows, report: Report) -> None:
    if isinstance(rows, SqliteRows):
        _noted(report, check_tables(rows.connection))
    elif isinstance(rows, ServerRows):
        _check_server(rows.connection, report)


MARKS = {"0002": "answers", "0003": "storage", "0004": "sessions"}
"""A table that came with each schema."""
OLDER = tuple(f"{n:04}" for n in range(1, int(SCHEMA)))
"""The schemas of versions before this one."""
_NO_TABLES = (
    "there are no tables of levers; a file that was copied while it was in use is empty without its -wal file beside "
    "it: `levers storage backup` makes whole copies"
)


def _step(report: Report, where: str, act: Callable[[], object]) -> None:
    try:
        act()
    except (
        sqlite3.Error,
        sa.exc.SQLAlchemyError,
        LeversError,
        ValueError,
        TypeError,
        OverflowError,
        KeyError,
    ) as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()
        report.add(where, f"it cannot be read: {cause[0] if cause else type(error).__name__}")


def _noted(report: Report, found: Iterator[tuple[str, str]]) -> None:
    for where, what in found:
        report.add(where, what)


def _check_server(connection: sa.Connection, report: Report) -> None:
    """PostgreSQL looks after its pages; with its extension amcheck also after the indexes."""
    inspector = sa.inspect(connection)
    for table in metadata.sorted_tables:
        there = (
            {column["name"] for column in inspector.get_columns(table.name)}
            if inspector.has_table(table.name)
            else set()
        )
        missing = {column.name for column in table.columns} ^ there
        if missing:
            report.add(
                f"table {table.name}", f"its columns are not those of this version: {', '.join(sorted(missing))}"
            )
    if connection.execute(sa.text("SELECT 1 FROM pg_extension WHERE extname = 'amcheck'")).scalar() is None:
        report.notes.append("PostgreSQL's extension amcheck is not installed, so indexes were not checked")
        return
    indexes = sa.text(
        "SELECT bt_index_check(c.oid, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_class t ON t.oid = i.indrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' "
        "AND t.relname = ANY(:tables)"
    )
    connection.execute(indexes, {"tables": [table.name for table in metadata.sorted_tables]}).all()


def of_right_types(table: str, row: Row) -> bool:
    """Whether a row has values of the types that were written: SQLite keeps whatever is there.

    >>> of_right_types("snapshots", {"study_id": 1, "seq": 1, "data": b"x", "head": "", "digest": 5})
    False
    """
    for column in metadata.tables[table].columns:
        value = row[column.name]
        if type(value) is not column.type.python_type and not (value is None and column.nullable):
            return False
    return True


EVENT = tuple(one.name for one in fields(Stored))
"""The columns of an event."""


class RowChecks:
    """Every row of a storage of this version against the digests that were written with it."""

    def __init__(self, rows: Rows, report: Report) -> None:
        self.rows = rows
        self.report = report
        self.studies: dict[int, Row] = {}
        self._token_digests: list[str] = []

    def all(self) -> None:
        """All tables, each on its own."""
        for table in TABLES:
            self.report.counts[table] = 0
            _step(self.report, f"table {table}", getattr(self, f"_{table}"))
        self.report.counts["sessions"] = 0  # of browsers that are logged in, and of no study: backups leave them out
        _step(self.report, "table sessions", self._sessions)

    def _typed(self, table: str) -> Iterator[Row]:
        for row in self.rows.rows(table):
            self.report.counts[table] += 1
            if of_right_types(table, row):
                yield row
            else:
                self.report.add(
                    self._where(table, row), "a row has a value of another type than was written", _seq(row)
                )

    def _where(self, table: str, row: Row) -> str:
        study = self.studies.get(row["study_id"]) if "study_id" in row else None
        return f"table {table}" if study is None else f"study {study['name']!r}"

    def _studies(self) -> None:
        for row in self._typed("studies"):
            self.studies[row["id"]] = row

    def _events(self) -> None:
        """Each log is a chain from the study's name to the head that the study's row has."""
        ends = {study: (0, origin_digest(row["name"], row["created_at"])) for study, row in self.studies.items()}
        broken: set[int] = set()
        for row in self._typed("events"):
            study = row["study_id"]
            if study not in ends:
                self.report.add("table events", f"an event is of study {study!r}, which there is not", _seq(row))
                continue
            where, (seq, head) = self._where("events", row), ends[study]
            one = Stored(*(row[name] for name in EVENT))
            if one.seq != seq + 1:
                gone = f"events {seq + 1} to {one.seq - 1} are gone" if one.seq > seq + 1 else "it comes twice"
                self.report.add(where, gone, one.seq)
            elif one.digest != one.digest_after(head) and study not in broken:
                self.report.add(where, "it, or one before it, is not as it was written", one.seq)
                broken.add(study)
            try:
                decoded([one])
            except LeversError as error:
                self.report.add(where, str(error), one.seq)
            ends[study] = (one.seq, one.digest)
        for study, (seq, head) in ends.items():
            row = self.studies[study]
            if (seq, head) != (row["n_events"], row["head"]):
                what = f"the log ends at event {seq}, and the study says that event {row['n_events']} was the last"
                self.report.add(f"study {row['name']!r}", what if seq != row["n_events"] else "its end is another")

    def _snapshots(self) -> None:
        left = {study: row["snapshot"] for study, row in self.studies.items()}
        for row in self._typed("snapshots"):
            found = Snapshot(row["seq"], row["head"], row["data"], row["digest"])
            if not found.is_whole or left.pop(row["study_id"], None) != found.digest:
                self.report.add(self._where("snapshots", row), "its snapshot is not the one that was kept", found.seq)
        for study, digest in left.items():
            if digest != "":
                self.report.add(f"study {self.studies[study]['name']!r}", "its snapshot is gone")

    def _answers(self) -> None:
        totals = dict.fromkeys(self.studies, NOTHING)
        for row in self._typed("answers"):
            found = Answer(*(row[name] for name in ("key", "at", "request", "answer")))
            if found.digest != row["digest"] or row["study_id"] not in totals:
                what = f"the answer for the key {found.key!r} is not the one that was given"
                self.report.add(self._where("answers", row), what)
            else:
                totals[row["study_id"]] = total_of([found.digest], totals[row["study_id"]])
        for study, total in totals.items():
            if total != self.studies[study]["answers"]:
                self.report.add(
                    f"study {self.studies[study]['name']!r}", "an answer that was kept is gone, or was added"
                )

    def _tokens(self) -> None:
        self._token_digests += [token_of(row).row_digest for row in self._typed("tokens")]

    def _sessions(self) -> None:
        """Each as it was written; one that is gone means only that somebody logs in again."""
        for row in self._typed("sessions"):
            own = Session(*(row[one.name] for one in fields(Session)))
            if own.row_digest != row["digest"]:
                self.report.add("table sessions", "a session is not as it was written")

    def _storage(self) -> None:
        found = list(self._typed("storage"))
        if len(found) != 1:
            self.report.add("table storage", f"it has {len(found)} rows, and not one")
            return
        row, last = found[0], self.rows.last_id()
        wanted = storage_row(row["identity"], row["last_study"], row["studies"], row["tokens"])
        if row != wanted:
            self.report.add("table storage", "its row is not as it was written")
        made = [study_digest(row["id"], row["name"], row["created_at"]) for row in self.studies.values()]
        if row["studies"] != total_of(made):
            self.report.add("table studies", "a study is gone, was added, or has another name or time of creation")
        if row["tokens"] != total_of(self._token_digests):
            self.report.add("table tokens", "a token is gone, was added, or is not as it was written")
        if not max([0, *self.studies]) <= row["last_study"] <= last or (
            isinstance(self.rows, SqliteRows) and row["last_study"] != last
        ):
            self.report.add("table storage", f"the last study was {row['last_study']}, and the next id follows {last}")


def token_of(row: Row) -> Token:
    """A token from its row, whatever columns this version has."""
    return Token(*(row[column.name] for column in metadata.tables["tokens"].columns))


def _seq(row: Row) -> int | None:
    found: Any = row.get("seq")
    return found if isinstance(found, int) else None
