"""Cosines of every embedder on one scale."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.table import each_row
from toolroll import Context, EmbedderUnavailable, InvalidInput, Tool, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.joint import JointEmbedder
from toolroll.embedders.named import embedder as named
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.embedder import (
    MEAN,
    SPREAD,
    Embedder,
    Scale,
    as_embedder,
    query_vectors_of,
    scale_of,
    vectors_of,
)
from toolroll.selection.compose import fusion_of
from toolroll.selection.profiles import Profile
from toolroll.selection.selection import Selection

ANYONE = Context()


class Narrow(Embedder):
    """The offline embedder with a constant direction mixed into every vector, as some models have one.

    A cosine c of the inner one becomes (c + mixed²) / (1 + mixed²): all of them high, and close together.
    """

    is_instant = is_english = True

    def __init__(self, mixed: float) -> None:
        self._inner, self._mixed = StaticEmbedder(), mixed
        self.identity, self.dim = f"narrow-{mixed}@1", self._inner.dim + 1

    def embed(self, texts):
        vectors = self._inner.embed(texts)
        known = vectors.any(axis=1, keepdims=True)
        mixed = np.hstack([vectors, known * np.float32(self._mixed)])
        return (mixed / np.sqrt(1 + self._mixed**2)).astype(np.float32)

    def embed_query(self, text):
        return self.embed([text])[0]


class Silent(Embedder):
    """An embedder that knows nothing of any text."""

    identity, dim, is_instant = "silent@1", 4, True

    def embed(self, texts):
        return np.zeros((len(texts), 4), np.float32)

    def embed_query(self, text):
        return np.zeros(4, np.float32)


class Same(Silent):
    """One that finds all texts the same."""

    identity = "same@1"

    def embed(self, texts):
        return np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))


def test_an_embedder_that_says_its_scale_is_not_asked():
    class Said(Silent):
        scale = Scale(2.0, 0.5)

        def embed(self, texts):
            raise AssertionError("was asked")

    assert scale_of(Said()) == Scale(2.0, 0.5)
    assert scale_of(StaticEmbedder()) == Scale(1.0, 0.0)


@pytest.mark.parametrize("scale", [None, 3.0, (1.0, 0.0)])
def test_what_is_no_scale_is_measured_instead(scale):
    class Odd(HashingEmbedder):
        pass

    Odd.scale = scale
    assert scale_of(Odd()) == scale_of(HashingEmbedder())


@pytest.mark.parametrize("mixed", [0.0, 1.0, 2.0])
def test_a_constant_in_every_vector_is_measured_and_taken_out(mixed):
    """Affine cosines have the inverse affine scale: stretched back, unrelated texts are where they were."""
    plain, narrow = scale_of(Narrow(0.0)), scale_of(Narrow(mixed))
    assert narrow.gain == pytest.approx(plain.gain * (1 + mixed**2), rel=1e-3)
    for cosine in (0.0, 0.05, 0.4, 1.0):
        seen = (cosine + mixed**2) / (1 + mixed**2)
        assert narrow.gain * (seen - narrow.floor) == pytest.approx(
            plain.gain * (cosine - plain.floor), abs=1e-3
        )


def test_unrelated_texts_have_the_mean_and_spread_that_the_weights_were_fitted_on():
    from toolroll.model.embedder import _MESSAGES, _TOOLS

    embedder = Narrow(1.5)
    scale = scale_of(embedder)
    cosines = embedder.embed(_MESSAGES) @ embedder.embed(_TOOLS).T
    unrelated = scale.gain * (cosines[~np.eye(len(_MESSAGES), dtype=bool)] - scale.floor)
    assert unrelated.mean() == pytest.approx(MEAN, abs=1e-5)
    assert unrelated.std() == pytest.approx(SPREAD, abs=1e-5)


def rankings(examples: bool) -> list[tuple[Selection, Selection]]:
    """What a plain and a narrow embedder find for the messages of the demonstration catalog."""
    tools = Toolroll.demo().catalog.tools
    known = [replace(tool, pinned=False, examples=tool.examples * examples) for tool in tools]
    plain, narrow = (
        Toolroll.from_tools(known, embedder=Narrow(mixed), profile=Profile(damping=False))
        for mixed in (0.0, 2.0)
    )
    messages = [tool.examples[0] for tool in tools if tool.examples]
    return [(plain.select(message, ANYONE, k=5), narrow.select(message, ANYONE, k=5)) for message in messages]


def test_rankings_survive_an_affine_change_of_all_cosines():
    found = rankings(examples=False)
    assert np.mean([one.names == other.names for one, other in found]) > 0.98
    for one, other in found:
        assert other.confidence == pytest.approx(one.confidence, abs=0.01)


def test_the_best_tools_by_examples_survive_it_too():
    """The rest moves: a mean of vectors with something in common is no affine image of the others' mean."""
    found = rankings(examples=True)
    assert np.mean([one.names[0] == other.names[0] for one, other in found]) > 0.98
    assert np.mean([abs(one.confidence - other.confidence) for one, other in found]) < 0.05


