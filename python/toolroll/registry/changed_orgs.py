"""Which organisations have rows of their own, and which have changed: questions that read no row of them.

A replica follows few organisations of many. On PostgreSQL these queries use an index for each organisation,
so their cost does not grow with the rows of those that did not change.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from toolroll.registry.store import tables

OWNED = (tables.tools, tables.toolkits, tables.pins)  # what a catalog of an organisation's own is built from


def orgs_with_rows(connection: sa.Connection) -> frozenset[str]:
    """The organisations with tools, toolkits or pins that are not deleted.

    O(organisations): each step looks up the next name in the index of rows that are not deleted.
    """
    found: set[str] = set()
    for table in OWNED:
        found.update(row.org for row in connection.execute(_names_in(table)))
    return frozenset(found)


def orgs_with_new_rows(connection: sa.Connection, orgs: Collection[str], since: int) -> frozenset[str]:
    """Those of these organisations that have such a row with a revision above `since`."""
    found: set[str] = set()
    for table in OWNED if orgs else ():
        c = table.c
        is_new = (c.org.in_(sorted(orgs)), c.revision > since, c.deleted_at.is_(None))
        found.update(connection.execute(sa.select(c.org).where(*is_new).distinct()).scalars())
    return frozenset(found)


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


def _names_in(table: sa.Table) -> sa.Select[tuple[str]]:
    """The owners of a table's rows, by a loose index scan, which PostgreSQL's DISTINCT is not."""
    c = table.c
    is_alive = c.deleted_at.is_(None)
    names = sa.select(sa.func.min(c.org).label("org")).where(is_alive, c.org > "").cte(recursive=True)
    after = sa.select(sa.func.min(c.org)).where(is_alive, c.org > names.c.org).scalar_subquery()
    names = names.union_all(sa.select(after).where(names.c.org.is_not(None)))
    return sa.select(names.c.org).where(names.c.org.is_not(None))
