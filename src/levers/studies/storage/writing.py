"""A study's log inside a transaction of SQLite or PostgreSQL: what is read with the lock, and written at the end."""

from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from levers.errors import DamagedLogError, UnreachableError
from levers.studies.storage.base import Answer, Header, Snapshot, Stored, deleted
from levers.studies.storage.chain import total_of, without
from levers.studies.storage.postgres import LONG_SECONDS
from levers.studies.storage.round_trips import Plan, prepare_once, send_together
from levers.studies.storage.schema import answers, events, snapshots

LOCK_CLASS = 720983
"""The first number of the lock that whoever writes to a study takes in PostgreSQL; the study's id is the second."""

# statements are built once: building one takes longer than SQLite takes to run it
_STUDY: sa.BindParameter[int] = sa.bindparam("study")
_COLUMNS = {"seq": "bigint", "at": "float8", "who": "text", "kind": "text", "data": "text", "digest": "text"}
_COLUMNS |= {"rules": "integer"}
AFTER = (
    sa.select(*(events.c[name] for name in _COLUMNS))
    .where(events.c.study_id == _STUDY, events.c.seq > sa.bindparam("after"))
    .order_by(events.c.seq)
)
ADD = {table.name: sa.insert(table) for table in (events, answers, snapshots)}
_ANSWER = sa.select(answers.c.key, answers.c.at, answers.c.request, answers.c.answer, answers.c.digest).where(
    answers.c.study_id == _STUDY, answers.c.key == sa.bindparam("wanted")
)

# what every change needs is in the words of the driver: working it out takes as long as running it
_ENDS = ("name", "created_at", "n_events", "head", "answers", "snapshot")
_HEADER = (
    f"SELECT {', '.join(_ENDS)}, (SELECT digest FROM events WHERE study_id = studies.id AND seq = n_events) "
    "FROM studies"
)
_fields = attrgetter(*_COLUMNS)

# for SQLite
_INSERT = f"INSERT INTO events (study_id, {', '.join(_COLUMNS)}) VALUES (?{', ?' * len(_COLUMNS)})"
_UPDATE = "UPDATE studies SET n_events = ?, head = ?, answers = ?, snapshot = ? WHERE id = ?"

# for PostgreSQL
_LOCK = f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, %(study)s)"
_ROW = Plan("levers_row", f"{_HEADER} WHERE id = %(study)s", {"study": "integer"})
_AFTER = Plan(
    "levers_after",
    f"SELECT {', '.join(_COLUMNS)} FROM events WHERE study_id = %(study)s AND seq > %(after)s ORDER BY seq",
    {"study": "integer", "after": "bigint"},
)
_GUARDED = ("n_events", "head", "answers")
_OVERTAKEN = (
    "the study was changed by somebody who did not wait for its lock; nothing was stored, and you can try again"
)
_MOVE = (
    f"UPDATE studies SET {', '.join(f'{name} = %({name})s' for name in (*_GUARDED, 'snapshot'))} "
    f"WHERE id = %(study)s AND {' AND '.join(f'{name} = %(was_{name})s' for name in _GUARDED)} RETURNING id"
)
_APPEND = Plan(
    "levers_append",
    f"WITH moved AS ({_MOVE}) "
    f"INSERT INTO events (study_id, {', '.join(_COLUMNS)}) SELECT (SELECT id FROM moved), * "
    f"FROM unnest({', '.join(f'%({name}s)s' for name in _COLUMNS)})",
    {"study": "integer", "n_events": "bigint", "head": "text", "answers": "text", "snapshot": "text"}
    | {"was_n_events": "bigint", "was_head": "text", "was_answers": "text"}
    | {f"{name}s": f"{kind}[]" for name, kind in _COLUMNS.items()},
)
"""Events and the end of the log in one statement. It fails if the log has not ended where it was found to."""
_PLANS = (_ROW, _AFTER, _APPEND)
_ANSWER_COLUMNS = {"key": "text", "at": "float8", "request": "text", "answer": "text", "digest": "text"}
_ANSWERED = (
    f"INSERT INTO answers (study_id, {', '.join(_ANSWER_COLUMNS)}) SELECT %(study)s, * "
    f"FROM unnest({', '.join(f'%(answer_{name}s)s::{kind}[]' for name, kind in _ANSWER_COLUMNS.items())})"
)
_IDLE = "idle_in_transaction_session_timeout"
_LONG = sa.text(
    "SELECT set_config(:name, CAST(:most AS text), true) FROM pg_settings "
    "WHERE name = :name AND CAST(setting AS integer) BETWEEN 1 AND :most"
)
"""A longer limit until the transaction ends, where there is one at all."""


class StudyRow(NamedTuple):
    """What is kept of a study beside its log, and the digest that is found at the log's end."""

    name: str
    created_at: float
    n_events: int
    head: str
    answers: str
    snapshot: str
    last: str | None

    @property
    def header(self) -> Header:
        """The part that every storage has."""
        return Header(self.name, self.created_at, self.n_events, self.head, self.last)


def study_row(connection: sa.Connection, study: int) -> StudyRow:
    """A study's row as of now; an error if it was deleted."""
    if connection.dialect.name == "sqlite":
        return _found(connection.exec_driver_sql(f"{_HEADER} WHERE id = ?", (study,)).one_or_none())
    prepare_once(connection, _PLANS)
    return _found(send_together(connection, [_ROW.execute], {"study": study}).fetchone())


def _found(row: Sequence[Any] | None) -> StudyRow:
    if row is None:
        raise deleted()
    return StudyRow._make(row)


