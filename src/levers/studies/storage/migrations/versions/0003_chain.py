"""Logs become chains: a digest for every event, the end of each log, and what the storage knows of itself."""

import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op

from levers.studies.storage.chain import NOTHING, digest_of, event_digest, origin_digest, total_of

revision = "0003"
down_revision = "0002"

_BATCH_BYTES = 4_000_000
"""How much of a log is held at once, apart from single events that are larger."""
_BATCH_EVENTS = 1000


def upgrade() -> None:
    """Add the columns and the table, and compute what is in them."""
    digest = sa.String(64)
    op.add_column(
        "studies",
        sa.Column("n_events", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False, server_default="0"),
    )
    op.add_column("studies", sa.Column("head", digest, nullable=False, server_default=""))
    op.add_column("studies", sa.Column("answers", digest, nullable=False, server_default=NOTHING))
    op.add_column("studies", sa.Column("snapshot", digest, nullable=False, server_default=""))
    op.add_column("events", sa.Column("digest", digest, nullable=False, server_default=""))
    op.add_column("events", sa.Column("rules", sa.Integer, nullable=False, server_default="0"))
    op.add_column("snapshots", sa.Column("head", digest, nullable=False, server_default=""))
    op.add_column("snapshots", sa.Column("digest", digest, nullable=False, server_default=""))
    op.add_column("answers", sa.Column("digest", digest, nullable=False, server_default=""))
    op.create_table(
        "storage",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("identity", sa.String(32), nullable=False),
        sa.Column("last_study", sa.Integer, nullable=False),
        sa.Column("studies", digest, nullable=False),
        sa.Column("tokens", digest, nullable=False),
        sa.Column("digest", digest, nullable=False),
    )
    connection = op.get_bind()
    # nothing ties the snapshots that there are to their logs; new ones are made as studies go on
    connection.execute(sa.text("DELETE FROM snapshots"))
    studies = connection.execute(sa.text("SELECT id, name, created_at FROM studies ORDER BY id")).all()
    for study in studies:
        _chain(connection, study.id, origin_digest(study.name, study.created_at))
        _add_up_answers(connection, study.id)
    _describe(connection, [digest_of("study", study.id, study.name, study.created_at) for study in studies])


def _chain(connection: sa.Connection, study: int, head: str) -> None:
    """The digests of a study's events, and where its log ends."""
    seq, n = -1, 10
    select = sa.text(
        "SELECT seq, at, who, kind, data FROM events WHERE study_id = :study AND seq > :seq ORDER BY seq LIMIT :n"
    )
    update = sa.text("UPDATE events SET digest = :digest WHERE study_id = :study AND seq = :seq")
    while rows := connection.execute(select, {"study": study, "seq": seq, "n": n}).all():
        made = []
        for row in rows:
            head = event_digest(head, row.seq, row.at, row.who, row.kind, row.data, 0)
            made.append({"study": study, "seq": row.seq, "digest": head})
        connection.execute(update, made)
        seq = rows[-1].seq
        size = sum(len(row.data) for row in rows) // len(rows) + 1
        n = max(1, min(_BATCH_EVENTS, _BATCH_BYTES // size))
    connection.execute(
        sa.text("UPDATE studies SET n_events = :n, head = :head WHERE id = :study"),
        {"n": max(seq, 0), "head": head, "study": study},
    )


def _add_up_answers(connection: sa.Connection, study: int) -> None:
    """The digests of the answers that are kept, and their total."""
    total, key = NOTHING, ""
    select = sa.text(
        "SELECT key, at, request, answer FROM answers WHERE study_id = :study AND key > :key ORDER BY key LIMIT 500"
    )
    update = sa.text("UPDATE answers SET digest = :digest WHERE study_id = :study AND key = :key")
    while rows := connection.execute(select, {"study": study, "key": key}).all():
        made = [
            {"study": study, "key": row.key, "digest": digest_of("answer", row.key, row.at, row.request, row.answer)}
            for row in rows
        ]
        connection.execute(update, made)
        total, key = total_of([row["digest"] for row in made], total), rows[-1].key
    connection.execute(
        sa.text("UPDATE studies SET answers = :total WHERE id = :study"), {"total": total, "study": study}
    )


def _describe(connection: sa.Connection, studies: list[str]) -> None:
    """The row of the storage itself."""
    tokens = connection.execute(
        sa.text("SELECT id, role, study_id, note, digest, created_at, revoked_at FROM tokens")
    ).all()
    row: dict[str, Any] = {
        "id": 1,
        "identity": uuid.uuid4().hex,
        "last_study": _last_study(connection),
        "studies": total_of(studies),
        "tokens": total_of([digest_of("token", *token) for token in tokens]),
    }
    connection.execute(
        sa.text(
            "INSERT INTO storage (id, identity, last_study, studies, tokens, digest) "
            "VALUES (:id, :identity, :last_study, :studies, :tokens, :digest)"
        ),
        row | {"digest": digest_of("storage", *row.values())},
    )


def _last_study(connection: sa.Connection) -> int:
    """The last id that a study was given, also if that study is gone."""
    query = "SELECT last_value FROM studies_id_seq WHERE is_called"
    if connection.dialect.name == "sqlite":
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'studies'"
    found = connection.execute(sa.text(query)).scalar()
    return int(found or 0)
