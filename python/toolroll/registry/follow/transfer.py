"""Reads the tools of one registry so that they can be imported into another."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from toolroll.model.errors import Conflict
from toolroll.model.tools import Definitions
from toolroll.registry.editing.tiers import tiers_in
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

_OWNED = (tables.tools, tables.toolkits, tables.page_mappings, tables.pins)


def read_registry(url: str, org: str, shown: str) -> Definitions:
    """The approved tools, the toolkits and the page mappings of an organisation.

    shown: the registry's name in errors, as its URL may contain a password.

    Raises Conflict if the registry has rules, tiers or organisations, which an import would lose, or its
    policy rows do not fit their digests.
    """
    database = Database.open(url, create=False, migrate=False)
    try:
        replica = catch_up(database, Replica(followed=frozenset({org})))
        _check_whole(database, shown, org)
    finally:
        database.close()
    policy = replica.policy_source
    for owner in dict.fromkeys((org, "")):
        for problem in (*replica.damaged.get(owner, {}).values(), *policy.wrong().get(owner, ())):
            raise Conflict(f"{shown}: {problem}")
    policy.check()
    pages = tuple(page for page in policy.pages if page.org == org)
    return replace(replica.definitions(org), pages=pages)


def _check_whole(database: Database, name: str, org: str) -> None:
    """Raises Conflict for restrictions that an import would lose, so that hidden tools stay hidden."""
    found: list[str] = []
    with database.reading() as connection:
        rules = tables.visibility_rules
        query = sa.select(sa.func.count()).select_from(rules).where(rules.c.deleted_at.is_(None))
        if count := connection.execute(query).scalar_one():
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


def _has_organisations(connection: sa.Connection, table: sa.Table) -> bool:
    query = sa.select(table.c.org).where(table.c.org != "", table.c.deleted_at.is_(None)).limit(1)
    return connection.execute(query).first() is not None
