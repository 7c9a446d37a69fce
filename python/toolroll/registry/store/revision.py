"""The revision of a registry: the number of its changes so far.

Two histories may have the same numbers, such as after somebody has restored a backup. The time of a revision
distinguishes them.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from toolroll.model.errors import StoreUnavailable
from toolroll.registry.store import tables

_LOG, _STATE = tables.changes.c, tables.registry_state.c


def revision_in(connection: sa.Connection) -> int:
    """The revision, within a transaction. Raises StoreUnavailable if another program deleted the row."""
    revision: int | None = connection.execute(sa.select(_STATE.revision)).scalar()
    if revision is None:
        raise missing()
    return revision


def written_at(connection: sa.Connection, revision: int) -> datetime | None:
    """The time of a revision; None for a registry without any change."""
    return connection.execute(sa.select(sa.func.max(_LOG.at)).where(_LOG.revision == revision)).scalar()


def changed_orgs(connection: sa.Connection, since: int, revision: int) -> frozenset[str] | None:
    """The owners of all changes above `since`, "" for the platform. Reads the audit log alone.

    Returns None if the log is incomplete because somebody raised the revision by hand.
    """
    query = sa.select(_LOG.org, _LOG.revision).where(_LOG.revision > since).distinct()
    rows = connection.execute(query).all()
    if len({row.revision for row in rows}) < revision - since:
        return None
    return frozenset(row.org for row in rows)


def created_at(connection: sa.Connection) -> datetime | None:
    """The time at which the registry was made, which identifies it; None if its row is missing."""
    return connection.execute(sa.select(_STATE.created_at)).scalar()


def missing() -> StoreUnavailable:
    """The error for a registry without a revision."""
    return StoreUnavailable("registry: is damaged: its revision is missing; restore a backup")
