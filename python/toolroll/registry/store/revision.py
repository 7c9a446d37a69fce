"""The revision of a registry: the number of its changes so far; and when the registry was made."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from toolroll.errors import StoreUnavailable
from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import UnreadableRow, read_rows


def revision_in(connection: sa.Connection) -> int:
    """The revision, within a transaction.

    Raises:
        StoreUnavailable: the registry has none, because another program changed or deleted the row.
    """
    rows = list(read_rows(connection, (tables.registry_state.c.revision,)))
    if len(rows) != 1:
        found = "is missing"
    elif isinstance(rows[0], UnreadableRow):
        found = rows[0].problem
    else:
        revision = rows[0]["revision"]
        if type(revision) is int and revision >= 0:
            return revision
        found = f"is {revision!r:.80}"
    raise damaged(found)


def created_at(connection: sa.Connection) -> datetime | None:
    """When the registry was made, which tells it from others; None if its row is missing."""
    return connection.execute(sa.select(tables.registry_state.c.created_at)).scalar()


def damaged(found: str) -> StoreUnavailable:
    """The error for such a revision. found: "is missing"."""
    return StoreUnavailable(f"registry: is damaged: its revision {found}; restore a backup")
