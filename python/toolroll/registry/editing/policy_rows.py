"""Reads rules, page mappings, settings and tiers from a registry, and checks them against their digests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from toolroll.registry.editing.page_mappings import mapping_in
from toolroll.registry.editing.rules import rule_in
from toolroll.registry.editing.tiers import tiers_in
from toolroll.registry.store import policy_digests, tables
from toolroll.registry.store.policy_digests import COVERED, TIERS, Digests, parts_of
from toolroll.registry.store.row_reader import Row, read_rows
from toolroll.selection.effective_policy import PolicySource

# The names of the parts of digests in a sentence.
NAMES: Mapping[str, str] = {
    "visibility_rules": "visibility rules",
    "page_mappings": "page mappings",
    "settings": "settings",
    "toolkits": "toolkits",
    "pins": "pins",
    "tools": "tools",
    policy_digests.PUBLIC: "public tools",
    TIERS: "tiers",
}
_WRITTEN = (tables.visibility_rules.name, tables.page_mappings.name, TIERS)  # the parts of a `PolicySource`


def read_policy(
    connection: sa.Connection, orgs: Collection[str] | None, stored: Mapping[str, Digests]
) -> tuple[PolicySource, dict[str, frozenset[str]]]:
    """The policy of these organisations, and organisation → its own settings. "" is the platform.

    orgs: None for all. stored: digests of at least these organisations.
    """
    sums: defaultdict[str, list[Digests]] = defaultdict(list)

    def rows(table: sa.Table) -> Iterator[Row]:
        for row in _rows(connection, table, orgs):
            sums[row["org"]].append(parts_of(table, row))
            yield row

    rules = tuple(rule_in(row) for row in rows(tables.visibility_rules) if row["active"])
    pages = tuple(map(mapping_in, rows(tables.page_mappings)))
    settings: dict[str, set[str]] = {}
    for row in rows(tables.settings):
        if row["is_set"]:
            settings.setdefault(row["org"], set()).add(row["key"])
    tiers = tiers_in(connection)
    if orgs is None or "" in orgs:
        sums[""].append({TIERS: policy_digests.digest_of_tiers(tiers)})
    problems, closed = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    for org in sums.keys() | (stored.keys() if orgs is None else stored.keys() & set(orgs)):
        found = policy_digests.summed(sums.get(org, ()))
        if wrong := differing(found, stored.get(org, {}), _WRITTEN):
            problems[org] = (problem_of(org, wrong),)
        if wrong := differing(found, stored.get(org, {}), (tables.settings.name,)):
            closed[org] = (problem_of(org, wrong),)
    return PolicySource(rules, pages, tiers, problems, closed), {
        org: frozenset(keys) for org, keys in settings.items()
    }


def updated_policy(known: PolicySource, orgs: Collection[str], part: PolicySource) -> PolicySource:
    """`known` with these organisations' new policy, `part`; `known` itself if nothing differs."""
    others = known.of(known.orgs - set(orgs))
    now = PolicySource(
        tuple(sorted((*others.rules, *part.rules), key=lambda rule: (rule.org, rule.rule_id))),
        tuple(sorted((*others.pages, *part.pages), key=lambda page: (page.org, page.page_id))),
        part.tiers,
        {**others.problems, **part.problems},
        {**others.closed, **part.closed},
    )
    return known if now == known else now


def closed_also(policy: PolicySource, problems: Mapping[str, str]) -> PolicySource:
    """The policy with further organisations closed. problems: organisation → the reason."""
    if not problems:
        return policy
    closed = {org: (*policy.closed.get(org, ()), problem) for org, problem in problems.items()}
    return replace(policy, closed={**policy.closed, **closed})


def differing(found: Digests, stored: Digests, parts: Collection[str]) -> tuple[str, ...]:
    """The parts whose digests differ."""
    return tuple(part for part in parts if found.get(part, 0) != stored.get(part, 0))


def problem_of(org: str, parts: Collection[str]) -> str:
    """A sentence: another program changed these parts of an organisation."""
    whose = f"of organisation {org!r:.80}" if org else "of the platform"
    what = " and ".join(NAMES[part] for part in parts)
    return f"{what} {whose} are not as the registry wrote them; see: toolroll registry check"


def _rows(connection: sa.Connection, table: sa.Table, orgs: Collection[str] | None) -> Iterator[Row]:
    """A table's rows in a fixed order, without deleted rows."""
    columns = [table.c[name] for name in COVERED[table]]
    where: list[Any] = [] if orgs is None else [table.c.org.in_(sorted(orgs))]
    if "deleted_at" in table.c:
        where.append(table.c.deleted_at.is_(None))
    yield from read_rows(connection, columns, *where, order_by=(table.c.org, columns[0]))
