"""Priors: initial statistics of new organisations, from organisations that share theirs.

Priors weigh as much as a few observations: a dozen own outcomes outweigh them. Each release (`toolroll events
learning share`) is a line of the audit log, and an organisation keeps its first release.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll._core import DELTA, Learned
from toolroll.model.identity import NONE, ToolKey, scopes
from toolroll.registry.events.rows import seconds
from toolroll.registry.store import tables

ACTION, SUBJECT = "learning.share", "shared priors"  # of the line
MOST_CALLS, MOST_EXPECTED = 10.0, 5.0  # observations that the counts of one tool weigh at most

_MOST = 8  # releases that a process keeps in memory
_changes = tables.changes


def shared_tool(key: ToolKey, counts: Mapping[str, float]) -> dict[str, Any]:
    """A tool of a release, for the audit log. counts: successes, failures, calls and expected calls."""
    return {"key": [*map(str, key)], **counts}


def latest_release(connection: sa.Connection, before: datetime | None = None) -> int:
    """The number of the last release, or of the last one before this time; 0 for none."""
    where = [_changes.c.org == "", _changes.c.subject == SUBJECT, _changes.c.action == ACTION]
    if before is not None:
        where.append(_changes.c.at <= before)
    return connection.execute(sa.select(sa.func.max(_changes.c.seq)).where(*where)).scalar() or 0


def beginning(connection: sa.Connection, release: int, dim: int) -> Learned:
    """An organisation's state before its first outcome. release: 0 for none. dim: width of vectors."""
    return _fold(_released(connection, release) if release else b"", dim)


def _released(connection: sa.Connection, release: int) -> bytes:
    """A release as DELTA[n]."""
    of = _changes.c.seq == release
    at = connection.execute(sa.select(_changes.c.at).where(of)).scalar_one()
    if (release, at) not in _known:
        details = connection.execute(sa.select(_changes.c.details).where(of)).scalar_one()
        if len(_known) >= _MOST:
            _known.clear()
        _known[release, at] = _deltas(seconds(at), details["tools"])
    return _known[release, at]


_known: dict[tuple[int, datetime], bytes] = {}  # (number, time) of a release in any registry → DELTA[n]


def _deltas(at: float, tools: Mapping[str, Any]) -> bytes:
    """Tools of a release as DELTA[n]. at: its time."""
    everywhere, found = scopes("", "", "").everywhere, []
    for _, tool in sorted(tools.items()):
        successes, failures = float(tool["successes"]), float(tool["failures"])
        calls, expected = float(tool["calls"]), float(tool["expected"])
        works = min(1.0, MOST_CALLS / max(successes + failures, 1e-9))
        wanted = min(1.0, MOST_EXPECTED / max(expected, 1e-9))
        counts = (works * successes, works * failures, wanted * calls, wanted * expected)
        keys = ToolKey(*map(int, tool["key"]))
        found.append((at, everywhere, NONE, NONE, NONE, *keys, *counts, -1, 0, 0.0, NONE))
    return np.array(found, DELTA).tobytes()


@lru_cache(maxsize=_MOST)
def _fold(deltas: bytes, dim: int) -> Learned:
    return Learned(dim).fold(np.frombuffer(deltas, DELTA)) if deltas else Learned(dim)
