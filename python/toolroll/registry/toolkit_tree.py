"""Toolkits as a tree, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from toolroll.registry import editing
from toolroll.registry.editing import Row
from toolroll.store import tables

_TABLE = tables.toolkits


def tree(connection: sa.Connection, org: str) -> str:
    """All that an organisation has, its own and the platform's: a line each, each below its parent."""
    rows = editing.rows_of(connection, _TABLE, _TABLE.c.org.in_({"", org}))
    counts = _tools_in(connection, org)
    shown: dict[str, Row] = {row["name"]: row for row in rows if row["org"]}
    own = frozenset(shown)
    shown |= {row["name"]: row for row in rows if not row["org"]}  # where both hold it, as catalogs read it
    shown |= {name: {"name": name} for name in counts if name and name not in shown}
    return "\n".join(_lines(shown, counts, own))


def _tools_in(connection: sa.Connection, org: str) -> Counter[str]:
    """Toolkit → how many tools of the organisation and of the platform are in it."""
    tools = tables.tools
    found = connection.execute(
        sa.select(tools.c.toolkit, sa.func.count())
        .where(tools.c.deleted_at.is_(None), tools.c.org.in_({"", org}))
        .group_by(tools.c.toolkit)
    )
    return Counter({toolkit: n for toolkit, n in found})


def _lines(rows: Mapping[str, Row], counts: Mapping[str, int], own: frozenset[str]) -> Iterator[str]:
    below: dict[str | None, list[str]] = {}
    for name, row in rows.items():
        parent = row.get("parent")
        below.setdefault(parent if parent in rows else None, []).append(name)
    waiting = [(0, name) for name in sorted(below.get(None, ()), reverse=True)]
    while waiting:
        depth, name = waiting.pop()
        yield f"{'  ' * depth}{_line(rows[name], counts.get(name, 0), name in own)}"
        waiting += [(depth + 1, child) for child in sorted(below.get(name, ()), reverse=True)]


def _line(row: Row, count: int, is_own: bool) -> str:
    facts = [f"{count} tool{'' if count == 1 else 's'}"]
    if is_own:
        facts.append("own")
    if row.get("base"):
        facts.append("base")
    if row.get("tier") is not None:
        facts.append(f"tier {row['tier']} and above")
    if row.get("settings_keys"):
        facts.append(f"with a value for {' or '.join(row['settings_keys'])}")
    if row.get("members"):
        facts.append(f"and {', '.join(row['members'])}"[:80])
    if row.get("plugin"):
        facts.append(f"plugin {row['plugin']}")
    summary = row.get("description", "").strip().partition("\n")[0]
    line = f"{row['name']}  ({', '.join(facts)})" + (f"  {summary[:80]}" if summary else "")
    return editing.printable(line)
