"""The exposure of a selection: the record that learning keeps of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from toolroll._core import expected_calls
from toolroll.learning.exposure import Exposure, ShownTool, unpack_tools
from toolroll.model.arrays import Rows
from toolroll.model.context import Turn
from toolroll.model.embedder import TEMPERATURE
from toolroll.selection.selection import Selection

# A model calls some tool on nine messages of ten, and none where all that it sees is far from the best.
_CALLS = 0.9
_ELSEWHERE = 0.08


def exposure_of(selection: Selection, reporter: str, category: str) -> Exposure:
    """The exposure of a selection.

    reporter: will report its outcome; "" for the application itself. category: the message's.
    """
    turn, catalog = selection.turn, selection.catalog
    context, shown = turn.context, selection.shown
    if shown is selection.names:
        tools = unpack_tools(shown, packed_tools(selection))
    else:
        rows = np.array([catalog.names[name] for name in shown], np.int32)
        keys = catalog.tool_keys_of(rows.tolist())
        tools = tuple(map(ShownTool, shown, keys, _expected(selection, rows)))
    vector = vector_of(turn)
    return Exposure(
        selection.event_id,
        context.org,
        turn.at,
        reporter,
        context.page,
        context.tier,
        category,
        tools,
        vector,
        catalog.space if vector is not None or turn.vector is not None else "",
    )


def packed(selection: Selection) -> tuple[bytes, npt.NDArray[np.float16] | None]:
    """`packed_tools` and `vector_of`, for a selection that was not delivered yet."""
    return packed_tools(selection), vector_of(selection.turn)


def packed_tools(selection: Selection) -> bytes:
    """The tools of a selection that was not delivered yet, packed as by `pack_tools`."""
    return selection.candidates.packed_calls(
        selection.catalog.packed_keys, temperature=TEMPERATURE, calls=_CALLS, elsewhere=_ELSEWHERE
    )


def vector_of(turn: Turn) -> npt.NDArray[np.float16] | None:
    """The message's vector for learning; None if there is none, or if it cannot be trusted."""
    vector = turn.vector if turn.reading is None else turn.reading.vector
    return None if vector is None or not turn.trust else vector.astype(np.float16)


def not_shown(selection: Selection, names: Iterable[str]) -> tuple[ShownTool, ...]:
    """The tools of these names that the turn could have shown to this caller and did not."""
    catalog, candidates, shown = selection.catalog, selection.candidates, selection.shown
    found = []
    for name in names:
        row = catalog.names.get(name)
        if row is not None and name not in shown and row in candidates.allowed:
            found.append(ShownTool(name, catalog.tool_key(row), 0.0))
    return tuple(found)


def _expected(selection: Selection, rows: Rows) -> list[float]:
    """For each row, the share of calls that its similarity alone predicts."""
    found = selection.candidates.retrieved
    if found is None:
        return [0.0] * len(rows)
    shares: list[float] = expected_calls(
        rows, found.rows, found.scores, temperature=TEMPERATURE, calls=_CALLS, elsewhere=_ELSEWHERE
    ).tolist()
    return shares
