"""Adds how long calls took, to outcomes, to events and as sums; and sums of the units of experiments.

`toolroll registry upgrade` then makes the sums of the events that are there. A process of the version before
writes no durations, keeps those that are there, and adds no units.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from toolroll.registry.store import partitions, tables

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds two tables and two columns."""
    connection = op.get_bind()
    for table in partitions.BY_MONTH:
        column = table.c.durations_ms
        known = {each["name"] for each in sa.inspect(connection).get_columns(table.name)}
        if column.name not in known:  # 0003 made the table as it is today
            op.add_column(table.name, sa.Column(column.name, column.type))
    for added in (tables.duration_rollups, tables.experiment_units):
        added.create(connection, checkfirst=False)
