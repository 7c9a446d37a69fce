"""The subscription tiers, lowest first: rules and toolkits compare tiers by this order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from toolroll.model.errors import Conflict, InvalidDefinition
from toolroll.model.rules import Rule
from toolroll.registry.editing.governed_rows import Row, check_name, rows_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, Write
from toolroll.selection.policy.rule_checks import check, tier_problem, tiers_of

_LISTED = 20  # rules and toolkits in an error message


def read_tiers(database: Database) -> tuple[str, ...]:
    """The configured tiers, lowest first."""
    with database.reading() as connection:
        return tiers_in(connection)


def tiers_in(connection: sa.Connection) -> tuple[str, ...]:
    """The configured tiers, within a transaction."""
    return tuple(connection.execute(sa.select(tables.registry_state.c.tiers)).scalar_one())


def set_tiers(database: Database, actor: str, tiers: Sequence[str], reason: str = "") -> tuple[str, ...]:
    """Sets the tiers and their order. Writes nothing if they are the same.

    Raises:
        InvalidDefinition: the value is not a list of different names.
        Conflict: rules or toolkits compare with a tier that would disappear; the message lists them.
    """
    new = tiers_of(tiers)
    for tier in new:
        check_name(tier, "tier")
    with database.writing(actor) as write:
        old = tiers_in(write.connection)
        if new == old:
            write.abandon()
            return old
        if broken := list(_broken_by(write.connection, new)):
            more = f" and {len(broken) - _LISTED} more" if len(broken) > _LISTED else ""
            raise Conflict(
                f"tiers: cannot become {', '.join(map(repr, new)) or 'none'}: "
                f"{', '.join(broken[:_LISTED])}{more} would compare with a tier "
                "that is gone; change them first"
            )
        write_tiers(write, old, new, reason)
    return new


def write_tiers(write: Write, old: Sequence[str], new: Sequence[str], reason: str) -> None:
    """Writes the tiers, and a line in the audit log. The caller has checked them."""
    write.log("tiers.set", "tiers", {"before": {"tiers": [*old]}, "after": {"tiers": [*new]}}, reason)
    write.digests.replace_tiers(old, new)
    write.connection.execute(sa.update(tables.registry_state).values(tiers=[*new]))


def _broken_by(connection: sa.Connection, tiers: tuple[str, ...]) -> Iterator[str]:
    """Rules, including inactive ones, and toolkits that compare with a tier not among these."""
    rules, toolkits = tables.visibility_rules, tables.toolkits
    fields = ("name", "effect", "condition", "tool", "toolkit")
    for row in sorted(rows_of(connection, rules), key=_by_owner):
        try:
            check(Rule(kind="composite", **{field: row[field] for field in fields}), tiers)
        except InvalidDefinition:
            yield _with_owner("rule", row["name"], row["org"])
    for row in sorted(rows_of(connection, toolkits, toolkits.c.tier.is_not(None)), key=_by_owner):
        if tier_problem(row["tier"], tiers):
            yield _with_owner("toolkit", row["name"], row["org"])


def _by_owner(row: Row) -> tuple[str, str]:
    return row["org"], row["name"]


def _with_owner(what: str, name: str, org: str) -> str:
    return f"{what} {name!r:.80}" + (f" of {org!r:.80}" if org else "")
