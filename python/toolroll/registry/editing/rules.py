"""Visibility rules in the registry: who may see which tools.

The registry refuses a rule with an unknown attribute, tier, tool or toolkit, since it would not do what its
author intends. `toolroll.selection.policy` defines the meaning of a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import sqlalchemy as sa

from toolroll.model.errors import Conflict
from toolroll.model.rules import EVERYTHING, KINDS, Kind, Rule
from toolroll.registry.editing import governed_rows
from toolroll.registry.editing.governed_rows import Editor, GovernedRow, Reach, Row, knows_tool
from toolroll.registry.editing.tiers import tiers_in
from toolroll.registry.editing.toolkits import is_toolkit, no_toolkit
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, checked_text
from toolroll.registry.store.json_values import as_json
from toolroll.registry.store.row_reader import read_rows
from toolroll.selection.policy.rule_checks import check, wrong

_TABLE = tables.visibility_rules
UNNAMED = "of the platform"  # replaces the name of a rule that the author of a request may not know
_FIELDS = ("effect", "kind", "condition", "tool", "toolkit", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRecord(GovernedRow):
    """A stored rule. active: whether it is in force."""

    rule: Rule
    active: bool

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.rule.name

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rule = self.rule
        owner = {"rule_id": rule.rule_id, "org": rule.org, "name": rule.name}
        return {**owner, **_content_of(rule), "active": self.active, **self.shared_fields()}

    def __str__(self) -> str:
        rule = self.rule
        target = f"tool {rule.tool}" if rule.tool else f"toolkit {rule.toolkit}"
        off = "" if self.active else ", off"
        return governed_rows.printable(
            f"{rule.name}: {rule.effect} {target} (priority {rule.priority}{off}) {dict(rule.condition)}"
        )


class Rules(Editor[RuleRecord]):
    """The visibility rules of a registry. A rule belongs to its own `org`."""

    _table, _noun, _kind, _fields = _TABLE, "rule", "rule", (*_FIELDS, "active")

    def add(self, rule: Rule, *, active: bool = True, reason: str = "") -> RuleRecord:
        """Adds a rule.

        Raises:
            InvalidDefinition: a field is wrong, or the tool or toolkit does not exist.
            Conflict: the organisation already has a rule with this name.
        """
        with self._database.writing(self.actor, rule.org) as write:
            self._check_name_is_free(write, rule.name)
            content = _checked(write.connection, rule, self.reach, with_target=True)
            content["active"] = bool(active)
            return self._record(self._insert(write, rule.name, content, reason, name=rule.name))

    def check(self, rule: Rule) -> None:
        """Raises the errors that `add` would raise, except for a taken name, and writes nothing."""
        checked_text(rule.org, "org")
        governed_rows.check_name(rule.name, "rule name")
        with self._database.reading() as connection:
            _checked(connection, rule, self.reach, with_target=True)

    def update(
        self,
        name: str,
        changes: Mapping[str, Any],
        *,
        org: str = "",
        version: int | None = None,
        reason: str = "",
    ) -> RuleRecord:
        """Changes fields of a rule: name, effect, kind, condition, tool, toolkit, priority.

        Writes nothing if no field differs.

        version: the version that the caller read; None for any.

        Raises:
            NotFound: there is no such rule.
            Conflict: the rule has another version, or the new name is taken.
            InvalidInput: a field is unknown; InvalidDefinition: as in `add`.
        """
        changes = governed_rows.checked_changes(changes, ("name", *_FIELDS), f"rule {name!r:.80}")
        with self._editing(name, org, version) as (write, row):
            rule = Rule(org=org, **{field: row[field] for field in ("name", *_FIELDS)} | changes)
            is_moved = (rule.tool, rule.toolkit) != (row["tool"], row["toolkit"])
            content = _checked(write.connection, rule, self.reach, with_target=is_moved)
            values = {"name": rule.name, **content}
            if rule.name != row["name"]:
                self._check_name_is_free(write, rule.name)
            return self._record(self._update(write, row, values, name, reason))

    def enable(self, name: str, *, org: str = "", version: int | None = None, reason: str = "") -> RuleRecord:
        """Puts a rule in force. Raises NotFound, Conflict, and InvalidDefinition as in `add`."""
        return self._set_active(name, True, org, version, reason)

    def disable(
        self, name: str, *, org: str = "", version: int | None = None, reason: str = ""
    ) -> RuleRecord:
        """Puts a rule out of force, and keeps it. Raises NotFound and Conflict."""
        return self._set_active(name, False, org, version, reason)

    def delete(self, name: str, *, org: str = "", version: int | None = None, reason: str = "") -> RuleRecord:
        """Deletes a rule; its name is free again. Raises NotFound and Conflict."""
        with self._editing(name, org, version) as (write, row):
            return self._record(self._delete(write, row, name, reason))

    def get(self, name: str, org: str = "") -> RuleRecord:
        """The rule with this name. Raises NotFound."""
        checked_text(org, "org")
        with self._database.reading() as connection:
            return self._record(self._row(connection, name, org))

    def list(self, org: str | None = None, deleted: bool = False) -> tuple[RuleRecord, ...]:
        """The rules of an organisation ("": the platform), or all, in the order in which they decide."""
        r = _TABLE.c
        return self._list(org, deleted, r.org, r.priority.desc(), r.effect.desc(), r.name, r.created_at)

    @staticmethod
    def _record(row: Mapping[str, Any]) -> RuleRecord:
        return RuleRecord(rule=rule_in(row), active=row["active"], **governed_rows.shared_fields(row))

    def _set_active(self, name: str, active: bool, org: str, version: int | None, reason: str) -> RuleRecord:
        with self._editing(name, org, version) as (write, row):
            if active and not row["active"]:
                _checked(write.connection, rule_in(row), self.reach, with_target=True)
            verb = "enable" if active else "disable"
            return self._record(self._update(write, row, {"active": active}, name, reason, verb))

    @staticmethod
    def _check_name_is_free(write: Write, name: str) -> None:
        governed_rows.check_name(name, "rule name")
        same = (_TABLE.c.org == write.org, _TABLE.c.name == name)
        for row in governed_rows.rows_of(write.connection, _TABLE, *same):
            raise Conflict(
                f"rule {name!r}: there is one {governed_rows.place_of(write.org)} already, at version "
                f"{row['version']}; change it or take another name"
            )


def rules_naming(
    connection: sa.Connection,
    org: str,
    *,
    tool: str = "",
    toolkits: Collection[str] = (),
    reach: Reach | None = None,
) -> list[str]:
    """Sorted names of an organisation's active rules that name this tool or one of these toolkits.

    Rules of the platform count for every organisation; for the platform, the rules of all organisations
    count. With a reach, the platform's rules appear without names, and only its toolkits count.
    """
    r = _TABLE.c
    target = sa.or_(
        sa.and_(r.tool == tool, r.tool != ""), sa.and_(r.toolkit.in_(list(toolkits)), r.toolkit != EVERYTHING)
    )
    where = [r.deleted_at.is_(None), r.active, target]
    if org:
        where.append(r.org.in_({"", org}))
    found = read_rows(connection, (r.org, r.name, r.toolkit), *where, order_by=(r.name,))
    return list(dict.fromkeys(filter(None, (known_rule(row, reach) for row in found))))


def known_rule(row: Mapping[str, Any], reach: Reach | None) -> str:
    """The name of a rule, `UNNAMED`, or "" if the author of a request may not know the rule."""
    if row["org"] or reach is None:
        return str(row["name"])
    return UNNAMED if row["toolkit"] in reach.toolkits else ""


def kind_of(condition: Mapping[str, Any]) -> Kind:
    """The kind of a rule: the attribute of its condition if there is only one, else "composite"."""
    if len(condition) == 1 and (kind := next(iter(condition))) in KINDS - {"composite"}:
        return cast(Kind, kind)
    return "composite"


def _checked(connection: sa.Connection, rule: Rule, reach: Reach | None, with_target: bool) -> Row:
    """The content of a rule. Raises InvalidDefinition if the rule does not fit this registry."""
    check(rule, tiers_in(connection))
    content = _content_of(rule)
    governed_rows.check_content(content, f"rule {rule.name!r:.80}")
    if with_target:
        _check_target(connection, rule, reach)
    return content


def _check_target(connection: sa.Connection, rule: Rule, reach: Reach | None) -> None:
    org, tools = rule.org, tables.tools
    if rule.toolkit == EVERYTHING:
        return
    if rule.toolkit:
        if not is_toolkit(connection, rule.toolkit, org, reach):
            raise wrong(rule, "toolkit", f"names nothing: {no_toolkit(connection, rule.toolkit, org, reach)}")
        return
    orgs = {"", org} if knows_tool(reach, rule.tool) else {org}
    where = (tools.c.name == rule.tool, tools.c.org.in_(orgs), tools.c.deleted_at.is_(None))
    if connection.execute(sa.select(tools.c.org).where(*where)).first() is None:
        names = governed_rows.names_in(connection, tools, "", org, knows=partial(knows_tool, reach))
        hint = governed_rows.suggestion(rule.tool, names)
        nowhere = governed_rows.not_in_reach(org)
        raise wrong(rule, "tool", f"names nothing: tool {rule.tool!r:.80} is {nowhere}{hint}")


def _content_of(rule: Rule) -> Row:
    return {field: as_json(getattr(rule, field)) for field in _FIELDS}


def rule_in(row: Mapping[str, Any]) -> Rule:
    """The rule in a row of `visibility_rules`."""
    return Rule(**{field: row[field] for field in ("name", "org", "rule_id", *_FIELDS)})
