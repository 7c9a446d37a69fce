"""Reads rules, page mappings and tiers from a registry: the policy as it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa

from toolroll.errors import InvalidDefinition
from toolroll.registry.governed_rows import SHARED_FIELDS
from toolroll.registry.page_mappings import mapping_in
from toolroll.registry.rules import rule_in
from toolroll.registry.store import tables
from toolroll.registry.store.checksums import is_present, verified
from toolroll.registry.store.row_reader import Row, UnreadableRow, read_rows
from toolroll.registry.tiers import verified_tiers
from toolroll.selection.effective_policy import PolicySource
from toolroll.selection.policy.unreadable_rules import UnreadableRule

_TABLES = (tables.visibility_rules, tables.page_mappings)


def read_policy(connection: sa.Connection, orgs: Collection[str] | None = None) -> PolicySource:
    """The policy of these organisations, "" for the platform; None for all. Tiers are always read."""
    problems: dict[str, list[str]] = {}
    rules, unreadable = [], []
    for row in _present(connection, tables.visibility_rules, orgs):
        if isinstance(row, UnreadableRow):
            unreadable.append(UnreadableRule.of(row.values, row.problem))
        elif row["active"]:
            rules.append(rule_in(row))
    pages = []
    for row in _present(connection, tables.page_mappings, orgs):
        try:
            if isinstance(row, UnreadableRow):
                raise InvalidDefinition(row.problem)
            pages.append(mapping_in(row))
        except (ValueError, TypeError) as error:
            problems.setdefault(owner_of(row), []).append(str(error))
    found = verified_tiers(connection)
    tiers: tuple[Any, ...] = (None,)  # which `sorted_out` refuses
    if isinstance(found, UnreadableRow):
        problems.setdefault("", []).append(found.problem)
    else:
        tiers = found
    return PolicySource(
        tuple(rules),
        tuple(pages),
        tiers,
        tuple(unreadable),
        {org: tuple(several) for org, several in problems.items()},
    )


def updated_policy(
    connection: sa.Connection, known: PolicySource, orgs: Collection[str], since: int
) -> PolicySource:
    """The policy where only these organisations have changed since a revision; `known` if it is as it was.

    known: the policy at that revision.
    """
    if not orgs:
        return known
    if known.unreadable or known.problems:  # whose owner may not have been readable
        return read_policy(connection)
    if not _are_newer(connection, orgs, since):
        return known
    part = read_policy(connection, orgs)
    rules = (*(rule for rule in known.rules if rule.org not in orgs), *part.rules)
    pages = (*(page for page in known.pages if page.org not in orgs), *part.pages)
    return PolicySource(
        tuple(sorted(rules, key=lambda rule: (rule.org, rule.rule_id))),
        tuple(sorted(pages, key=lambda page: (page.org, page.page_id))),
        part.tiers,
        part.unreadable,
        part.problems,
    )


def owner_of(row: Row | UnreadableRow) -> str:
    """The organisation in a row; "" where it cannot be read."""
    org = values_of(row).get("org")
    return org if isinstance(org, str) else ""


def values_of(row: Row | UnreadableRow) -> Row:
    """The columns of a row that can be read."""
    return row.values if isinstance(row, UnreadableRow) else row


def _are_newer(connection: sa.Connection, orgs: Collection[str], since: int) -> bool:
    newer = [
        sa.select(sa.literal(1)).where(table.c.org.in_(sorted(orgs)), table.c.revision > since).exists()
        for table in _TABLES
    ]
    return bool(connection.execute(sa.select(sa.or_(*newer))).scalar())


def _present(
    connection: sa.Connection, table: sa.Table, orgs: Collection[str] | None
) -> Iterator[Row | UnreadableRow]:
    """The content of rows that people edit and have not deleted, in a fixed order."""
    identity = next(iter(table.primary_key))
    edited = {column.name for column in table.c} - {*SHARED_FIELDS, "plugin"} | {"deleted_at"}
    columns = [column for column in table.c if column.name in edited]
    where = [is_present(table)] if orgs is None else [is_present(table), table.c.org.in_(sorted(orgs))]
    for row in read_rows(connection, columns, *where, order_by=(table.c.org, identity), has_checksum=True):
        yield verified(table, row)
