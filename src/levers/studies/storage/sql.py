"""Logs in SQLite or PostgreSQL, through SQLAlchemy."""

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from levers.errors import StorageError, UnreachableError, to_install
from levers.studies.storage.base import (
    Header,
    Session,
    Snapshot,
    Storage,
    Stored,
    Token,
    deleted,
    exists_already,
    no_such_study,
)
from levers.studies.storage.chain import total_of, without
from levers.studies.storage.outage import is_outage
from levers.studies.storage.postgres import LOOK_SECONDS, POOL_SECONDS, server_options
from levers.studies.storage.round_trips import look_before_use
from levers.studies.storage.schema import (
    SCHEMA,
    answers,
    check_schema,
    events,
    schema_of,
    sessions,
    snapshots,
    storage,
    storage_row,
    studies,
    study_digest,
    tokens,
    upgrade_schema,
)
from levers.studies.storage.sqlite_file import BUSY_SECONDS, OpenFile, SqliteFile, read_only_reason
from levers.studies.storage.writing import ADD, AFTER, PostgresWriting, SqlWriting, study_row

_TRY_AGAIN = "What was told is not lost by telling it again: the next try opens the file that is there"
_KNOWN = "levers storage"
"""Where a connection keeps which storage it was found to be of."""
_POOL: dict[str, Any] = {"pool_size": 15, "max_overflow": 0}
"""As many connections as threads can use at once; they stay open, since opening one costs more than most statements."""

# statements are built once: building one takes longer than SQLite takes to run it
_STUDY: sa.BindParameter[int] = sa.bindparam("study")
_EXISTS = sa.select(studies.c.id).where(studies.c.id == _STUDY)
_SNAPSHOT = sa.select(snapshots.c.seq, snapshots.c.head, snapshots.c.data, snapshots.c.digest).where(
    snapshots.c.study_id == _STUDY
)
_IDENTITY = sa.select(storage.c.identity)
_TOKENS = sa.select(tokens).order_by(tokens.c.created_at, tokens.c.id)
_SESSION = sa.select(sessions).where(sessions.c.value == sa.bindparam("wanted"))
_TOKEN = sa.select(tokens).where(tokens.c.id == sa.bindparam("wanted"))


