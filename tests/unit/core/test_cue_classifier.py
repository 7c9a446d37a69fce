"""`CueClassifier` beside a sum in numpy over the words that an expression finds."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from tests.table import each_row
from toolroll._core import CueClassifier
from toolroll.learning.categories import _POLITE, FILE, LONGEST, built_in, cue_words

RECORD: dict[str, Any] = json.loads(resources.files("toolroll.learning").joinpath(FILE).read_text("utf-8"))
WORDS = st.sampled_from([*(cue.lstrip("^") for cue in RECORD["cues"]), *sorted(_POLITE)])
TEXTS = st.text() | st.lists(
    WORDS | st.sampled_from(["'", "’", "İ", "\u212a", "don’t've", "it''s", "'s", "\ud800", "Ünder"]), max_size=12
).flatmap(lambda words: st.sampled_from([" ", "", "'", "-", "’"]).map(lambda between: between.join(words)))  # fmt: skip
VECTORS = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).standard_normal(256).astype(np.float32) / 16
)


def logits(text: str, vector: Any) -> Any:
    unit = RECORD["unit"]
    weights = np.asarray(RECORD["vector"], np.float64) @ vector.astype(np.float64)
    cues = [RECORD["cues"][cue] for cue in cue_words(text) if cue in RECORD["cues"]]
    return (weights + RECORD["bias"] + np.sum(cues, axis=0, dtype=np.float64)) * unit


@given(TEXTS | TEXTS.map(str.upper), VECTORS, st.floats(0, 1))
def test_the_class_is_the_most_probable_one_if_that_is_certain_enough(text, vector, least):
    core = built_in().core
    shares = softmax(logits(text, vector))
    read = text[:LONGEST].lower()
    found = core.classify(read, vector, least)
    second, best = np.sort(shares)[-2:]
    if abs(best - least) > 1e-4 and best - second > 1e-4:
        assert found == (int(shares.argmax()) if best >= least else None)
    assert core.classify(read, 0 * vector, 0.0) is None


@given(TEXTS, VECTORS)
def test_the_same_text_gives_the_same_class_wherever_its_vector_lies(text, vector):
    rows = np.zeros((3, 256), np.float32)
    rows[1] = vector
    assert built_in().core.classify(text, rows[1], 0.0) == built_in().core.classify(text, vector, 0.0)


@each_row(
    ("change", "why"),
    [
        ({"bias": np.zeros(0, np.float32)}, "bias: is empty"),
        ({"of_vector": np.zeros(5, np.float32)}, "of_vector: must have a row"),
        ({"of_cues": np.zeros(3, np.int32)}, "of_cues: must have a row"),
        ({"cues": ["a", "a"]}, "which must differ"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, why):
    plain = {
        "of_vector": np.zeros(4, np.float32),
        "bias": np.zeros(2, np.float32),
        "cues": ["a", "b"],
        "of_cues": np.zeros(4, np.int32),
        "unit": 1.0,
        "opening": [],
    }
    with pytest.raises(ValueError, match=why):
        CueClassifier(**(plain | change))
    with pytest.raises(ValueError, match="another width"):
        CueClassifier(**plain).classify("a", np.ones(3, np.float32), 0.0)