def test_without_the_scale_the_rankings_would_not_survive():
    """So the test above does see it: raw cosines of the narrow embedder drown the words."""
    narrow = fusion_of(Profile(), scale_of(Narrow(2.0)))
    assert narrow.dense == pytest.approx(fusion_of(Profile(), scale_of(Narrow(0.0))).dense * 5, rel=1e-3)
    assert narrow.dense_floor > 0.75
    assert -1 <= narrow.intent_floor <= 1


@pytest.mark.parametrize("embedder", [Silent(), Same()])
def test_an_embedder_that_tells_nothing_apart_leaves_words_to_decide(embedder):
    scale = scale_of(embedder)
    assert np.isfinite([scale.gain, scale.floor]).all()
    roll = Toolroll.demo(embedder=embedder)
    words = Toolroll.demo(embedder="none")
    message = "write an email to Ada about the invoice"
    assert roll.select(message, k=5).names == words.select(message, k=5).names


class Foreign:
    """An embedder that knows nothing of this package's class, with the fewest members."""

    identity, dim = "foreign@1", 4

    def embed(self, texts):
        return np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))


def test_an_embedder_of_a_foreign_class_gets_the_defaults_of_what_it_lacks():
    found = as_embedder(Foreign())
    assert (found.identity, found.dim) == ("foreign@1", 4)
    assert (found.is_instant, found.is_english, found.scale) == (False, False, None)
    assert found.embed_query("anything").tolist() == [1, 0, 0, 0]
    assert as_embedder(whole := StaticEmbedder()) is whole


def test_an_embedder_of_a_foreign_class_selects():
    roll = Toolroll.demo(embedder=Foreign())
    assert roll.select("write an email to Ada about the invoice", k=5).degraded == ()


def test_what_is_put_around_an_embedder_has_its_scale_and_its_language(tmp_path):
    pytest.importorskip("tenacity")
    from toolroll.embedders.cached import CachedEmbedder
    from toolroll.embedders.guarded import GuardedEmbedder

    inner = StaticEmbedder()
    inner.is_english = True
    for outer in (GuardedEmbedder(inner), CachedEmbedder(inner, tmp_path)):
        assert (outer.is_english, outer.scale) == (True, Scale())


class Converted:
    """The plain embedder, whose answers have another form."""

    identity, dim, is_instant, is_english = "converted@1", HashingEmbedder().dim, True, False

    def __init__(self, convert):
        self.embed = lambda texts: convert(HashingEmbedder().embed(texts))


FORMS = {
    "float64": lambda rows: rows.astype(np.float64),
    "lists": np.ndarray.tolist,
    "columns": np.asfortranarray,
    "strided": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
}
# Enough examples to hold some out, each of several clauses.
CLAUSES = [
    Tool(
        f"tool_{at}",
        f"Handles the matter number {at}",
        examples=[f"open matter {at}, then print page {at} and send it to Ada", f"close {at}; archive {at}"],
    )
    for at in range(12)
]


