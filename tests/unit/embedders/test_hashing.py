"""The embedder of tests: letters in, numbers out, the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import InvalidInput


def test_its_numbers_are_the_same_on_every_platform_and_in_every_release() -> None:
    vector = HashingEmbedder(8).embed_query("weather")
    expected = HashingEmbedder(8).embed(["Weather!"])[0]  # case and punctuation say nothing
    assert np.array_equal(vector, expected)
    assert np.allclose(vector, [-0.302, 0.0, 0.0, -0.603, -0.302, 0.0, 0.302, -0.603], atol=1e-3)


def test_words_with_a_common_stem_are_nearer_than_words_with_none() -> None:
    forecast, forecasts, invoice = HashingEmbedder().embed(["forecast", "forecasts", "invoice"])
    assert forecast @ forecasts > 0.5 > abs(forecast @ invoice)


def test_a_text_without_a_word_has_no_vector() -> None:
    assert not HashingEmbedder().embed(["", "?!", "☂"]).any()


@given(st.text(max_size=40), st.integers(1, 64))
def test_every_width_gives_a_unit_or_a_zero_vector(text: str, dim: int) -> None:
    length = float(np.linalg.norm(HashingEmbedder(dim).embed_query(text)))
    assert length == 0 or abs(length - 1) < 1e-5


@pytest.mark.parametrize("dim", [0, -1])
def test_a_width_below_one_is_refused(dim: int) -> None:
    with pytest.raises(InvalidInput, match=f"dim is {dim}"):
        HashingEmbedder(dim)
