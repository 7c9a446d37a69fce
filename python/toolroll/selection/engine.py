"""The shell of a turn: gathers what a decision needs, decides, and holds what serves."""

from __future__ import annotations

import asyncio
import logging
import operator
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, Learned, latin_share
from toolroll.arrays import Part, Vector
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.message_text import Reading
from toolroll.context import Context, Turn, names
from toolroll.conversation import Conversation
from toolroll.embedder import Embedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.errors import EmbedderUnavailable, Failure, InvalidInput
from toolroll.identity import key
from toolroll.learning.categories import category
from toolroll.learning.exposure import Exposure
from toolroll.selection.exposure import exposure_of
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot

_log = logging.getLogger("toolroll")

_ANYONE = Context()
_NOTHING_FAILED: tuple[Failure, ...] = ()


class Engine:
    """Selects with what serves. Safe to call from many threads: a turn reads `snapshot` once."""

    def __init__(
        self, snapshot: Snapshot, embedder: Embedder | None, want: Callable[[str], None] | None = None
    ) -> None:
        """want: called with an organisation that asks before its pipeline is there; must not wait."""
        self._snapshot = snapshot
        self._embedder = embedder
        self._want = want
        self._is_built_in = isinstance(embedder, StaticEmbedder)
        self._is_english = embedder is not None and embedder.is_english
        self.used: dict[str, int] = {}  # organisation → when it last asked: who drops one asks for the oldest
        self.learned: Mapping[str, Learned] = {}  # organisation → what its outcomes have taught
        self.prior: Learned | None = None  # what an organisation begins with
        self.observe: Callable[[Selection], object] = _nobody  # sees every selection; must not wait
        self.clock: Callable[[], float] = time.time  # seconds since the epoch
        self.draw: Callable[[], int] = _at_random  # the seed of a turn that belongs to no session
        self._degraded: tuple[str, ...] = ()  # as the last selection was: what lasts is logged once

    @property
    def snapshot(self) -> Snapshot:
        """What the next turn will use."""
        return self._snapshot

    def swap(self, snapshot: Snapshot) -> None:
        """Puts something else in place; turns under way finish with what they read."""
        was_whole = not self._snapshot.shared.lasting_failures
        self._snapshot = snapshot
        if not was_whole and not snapshot.shared.lasting_failures:
            _log.warning("selection is whole again")

    def select(
        self,
        message: str,
        context: Context | None,
        k: int | None,
        max_tools: int | None,
        budget_tokens: int | None,
        sent: Sequence[str],
        history: Sequence[object],
        vector: npt.ArrayLike | None,
        strict: bool,
        conversation: Conversation | None = None,
    ) -> Selection:
        """Gathers, decides and logs; see `Toolroll.select` for the arguments."""
        snapshot, context = self._snapshot, _checked(context)
        variant, pipeline = snapshot.variant_for(context)
        given = None if vector is None or _lost(pipeline) else _given(vector, pipeline.catalog.dim)
        start = time.perf_counter_ns()
        reading = pipeline.reader.read(message, history)
        read = time.perf_counter_ns()
        vectors, failures = _embed(self._asked(pipeline, context), reading, given)
        embedded = time.perf_counter_ns()
        timings = (("read", read - start), ("embed", embedded - read))
        limits = (k, max_tools, budget_tokens)
        turn = self._turn(snapshot, pipeline, reading, vectors, context, variant, limits, sent, conversation)
        return self._finish(snapshot, pipeline, turn, failures, timings, strict)

    async def aselect(
        self,
        message: str,
        context: Context | None,
        k: int | None,
        max_tools: int | None,
        budget_tokens: int | None,
        sent: Sequence[str],
        history: Sequence[object],
        vector: npt.ArrayLike | None,
        strict: bool,
        conversation: Conversation | None = None,
    ) -> Selection:
        """The same; an embedder that may wait does so outside the event loop."""
        snapshot, context = self._snapshot, _checked(context)
        variant, pipeline = snapshot.variant_for(context)
        given = None if vector is None or _lost(pipeline) else _given(vector, pipeline.catalog.dim)
        start = time.perf_counter_ns()
        reading = pipeline.reader.read(message, history)
        read = time.perf_counter_ns()
        embedder = self._asked(pipeline, context)
        if embedder is None or embedder.is_instant:
            vectors, failures = _embed(embedder, reading, given)
        else:
            vectors, failures = await asyncio.to_thread(_embed, embedder, reading, given)
        embedded = time.perf_counter_ns()
        timings = (("read", read - start), ("embed", embedded - read))
        limits = (k, max_tools, budget_tokens)
        turn = self._turn(snapshot, pipeline, reading, vectors, context, variant, limits, sent, conversation)
        return self._finish(snapshot, pipeline, turn, failures, timings, strict)

    def _asked(self, pipeline: Pipeline, context: Context) -> Embedder | None:
        """The embedder, where a stage of this turn reads vectors and the catalog has some to compare with."""
        if not pipeline.reads_vectors or not pipeline.catalog.dim or context.required:
            return None
        return self._embedder

    def again(self, selection: Selection, conversation: Conversation) -> Selection:
        """The same turn decided again, for what its conversation holds by now; no event of its own."""
        snapshot, turn = self._snapshot, selection.turn
        _, pipeline = snapshot.variant_for(turn.context)
        turn = replace(
            turn,
            conversation=conversation,
            room=pipeline.retention.room(conversation),
            vector=turn.vector if pipeline.catalog.dim else None,
            stored=snapshot.settings(turn.context.org),
            revision=snapshot.revision,
        )
        return pipeline.decide(turn, os.urandom(12).hex(), snapshot.failures(turn.context.org))

    def find(self, query: str, context: Context, k: int) -> Selection:
        """What this caller may have that fits the query best; no event, and core tools count as others do."""
        snapshot = self._snapshot
        variant, pipeline = snapshot.variant_for(context)
        reading = pipeline.reader.read(query, ())
        vectors, failures = _embed(self._embedder if pipeline.catalog.dim else None, reading, None)
        turn = self._turn(snapshot, pipeline, reading, vectors, context, variant, (k, None, None), (), None)
        return pipeline.find(turn, (*snapshot.failures(context.org), *failures))

    def allowed(self, context: Context) -> tuple[Catalog, Bitset]:
        """The catalog, and the rows of it that this caller may have."""
        snapshot = self._snapshot
        pipeline = snapshot.pipeline(context.org)
        turn = Turn("", context, stored=snapshot.settings(context.org), revision=snapshot.revision)
        return pipeline.catalog, pipeline.allowed(turn)

    def exposure(self, selection: Selection, reporter: str) -> Exposure:
        """What a selection showed. reporter: who will say what came of it; "" for the application itself."""
        turn = selection.turn
        return exposure_of(selection, reporter, turn.category or self._category(turn.text, turn.vector))

    def _category(self, text: str, vector: Vector | None) -> str:
        """What kind of thing a message asks for."""
        if not self._is_built_in or vector is None:
            table = built_in_table()
            vector = table.embed_query(text)
        return category(text, vector)

    def _trust(self, text: str) -> float:
        """What the vector of a text counts: an embedder knows nothing of a script it has not learnt."""
        return 1.0 if not self._is_english or text.isascii() else latin_share(text)

    def _turn(
        self,
        snapshot: Snapshot,
        pipeline: Pipeline,
        reading: Reading,
        vectors: Sequence[Vector | None],
        context: Context,
        variant: str,
        limits: tuple[int | None, int | None, int | None],
        sent: Sequence[str],
        conversation: Conversation | None,
    ) -> Turn:
        k, max_tools, budget_tokens = limits
        learned = self.learned.get(context.org, self.prior) if self.learned else self.prior
        weighted = [*((text, 1.0) for text in reading.clauses), *reading.earlier]
        parts: list[Part] = [
            (text, vector, self._trust(text), weight)
            for (text, weight), vector in zip(weighted, vectors[1:], strict=True)
        ]
        return Turn(
            text=reading.text,
            context=context,
            vector=vectors[0],
            k=_limit("k", k),
            max_tools=_limit("max_tools", max_tools),
            budget_tokens=_limit("budget_tokens", budget_tokens),
            sent=names(sent, "sent") if sent != () else (),
            seed=key("session", context.org, context.session) if context.session else self.draw(),
            query=reading.query,
            trust=self._trust(reading.query),
            clauses=tuple(parts[: len(reading.clauses)]),
            earlier=tuple(parts[len(reading.clauses) :]),
            stored=snapshot.settings(context.org),
            revision=snapshot.revision,
            at=round(self.clock(), 6),  # as events keep it: a replay must read the same
            learned=learned,
            category="" if learned is None else self._category(reading.text, vectors[0]),
            conversation=conversation,
            room=pipeline.retention.room(conversation),
            variant=variant,
            issuer=self,
        )

    def _finish(
        self,
        snapshot: Snapshot,
        pipeline: Pipeline,
        turn: Turn,
        failures: tuple[Failure, ...],
        timings: tuple[tuple[str, int], ...],
        strict: bool,
    ) -> Selection:
        org = turn.context.org
        org_failures = snapshot.failures(org)
        if org in snapshot.own:
            self.used[org] = time.perf_counter_ns()
        if org in snapshot.awaited and self._want is not None:
            self._want(org)
        selection = pipeline.decide(turn, os.urandom(12).hex(), (*org_failures, *failures), timings)
        self.observe(selection)
        if strict and selection.failures:
            raise selection.failures[0].error
        # What lasts was logged by whoever found it: it comes and goes with the organisation that asks.
        passing = selection.failures[len(pipeline.lasting_failures) + len(org_failures) :]
        degraded = tuple([failure.where for failure in passing]) if passing else ()
        if degraded != self._degraded:
            self._degraded = degraded
            for failure in passing:
                _log.warning("selection degraded: %s", failure, exc_info=failure.error)
            if not passing:
                _log.warning("selection is whole again")
        return selection


