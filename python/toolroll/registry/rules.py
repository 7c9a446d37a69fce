"""Visibility rules in the registry: who may see which tools.

A rule is refused where it could silently mean something else than its author thinks: an attribute, a tier, a
tool or a toolkit that is not there. What it means is policy.py's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

from toolroll.errors import Conflict
from toolroll.registry import governed_rows
from toolroll.registry.governed_rows import Editor, Governed, Row
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, words
from toolroll.registry.tiers import tiers_in
from toolroll.registry.toolkits import is_toolkit, no_toolkit
from toolroll.rules import EVERYTHING, KINDS, Kind, Rule
from toolroll.selection.policy.rule_checks import check, wrong

_TABLE = tables.visibility_rules
_FIELDS = ("effect", "kind", "condition", "tool", "toolkit", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRecord(Governed):
    """A rule as the registry keeps it.

    Attributes:
        rule: what policies are made of.
        active: whether it is in force.
    """

    rule: Rule
    active: bool

    @property
    def name(self) -> str:
        """The rule's."""
        return self.rule.name

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rule = self.rule
        owner = {"rule_id": rule.rule_id, "org": rule.org, "name": rule.name}
        return {**owner, **_content(rule), "active": self.active, **self.stamps()}

    def __str__(self) -> str:
        rule = self.rule
        target = f"tool {rule.tool}" if rule.tool else f"toolkit {rule.toolkit}"
        off = "" if self.active else ", off"
        return governed_rows.printable(
            f"{rule.name}: {rule.effect} {target} (priority {rule.priority}{off}) {dict(rule.condition)}"
        )


class Rules(Editor):
    """The visibility rules of a registry. A rule's organisation is its own `org`."""

    def add(self, rule: Rule, *, active: bool = True, reason: str = "") -> RuleRecord:
        """Adds a rule.

        Raises:
            InvalidDefinition: its fields are wrong, or its tool or toolkit is not there.
            Conflict: the organisation has a rule of this name.
        """
        words(rule.org, "org")
        with self._database.writing(self.actor, rule.org) as write:
            self._check_name_is_free(write, rule.name)
            content = _checked(write, rule, with_target=True)
            row = governed_rows.insert(write, _TABLE, {"name": rule.name, **content, "active": bool(active)})
            write.log("rule.create", rule.name, {"after": {**content, "active": bool(active)}}, reason)
            return _record(row)

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

        Without a difference nothing is written. version: what was read before, or None for whatever is there.

        Raises:
            NotFound: there is no such rule.
            Conflict: the version has moved on, or the new name is taken.
            InvalidInput: a field is unknown; InvalidDefinition: what `add` refuses.
        """
        changes = governed_rows.fields_of(changes, ("name", *_FIELDS), f"rule {name!r:.80}")
        with self._database.writing(self.actor, org) as write:
            row = self._named(write, org, name, version)
            wanted = {"name": row["name"], **_content_of(row), **changes}
            rule = Rule(org=org, **wanted)
            is_moved = (rule.tool, rule.toolkit) != (row["tool"], row["toolkit"])
            content = _checked(write, rule, with_target=is_moved)
            changed = governed_rows.differing(row, {"name": rule.name, **content})
            if not changed:
                write.abandon()
                return _record(row)
            if "name" in changed:
                self._check_name_is_free(write, rule.name)
            write.log("rule.update", name, governed_rows.before_and_after(row, changed), reason)
            return _record(governed_rows.change(write, _TABLE, row, changed))

    def enable(self, name: str, *, org: str = "", version: int | None = None, reason: str = "") -> RuleRecord:
        """Puts a rule in force. Raises NotFound, Conflict, and InvalidDefinition for what `add` refuses."""
        return self._switch(name, True, org, version, reason)

    def disable(
        self, name: str, *, org: str = "", version: int | None = None, reason: str = ""
    ) -> RuleRecord:
        """Puts a rule out of force and keeps it. Raises NotFound and Conflict."""
        return self._switch(name, False, org, version, reason)

    def delete(self, name: str, *, org: str = "", version: int | None = None, reason: str = "") -> RuleRecord:
        """Deletes a rule; its name may be used again. Raises NotFound and Conflict."""
        with self._database.writing(self.actor, org) as write:
            row = self._named(write, org, name, version)
            write.log("rule.delete", name, {"before": {**_content_of(row), "active": row["active"]}}, reason)
            return _record(governed_rows.delete(write, _TABLE, row))

    def get(self, name: str, org: str = "") -> RuleRecord:
        """The rule of this name. Raises NotFound."""
        words(org, "org")
        with self._database.reading() as connection:
            return _record(governed_rows.named(connection, _TABLE, org, name, "rule"))

    def list(self, org: str | None = None, deleted: bool = False) -> tuple[RuleRecord, ...]:
        """An organisation's own ("": the platform's), or everybody's, in the order in which they decide."""
        query = sa.select(_TABLE)
        if org is not None:
            query = query.where(_TABLE.c.org == words(org, "org"))
        if not deleted:
            query = query.where(_TABLE.c.deleted_at.is_(None))
        order = (
            _TABLE.c.org,
            _TABLE.c.priority.desc(),
            _TABLE.c.effect.desc(),
            _TABLE.c.name,
            _TABLE.c.created_at,
        )
        with self._database.reading() as connection:
            return tuple(_record(dict(row)) for row in connection.execute(query.order_by(*order)).mappings())

    def _switch(self, name: str, active: bool, org: str, version: int | None, reason: str) -> RuleRecord:
        with self._database.writing(self.actor, org) as write:
            row = self._named(write, org, name, version)
            if row["active"] == active:
                write.abandon()
                return _record(row)
            if active:
                _checked(write, rule_in(row), with_target=True)
            values = {"active": active}
            action = "rule.enable" if active else "rule.disable"
            write.log(action, name, governed_rows.before_and_after(row, values), reason)
            return _record(governed_rows.change(write, _TABLE, row, values))

    def _named(self, write: Write, org: str, name: str, version: int | None) -> Row:
        row = governed_rows.named(write.connection, _TABLE, org, name, "rule")
        governed_rows.check_version(row, version, f"rule {name!r}")
        return row

    def _check_name_is_free(self, write: Write, name: str) -> None:
        governed_rows.check_name(name, "rule name")
        taken = governed_rows.rows_of(
            write.connection, _TABLE, _TABLE.c.org == write.org, _TABLE.c.name == name
        )
        if taken:
            raise Conflict(
                f"rule {name!r}: there is one {governed_rows.whose(write.org)} already, at version "
                f"{taken[0]['version']}; change it or take another name"
            )


