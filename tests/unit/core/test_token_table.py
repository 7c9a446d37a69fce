"""Static sentence vectors, compared with a sum of rows in numpy."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import _core

VOCABULARY = ["[UNK]", "rain", "tomorrow", "plan", "a", "workout", "##s", "."]
DIM = 37  # no multiple of anything a kernel likes
TABLE = np.random.default_rng(0).integers(-127, 128, (len(VOCABULARY), DIM), dtype=np.int8)
SCALE = np.random.default_rng(1).random(len(VOCABULARY), dtype=np.float32) + np.float32(0.1)
PIECES = _core.WordPiece(VOCABULARY)
EMBEDDER = _core.TokenTable(VOCABULARY, TABLE, SCALE)

texts = st.lists(st.sampled_from([*VOCABULARY[1:6], "plans", "zebra", "."]), max_size=40).map(" ".join)


@given(texts)
def test_a_vector_is_the_sum_of_its_tokens_rows_at_unit_length(text: str) -> None:
    ids = [i for i in PIECES.encode(text).tolist() if VOCABULARY[i] != "[UNK]"]
    total = (TABLE[ids].astype(np.float64) * SCALE[ids][:, None].astype(np.float64)).sum(axis=0)
    length = np.linalg.norm(total)
    expected = total / length if length else total
    vector = EMBEDDER.embed(text)
    assert vector.dtype == np.float32 and vector.shape == (DIM,)
    np.testing.assert_allclose(vector, expected, atol=1e-6)


@each_row("text", ["", "zebra", "   ", "天気"])
def test_a_text_of_which_nothing_is_known_has_the_zero_vector(text: str) -> None:
    assert not EMBEDDER.embed(text).any()


@pytest.mark.slow
@given(st.lists(texts, max_size=5))
def test_a_batch_is_its_texts_one_by_one(batch: list[str]) -> None:
    vectors = EMBEDDER.embed_batch(batch)
    assert vectors.shape == (len(batch), DIM)
    for vector, text in zip(vectors, batch, strict=True):
        assert np.array_equal(vector, EMBEDDER.embed(text))


def test_tokens_behind_the_first_512_are_not_read() -> None:
    assert np.array_equal(EMBEDDER.embed("rain " * 512 + "plan " * 200_000), EMBEDDER.embed("rain " * 512))


@pytest.mark.slow
def test_the_baseline_kernels_give_the_same_bits() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_token_table as t;"
        "assert t._core.isa() == 'baseline';"
        "sys.stdout.buffer.write(t.EMBEDDER.embed('rain tomorrow plans a workout').tobytes())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, os.path.dirname(__file__)],
        env=os.environ | {"TOOLROLL_ISA": "baseline"},
        capture_output=True,
        check=True,
    )
    assert run.stdout == EMBEDDER.embed("rain tomorrow plans a workout").tobytes()


def test_shapes_that_do_not_fit_are_refused() -> None:
    make = _core.TokenTable
    for call, message in [
        (lambda: make(VOCABULARY, TABLE[1:], SCALE), "table: has"),
        (lambda: make(VOCABULARY, TABLE[0], SCALE), "table: has 1 dimensions"),
        (lambda: make(VOCABULARY, TABLE[:, :0], SCALE), "table: has 0 numbers"),
        (lambda: make(VOCABULARY, TABLE, SCALE[1:]), "scale: has 7 numbers, must have 8"),
        (lambda: make(VOCABULARY, TABLE, SCALE * np.float32("nan")), "not finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError):
        make(VOCABULARY, TABLE.astype(np.float32), SCALE)


@given(texts)
def test_a_vocabulary_of_lines_is_that_of_a_list(text: str) -> None:
    for lines in ("\n".join(VOCABULARY).encode(), "\n".join([*VOCABULARY, ""]).encode()):
        assert np.array_equal(_core.TokenTable(lines, TABLE, SCALE).embed(text), EMBEDDER.embed(text))