@lru_cache(maxsize=1)
def built_in_table() -> StaticEmbedder:
    """What the classifier of messages reads, whatever embedder retrieval has."""
    return StaticEmbedder()


def _nobody(selection: Selection) -> None:
    pass


def _at_random() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _checked(context: Context | None) -> Context:
    if context is None:
        return _ANYONE
    if not isinstance(context, Context):
        raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
    return context


def _embed(
    embedder: Embedder | None, reading: Reading, given: Vector | None
) -> tuple[list[Vector | None], tuple[Failure, ...]]:
    """Vectors of the query, its clauses and what was said before, in this order.

    An embedder that fails or lies costs its own contribution and no more: what it gave before stays.
    """
    texts = [reading.query, *reading.clauses, *(text for text, _ in reading.earlier)]
    vectors: list[Vector | None] = [None] * len(texts)
    vectors[0] = given
    if embedder is None:
        return vectors, _NOTHING_FAILED
    try:
        for at, text in enumerate(texts):
            if vectors[at] is None:
                vectors[at] = _embedded(embedder, text)
    except Exception as error:
        return vectors, (Failure("embedder", error),)
    return vectors, _NOTHING_FAILED


def _embedded(embedder: Embedder, text: str) -> Vector:
    """The vector of one text.

    Raises:
        EmbedderUnavailable: what the embedder answers is no unit vector of its width. Zeros are an answer for
            a text without Latin letters, of which an embedder may know nothing.
    """
    vector = np.asarray(embedder.embed_query(text), np.float32)
    length = float(np.vdot(vector, vector))
    if vector.shape == (embedder.dim,) and (
        0.99 < length < 1.01 or (length == 0.0 and not any("a" <= letter <= "z" for letter in text.lower()))
    ):
        return vector
    raise EmbedderUnavailable(
        f"embedder {embedder.identity}: its vector has shape {vector.shape} and squared length {length:.3g}, "
        f"must be ({embedder.dim},) and 1"
    )


