"""Types of the compiled module, by header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")

# bitset.hpp
class Bitset:
    @staticmethod
    def empty(size: int) -> Bitset: ...
    @staticmethod
    def full(size: int) -> Bitset: ...
    @staticmethod
    def of(size: int, rows: NDArray[np.int32]) -> Bitset: ...
    @staticmethod
    def join(head: Bitset, tail: Bitset) -> Bitset: ...
    def slice(self, begin: int, end: int) -> Bitset: ...
    @property
    def size(self) -> int: ...
    def rows(self) -> NDArray[np.int32]: ...
    def holds(self, rows: NDArray[np.int32]) -> NDArray[np.bool_]: ...
    def holds_all(self, rows: NDArray[np.int32]) -> bool: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __contains__(self, row: int) -> bool: ...
    def __and__(self, other: Bitset) -> Bitset: ...
    def __or__(self, other: Bitset) -> Bitset: ...
    def __sub__(self, other: Bitset) -> Bitset: ...
    def __eq__(self, other: object) -> bool: ...

# unicode.hpp
def decode(text: bytes) -> str: ...
def latin_share(text: str) -> float: ...
def fold(text: str) -> str: ...

# cpu.hpp, heap.hpp
def isa() -> str: ...
def release_free_memory() -> None: ...

# row_changes.hpp
class RowChanges:
    def __init__(self, before: int, sources: NDArray[np.int32]) -> None: ...

# vector_index.hpp
class VectorIndex:
    @staticmethod
    def build(
        vectors: NDArray[np.float32],
        hnsw: bool = False,
        m: int = ...,
        ef_construction: int = ...,
    ) -> VectorIndex: ...
    def with_changes(self, changes: RowChanges, added: NDArray[np.float32]) -> VectorIndex: ...
    def search(
        self,
        query: NDArray[np.float32] | Sequence[float],
        k: int,
        allowed: Bitset | None = None,
        method: str = "auto",
        ef: int = 0,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
    def scores(
        self, query: NDArray[np.float32] | Sequence[float], rows: NDArray[np.int32]
    ) -> NDArray[np.float32]: ...
    def vector(self, row: int) -> NDArray[np.float32]: ...
    @property
    def size(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def has_graph(self) -> bool: ...
    def save(self, path: str) -> None: ...
    @staticmethod
    def load(path: str) -> VectorIndex: ...

class GraphBuild:
    def __init__(self, index: VectorIndex, m: int = ..., ef_construction: int = ...) -> None: ...
    def stop(self) -> None: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def done(self) -> int: ...

# thompson.hpp

def thompson_sample(
    key: NDArray[np.uint64], alpha: NDArray[np.float64], beta: NDArray[np.float64], seed: int
) -> NDArray[np.float64]: ...

# automaton.hpp
class Automaton:
    def __init__(self, patterns: Sequence[str], modes: Sequence[str]) -> None: ...
    def find(self, text: str) -> list[int]: ...
    def matches(self, text: str) -> list[tuple[int, int, int]]: ...
    @property
    def size(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def save(self, path: str) -> None: ...
    @staticmethod
    def load(path: str) -> Automaton: ...

# marks.hpp
def find_meanings(text: str, names: Automaton) -> tuple[str | int, ...]: ...

# bm25.hpp
class Bm25Index:
    @staticmethod
    def build(
        fields: Sequence[Sequence[str]],
        weights: Sequence[float],
        k1: float = ...,
        b: float = ...,
        analysis: str = "default",
        background: Bm25Index | None = None,
    ) -> Bm25Index: ...
    def search(
        self, text: str, k: int, allowed: Bitset | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
    def with_changes(
        self, changes: RowChanges, fields: Sequence[Sequence[str]], weights: Sequence[float]
    ) -> Bm25Index: ...
    def scores(self, text: str, rows: NDArray[np.int32]) -> NDArray[np.float32]: ...
    def terms(self, text: str) -> list[str]: ...
    @property
    def size(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def save(self, path: str) -> None: ...
    @staticmethod
    def load(path: str) -> Bm25Index: ...

# spelling.hpp
class Lexicon:
    @staticmethod
    def of_words(words: Sequence[str], weights: NDArray[np.float32]) -> Lexicon: ...
    @staticmethod
    def of_vocabulary(vocabulary: Sequence[str] | bytes, flat: float) -> Lexicon: ...
    @staticmethod
    def of_texts(texts: Sequence[str], weights: NDArray[np.float32]) -> Lexicon: ...
    def weight(self, word: str) -> float: ...
    def knows(self, word: str) -> bool: ...
    def knows_words_of(self, text: str) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...

class Speller:
    def __init__(self, catalog: Lexicon, general: Lexicon, gate: LanguageGate | None = None) -> None: ...
    def with_own(self, own: Lexicon) -> Speller: ...
    def with_changes(
        self,
        removed: Sequence[str],
        removed_weights: NDArray[np.float32],
        added: Sequence[str],
        added_weights: NDArray[np.float32],
    ) -> Speller: ...
    @property
    def catalog(self) -> Lexicon: ...
    def corrections(self, text: str) -> list[tuple[int, int, str]]: ...

# plain_text.hpp
def compact_json(value: object) -> str | None: ...
def parameter_words(schema: dict[str, Any], most: int, levels: int) -> str | None: ...
def count_bytes(text: str) -> tuple[int, int, int, int] | None: ...
def is_plain(text: str) -> bool: ...

# wordpiece.hpp
class WordPiece:
    def __init__(self, vocabulary: Sequence[str] | bytes) -> None: ...
    def encode(self, text: str, max_tokens: int = 0) -> NDArray[np.int32]: ...
    @property
    def size(self) -> int: ...
    @property
    def unknown(self) -> int: ...

# unigram.hpp
class Unigram:
    def __init__(self, vocabulary: Sequence[str], scores: NDArray[np.float32]) -> None: ...
    def encode(self, text: str, max_tokens: int = 0) -> NDArray[np.int32]: ...
    @property
    def size(self) -> int: ...

# token_table.hpp
class TokenTable:
    def __init__(
        self, vocabulary: Sequence[str] | bytes, table: NDArray[np.int8], scale: NDArray[np.float32]
    ) -> None: ...
    def embed(self, text: str) -> NDArray[np.float32]: ...
    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]: ...
    @property
    def dim(self) -> int: ...

# language_gate.hpp
class LanguageGate:
    def __init__(self, pieces: WordPiece, weights: NDArray[np.float32]) -> None: ...
    def is_foreign(self, text: str) -> bool: ...

# multilingual_table.hpp
class MultilingualTable:
    def __init__(
        self,
        english: TokenTable,
        vocabulary: Sequence[str] | bytes,
        scores: NDArray[np.float32],
        table: NDArray[np.int8],
        scale: NDArray[np.float32],
        gate: NDArray[np.float32],
    ) -> None: ...
    def embed(self, text: str) -> NDArray[np.float32]: ...
    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]: ...
    @property
    def dim(self) -> int: ...

# intents.hpp
class Intents:
    @staticmethod
    def build(
        begins: NDArray[np.int64], vectors: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> Intents: ...
    def with_changes(
        self,
        changes: RowChanges,
        begins: NDArray[np.int64],
        vectors: NDArray[np.float32],
        weights: NDArray[np.float32],
    ) -> Intents: ...
    def nearest(self, query: NDArray[np.float32], rows: NDArray[np.int32]) -> NDArray[np.float32]: ...
    @property
    def size(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def dim(self) -> int: ...

# message_reader.hpp
def clauses_of(message: str) -> tuple[str, ...]: ...
def parts_of(message: str) -> tuple[str, ...]: ...

class Reading:
    def __init__(
        self,
        query: str,
        vector: NDArray[np.float32] | None,
        trust: float,
        clauses: tuple[_Part, ...],
        earlier: tuple[_Part, ...],
    ) -> None: ...
    @property
    def text(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def vector(self) -> NDArray[np.float32] | None: ...
    @property
    def trust(self) -> float: ...
    @property
    def clauses(self) -> tuple[tuple[str, NDArray[np.float32] | None, float, float], ...]: ...
    @property
    def earlier(self) -> tuple[tuple[str, NDArray[np.float32] | None, float, float], ...]: ...
    @property
    def texts(self) -> list[str]: ...
    @property
    def embed_ns(self) -> int: ...
    def with_vectors(self, vectors: Sequence[NDArray[np.float32] | None]) -> Reading: ...

class MessageReader:
    def __init__(
        self,
        speller: Speller | None,
        has_clauses: bool,
        may_show: Callable[[str, Bitset], bool] | None = None,
    ) -> None: ...
    def read(
        self,
        message: str,
        earlier: Sequence[tuple[bool, str]] = (),
        allowed: Callable[[], Bitset] | None = None,
        table: MultilingualTable | None = None,
        is_english: bool = False,
    ) -> Reading: ...

# fusion.hpp
class Fusion:
    def __init__(
        self,
        *,
        dense: float,
        dense_floor: float,
        lexical: float,
        lexical_saturation: float,
        intents: float,
        intent_floor: float,
        clauses: float,
        threshold: float,
    ) -> None: ...
    @property
    def dense(self) -> float: ...
    @property
    def dense_floor(self) -> float: ...
    @property
    def lexical(self) -> float: ...
    @property
    def lexical_saturation(self) -> float: ...
    @property
    def intents(self) -> float: ...
    @property
    def intent_floor(self) -> float: ...
    @property
    def clauses(self) -> float: ...
    @property
    def threshold(self) -> float: ...

class Retriever:
    def __init__(
        self,
        size: int,
        vectors: VectorIndex | None,
        postings: Bm25Index | None,
        intents: Intents | None = None,
        damping: NDArray[np.float32] | None = None,
    ) -> None: ...
    @staticmethod
    def stacked(shared: Retriever, own: Retriever) -> Retriever: ...
    def search(
        self,
        text: str,
        vector: NDArray[np.float32] | None,
        trust: float,
        clauses: tuple[tuple[str, NDArray[np.float32] | None, float, float], ...],
        earlier: tuple[tuple[str, NDArray[np.float32] | None, float, float], ...],
        in_play: Bitset,
        known_rows: NDArray[np.int32],
        known_scores: NDArray[np.float32],
        k: int,
        fusion: Fusion,
        learned: Learned | None = None,
        keys: ToolKeys | None = None,
        now: float = 0.0,
    ) -> tuple[
        NDArray[np.int32],
        NDArray[np.float32],
        tuple[
            NDArray[np.float32],
            NDArray[np.float32],
            NDArray[np.float32],
            NDArray[np.float32],
            NDArray[np.float32],
        ],
        float,
        NDArray[np.int32],
    ]: ...
    @property
    def size(self) -> int: ...
    def search_each(
        self,
        searches: Sequence[
            tuple[
                str,
                NDArray[np.float32] | None,
                float,
                tuple[tuple[str, NDArray[np.float32] | None, float, float], ...],
                Bitset,
            ]
        ],
        k: int,
        fusion: Fusion,
    ) -> list[tuple[NDArray[np.int32], NDArray[np.float32], float]]: ...

# tool_keys.hpp
class ToolKeys:
    def __init__(
        self, arm: NDArray[np.uint64], intent: NDArray[np.uint64], group: NDArray[np.uint64]
    ) -> None: ...
    @staticmethod
    def stacked(shared: ToolKeys, own: ToolKeys) -> ToolKeys: ...
    def arms(self, rows: NDArray[np.int32]) -> NDArray[np.uint64]: ...
    def with_changes(
        self,
        changes: RowChanges,
        arm: NDArray[np.uint64],
        intent: NDArray[np.uint64],
        group: NDArray[np.uint64],
    ) -> ToolKeys: ...
    @property
    def size(self) -> int: ...

# learned.hpp
DELTA: np.dtype[np.void]

class LearningRates:
    def __init__(
        self,
        *,
        reliability_half_s: float = ...,
        lift_half_s: float = ...,
        vector_half_s: float = ...,
        alarm_nats: float = ...,
        alarm_ratio: float = ...,
        open_k: float = ...,
        most_k: float = ...,
        open_half_s: float = ...,
        least_reporters: int = ...,
        prior_mean: float = ...,
        prior_strength: float = ...,
        page_spread: float = ...,
        leaf_spread: float = ...,
        lift_strength: float = ...,
        lift_page_spread: float = ...,
        lift_leaf_spread: float = ...,
        vector_most: float = ...,
        vector_strength: float = ...,
    ) -> None: ...
    @property
    def reliability_half_s(self) -> float: ...
    @property
    def lift_half_s(self) -> float: ...
    @property
    def vector_half_s(self) -> float: ...
    @property
    def alarm_nats(self) -> float: ...
    @property
    def alarm_ratio(self) -> float: ...
    @property
    def open_k(self) -> float: ...
    @property
    def most_k(self) -> float: ...
    @property
    def open_half_s(self) -> float: ...
    @property
    def least_reporters(self) -> int: ...
    @property
    def prior_mean(self) -> float: ...
    @property
    def prior_strength(self) -> float: ...
    @property
    def page_spread(self) -> float: ...
    @property
    def leaf_spread(self) -> float: ...
    @property
    def lift_strength(self) -> float: ...
    @property
    def lift_page_spread(self) -> float: ...
    @property
    def lift_leaf_spread(self) -> float: ...
    @property
    def vector_most(self) -> float: ...
    @property
    def vector_strength(self) -> float: ...

class Learned:
    def __init__(self, dim: int = 0, rates: LearningRates = ...) -> None: ...
    def fold(self, deltas: NDArray[np.void], vectors: NDArray[np.float32] | None = None) -> Learned: ...
    def fold_observed(
        self, deltas: NDArray[np.void], vectors: NDArray[np.float32] | None = None
    ) -> tuple[Learned, NDArray[np.void]]: ...
    def rows(
        self, since: Learned
    ) -> tuple[list[tuple[int, int, int, float, float, float]], list[tuple[int, int, bytes]]]: ...
    def with_rows(
        self,
        cells: list[tuple[int, int, int, float, float, float]],
        records: list[tuple[int, int, bytes]],
        revision: int,
    ) -> Learned: ...
    def reliability(
        self, scopes: tuple[int, int, int], arms: NDArray[np.uint64], now: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def lift(
        self,
        scopes: tuple[int, int, int],
        intents: NDArray[np.uint64],
        groups: NDArray[np.uint64],
        now: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def plain(
        self, scope: int, arms: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def vector(self, subject: int, now: float = 0.0) -> tuple[NDArray[np.float32], float] | None: ...
    def rank(
        self,
        keys: ToolKeys,
        rows: NDArray[np.int32],
        scores: NDArray[np.float32],
        raw_best: NDArray[np.int32],
        core: NDArray[np.uint8] | NDArray[np.bool_],
        scopes: tuple[int, int, int],
        now: float,
        seed: int,
        k: int,
        temperature: float,
        weights: Weights,
    ) -> tuple[
        NDArray[np.int32],
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.uint8],
    ]: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(archive: bytes) -> Learned: ...
    @property
    def dim(self) -> int: ...
    @property
    def rates(self) -> LearningRates: ...
    @property
    def revision(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def vectors(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...

# slate.hpp
class Weights:
    def __init__(
        self,
        *,
        reliability: float,
        lift: float,
        exploration_scale: float,
        sd_max: float,
        most_up: float,
        most_down: float,
        protected_leaders: int,
        reliability_in_order: float,
        explore: float,
    ) -> None: ...
    @property
    def protected_leaders(self) -> int: ...
    @property
    def explore(self) -> float: ...

# selector.hpp
_Part: TypeAlias = tuple[str, NDArray[np.float32] | None, float, float]
_Found: TypeAlias = tuple[
    NDArray[np.int32],
    NDArray[np.float32],
    tuple[NDArray[np.float32], ...],
    NDArray[np.float32],
    float,
    bool,
    NDArray[np.int32],
]

class RetrievalStage:
    def __init__(
        self,
        *,
        retriever: Retriever,
        fusion: Fusion,
        threshold: float,
        minimum: int,
        candidates: int,
        core: int,
        rescored: int,
        spare: int,
        best: NDArray[np.float32],
        own: NDArray[np.float32],
        has_vectors: bool,
        least_confidence: float,
        keeps_unmatched: bool,
        learns: bool,
        is_damped: bool,
    ) -> None: ...

class RoutesStage:
    def __init__(self, mode: str, weight: float, no_hit: Sequence[int] | None, scores: bool) -> None: ...

class NoMatchStage:
    def __init__(self, most: int, least: int, learns: bool) -> None: ...

class LearningStage:
    def __init__(
        self, core: NDArray[np.int32], weights: Weights, temperature: float, k: int | None
    ) -> None: ...

class ThompsonStage:
    def __init__(self, core: NDArray[np.int32], k: int | None) -> None: ...

class CapStage:
    def __init__(self, core: Sequence[int], k: int | None, max_tools: int | None) -> None: ...

class ListStage:
    def __init__(self, sticky_tools: int, counts_added: bool, newcomers: float, growth: float) -> None: ...

class ToolkitRows:
    def __init__(self, rows: NDArray[np.int32], weight: float) -> None: ...

class MarkedRows:
    def __init__(self, rows: Sequence[Sequence[int]], is_service: Sequence[bool]) -> None: ...

class Outcomes:
    def __init__(
        self, learned: Learned, keys: ToolKeys, scopes: tuple[int, int, int, int], now: float
    ) -> None: ...

class Budget:
    def __init__(
        self, tokens: int, costs: NDArray[np.int32], own_costs: NDArray[np.int32] | None = None
    ) -> None: ...

class ConversationRows:
    def __init__(
        self,
        *,
        is_whole: bool,
        loaded: Sequence[int],
        recent: Sequence[int],
        listed: Sequence[int],
        picked: Sequence[int],
        turn: int,
    ) -> None: ...

class TurnInput:
    def __init__(
        self,
        reading: Reading,
        allowed: Bitset,
        seed: int,
        k: int | None,
        room: float,
        max_tools: int | None,
        *,
        page: Bitset | None = None,
        routed: Sequence[ToolkitRows] | None = None,
        marks: MarkedRows | None = None,
        called: Sequence[ToolkitRows] | None = None,
        outcomes: Outcomes | None = None,
        budget: Budget | None = None,
        included: Sequence[int] | None = None,
        conversation: ConversationRows | None = None,
        sent: Sequence[int] | None = None,
        rerank: Sequence[Callable[[NDArray[np.int32], NDArray[np.float32]], NDArray[np.float32] | None]]
        | None = None,
    ) -> None: ...

class Picked:
    @property
    def selected(self) -> list[int]: ...
    @property
    def rows(self) -> NDArray[np.int32]: ...
    @property
    def scores(self) -> NDArray[np.float32]: ...
    @property
    def steps(self) -> list[tuple[str, str, str, int, NDArray[np.int32], NDArray[np.float32]]]: ...
    @property
    def pools(self) -> list[Bitset]: ...
    @property
    def routed(self) -> list[int]: ...
    @property
    def marked(self) -> NDArray[np.int32]: ...
    @property
    def mark_gains(self) -> list[NDArray[np.float32]]: ...
    @property
    def own_steps(self) -> list[int]: ...
    @property
    def core(self) -> int: ...
    @property
    def called(self) -> NDArray[np.int32]: ...
    @property
    def called_gains(self) -> NDArray[np.float32]: ...
    @property
    def retrieved(self) -> _Found | None: ...
    @property
    def by_words(self) -> _Found | None: ...
    def packed_calls(
        self, keys: list[bytes], *, temperature: float, calls: float, elsewhere: float
    ) -> bytes: ...
    @property
    def list_turns(self) -> tuple[int, ...] | None: ...
    @property
    def fallback(self) -> NDArray[np.int32]: ...
    @property
    def reranked(
        self,
    ) -> (
        tuple[
            NDArray[np.int32],
            NDArray[np.float32],
            NDArray[np.float32],
            NDArray[np.float32],
            NDArray[np.float32],
            NDArray[np.float32],
            NDArray[np.bool_],
            NDArray[np.int32],
            int,
        ]
        | None
    ): ...
    @property
    def before_list(self) -> NDArray[np.int32]: ...

class Selector:
    def __init__(
        self,
        *,
        size: int,
        routes: RoutesStage | None,
        services: float,
        marks: float,
        damps_marks: bool,
        retrieval: RetrievalStage | None,
        by_words: RetrievalStage | None,
        no_match: NoMatchStage | None,
        learning: LearningStage | None,
        thompson: ThompsonStage | None,
        includes: bool,
        base: Sequence[int],
        pinned: Sequence[int],
        cap: CapStage,
        list: ListStage | None,
        has_order: bool,
    ) -> None: ...
    def pick(self, turn: TurnInput) -> Picked: ...
    @property
    def size(self) -> int: ...

# inclusion.hpp

def inclusion(
    mean: NDArray[np.float64],
    sd: NDArray[np.float64],
    show: NDArray[np.float64],
    guarded: NDArray[np.uint8] | NDArray[np.bool_],
    group: NDArray[np.uint64],
    k: int,
) -> NDArray[np.float64]: ...
def inclusion_sampled(
    mean: NDArray[np.float64],
    sd: NDArray[np.float64],
    show: NDArray[np.float64],
    guarded: NDArray[np.uint8] | NDArray[np.bool_],
    group: NDArray[np.uint64],
    k: int,
    explore: float,
    seed: int,
    draws: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

# sorted_strings.hpp
class SortedStrings:
    @staticmethod
    def of(ascending: Sequence[str]) -> SortedStrings: ...
    def find(self, text: str) -> int: ...
    def texts(self, places: NDArray[np.int32]) -> tuple[str, ...]: ...
    def __getitem__(self, place: int) -> str: ...
    def __len__(self) -> int: ...

# section_file.hpp
class SectionWriter:
    def __init__(self, path: str, kind: str, version: int) -> None: ...
    def add(
        self,
        name: str,
        content: VectorIndex | Bm25Index | Intents | Lexicon | SortedStrings | NDArray[np.generic],
    ) -> None: ...
    def finish(self) -> None: ...

class SectionFile:
    @staticmethod
    def open(path: str, kind: str, version: int) -> SectionFile: ...
    @property
    def names(self) -> list[str]: ...
    def vectors(self, name: str) -> VectorIndex: ...
    def postings(self, name: str) -> Bm25Index: ...
    def intents(self, name: str) -> Intents: ...
    def lexicon(self, name: str) -> Lexicon: ...
    def strings(self, name: str) -> SortedStrings: ...
    def array(self, name: str) -> NDArray[Any]: ...
    def __contains__(self, name: str) -> bool: ...

# expected_calls.hpp
def expected_calls(
    shown: NDArray[np.int32],
    found: NDArray[np.int32],
    scores: NDArray[np.float32],
    *,
    temperature: float,
    calls: float,
    elsewhere: float,
) -> NDArray[np.float64]: ...
def packed_calls(
    keys: list[bytes],
    shown: NDArray[np.int32],
    found: NDArray[np.int32],
    scores: NDArray[np.float32],
    *,
    temperature: float,
    calls: float,
    elsewhere: float,
) -> bytes: ...

# cue_classifier.hpp
class CueClassifier:
    def __init__(
        self,
        of_vector: NDArray[np.float32],
        bias: NDArray[np.float32],
        cues: Sequence[str],
        of_cues: NDArray[np.int32],
        unit: float,
        opening: Sequence[str],
    ) -> None: ...
    def classify(self, text: str, vector: NDArray[np.float32], least: float) -> int | None: ...

# bindings/bind_containers.cpp
def copy_containers(value: _T) -> _T: ...
def values_by_identity(known: dict[int, _T], keys: tuple[object, ...]) -> list[_T] | None: ...
