"""Digests of an organisation's policy rows, which show that another program changed or removed a row.

Each row has a digest of the columns that policy reads. An organisation's digest of a table is the sum of its
rows' digests, modulo 2^128: the order of rows does not matter, and an edit adds and subtracts in its own
transaction, without reading other rows. The registry's state has the sum over all organisations' digests, so
that removed digests are noticed.

No key is involved: digests show accidents and edits by hand, not an attacker who writes digests, too.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

import sqlalchemy as sa

from toolroll.registry.store import tables
from toolroll.registry.store.row_reader import Row, read_rows

Digests: TypeAlias = Mapping[str, int]  # part → sum; a part that is missing is 0

PUBLIC = "public"  # the part for public tools: if it is wrong, no tool counts as public
TIERS = "tiers"  # the part for the list of tiers, which belongs to the platform

# The tables whose rows are digested, each with the columns that policy reads.
COVERED: Mapping[sa.Table, tuple[str, ...]] = {
    tables.visibility_rules: (
        *("rule_id", "org", "name", "effect", "kind", "condition", "tool", "toolkit", "priority", "active"),
    ),
    tables.page_mappings: ("page_id", "org", "pattern", "toolkits", "priority"),
    tables.settings: ("org", "key", "is_set"),
    tables.toolkits: ("toolkit_id", "org", "name", "parent", "settings_keys", "base", "tier", "members"),
    tables.pins: ("pin_id", "org", "tool_id", "pinned", "pin_weight"),
    tables.tools: (
        *("tool_id", "org", "name", "toolkit", "status", "public", "review", "served_version", "annotations"),
        "content_hash",
    ),
}
_MODULUS = 2**128


def digest_of(table: sa.Table, row: Row) -> int:
    """The digest of a row; 0 for a deleted row."""
    if row.get("deleted_at") is not None:
        return 0
    return _number([table.name, *[row[column] for column in COVERED[table]]])


def digest_of_tiers(tiers: Iterable[str]) -> int:
    """The digest of the list of tiers; 0 for an empty list."""
    names = list(tiers)
    return _number([TIERS, names]) if names else 0


def parts_of(table: sa.Table, row: Row) -> Digests:
    """A row's digest by part, to add to its organisation's digests."""
    digest = digest_of(table, row)
    if table is tables.tools and row["public"]:
        return {table.name: digest, PUBLIC: digest}
    return {table.name: digest}


class DigestChanges:
    """The changes of one transaction to the digests of organisations."""

    def __init__(self, total: int) -> None:
        """Begins without changes. total: the sum in the registry's state."""
        self._total = total
        self._changes: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def replace(self, table: sa.Table, before: Row | None, after: Row | None) -> None:
        """Records a changed row. before: None for a new row. after: None for a removed row."""
        for row, sign in ((before, -1), (after, 1)):
            if row is not None:
                for part, digest in parts_of(table, row).items():
                    self._changes[row["org"]][part] += sign * digest

    def replace_tiers(self, before: Iterable[str], after: Iterable[str]) -> None:
        """Records a changed list of tiers."""
        self._changes[""][TIERS] += digest_of_tiers(after) - digest_of_tiers(before)

    def write(self, connection: sa.Connection) -> None:
        """Writes the digests. The caller holds the lock of writers. O(organisations that changed)."""
        changed = {org: parts for org, parts in self._changes.items() if any(parts.values())}
        if not changed:
            return
        before = read(connection, changed)
        after = {org: summed((before.get(org, {}), parts)) for org, parts in changed.items()}
        table = tables.policy_digests
        for org, digests in after.items():
            statement = sa.update(table).where(table.c.org == org) if org in before else sa.insert(table)
            connection.execute(statement, {"org": org, "digests": _as_json(digests)})
        _write_total(connection, self._total + total_of(after) - total_of(before))


def summed(several: Iterable[Digests]) -> dict[str, int]:
    """The sums of digests, without sums of 0."""
    found: Counter[str] = Counter()
    for digests in several:
        found.update(digests)
    return {part: left for part, digest in found.items() if (left := digest % _MODULUS)}


def total_of(digests: Mapping[str, Digests]) -> int:
    """The sum over organisations, for `registry_state`."""
    return sum(_number([org, sorted(parts.items())]) for org, parts in digests.items()) % _MODULUS


def read(connection: sa.Connection, orgs: Collection[str] | None = None) -> dict[str, Digests]:
    """Organisation → its stored digests. orgs: None for all organisations."""
    table = tables.policy_digests
    query = sa.select(table.c.org, table.c.digests)
    if orgs is not None:
        query = query.where(table.c.org.in_(sorted(orgs)))
    return {
        org: {part: parsed(digest) for part, digest in digests.items()}
        for org, digests in connection.execute(query)
    }


def read_total(connection: sa.Connection) -> int:
    """The stored `total_of` all organisations."""
    return parsed(connection.execute(sa.select(tables.registry_state.c.policy_digest)).scalar_one())


def parsed(text: object) -> int:
    """The digest in a stored text; for a damaged text −1, which equals no digest."""
    try:
        return int(str(text), 16)
    except ValueError:
        return -1


def computed(connection: sa.Connection) -> dict[str, Digests]:
    """Organisation → the digests of its present rows. Reads all rows of the tables."""
    found: defaultdict[str, list[Digests]] = defaultdict(list)
    for table, columns in COVERED.items():
        where = [table.c.deleted_at.is_(None)] if "deleted_at" in table.c else []
        for row in read_rows(connection, [table.c[name] for name in columns], *where):
            found[row["org"]].append(parts_of(table, row))
    tiers = connection.execute(sa.select(tables.registry_state.c.tiers)).scalar_one()
    found[""].append({TIERS: digest_of_tiers(tiers)})
    return {org: digests for org, parts in found.items() if (digests := summed(parts))}


def replace_all(connection: sa.Connection, digests: Mapping[str, Digests]) -> None:
    """Replaces the digests of all organisations. The caller holds the lock of writers."""
    connection.execute(sa.delete(tables.policy_digests))
    if rows := [{"org": org, "digests": _as_json(parts)} for org, parts in digests.items()]:
        connection.execute(sa.insert(tables.policy_digests), rows)
    _write_total(connection, total_of(digests))


def _write_total(connection: sa.Connection, total: int) -> None:
    connection.execute(sa.update(tables.registry_state).values(policy_digest=f"{total % _MODULUS:032x}"))


def _as_json(digests: Digests) -> dict[str, str]:
    return {part: f"{digest:032x}" for part, digest in digests.items()}


def _number(values: list[Any]) -> int:
    text = tables.json_text(values).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