class SqlStorage(Storage):
    """Logs in a database; the tables are made when it is empty."""

    def __init__(self, url: URL) -> None:
        self.url = url.render_as_string(hide_password=True)
        self._sqlite = url.get_backend_name() == "sqlite"
        file = SqliteFile(url.database or "") if self._sqlite else None  # one, so that all know that it was there
        self._opened, self._process = new_engine(url, file), os.getpid()
        self._looking = new_engine(url, file, for_looks=True)
        self._identity: str | None = None
        self._ends: dict[int, int] = {}  # the event up to which each log was read or written here, as far as is known
        try:
            with self._reachable():
                check_schema(self._engine, self.url)
                with self._reading() as connection:
                    self._identity = connection.execute(_IDENTITY).scalar()
        except BaseException:
            self._engine.dispose()
            raise

    @property
    def _engine(self) -> sa.Engine:
        if self._process != os.getpid():
            # forked: the parent's connections are not ours to use, nor to close, so they are kept and left alone
            self._of_parent = self._opened.pool
            self._opened.dispose(close=False)
            self._looking.dispose(close=False)
            self._process = os.getpid()
        return self._opened

    def create(self, name: str, records: Sequence[Stored]) -> int:
        at, end = records[0].at, records[-1]
        try:
            with self._changing() as connection:
                own = _own_row(connection, self.url)
                row = {"name": name, "created_at": at, "n_events": end.seq, "head": end.digest}
                made = connection.execute(sa.insert(studies).values(row))
                assert made.inserted_primary_key is not None  # both databases return it
                study = int(made.inserted_primary_key[0])
                connection.execute(ADD["events"], [{"study_id": study, **asdict(record)} for record in records])
                own |= {"last_study": study, "studies": total_of([study_digest(study, name, at)], own["studies"])}
                _keep_own_row(connection, own)
                return study
        except IntegrityError:
            raise exists_already(name) from None

    def names(self) -> list[tuple[int, str]]:
        with self._reading() as connection:
            return [(row.id, row.name) for row in connection.execute(sa.select(studies).order_by(studies.c.id))]

    def find(self, name: str) -> int:
        with self._reading() as connection:
            found = connection.execute(sa.select(studies.c.id).where(studies.c.name == name)).scalar()
        if found is None:
            raise no_such_study(name, [known for _, known in self.names()], self.url)
        return int(found)

    def delete(self, study: int) -> None:
        with self.writing(study) as writing:
            connection, gone = writing.connection, writing.header()
            own = _own_row(connection, self.url)
            lost = connection.execute(_TOKENS.where(tokens.c.study_id == study)).all()
            own["tokens"] = without(own["tokens"], [Token(*row).row_digest for row in lost])
            own["studies"] = without(own["studies"], [study_digest(study, gone.name, gone.created_at)])
            for table in (tokens, answers, snapshots, events):
                connection.execute(sa.delete(table).where(table.c.study_id == study))
            connection.execute(sa.delete(studies).where(studies.c.id == study))
            _keep_own_row(connection, own)

    def header(self, study: int) -> Header:
        with self._reading() as connection:
            return study_row(connection, study).header

    def read(self, study: int, after: int) -> list[Stored]:
        with self._reading() as connection:
            records = [Stored(*row) for row in connection.execute(AFTER, {"study": study, "after": after})]
            if not records and connection.execute(_EXISTS, {"study": study}).one_or_none() is None:
                raise deleted()
        if records:
            self._ends[study] = records[-1].seq
        return records

    def snapshot(self, study: int) -> Snapshot | None:
        with self._reading() as connection:
            row = connection.execute(_SNAPSHOT, {"study": study}).one_or_none()
            return None if row is None else Snapshot(int(row.seq), row.head, bytes(row.data), row.digest)

    @contextmanager
    def writing(self, study: int) -> Iterator[SqlWriting]:
        with self._changing(begins=self._sqlite) as connection:
            if self._sqlite:
                writing = SqlWriting(connection, study, study_row(connection, study))
            else:
                writing = PostgresWriting(connection, study, self._ends.get(study))
            yield writing
            writing.flush()
        self._ends[study] = writing.n_events

    def tokens(self) -> list[Token]:
        with self._reading() as connection:
            return [Token(*row) for row in connection.execute(_TOKENS)]

    def token(self, token_id: str) -> Token | None:
        with self._reading() as connection:
            row = connection.execute(_TOKEN, {"wanted": token_id}).one_or_none()
            return None if row is None else Token(*row)

    def add_token(self, token: Token) -> None:
        row = {column.name: value for column, value in zip(tokens.c, astuple(token), strict=True)}
        with self._changing() as connection:
            own = _own_row(connection, self.url)
            connection.execute(sa.insert(tokens).values(row))
            _keep_own_row(connection, own | {"tokens": total_of([token.row_digest], own["tokens"])})

    def revoke_token(self, token_id: str, at: float) -> bool:
        return self._change_token(token_id, revoked_at=at)

    def expire_token(self, token_id: str, at: float) -> bool:
        return self._change_token(token_id, expires_at=at)

    def _change_token(self, token_id: str, **changes: Any) -> bool:
        with self._changing() as connection:
            own = _own_row(connection, self.url)
            row = connection.execute(_TOKEN, {"wanted": token_id}).one_or_none()
            if row is None or row.revoked_at is not None:
                return False
            was = Token(*row)
            connection.execute(sa.update(tokens).where(tokens.c.id == token_id).values(changes))
            total = total_of([replace(was, **changes).row_digest], without(own["tokens"], [was.row_digest]))
            _keep_own_row(connection, own | {"tokens": total})
            return True

    def ping(self) -> None:
        with self._reachable(), self._looking.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            self._check_place(connection)
            connection.execute(_TOKEN, {"wanted": "none"})

    def session(self, value: str) -> Session | None:
        with self._reading() as connection:
            row = connection.execute(_SESSION, {"wanted": value}).one_or_none()
        return None if row is None else _session(row)

    def sessions(self) -> list[Session]:
        with self._reading() as connection:
            rows = connection.execute(sa.select(sessions).order_by(sessions.c.created_at, sessions.c.value)).all()
        return [session for session in map(_session, rows) if session is not None]

    def add_session(self, session: Session) -> None:
        with self._changing() as connection:
            connection.execute(sa.insert(sessions).values(asdict(session) | {"digest": session.row_digest}))

    def see_session(self, value: str, at: float) -> None:
        with self._changing() as connection:
            row = connection.execute(_SESSION, {"wanted": value}).one_or_none()
            found = None if row is None else _session(row)
            if found is not None:
                now = replace(found, seen_at=at)
                change = sa.update(sessions).where(sessions.c.value == value)
                connection.execute(change.values(seen_at=at, digest=now.row_digest))

    def end_session(self, value: str) -> None:
        with self._changing() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.value == value))

    def forget_sessions(self, expired: float, idle: float) -> None:
        with self._changing() as connection:
            over = (sessions.c.expires_at <= expired) | (sessions.c.seen_at < idle)
            connection.execute(sa.delete(sessions).where(over))

    def close(self) -> None:
        self._engine.dispose()
        self._looking.dispose()

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._reachable(), self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            self._check_place(connection)
            yield connection

    @contextmanager
    def _changing(self, *, begins: bool = True) -> Iterator[sa.Connection]:
        """A transaction. It ends well only if it is kept in the file that is at the address when it ends.

        Without `begins`, whoever uses it says BEGIN, and it ends in any case.
        """
        with self._reachable(), self._engine.connect() as connection:
            if not begins:
                connection.execution_options(isolation_level="AUTOCOMMIT")
            with connection.begin():
                self._check_place(connection)
                yield connection
                self._check_place(connection)
            self._check_place(connection)

    def _check_place(self, connection: sa.Connection) -> None:
        """Refuse to go on with a file that was deleted or replaced, and with another storage at the same address.

        Nobody is told that an outcome was kept in a file that nobody else can open, or in the log of another study.
        The next connection is to what is at the address then.
        """
        opened = connection.connection.dbapi_connection
        happened = opened.moved() if isinstance(opened, OpenFile) else None
        if happened is not None:
            connection.invalidate()
            self._engine.dispose()
            raise UnreachableError(f"{happened}; nothing is acknowledged that went there. {_TRY_AGAIN}")
        if self._identity is not None and connection.info.get(_KNOWN) != self._identity:
            found = connection.execute(_IDENTITY).scalar()
            if found != self._identity:
                connection.invalidate()
                raise StorageError(
                    f"another storage than the one that was opened is at {self.url} now; put that one back, "
                    "or start again what uses it"
                )
            connection.info[_KNOWN] = found

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            kind = UnreachableError if is_outage(error) else StorageError
            raise kind(_does_not_answer(self.url, error)) from error
        except sqlite3.Error as error:  # while a connection is made
            raise StorageError(_does_not_answer(self.url, error)) from error


