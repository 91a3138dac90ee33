"""The tables. Migrations in `migrations/` make them; a test holds the two together."""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

SCHEMA = "0002"
"""The migration that these tables are at."""

metadata = MetaData()

studies = Table(
    "studies",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False),
    Column("created_at", Double, nullable=False),
    Index("ix_studies_name", "name", unique=True),
    sqlite_autoincrement=True,  # an id is never used again, so a late worker cannot write into another study
)

events = Table(
    "events",
    metadata,
    Column("study_id", Integer, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("who", String(200), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("data", Text, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("study_id", Integer, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), nullable=False),
    Column("data", LargeBinary, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("study_id", Integer, ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("at", Double, nullable=False),
    Column("request", String(64), nullable=False),
    Column("answer", Text, nullable=False),
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
)
