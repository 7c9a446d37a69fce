"""Events, outcomes and arms as rows, for the tests of what is read from them."""

from __future__ import annotations

import uuid
import zlib
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa

from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

BEGIN = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def at(days: float = 0.0) -> datetime:
    """So many days after the beginning."""
    return BEGIN + timedelta(days=days)


def event(days: float = 0.0, **changes: Any) -> dict[str, Any]:
    """A row of `selection_events`."""
    return {
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
        "vector": None,
        "called": None,
        "outcome": None,
        "recorded_at": None,
        **changes,
    }


def called(days: float = 0.0, outcome: str = "succeeded", **changes: Any) -> dict[str, Any]:
    """An event with an outcome; `called` is what became of each tool."""
    return event(
        days, **{"called": {"find": "succeeded"}, "outcome": outcome, "recorded_at": at(days), **changes}
    )


def arm_key(tool: str) -> str:
    """The key of a tool by its name."""
    return str(zlib.crc32(tool.encode()))


def outcome(seq: int, days: float, worked: bool, tool: str = "find", **changes: Any) -> dict[str, Any]:
    """A row of `outcomes` that says one thing of one tool."""
    entry = [tool, arm_key(tool), "2", "0", 0.3, None, "succeeded" if worked else "failed", 1.0, True, False]
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


def arm(tool: str, successes: float, failures: float, days: float = 0.0, **changes: Any) -> dict[str, Any]:
    """A row of `arm_statistics`."""
    return {
        "org": "acme",
        "tool": tool,
        "level": "everywhere",
        "context_key": "",
        "successes": successes,
        "failures": failures,
        "calls": successes + failures,
        "expected": 3.0,
        "shown": 50,
        "called": int(successes + failures),
        "succeeded": int(successes),
        "updated_at": at(days),
        **changes,
    }


def write(database: Database, table: sa.Table, *rows: dict[str, Any]) -> None:
    """Writes rows as they are."""
    with database.recording() as connection:
        connection.execute(sa.insert(table), list(rows))


def write_events(database: Database, *rows: dict[str, Any]) -> None:
    """Writes events."""
    write(database, tables.selection_events, *rows)
