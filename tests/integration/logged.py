"""Events, outcomes and arms as rows, for the tests of what is read from them."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll.learning.exposure import ShownTool
from toolroll.model.identity import ToolKey, pack_key
from toolroll.registry.events import hours, learned_rows
from toolroll.registry.events.columns import CandidateColumns
from toolroll.registry.events.details import OutcomeEntry, packed_entries, packed_event, tools_of
from toolroll.registry.events.fold import outcomes_of
from toolroll.registry.events.logged_tools import LoggedTool, ToolNumbers
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

BEGIN = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def at(days: float = 0.0) -> datetime:
    """So many days after the beginning."""
    return BEGIN + timedelta(days=days)


def event(days: float = 0.0, **changes: Any) -> dict[str, Any]:
    """An event, as `event_row` makes it."""
    row = {
        "event_id": uuid.uuid4().hex,
        "org": "acme",
        "at": at(days),
        "reporter": "ann",
        "session": "",
        "message": "a message",
        "message_form": "kept",
        "page": "home",
        "tier": "free",
        "category": "general",
        "context": {
            "user": "ann",
            "roles": [],
            "settings": [],
            "provider": "",
            "required": [],
            "exclude": [],
            "only": [],
            "everything": False,
        },
        "limits": {
            "k": None,
            "max_tools": None,
            "budget_tokens": None,
            "always_include": [],
            "sent": [],
            "earlier": [],
        },
        "candidates": [],
        "propensity_error": 0.0,
        "selected": ["find", "send"],
        "shown": [],
        "profile": "default",
        "experiment": "",
        "variant": "",
        "unit": "",
        "seed": -(2**63) + 1,
        "latency_us": 100.0,
        "timings": {},
        "tokens_selected": 200,
        "tokens_total": 1_000,
        "confidence": 0.5,
        "catalog_revision": "r1",
        "registry_revision": 1,
        "learned_revision": 0,
        "degraded": [],
        "space": "static",
        "share": 1.0,
        "vector": None,
        "called": None,
        "outcome": None,
        "recorded_at": None,
        "durations_ms": None,
        **changes,
    }
    return {**row, "candidates": columns_of(row["candidates"])}


def called(days: float = 0.0, outcome: str = "succeeded", **changes: Any) -> dict[str, Any]:
    """An event with an outcome; `called` is what became of each tool."""
    return event(
        days, **{"called": {"find": "succeeded"}, "outcome": outcome, "recorded_at": at(days), **changes}
    )


def arm_key(tool: str) -> int:
    """The key of a tool by its name."""
    return zlib.crc32(tool.encode())


def outcome(seq: int, days: float, worked: bool, tool: str = "find", **changes: Any) -> dict[str, Any]:
    """A row of `outcomes` that says one thing of one tool, before it is packed."""
    shown = ShownTool(tool, ToolKey(arm_key(tool), 2, 0), 0.3)
    entry = OutcomeEntry(shown, None, "succeeded" if worked else "failed", 1.0, True)
    return {
        "org": "acme",
        "seq": seq,
        "event_id": uuid.uuid4().hex,
        "step": 1,
        "at": at(days),
        "received_at": at(days),
        "reporter": f"user-{seq % 7}",
        "page": "home",
        "tier": "free",
        "category": "general",
        "entries": [entry],
        "closes": True,
        "closing_weight": 1.0,
        "vector": None,
        "space": "static",
        "voided_at": None,
        **changes,
    }


def arm(
    tool: str, successes: float, failures: float, days: float = 0.0, **changes: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tool's rows of `learned` in a context: whether it works, and whether it is wanted."""
    when = changes.pop("updated_at", at(days))
    level, context = changes.pop("level", "everywhere"), changes.pop("context_key", "")
    scope = zlib.crc32(f"{level} {context}".encode())
    common = {
        "org": "acme",
        "level": level,
        "context_key": context,
        "scope": scope,
        "at": when.timestamp(),
        "state": None,
        "revision": 1,
        **changes,
    }
    none = dict.fromkeys(("subject", "successes", "failures", "calls", "expected", "updated_at"))
    works = {
        **none,
        "kind": "tool",
        "key": arm_key(tool),
        "tool": tool,
        "subject": arm_key(f"subject {tool}"),
        "successes": successes,
        "failures": failures,
        "shown": 50,
        "called": int(successes + failures),
        "succeeded": int(successes),
        "updated_at": when,
        **common,
    }
    wanted = {
        **none,
        "kind": "subject",
        "key": works["subject"],
        "tool": tool,
        "calls": successes + failures,
        "expected": 3.0,
        "shown": 0,
        "called": 0,
        "succeeded": 0,
        **common,
    }
    return works, wanted


def learn(database: Database) -> None:
    """Folds all outcomes that were written as rows."""
    table, state = tables.outcomes, tables.learning_state
    with database.recording() as connection:
        query = sa.select(table.c.org, sa.func.max(table.c.seq)).group_by(table.c.org)
        for org, seq in connection.execute(query).all():
            connection.execute(sa.delete(state).where(state.c.org == org))
            connection.execute(sa.insert(state).values(org=org, seq=seq, epoch=0))
            learned_rows.refold(connection, org, outcomes_of(connection, org))


def write(database: Database, table: sa.Table, *rows: dict[str, Any]) -> None:
    """Writes rows as they are, outcomes packed."""
    with database.recording() as connection:
        if table is tables.outcomes:
            named = [LoggedTool.of(entry.tool) for row in rows for entry in row["entries"]]
            number_of = ToolNumbers().of(connection, named)
            rows = tuple(_packed_outcome(row, number_of) for row in rows)
        connection.execute(sa.insert(table), list(rows))


def _packed_outcome(row: dict[str, Any], number_of: Mapping[LoggedTool, int]) -> dict[str, Any]:
    rest = {name: value for name, value in row.items() if name not in ("entries", "vector")}
    return {**rest, "details": packed_entries(row["entries"], row["vector"], number_of)}


def unit_of(row: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """An event's unit, as `event_row` makes it. kinds: of the experiments."""
    name = {"user": "reporter", "session": "session", "org": "org"}.get(kinds.get(row["experiment"], ""))
    return blake2b(row[name].encode(), digest_size=16).hexdigest() if name else ""


def write_events(database: Database, *rows: dict[str, Any]) -> None:
    """Writes events, with the units of their experiments."""
    with database.recording() as connection:
        trials = sa.select(tables.experiments.c.name, tables.experiments.c.unit)
        kinds = {name: kind for name, kind in connection.execute(trials)}
        rows = tuple({**row, "unit": unit_of(row, kinds)} for row in rows)
        number_of = ToolNumbers().of(connection, [tool for row in rows for tool in tools_of(row)])
        packed = [packed_event(row, number_of) for row in rows]
        connection.execute(sa.insert(tables.selection_events), packed)
        hours.mark(connection, [(row["org"], row["at"]) for row in rows])


def columns_of(candidates: CandidateColumns | Sequence[Sequence[Any]]) -> CandidateColumns:
    """Lists of a name and five numbers, as columns."""
    if isinstance(candidates, CandidateColumns):
        return candidates
    if not candidates:
        return CandidateColumns()
    names, *numbers = zip(*candidates, strict=True)
    columns = (np.array(column, np.float64) for column in numbers)  # None becomes NaN
    return CandidateColumns(list(names), pack_key(ToolKey(0, 0, 0)) * len(names), *columns)
