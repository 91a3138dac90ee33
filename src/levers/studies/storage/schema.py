"""The tables, and how Alembic makes and upgrades them: by the steps in `migrations/`. A test compares the two."""

import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    inspect,
    text,
)

from levers.errors import StorageError
from levers.studies.storage.chain import NOTHING, digest_of

SCHEMA = "0004"
"""The migration that these tables are at."""
VERSION_TABLE = "levers_schema"
"""The table in which Alembic keeps the migration that a database is at."""
_FOLDER = Path(__file__).parent / "migrations"  # the migrations
_LOCK_KEY = 7209834517
"""The number of the lock that processes take in PostgreSQL while they migrate; any that others do not use."""

metadata = MetaData()
_BIG = BigInteger().with_variant(Integer, "sqlite")
_DIGEST = String(64)

studies = Table(
    "studies",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False),
    Column("created_at", Double, nullable=False),
    # where the log ends: a chain cannot tell that its end was cut off
    Column("n_events", _BIG, nullable=False, server_default="0"),
    Column("head", _DIGEST, nullable=False, server_default=""),
    Column("answers", _DIGEST, nullable=False, server_default=NOTHING),  # the total of its answers' digests
    Column("snapshot", _DIGEST, nullable=False, server_default=""),  # the digest of its snapshot, empty without one
    Index("ix_studies_name", "name", unique=True),
    sqlite_autoincrement=True,  # an id is never used again, so a late worker cannot write into another study
)

events = Table(
    "events",
    metadata,
    Column("study_id", Integer, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", _BIG, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("who", String(200), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("data", Text, nullable=False),
    Column("digest", _DIGEST, nullable=False, server_default=""),
    Column("rules", Integer, nullable=False, server_default="0"),  # by which it was written: events.EDITION
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("study_id", Integer, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("seq", _BIG, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("head", _DIGEST, nullable=False, server_default=""),  # of the event it stands at
    Column("digest", _DIGEST, nullable=False, server_default=""),
)

answers = Table(
    "answers",
    metadata,
    Column("study_id", Integer, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("at", Double, nullable=False),
    Column("request", String(64), nullable=False),
    Column("answer", Text, nullable=False),
    Column("digest", _DIGEST, nullable=False, server_default=""),
    Index("ix_answers_at", "study_id", "at"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("role", String(10), nullable=False),
    Column("study_id", Integer, ForeignKey("studies.id", ondelete="CASCADE"), nullable=True),
    Column("note", String(200), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("revoked_at", Double, nullable=True),
    Column("expires_at", Double, nullable=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("value", _DIGEST, primary_key=True),  # the SHA-256 of the cookie's value
    Column("token_id", String(16), ForeignKey("tokens.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("digest", _DIGEST, nullable=False),  # of the row: one that somebody changed opens nothing
)

storage = Table(
    "storage",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row, 1
    Column("identity", String(32), nullable=False),  # drawn once; copies and backups have the same
    Column("last_study", Integer, nullable=False),  # the last id that a study was given
    Column("studies", _DIGEST, nullable=False),  # the total of all studies' digests
    Column("tokens", _DIGEST, nullable=False),  # the total of all tokens' digests
    Column("digest", _DIGEST, nullable=False),  # of this row
)
"""What a storage knows of itself, so that a study or a token that somebody removed by hand is missed."""


def check_schema(engine: Engine, url: str) -> None:
    """Make the tables in an empty database; refuse one that another version made."""
    found = schema_of(engine)
    if found is None:
        _refuse_foreign(engine, url)
        _make_tables(engine)
    elif found != SCHEMA:
        older = found < SCHEMA
        todo = f"run `levers storage upgrade {url}`" if older else "install a newer levers"
        raise StorageError(f"the storage {url} has schema {found}, this version needs {SCHEMA}; {todo}")


def _refuse_foreign(engine: Engine, url: str) -> None:
    """A database that somebody else uses must not get our tables beside theirs by accident."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        taken = sorted(set(inspect(connection).get_table_names()) & set(metadata.tables))
    if taken and schema_of(engine) is None:
        raise StorageError(f"the storage {url} already has a table {taken[0]!r} that is not of levers; use another")


def schema_of(engine: Engine) -> str | None:
    """The schema of a database; None when it has no tables of ours."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not inspect(connection).has_table(VERSION_TABLE):
            return None
        return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def version_table() -> Table:
    """The table in which Alembic keeps the migration, as it makes it.

    >>> version_table().name
    'levers_schema'
    """
    key = PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc")  # as Alembic calls it
    return Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), nullable=False), key)


def _make_tables(engine: Engine) -> None:
    """The tables of this version in an empty database, without the migrations that would lead to them."""
    version = version_table()
    with engine.begin() as connection:
        _lock(connection)
        metadata.create_all(connection)
        version.create(connection, checkfirst=True)
        if connection.execute(version.select()).first() is None:  # no other process was faster
            connection.execute(version.insert().values(version_num=SCHEMA))
            connection.execute(storage.insert().values(**storage_row(uuid.uuid4().hex)))


def storage_row(identity: str, last_study: int = 0, studies: str = NOTHING, tokens: str = NOTHING) -> dict[str, Any]:
    """The row of the table `storage`, with its digest.

    >>> storage_row("a")["digest"] == storage_row("b")["digest"]
    False
    """
    row: dict[str, Any] = {
        "id": 1,
        "identity": identity,
        "last_study": last_study,
        "studies": studies,
        "tokens": tokens,
    }
    return row | {"digest": digest_of("storage", *row.values())}


def study_digest(study: int, name: str, created_at: float) -> str:
    """What a study adds to `storage.studies`.

    >>> study_digest(1, "oven", 10.0) == study_digest(2, "oven", 10.0)
    False
    """
    return digest_of("study", study, name, created_at)


def upgrade_schema(engine: Engine) -> None:
    """Bring the tables to this version's schema, in one transaction."""
    from alembic import command  # only needed here, and slow to import

    with engine.begin() as connection:
        _lock(connection)
        command.upgrade(configuration(connection), "head")


def configuration(connection: Connection | None = None) -> "Config":  # type: ignore[name-defined] # noqa: F821
    """Alembic's configuration for our migrations."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config


def _lock(connection: Connection) -> None:
    """Two processes may find the same empty database: the second waits here and finds it made."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_KEY})"))
