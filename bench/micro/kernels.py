"""Each kernel of the core, called from Python as selections call it, on data of the size of a catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from bench import workloads
from bench.latency.ranking import keys_of, outcomes
from bench.micro.rotation import Call, each
from toolroll import _core
from toolroll.embedders.static import StaticEmbedder
from toolroll.learning.categories import built_in

TOOLS, ROWS, DIM, K = 1_000, 10_000, 384, 10
NOW = 1_790_000_000.0 + 31 * 86_400


@lru_cache(maxsize=1)
def asked() -> list[str]:
    return workloads.messages(512, TOOLS)


@lru_cache(maxsize=1)
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


@lru_cache(maxsize=1)
def texts() -> list[str]:
    return [f"{tool['name']} {tool['description']}" for tool in workloads.tools(TOOLS)]


def some_rows(size: int, share: float, seed: int = 0) -> _core.Bitset:
    chosen = np.flatnonzero(np.random.default_rng(seed).random(size) < share).astype(np.int32)
    return _core.Bitset.of(size, chosen)


# Sets and texts.


def bitset_and() -> Call:
    sets = [some_rows(ROWS, 0.5, seed) for seed in range(64)]
    return each(lambda other: sets[0] & other, sets)


def bitset_rows() -> Call:
    return each(_core.Bitset.rows, [some_rows(ROWS, 0.01, seed) for seed in range(64)])


def bitset_holds() -> Call:
    rows = some_rows(ROWS, 0.004).rows()
    return each(lambda other: other.holds(rows), [some_rows(ROWS, 0.5, seed) for seed in range(64)])


def automaton() -> Call:
    patterns = workloads.keywords(3_000)
    messages = workloads.keyword_messages(512, 500, patterns)
    return each(_core.Automaton(patterns, ["word"] * len(patterns)).find, messages)


def marks() -> Call:
    names = _core.Automaton([], [])
    return each(
        lambda text: _core.find_meanings(text, names),
        [f"{text} by 5 pm: report.pdf, PROJ-123, ann@example.org" for text in asked()],
    )


def fold() -> Call:
    return each(_core.fold, [f"{text} — Ünïcode, 날씨" for text in asked()])


def spelling() -> Call:
    lexicon = _core.Lexicon.of_texts(texts(), np.ones(TOOLS, np.float32))
    speller = _core.Speller(lexicon, _core.Lexicon.of_words(["please"], np.ones(1, np.float32)))
    misspelt = [text.replace("e", "", 1) for text in asked()]
    return each(speller.corrections, misspelt)


def wordpiece() -> Call:
    vocabulary = resources.files("toolroll.embedders.data").joinpath("vocab.txt").read_text("utf-8")
    return each(_core.WordPiece(vocabulary.splitlines()).encode, asked())


def category() -> Call:
    vectors = [(text, embedder().embed_query(text)) for text in asked()]
    return each(lambda one: built_in().category(*one), vectors)


# Vectors and words.


def table_embedding() -> Call:
    return each(embedder().embed_query, asked())


def table_embedding_korean() -> Call:
    return each(embedder().embed_query, [f"내일 서울 날씨 {text}" for text in asked()])


@lru_cache(maxsize=1)
def vectors() -> Any:
    return workloads.clustered_vectors(ROWS, DIM)


def vector_scan() -> Call:
    index = _core.VectorIndex.build(vectors())
    return each(
        lambda query: index.search(query, K, method="exact"), list(workloads.queries_near(vectors(), 64))
    )


def filtered_vector_scan() -> Call:
    index, allowed = _core.VectorIndex.build(vectors()), some_rows(ROWS, 0.05)
    return each(lambda query: index.search(query, K, allowed), list(workloads.queries_near(vectors(), 64)))


def bm25() -> Call:
    index = _core.Bm25Index.build([texts()], [1.0])
    return each(lambda text: index.search(text, K), asked())


def fusion() -> Call:
    """Retrieval without learning: vectors and words on one scale."""
    retriever = _core.Retriever(
        TOOLS,
        _core.VectorIndex.build(embedder().embed(texts())),
        _core.Bm25Index.build([texts()], [1.0]),
    )
    weights = _core.Fusion(
        dense=0.7, dense_floor=0.1, lexical=0.3, lexical_saturation=6.0, intents=0.0, intent_floor=0.0,
        clauses=0.5, threshold=0.0,
    )  # fmt: skip
    everything, no_rows = _core.Bitset.full(TOOLS), np.zeros(0, np.int32)
    embedded = [(text, embedder().embed_query(text)) for text in asked()]
    return each(
        lambda one: retriever.search(
            one[0], one[1], 1.0, (), (), everything, no_rows, np.zeros(0, np.float32), 30, weights
        ),
        embedded,
    )


# Learning.


@lru_cache(maxsize=1)
def learned() -> _core.Learned:
    return _core.Learned(0).fold(outcomes(20_000, TOOLS))


def scopes() -> list[tuple[int, int, int]]:
    return [(1, 2 + at % 12, 100 + at % 36) for at in range(36)]


def posterior() -> Call:
    arms = 1_000_000 + np.arange(40, dtype=np.uint64)
    return each(lambda where: learned().reliability(where, arms, NOW), scopes())


def slate() -> Call:
    rows = np.random.default_rng(1).choice(TOOLS, 40, replace=False).astype(np.int32)
    scores = np.linspace(1, 0, 40, dtype=np.float32)
    weights = _core.Weights(
        reliability=1.25, lift=1.0, exploration_scale=0.1, sd_max=2.0, most_up=1.0, most_down=4.0,
        protected_leaders=2, reliability_in_order=8.0, explore=0.0,
    )  # fmt: skip
    keys, core, leaders = keys_of(TOOLS), np.zeros(40, np.uint8), rows[:1]
    return each(
        lambda seed: learned().rank(
            keys, rows, scores, leaders, core, scopes()[seed % 36], NOW, seed, 7, 0.1, weights
        ),
        range(1_000),
    )


def fold_outcomes() -> Call:
    deltas = outcomes(7_000, TOOLS)
    return each(lambda at: learned().fold(deltas[at : at + 7]), range(0, 6_990, 7))


def beta_draws() -> Call:
    random = np.random.default_rng(40)
    keys = random.integers(0, 2**64, 40, dtype=np.uint64)
    alpha, beta = random.uniform(1, 50, 40), random.uniform(1, 50, 40)
    return each(lambda seed: _core.thompson_sample(keys, alpha, beta, seed), range(1_000))


def propensities() -> Call:
    random = np.random.default_rng(40)
    means = [np.sort(random.normal(0, 1, 40))[::-1].copy() for _ in range(64)]
    sd, show = random.uniform(0.2, 0.5, 40), np.ones(40)
    guarded, group = np.zeros(40, np.uint8), np.zeros(40, np.uint64)
    return each(lambda mean: _core.inclusion(mean, sd, show, guarded, group, 7), means)


def expected_calls() -> Call:
    found = np.arange(40, dtype=np.int32)
    columns = [np.sort(np.random.default_rng(seed).random(40, np.float32))[::-1].copy() for seed in range(64)]
    return each(
        lambda scores: _core.expected_calls(
            found[:12], found, scores, temperature=0.1, calls=0.9, elsewhere=0.08
        ),
        columns,
    )


# What is sent.


def copy_containers() -> Call:
    """Twelve tools, as a provider is sent them."""
    tools = [json.loads(json.dumps(tool)) for tool in workloads.tools(48)]
    return each(_core.copy_containers, [tools[at : at + 12] for at in range(36)])


KERNELS: Mapping[str, Callable[[], Call]] = {
    make.__name__: make
    for make in (
        bitset_and, bitset_rows, bitset_holds, automaton, marks, fold, spelling, wordpiece, category,
        table_embedding, table_embedding_korean, vector_scan, filtered_vector_scan, bm25, fusion, posterior,
        slate, fold_outcomes, beta_draws, propensities, expected_calls, copy_containers,
    )
}  # fmt: skip
