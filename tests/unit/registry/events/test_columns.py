"""Packing: what goes in comes out, bit for bit, and other bytes are an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.registry.events.columns import float_column, floats, pack, unpack

columns = st.one_of(
    *(
        st.lists(values, max_size=20).map(lambda items, kind=kind: np.array(items, kind))
        for kind, values in (
            ("<u4", st.integers(0, 2**32 - 1)),
            ("<f2", st.floats(width=16)),
            ("<f4", st.floats(width=32)),
            ("<f8", st.floats()),
        )
    )
)


@given(st.lists(columns, max_size=5), st.binary(max_size=200))
def test_columns_and_text_come_back_bit_for_bit(made: list[np.ndarray], text: bytes) -> None:
    back_text, back = unpack(pack(made, text))
    assert back_text == text and len(back) == len(made)
    for values, other in zip(made, back, strict=True):
        assert other.dtype == values.dtype and other.tobytes() == values.tobytes()


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=20))
def test_numbers_come_back_whether_they_need_double_precision_or_not(values: list[float | None]) -> None:
    column = float_column(np.array(values, np.float64))  # None becomes NaN
    assert floats(unpack(pack([column]))[1][0], len(values)) == values


def test_numbers_that_fit_single_precision_take_half_the_bytes() -> None:
    assert float_column(np.array([0.5, np.nan, 0.25])).dtype == np.float32
    assert float_column(np.array([0.1])).dtype == np.float64
    assert float_column(np.array([0.1], np.float32)).dtype == np.float32
    assert len(float_column(None)) == 0


@pytest.mark.parametrize("data", [b"", b"\2\0\0\0", pack([])[:-1]])
def test_bytes_of_another_form_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="packed"):
        unpack(data)
