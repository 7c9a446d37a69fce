"""The organisations of a registry: all that have rows of their own."""

from __future__ import annotations

import sqlalchemy as sa

from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

MOST = 10_000
# Small tables, in one of which every organisation has a row that does anything. Events are many, so not read.
_TABLES = (
    tables.learning_state,
    tables.tools,
    tables.toolkits,
    tables.visibility_rules,
    tables.page_mappings,
    tables.pins,
    tables.settings,
    tables.plugins,
    tables.service_keys,
    tables.accounts,
    tables.experiments,
)


def organisations(database: Database, part: str = "", limit: int = 100) -> tuple[str, ...]:
    """Names of organisations, ascending. part: only those with this in their name. limit: the most of them.

    An organisation that does nothing but select, and whose outcomes nobody reports, is not among them.
    """
    with database.reading() as connection:
        each = [sa.select(table.c.org).where(table.c.org != "") for table in _TABLES]
        found = sa.union(*each).subquery()
        query = sa.select(found.c.org).order_by(found.c.org).limit(min(limit, MOST))
        if part:
            query = query.where(found.c.org.icontains(part, autoescape=True))
        return tuple(connection.execute(query).scalars())
