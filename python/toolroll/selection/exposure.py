"""What a selection showed, as learning keeps it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from toolroll.embedder import TEMPERATURE
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.selection.selection import Selection

# A model calls some tool on nine messages of ten, and none where all that it sees is far from the best.
_CALLS = 0.9
_ELSEWHERE = 0.08


def exposure_of(selection: Selection, reporter: str, category: str) -> Exposure:
    """The exposure of a selection.

    reporter: who will report its outcome; "" for the application itself. category: of the message.
    """
    turn, catalog = selection.turn, selection.catalog
    context, shown = turn.context, selection.shown
    rows = [catalog.names[name] for name in shown]
    keys = [catalog.tool_key(row) for row in rows]
    expected = _expected(selection, rows)
    return Exposure(
        selection.event_id,
        context.org,
        turn.at,
        reporter,
        context.page,
        context.tier,
        category,
        tuple(map(ShownTool, shown, keys, expected)),
        None if turn.vector is None or not turn.trust else turn.vector.astype(np.float16),
        catalog.space if turn.vector is not None else "",
    )


def not_shown(selection: Selection, names: Iterable[str]) -> tuple[ShownTool, ...]:
    """The tools among the names that this caller could have been shown and was not."""
    catalog, candidates, shown = selection.catalog, selection.candidates, selection.shown
    found = []
    for name in names:
        row = catalog.names.get(name)
        if row is not None and name not in shown and row in candidates.allowed:
            found.append(ShownTool(name, catalog.tool_key(row), 0.0))
    return tuple(found)


def _expected(selection: Selection, rows: list[int]) -> list[float]:
    """For each row, the share of calls that similarity alone predicts."""
    found = selection.candidates.retrieved
    if found is None or not len(found.rows):
        return [0.0] * len(rows)
    best = float(found.scores.max())
    scores = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    odds = [math.exp((scores[row] - best) / TEMPERATURE) if row in scores else 0.0 for row in rows]
    total = sum(odds) + _ELSEWHERE
    return [_CALLS * each / total for each in odds]