@each_row("form", FORMS)
def test_vectors_of_any_numbers_build_and_select_alike(form):
    rolls = [
        Toolroll.from_tools(CLAUSES, embedder=Converted(convert))
        for convert in (FORMS[form], lambda rows: rows)
    ]
    message = "open matter 7, then send page 3 to Bob"
    other, plain = (roll.select(message, k=3) for roll in rolls)
    assert other.degraded == ()
    assert (other.names, other.confidence) == (plain.names, plain.confidence)


@each_row("form", FORMS)
def test_a_joint_embedder_takes_them_too(form):
    joint = JointEmbedder(Converted(FORMS[form]), StaticEmbedder())
    plain = JointEmbedder(HashingEmbedder(), StaticEmbedder())
    assert np.array_equal(joint.embed(["a text"]), plain.embed(["a text"]))
    assert np.array_equal(joint.embed_query("a text"), plain.embed_query("a text"))


def fail(rows):
    raise RuntimeError("no model")


@each_row(
    "convert, wrong",
    [
        (lambda rows: rows * np.nan, "row 0 has length nan, must be 1"),
        (lambda rows: rows * 2, "row 0 has length 2, must be 1"),
        (lambda rows: rows[:, 1:], r"with shape \(2, 255\), must be \(2, 256\)"),
        (lambda rows: "vectors", "its answer is no array"),
        (fail, "no model"),
    ],
)
def test_wrong_vectors_name_their_embedder(convert, wrong):
    embedder = as_embedder(Converted(convert))
    for ask in (vectors_of, query_vectors_of):
        with pytest.raises(EmbedderUnavailable, match=f"embedder converted@1: .*{wrong}"):
            ask(embedder, ["one text", "another text"])


def without(*missing, **others):
    members = {"identity": "own@1", "dim": 4, "embed": Foreign.embed, **others}
    return type("Own", (), {name: value for name, value in members.items() if name not in missing})


@each_row(
    "wrong, fault",
    [
        (without("dim")(), "a Own without dim"),
        (without("dim", "identity")(), "a Own without identity and dim"),
        (without("embed")(), "a Own without embed"),
        (without(), "the class Own instead of an object of it"),
        (Foreign, "the class Foreign instead of an object of it"),
        (without(identity=None)(), "a Own whose identity is None instead of a text"),
        (without(identity="")(), "a Own whose identity is '' instead of a text"),
        (without(dim=0)(), "a Own whose dim is 0 instead of a whole number"),
        (without(dim="4")(), "a Own whose dim is '4' instead of a whole number"),
        (without(embed=None)(), "a Own whose embed is None instead of a method"),
    ],
)
def test_an_object_that_is_no_embedder_says_why(wrong, fault):
    with pytest.raises(InvalidInput, match=f"^embedder: is {fault}.*, must be an Embedder"):
        named(wrong)
    with pytest.raises(InvalidInput, match=f"joint embedder: is of {fault}"):
        JointEmbedder(StaticEmbedder(), wrong)


TYPED = """
from collections.abc import Sequence
from toolroll.embedders.named import EmbedderChoice
from toolroll.model.embedder import as_embedder

class Words:
    identity = "words@1"
    def __init__(self) -> None:
        self.dim = 2
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

class NoWidth:
    identity = "words@1"
    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return []

choice: EmbedderChoice = Words()
as_embedder(Words())
wrong: EmbedderChoice = NoWidth()
"""


@pytest.mark.slow
def test_mypy_accepts_an_embedder_of_the_documented_members(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "own.py").write_text(TYPED)
    package = Path(__file__).parents[3] / "python"
    files = [package / "toolroll" / "embedders" / "named.py", package / "toolroll" / "model" / "embedder.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=skip", "--config-file="]
        + ["--cache-dir", str(tmp_path / "cache"), str(tmp_path / "own.py"), *map(str, files)],
        env={**os.environ, "MYPYPATH": str(package)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("own.py") and ": error: " in line]
    assert len(found) == 1 and "NoWidth" in found[0], done.stdout + done.stderr
