"""Reads the tools of one registry so that they can be imported into another."""

from __future__ import annotations

from dataclasses import replace

from toolroll.errors import Conflict
from toolroll.registry.replica import Replica, catch_up
from toolroll.registry.store.database import Database
from toolroll.registry.sync.imports import check_whole
from toolroll.tools import Definitions


def read_registry(url: str, org: str, shown: str) -> Definitions:
    """The approved tools, the toolkits and the page mappings of an organisation.

    shown: how errors name the registry, since its URL may hold a password.

    Raises:
        Conflict: the registry has rules, tiers or organisations, which an import would lose, or rows that
            are not as the registry wrote them.
    """
    database = Database.open(url, create=False, migrate=False)
    try:
        replica = catch_up(database, Replica(followed=frozenset({org})))
        check_whole(database, shown, org)
    finally:
        database.close()
    policy = replica.policy_source
    for owner in dict.fromkeys((org, "")):
        for problem in (*replica.damaged.get(owner, {}).values(), *policy.wrong().get(owner, ())):
            raise Conflict(f"{shown}: {problem}")
    policy.check()
    pages = tuple(page for page in policy.pages if page.org == org)
    return replace(replica.definitions(org), pages=pages)