class SqlWriting:
    """A study's log inside a transaction of SQLite. What is added goes to the database at the end."""

    def __init__(self, connection: sa.Connection, study: int, row: StudyRow) -> None:
        self.connection = connection
        self._study = study
        self._row = row
        self._added: list[Stored] = []
        self._answered: dict[str, Answer] = {}
        self._changed: dict[str, object] = {}  # columns of the study's row

    def flush(self) -> None:
        """Write what was added."""
        if self._answered:
            rows = self._answer_rows()
            self._insert("answers", rows)
            self._changed["answers"] = total_of([row["digest"] for row in rows], self._answers)
        if self._added:
            self.connection.exec_driver_sql(_INSERT, [(self._study, *_fields(record)) for record in self._added])
        if self._added or self._changed:
            end = (self.n_events, self._head, self._answers, self._snapshot)
            self.connection.exec_driver_sql(_UPDATE, (*end, self._study))

    def header(self) -> Header:
        """Where the log ended when the transaction began."""
        return self._row.header

    def read(self, after: int) -> list[Stored]:
        """The records after event number `after`."""
        rows = self.connection.execute(AFTER, {"study": self._study, "after": after})
        return [Stored(*row) for row in rows]

    def append(self, records: Sequence[Stored]) -> None:
        """Add records at the end of the log."""
        self._added.extend(records)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the one before."""
        self.connection.execute(sa.delete(snapshots).where(snapshots.c.study_id == self._study))
        self._insert("snapshots", [asdict(snapshot)])
        self._changed["snapshot"] = snapshot.digest

    def answer(self, key: str) -> Answer | None:
        """The answer that is kept for a key."""
        if key in self._answered:
            return self._answered[key]
        row = self.connection.execute(_ANSWER, {"study": self._study, "wanted": key}).one_or_none()
        if row is None:
            return None
        found = Answer(row.key, row.at, row.request, row.answer)
        if found.digest != row.digest:
            raise DamagedLogError(0, f"the answer that is kept for the key {key!r} is not the one that was given")
        return found

    def keep_answer(self, answer: Answer) -> None:
        """Keep an answer with what is added."""
        self._answered[answer.key] = answer

    def forget_answers(self, before: float) -> None:
        """Drop answers that are older than a time."""
        old = answers.c.study_id == self._study, answers.c.at < before
        gone = self.connection.execute(sa.select(answers.c.digest).where(*old)).scalars().all()
        if gone:
            self.connection.execute(sa.delete(answers).where(*old))
            self._changed["answers"] = without(self._answers, gone)

    def take_long(self) -> None:
        """SQLite ends nobody who does nothing."""

    @property
    def n_events(self) -> int:
        """Where the log ends, with what was added."""
        return self._added[-1].seq if self._added else self._row.n_events

    @property
    def _head(self) -> str:
        return self._added[-1].digest if self._added else self._row.head

    @property
    def _snapshot(self) -> str:
        """The digest of the snapshot that is in the table now."""
        return str(self._changed.get("snapshot", self._row.snapshot))

    @property
    def _answers(self) -> str:
        """The total of the digests of all answers that are in the table now."""
        return str(self._changed.get("answers", self._row.answers))

    def _answer_rows(self) -> list[dict[str, Any]]:
        return [asdict(answer) | {"digest": answer.digest} for answer in self._answered.values()]

    def _insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        self.connection.execute(ADD[table], [{"study_id": self._study, **row} for row in rows])


class PostgresWriting(SqlWriting):
    """The same in PostgreSQL, in two ways to the server: one to the lock, and one to the commit.

    `expected` is the event up to which the log is likely to be known: those after it are brought along.

    The lock is a number and no row. Who waits for a row that its holder changes is woken to find another version of it,
    and locking one is a write, which has to reach the disk even if nothing else was done.
    """

    def __init__(self, connection: sa.Connection, study: int, expected: int | None) -> None:
        prepare_once(connection, _PLANS)
        reading = [_ROW.execute] if expected is None else [_ROW.execute, _AFTER.execute]
        found = send_together(connection, ["BEGIN", _LOCK, *reading], {"study": study, "after": expected})
        found.nextset()
        found.nextset()
        row = _found(found.fetchone())
        self._expected = expected
        self._come = [Stored(*one) for one in found.fetchall()] if found.nextset() else []
        super().__init__(connection, study, row)

    def read(self, after: int) -> list[Stored]:
        """The records after event number `after`."""
        if self._expected is None or after < self._expected:
            return super().read(after)
        return [one for one in self._come if one.seq > after]

    def flush(self) -> None:
        """Write what was added. Events are committed with it; without any, the transaction is still open afterwards."""
        if not (self._added or self._answered or self._changed):
            return
        rows = self._answer_rows()
        values = {"study": self._study} | {f"was_{name}": getattr(self._row, name) for name in _GUARDED}
        values |= {"answers": total_of([row["digest"] for row in rows], self._answers) if rows else self._answers}
        values |= {"snapshot": self._snapshot, "n_events": self.n_events, "head": self._head}
        values |= {f"{name}s": [getattr(record, name) for record in self._added] for name in _COLUMNS}
        values |= {f"answer_{name}s": [row[name] for row in rows] for name in _ANSWER_COLUMNS}
        writing = ([_ANSWERED] if rows else []) + ([_APPEND.execute, "COMMIT"] if self._added else [_MOVE])
        try:
            found = send_together(self.connection, writing, values)
            while found.nextset():
                pass  # on to the last
            if found.statusmessage != ("COMMIT" if self._added else "UPDATE 1"):
                raise UnreachableError(_OVERTAKEN)
        except IntegrityError as error:
            raise UnreachableError(_OVERTAKEN) from error

    def take_long(self) -> None:
        """Be given more time to work something out with the lock."""
        self.connection.execute(_LONG, {"name": _IDLE, "most": LONG_SECONDS * 1000})
