"""Rows of events as bytes: what goes in comes out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.integration.logged import event
from toolroll.identity import ToolKey, pack_key
from toolroll.learning.exposure import ShownTool
from toolroll.registry.events.candidate_columns import CandidateColumns
from toolroll.registry.events.row_bytes import from_bytes, to_bytes

CANDIDATES = CandidateColumns(
    ["find", "send \u2192"],
    pack_key(ToolKey(1, 2**64 - 1, 3)) + pack_key(ToolKey(4, 5, 6)),
    np.array([0.1, -2.5]),
    np.array([0.1, np.nan], np.float32),
    None,
    np.array([1, 0], np.float32),
    None,
)
SHOWN = [ShownTool("send \u2192", ToolKey(1, 2**64 - 1, 3), 0.125)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"candidates": CANDIDATES, "shown": SHOWN, "vector": b"\0\xff"},
        {"seed": -(2**63), "message": "\u2028 \U0001f600", "confidence": None, "selected": []},
    ],
)
def test_a_row_comes_back_with_its_types(changes: dict) -> None:
    row = event(**changes)
    back = from_bytes(to_bytes(row))
    columns, found = row.pop("candidates"), back.pop("candidates")
    assert back == row and list(back) == list(row)
    assert list(found.names) == list(columns.names) and found.keys == columns.keys
    for one, other in zip(columns.numbers, found.numbers, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
