"""What an event showed, looked up in the store."""

from __future__ import annotations

import sqlalchemy as sa

from toolroll.events.rows import exposure_in
from toolroll.learning.exposure import Exposure
from toolroll.store import tables
from toolroll.store.database import Database

_table = tables.selection_events


def exposure_of_event(database: Database, event_id: str) -> Exposure | None:
    """The exposure of an event, or None where the store does not know it.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    query = sa.select(
        _table.c.event_id,
        _table.c.org,
        _table.c.at,
        _table.c.reporter,
        _table.c.page,
        _table.c.tier,
        _table.c.category,
        _table.c.shown,
        _table.c.vector,
        _table.c.space,
    ).where(_table.c.event_id == event_id)
    with database.reading() as connection:
        row = connection.execute(query).first()
    return None if row is None else exposure_in(row)