def _lost(pipeline: Pipeline) -> bool:
    """Whether the catalog has no vectors for now only: then one that the caller has counts for nothing."""
    return bool(pipeline.lasting_failures) and not pipeline.catalog.dim


def _given(vector: npt.ArrayLike, dim: int) -> Vector:
    """A vector that the caller computed.

    Raises:
        InvalidInput: it is no vector of finite numbers, or not of the catalog's width.
    """
    if not dim:
        raise InvalidInput("vector: this catalog has none, leave it out or build it with an embedder")
    try:
        if np.iscomplexobj(vector):
            raise TypeError("complex numbers")
        array = np.ascontiguousarray(vector, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"vector: {error}; must be a sequence of numbers") from error
    if array.shape != (dim,):
        raise InvalidInput(
            f"vector: has shape {array.shape}, must be ({dim},), the width of the catalog's vectors"
        )
    length = float(np.linalg.norm(array.astype(np.float64)))
    if not np.isfinite(length):
        raise InvalidInput("vector: holds NaN or infinity, must hold finite numbers")
    return array if length == 0 else (array / length).astype(np.float32)


def _limit(name: str, limit: int | None) -> int | None:
    if limit is None:
        return None
    try:
        if isinstance(limit, bool) or (number := operator.index(limit)) < 0:
            raise TypeError
    except TypeError:
        raise InvalidInput(f"{name}: is {limit!r:.80}, must be a whole number of at least 0") from None
    return number
