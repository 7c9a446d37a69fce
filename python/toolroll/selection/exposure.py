"""What a selection showed, as learning keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from toolroll._core import expected_calls
from toolroll.arrays import Rows
from toolroll.catalog.catalog import Catalog
from toolroll.context import Turn
from toolroll.embedder import TEMPERATURE
from toolroll.learning.exposure import Exposure, ShownTool, pack_key
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
    rows = np.array([catalog.names[name] for name in shown], np.int32)
    keys = [catalog.tool_key(row) for row in rows.tolist()]
    return Exposure(
        selection.event_id,
        context.org,
        turn.at,
        reporter,
        context.page,
        context.tier,
        category,
        tuple(map(ShownTool, shown, keys, _expected(selection, rows))),
        vector_of(turn),
        catalog.space if turn.vector is not None else "",
    )


def packed_tools(selection: Selection) -> bytes:
    """What `pack_tools` makes of the tools in a selection that was not delivered yet."""
    candidates = selection.candidates
    keys = _packed_keys(selection.catalog, candidates.in_order)
    return candidates.packed_calls(keys, temperature=TEMPERATURE, calls=_CALLS, elsewhere=_ELSEWHERE)


def packed_keys(catalog: Catalog, rows: Sequence[int]) -> bytes:
    """What `pack_key` makes of the key of each tool."""
    return b"".join(_packed_keys(catalog, rows))


def _packed_keys(catalog: Catalog, rows: Sequence[int]) -> list[bytes]:
    known: dict[int, bytes] = catalog.remembered("packed keys", dict)
    try:
        return [known[row] for row in rows]
    except KeyError:
        known |= {row: pack_key(catalog.tool_key(row)) for row in rows}
        return [known[row] for row in rows]


def vector_of(turn: Turn) -> npt.NDArray[np.float16] | None:
    """The message's vector as outcomes are learnt with it; None without one that says something."""
    return None if turn.vector is None or not turn.trust else turn.vector.astype(np.float16)


def not_shown(selection: Selection, names: Iterable[str]) -> tuple[ShownTool, ...]:
    """The tools among the names that this caller could have been shown and was not."""
    catalog, candidates, shown = selection.catalog, selection.candidates, selection.shown
    found = []
    for name in names:
        row = catalog.names.get(name)
        if row is not None and name not in shown and row in candidates.allowed:
            found.append(ShownTool(name, catalog.tool_key(row), 0.0))
    return tuple(found)


def _expected(selection: Selection, rows: Rows) -> list[float]:
    """For each row, the share of calls that similarity alone predicts."""
    found = selection.candidates.retrieved
    if found is None:
        return [0.0] * len(rows)
    shares: list[float] = expected_calls(
        rows, found.rows, found.scores, temperature=TEMPERATURE, calls=_CALLS, elsewhere=_ELSEWHERE
    ).tolist()
    return shares