def _session(row: sa.Row[Any]) -> Session | None:
    """A session as it was written; None for a row that somebody changed since."""
    found = Session(row.value, row.token_id, row.created_at, row.seen_at, row.expires_at)
    return found if found.row_digest == row.digest else None


def _own_row(connection: sa.Connection, url: str) -> dict[str, Any]:
    """What the storage knows of itself, locked until the transaction ends."""
    row = connection.execute(sa.select(storage).with_for_update()).mappings().one_or_none()
    if row is None:
        raise StorageError(f"the storage {url} is damaged: its own row is gone; `levers storage check` says more")
    return dict(row)


def _keep_own_row(connection: sa.Connection, row: dict[str, Any]) -> None:
    now = storage_row(row["identity"], row["last_study"], row["studies"], row["tokens"])
    connection.execute(sa.update(storage).values(now))


def parse_url(text: str) -> URL:
    """An address such as sqlite:///levers.db, checked.

    >>> parse_url("sqlite:///levers.db").database
    'levers.db'
    """
    examples = "sqlite:///levers.db or postgresql+psycopg://user@host/database"
    try:
        url = sa.make_url(text)
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


def upgrade_storage(text: str) -> tuple[str | None, str]:
    """Bring a storage to this version's schema; returns the schema before and after."""
    url = parse_url(text)
    engine = new_engine(url, patient=True)
    try:
        before = schema_of(engine)
        if before is not None and before > SCHEMA:
            raise StorageError(
                f"the storage has schema {before}, newer than this version's {SCHEMA}; install a newer levers"
            )
        upgrade_schema(engine)
        return before, SCHEMA
    except SQLAlchemyError as error:
        raise StorageError(_does_not_answer(url.render_as_string(), error)) from error
    finally:
        engine.dispose()


def new_engine(
    url: URL, file: SqliteFile | None = None, *, patient: bool = False, for_looks: bool = False
) -> sa.Engine:
    """Connections to a database, as studies need them.

    `patient` ones are for work on the whole of it, which takes long; those `for_looks` say whether it answers.
    """
    pool: dict[str, Any] = {"pool_size": 1, "max_overflow": 1, "pool_timeout": LOOK_SECONDS} if for_looks else _POOL
    if url.get_backend_name() == "sqlite":
        connect = (file or SqliteFile(url.database or "")).connect  # parse_url refuses addresses without a file
        engine = sa.create_engine(
            "sqlite://", creator=connect, poolclass=sa.QueuePool, **{"pool_timeout": BUSY_SECONDS} | pool
        )
        sa.event.listen(engine, "begin", _begin_immediate)
        sa.event.listen(engine, "checkout", _check_unchanged)
        return engine
    try:
        options = server_options(url, patient=patient, for_looks=for_looks)
        pool = {"pool_timeout": POOL_SECONDS} | pool
        engine = sa.create_engine(url, connect_args=options, **pool)
    except ModuleNotFoundError as error:
        raise StorageError(f"{error}: {to_install('postgresql')}") from None
    look_before_use(engine)
    return engine


def _check_unchanged(connection: Any, _: object, __: object) -> None:
    """A file that is read as if nobody writes is opened anew when somebody did."""
    if connection.is_immutable and connection.moved() is not None:
        raise sa.exc.DisconnectionError


def _begin_immediate(connection: sa.Connection) -> None:
    # a transaction that begins by reading could find its snapshot too old to write: take the lock first
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _does_not_answer(url: str, error: Exception) -> str:
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    if "readonly database" in cause:
        why = read_only_reason(os.path.abspath(sa.make_url(url).database or "")) or cause
        return f"the storage {url} can only be read here: {why}; nothing was stored"
    return f"the storage {url} does not answer as it should: {cause}"