def rules_naming(
    connection: sa.Connection, org: str, *, tool: str = "", toolkits: Collection[str] = ()
) -> list[str]:
    """The rules in force that name this tool or one of these toolkits of an organisation, in order of names.

    Those of the platform count; where the organisation is the platform, everybody's do.
    """
    r = _TABLE.c
    target = sa.or_(
        sa.and_(r.tool == tool, r.tool != ""),
        sa.and_(r.toolkit.in_(list(toolkits)), r.toolkit != EVERYTHING),
    )
    query = sa.select(r.name).distinct().where(r.deleted_at.is_(None), r.active, target)
    if org:
        query = query.where(r.org.in_({"", org}))
    return list(connection.execute(query.order_by(r.name)).scalars())


def kind_of(condition: Mapping[str, Any]) -> Kind:
    """The kind of a rule with this condition: the one attribute that it names, else "composite"."""
    if len(condition) == 1 and (kind := next(iter(condition))) in KINDS - {"composite"}:
        return cast(Kind, kind)
    return "composite"


def _checked(write: Write, rule: Rule, with_target: bool) -> Row:
    """The content of a rule, if it makes sense here and now."""
    check(rule, tiers_in(write.connection))
    governed_rows.check_priority(rule.priority, f"rule {rule.name!r:.80}")
    content = _content(rule)
    governed_rows.check_kept(content, f"rule {rule.name!r:.80}")
    if with_target:
        _check_target(write, rule)
    return content


def _check_target(write: Write, rule: Rule) -> None:
    connection, tools = write.connection, tables.tools
    if rule.toolkit == EVERYTHING:
        return
    if rule.toolkit:
        if not is_toolkit(connection, rule.toolkit, write.org):
            raise wrong(rule, "toolkit", f"names nothing: {no_toolkit(connection, rule.toolkit, write.org)}")
        return
    named = governed_rows.rows_of(
        connection, tools, tools.c.name == rule.tool, tools.c.org.in_({"", write.org})
    )
    if not named:
        hint = governed_rows.near(rule.tool, governed_rows.names_in(connection, tools, "", write.org))
        raise wrong(
            rule, "tool", f"names nothing: tool {rule.tool!r:.80} is {governed_rows.nowhere(write.org)}{hint}"
        )


def _content(rule: Rule) -> Row:
    return {field: governed_rows.plain(getattr(rule, field)) for field in _FIELDS}


def _content_of(row: Mapping[str, Any]) -> Row:
    return {field: row[field] for field in _FIELDS}


def rule_in(row: Mapping[str, Any]) -> Rule:
    """The rule that a row of `visibility_rules` holds."""
    return Rule(name=row["name"], org=row["org"], rule_id=row["rule_id"], **_content_of(row))


def _record(row: Mapping[str, Any]) -> RuleRecord:
    return RuleRecord(rule=rule_in(row), active=row["active"], **governed_rows.stamps_of(row))
