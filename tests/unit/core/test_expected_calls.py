"""`expected_calls` beside a softmax in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll._core import expected_calls

ROWS = st.lists(st.integers(0, 50), unique=True, max_size=30)
SCORES = st.floats(-2, 2, width=32)


@given(ROWS, st.dictionaries(st.integers(0, 50), SCORES, max_size=40), st.floats(0.01, 2), st.floats(0, 1))
def test_the_shares_are_those_of_a_plain_softmax(shown, scores, temperature, elsewhere):
    found = expected_calls(
        np.array(shown, np.int32),
        np.array([*scores], np.int32),
        np.array([*scores.values()], np.float32),
        temperature=temperature,
        calls=0.9,
        elsewhere=elsewhere + 1e-3,
    )
    odds = [
        math.exp((scores[row] - max(scores.values())) / temperature) if row in scores else 0.0
        for row in shown
    ]
    assert found.tolist() == pytest.approx([0.9 * each / (sum(odds) + elsewhere + 1e-3) for each in odds])
    assert sum(found) <= 0.9 + 1e-12


def test_columns_that_do_not_fit_are_refused():
    rows, scores = np.arange(3, dtype=np.int32), np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="differ in length"):
        expected_calls(rows, rows, scores, temperature=0.1, calls=0.9, elsewhere=0.1)
    with pytest.raises(ValueError, match="temperature"):
        expected_calls(rows, rows[:2], scores, temperature=0.0, calls=0.9, elsewhere=0.1)
