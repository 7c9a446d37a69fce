"""The subscription tiers, lowest first: the order by which rules and toolkits compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from toolroll.errors import Conflict, InvalidDefinition
from toolroll.registry.governed_rows import check_name
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.rules import Rule
from toolroll.selection.policy.rule_checks import check, tier_problem, tiers_of

_NAMED = 20  # what still compares with a tier, in an error


def read_tiers(database: Database) -> tuple[str, ...]:
    """As configured, lowest first."""
    with database.reading() as connection:
        return tiers_in(connection)


def tiers_in(connection: sa.Connection) -> tuple[str, ...]:
    """The same, within a transaction."""
    return tuple(connection.execute(sa.select(tables.registry_state.c.tiers)).scalar_one())


def set_tiers(database: Database, actor: str, tiers: Sequence[str], reason: str = "") -> tuple[str, ...]:
    """Sets the tiers and their order. The same again writes nothing.

    Raises:
        InvalidDefinition: they are no list of names, or name one twice.
        Conflict: a rule or a toolkit compares with a tier that would be gone; names them.
    """
    new = tiers_of(tiers)
    for tier in new:
        check_name(tier, "tier")
    with database.writing(actor) as write:
        old = tiers_in(write.connection)
        if new == old:
            write.abandon()
            return old
        if stuck := list(_stuck(write.connection, new)):
            more = f" and {len(stuck) - _NAMED} more" if len(stuck) > _NAMED else ""
            raise Conflict(
                f"tiers: cannot become {', '.join(map(repr, new)) or 'none'}: "
                f"{', '.join(stuck[:_NAMED])}{more} would compare with a tier that is gone; change them first"
            )
        write.log("tiers.set", "tiers", {"before": {"tiers": [*old]}, "after": {"tiers": [*new]}}, reason)
        write.connection.execute(sa.update(tables.registry_state), {"tiers": [*new]})
    return new


def _stuck(connection: sa.Connection, tiers: tuple[str, ...]) -> Iterator[str]:
    """Rules, those switched off too, and toolkits that these tiers leave without sense."""
    rules, toolkits = tables.visibility_rules, tables.toolkits
    alive = sa.select(rules).where(rules.c.deleted_at.is_(None)).order_by(rules.c.org, rules.c.name)
    for row in connection.execute(alive):
        try:
            check(Rule(row.name, row.effect, "composite", row.condition, row.tool, row.toolkit), tiers)
        except InvalidDefinition:
            yield _named("rule", row.name, row.org)
    tiered = sa.select(toolkits).where(toolkits.c.deleted_at.is_(None), toolkits.c.tier.is_not(None))
    for row in connection.execute(tiered.order_by(toolkits.c.org, toolkits.c.name)):
        if tier_problem(row.tier, tiers):
            yield _named("toolkit", row.name, row.org)


def _named(what: str, name: str, org: str) -> str:
    return f"{what} {name!r:.80}" + (f" of {org!r:.80}" if org else "")
