"""Tokens that end, and sessions of browsers."""

import sqlalchemy as sa
from alembic import op

from levers.studies.storage.chain import digest_of, total_of, without

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column and the table. Tokens that there are get no end; what they add to the storage's total has it."""
    op.add_column("tokens", sa.Column("expires_at", sa.Double, nullable=True))
    op.create_table(
        "sessions",
        sa.Column("value", sa.String(64), primary_key=True),
        sa.Column("token_id", sa.String(16), sa.ForeignKey("tokens.id", ondelete="CASCADE"), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    connection = op.get_bind()
    rows = connection.execute(
        sa.text("SELECT id, role, study_id, note, digest, created_at, revoked_at FROM tokens")
    ).all()
    own = connection.execute(sa.text("SELECT id, identity, last_study, studies, tokens, digest FROM storage")).one()
    if own.digest != digest_of("storage", *own[:5]):
        return  # a row that somebody changed stays one that is noticed
    # taken away and added, not added up anew: a token that somebody changed or removed is still missed
    tokens = without(own.tokens, [digest_of("token", *row) for row in rows])
    tokens = total_of([digest_of("token", *row, None) for row in rows], tokens)
    digest = digest_of("storage", *own[:4], tokens)
    connection.execute(
        sa.text("UPDATE storage SET tokens = :tokens, digest = :digest"), {"tokens": tokens, "digest": digest}
    )
