"""Adds the sums of events.

`toolroll registry upgrade` then makes those of the events that are there. A process of the version before
adds no sums; `toolroll events learning rebuild` makes those of the events that it wrote since.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from toolroll.registry.store import tables

revision = "0002"
down_revision = "0001"

_ADDED = ("selection_rollups", "tool_rollups", "latency_rollups", "degraded_rollups")


def upgrade() -> None:
    """Adds four tables and two columns."""
    for table in ("registry_state", "learning_state"):
        op.add_column(table, sa.Column("events_since", tables.Instant))
    for name in _ADDED:
        tables.metadata.tables[name].create(op.get_bind(), checkfirst=False)
