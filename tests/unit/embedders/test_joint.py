"""Two embedders as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.table import each_row
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.joint import JointEmbedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.embedder import Embedder, Scale
from toolroll.model.errors import InvalidInput

TEXTS = [
    "Should I bring an umbrella?",
    "weather forecast for a city",
    "create calendar event",
    "зонт umbrella",
    "!",
]


class Ignorant(Embedder):
    """Knows nothing of any text."""

    identity, dim = "ignorant@1", 3

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.zeros((len(texts), 3), np.float32)


def cosines(embedder: Embedder) -> npt.NDArray[np.float32]:
    vectors = embedder.embed(TEXTS[:3])
    return vectors @ vectors.T


@each_row("share", [0.01, 0.3, 0.5, 0.99])
def test_a_cosine_is_the_weighted_mean_of_both(share: float) -> None:
    first, second = HashingEmbedder(), StaticEmbedder()
    joint = JointEmbedder(first, second, share=share)
    np.testing.assert_allclose(
        cosines(joint), (1 - share) * cosines(first) + share * cosines(second), atol=1e-6
    )


def test_where_one_knows_nothing_the_vector_is_the_others() -> None:
    own = HashingEmbedder()
    for joint in (JointEmbedder(own, Ignorant()), JointEmbedder(Ignorant(), own)):
        np.testing.assert_allclose(cosines(joint), cosines(own), atol=1e-6)
        assert not joint.embed([""]).any()


def test_it_is_what_both_are() -> None:
    static, hashing = StaticEmbedder(), HashingEmbedder(64)
    joint = JointEmbedder(static, hashing, share=0.25, scale=Scale(2.0))
    assert joint.identity == f"{static.identity}+0.25*{hashing.identity}"
    assert joint.dim == static.dim + 64 and joint.scale == Scale(2.0)
    assert joint.is_instant and not JointEmbedder(static, Ignorant()).is_instant
    assert not joint.is_english and not JointEmbedder(static, static).is_english


class English(HashingEmbedder):
    """Knows English alone, and says so."""

    is_english = True


def test_beside_an_embedder_of_all_languages_an_english_one_counts_by_the_share_of_latin_letters() -> None:
    english, other = English(), HashingEmbedder(64)
    joint = JointEmbedder(english, other, share=0.5)
    assert not joint.is_english
    for text, share in (("umbrella", 1.0), ("зонт", 0.0), ("зонт umbr", 0.5)):
        row = joint.embed_query(text)
        lengths = np.linalg.norm(row[: english.dim]), np.linalg.norm(row[english.dim :])
        assert lengths[0] / lengths[1] == pytest.approx(share, abs=1e-6)
    both = JointEmbedder(english, english).embed_query("зонт")  # its user weighs it
    assert np.linalg.norm(both) == pytest.approx(1.0)


def test_all_ways_to_embed_give_the_same_bytes() -> None:
    joint = JointEmbedder(StaticEmbedder(), HashingEmbedder())
    rows = joint.embed(TEXTS)
    for text, row, query in zip(TEXTS, rows, joint.embed_queries(TEXTS), strict=True):
        assert row.tobytes() == query.tobytes() == joint.embed_query(text).tobytes()


@each_row("share", [0.0, 1.0, -1.0, 2.0, float("nan"), "x", None])
def test_a_share_leaves_something_to_both(share: Any) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        JointEmbedder(HashingEmbedder(), StaticEmbedder(), share=share)


@pytest.mark.parametrize("part", ["static", None, 3])
def test_a_part_is_an_embedder(part: Any) -> None:
    for parts in ((part, HashingEmbedder()), (HashingEmbedder(), part)):
        with pytest.raises(InvalidInput, match="must be of two Embedder objects"):
            JointEmbedder(*parts)
