"""The revision of a registry: the number of its changes so far; and when the registry was made."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from toolroll.model.errors import StoreUnavailable
from toolroll.registry.store import tables


def revision_in(connection: sa.Connection) -> int:
    """The revision, within a transaction.

    Raises:
        StoreUnavailable: the registry has none, because another program changed or deleted the row.
    """
    revision: int | None = connection.execute(sa.select(tables.registry_state.c.revision)).scalar()
    if revision is None:
        raise missing()
    return revision


def created_at(connection: sa.Connection) -> datetime | None:
    """When the registry was made, which tells it from others; None if its row is missing."""
    return connection.execute(sa.select(tables.registry_state.c.created_at)).scalar()


def missing() -> StoreUnavailable:
    """The error for a registry without a revision."""
    return StoreUnavailable("registry: is damaged: its revision is missing; restore a backup")
