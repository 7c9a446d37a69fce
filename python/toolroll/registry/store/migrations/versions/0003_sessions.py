"""Sessions: what conversations hold, so that it survives restarts and goes from replica to replica.

Toolkits may also name tools of other toolkits; those that are there name none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from toolroll.registry.store.tables import Instant, Json, Number, Words

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Makes the table of sessions."""
    op.add_column("toolkits", sa.Column("members", Json, nullable=False, server_default="[]"))
    op.create_table(
        "sessions",
        sa.Column("org", Words, nullable=False),
        sa.Column("session", Words, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("record", Json, nullable=False),
        sa.Column("version", Number, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("expires_at", Instant),
        sa.PrimaryKeyConstraint("org", "session", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_updated_at"), "sessions", ["updated_at"])
    op.create_index(op.f("ix_sessions_expires_at"), "sessions", ["expires_at"])
