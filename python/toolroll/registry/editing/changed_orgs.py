"""Which organisations have changed: a question that reads no row of them.

A replica follows few organisations of many, and reads the rows of those that changed.
"""

from __future__ import annotations

import sqlalchemy as sa

from toolroll.registry.store import tables


def changed_orgs(connection: sa.Connection, since: int, revision: int) -> frozenset[str] | None:
    """The owners of all changes above `since`, "" for the platform; None where the log does not say.

    Somebody may have raised the revision by hand, and written no line.
    """
    log = tables.changes.c
    query = sa.select(log.org, log.revision).where(log.revision > since).distinct()
    rows = connection.execute(query).all()
    if len({row.revision for row in rows}) < revision - since:
        return None
    return frozenset(row.org for row in rows)
