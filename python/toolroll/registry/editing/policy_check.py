"""Finds policy rows that another program has changed, and accepts them on request.

Digests show which organisation changed (see store/policy_digests.py); the audit log and the tools' versions
show which rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import quoted
from toolroll.registry.editing.policy_rows import NAMES, differing
from toolroll.registry.editing.records import read_records
from toolroll.registry.editing.versions import find_versions
from toolroll.registry.store import policy_digests, tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord
from toolroll.registry.store.policy_digests import COVERED
from toolroll.registry.store.row_reader import Row, read_rows

_LISTED = 20  # differences of an organisation in the audit log
_OF_TOOL = ("name", "toolkit", "status", "public", "annotations")
# First word of an action in the audit log → table, key, noun.
_SUBJECTS: Mapping[str, tuple[sa.Table, str, str]] = {
    "rule": (tables.visibility_rules, "name", "rule"),
    "toolkit": (tables.toolkits, "name", "toolkit"),
    "page": (tables.page_mappings, "page_id", "page mapping"),
    "pin": (tables.pins, "pin_id", "pin"),
    "setting": (tables.settings, "key", "setting"),
}


@dataclass(frozen=True, slots=True)
class Mismatch(JsonRecord):
    """An organisation whose policy rows do not fit their digests.

    Attributes:
        org: "" for the platform.
        parts: such as "visibility rules".
        differences: between the rows and the history, one sentence each.
    """

    org: str
    parts: tuple[str, ...]
    differences: tuple[str, ...]


def check(database: Database) -> tuple[Mismatch, ...]:
    """All organisations whose policy rows do not fit their digests, by name. Reads all policy rows."""
    with database.reading() as connection:
        return tuple(_mismatches(connection))


def accept(database: Database, actor: str, reason: str = "") -> tuple[Mismatch, ...]:
    """Stores digests of the present rows, after somebody changed rows by hand on purpose.

    Writes a line in the audit log for each organisation. Returns the former result of `check`.
    """
    with database.writing(actor) as write:
        found = tuple(_mismatches(write.connection))
        if not found:
            write.abandon()
            return found
        policy_digests.replace_all(write.connection, policy_digests.computed(write.connection))
        for mismatch in found:
            write.org = mismatch.org
            details = {"parts": list(mismatch.parts), "differences": list(mismatch.differences[:_LISTED])}
            write.log("policy.accept", "policy", details, reason)
    return found


def _mismatches(connection: sa.Connection) -> Iterator[Mismatch]:
    stored, there = policy_digests.read(connection), policy_digests.computed(connection)
    wrong = {
        org: parts
        for org in stored.keys() | there.keys()
        if (parts := differing(there.get(org, {}), stored.get(org, {}), tuple(NAMES)))
    }
    if policy_digests.total_of(stored) != policy_digests.read_total(connection):
        wrong.setdefault("", ())
    for org, parts in sorted(wrong.items()):
        names = tuple(NAMES[part] for part in parts) or ("digests",)
        yield Mismatch(org, names, tuple(_differences(connection, org)))


def _differences(connection: sa.Connection, org: str) -> Iterator[str]:
    """The differences between the rows of an organisation and its history."""
    for kind, written in _written(connection, org).items():
        table, key, what = _SUBJECTS[kind]
        columns = [table.c[name] for name in COVERED[table]]
        where = [table.c.org == org, *([table.c.deleted_at.is_(None)] if "deleted_at" in table.c else [])]
        yield from _compared({row[key]: row for row in read_rows(connection, columns, *where)}, written, what)
    yield from _tools(connection, org)
    if not org:
        tiers = connection.execute(sa.select(tables.registry_state.c.tiers)).scalar_one()
        log = tables.changes.c
        last = sa.select(log.details).where(log.action == "tiers.set").order_by(log.seq.desc()).limit(1)
        known = connection.execute(last).scalar()
        if known is not None and known["after"]["tiers"] != tiers:
            yield f"tiers are {quoted(tiers)}, the registry wrote {quoted(known['after']['tiers'])}"


def _written(connection: sa.Connection, org: str) -> dict[str, dict[str, dict[str, Any]]]:
    """First word of an action → key → the columns in the audit log, without deleted rows."""
    found: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in _SUBJECTS}
    log = tables.changes.c
    for line in read_rows(
        connection, [log.action, log.subject, log.details], log.org == org, order_by=(log.seq,)
    ):
        kind, _, verb = line["action"].partition(".")
        if kind not in _SUBJECTS:
            continue
        key, details = _SUBJECTS[kind][1], line["details"]
        name = details.get(key, line["subject"])
        known, after = found[kind].pop(name, {}), details.get("after") or {}
        if verb != "delete":
            found[kind][after.get("name", name)] = {**known, **after}
    return found


def _compared(there: Mapping[str, Row], written: Mapping[str, Row], what: str) -> Iterator[str]:
    for key in sorted(there.keys() | written.keys()):
        if key not in there:
            yield f"{what} {quoted(key)} is gone"
        elif key not in written:
            yield f"{what} {quoted(key)} was not written by the registry"
        else:
            for column, value in there[key].items():
                if column in written[key] and written[key][column] != value:
                    wrote = quoted(written[key][column])
                    yield f"{what} {quoted(key)}: {column} is {quoted(value)}, the registry wrote {wrote}"


def _tools(connection: sa.Connection, org: str) -> Iterator[str]:
    """The differences between the tools of an organisation and their last versions."""
    log, names = tables.changes.c, dict[str, str]()
    of_tools = (log.org == org, log.action > "tool.", log.action < "tool/")
    for line in read_rows(connection, [log.subject, log.details], *of_tools, order_by=(log.seq,)):
        tool_id = line["details"].get("tool_id", "")
        names.pop(tool_id, None)
        if "deleted" not in line["details"].get("changed", ()):
            names[tool_id] = line["subject"]
    there = {
        record.tool.tool_id: record
        for record in read_records(connection, tables.tools.c.org == org, tables.tools.c.deleted_at.is_(None))
    }
    for tool_id in sorted(names.keys() - there.keys()):
        yield f"tool {quoted(names[tool_id])} is gone"
    for tool_id, record in there.items():
        last = next(iter(find_versions(connection, tool_id, limit=1)), None)
        if last is None or tool_id not in names:
            yield f"tool {quoted(record.name)} was not written by the registry"
            continue
        for name in (*_OF_TOOL, "review", "served_version", "content_hash"):
            now, then = (record.tool, last.tool) if name in _OF_TOOL else (record, last)
            one, other = getattr(now, name), getattr(then, name)
            if one != other:
                what = f"tool {quoted(record.name)}: {name}"
                yield f"{what} is {quoted(one)}, the registry wrote {quoted(other)}"
