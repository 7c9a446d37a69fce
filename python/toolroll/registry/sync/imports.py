"""Checks that an import from another registry loses nothing."""

from __future__ import annotations

import sqlalchemy as sa

from toolroll.errors import Conflict
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.tiers import tiers_in


def check_whole(database: Database, name: str, org: str) -> None:
    """Refuses a registry with restrictions that an import would lose, which would reveal hidden tools.

    name: of the registry, in errors. org: the owner of the imported tools.

    Raises:
        Conflict: it has rules or tiers; or, for an import of the platform, what organisations own.
    """
    found: list[str] = []
    with database.reading() as connection:
        rules = tables.visibility_rules
        count = int(
            connection.execute(
                sa.select(sa.func.count()).select_from(rules).where(rules.c.deleted_at.is_(None))
            ).scalar_one()
        )
        if count:
            found.append(f"{count:,} rule{'' if count == 1 else 's'}")
        if tiers_in(connection):
            found.append("tiers")
        if not org and any(_has_organisations(connection, table) for table in _OWNED):
            found.append("organisations")
    if found:
        raise Conflict(
            f"{name}: has {', '.join(found)}, which an import does not bring over: hidden tools would become "
            "visible. Copy the whole registry: with pg_dump, or by copying the SQLite file while "
            "nobody writes"
        )


_OWNED = (tables.tools, tables.toolkits, tables.page_mappings, tables.pins)


def _has_organisations(connection: sa.Connection, table: sa.Table) -> bool:
    query = sa.select(table.c.org).where(table.c.org != "", table.c.deleted_at.is_(None)).limit(1)
    return connection.execute(query).first() is not None
