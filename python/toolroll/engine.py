"""The shell of a turn: gathers what a decision needs, decides, and holds the pipeline that does."""

from __future__ import annotations

import asyncio
import logging
import operator
import os
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolroll.context import Context, Turn, Vector, names
from toolroll.errors import EmbedderUnavailable, InvalidInput
from toolroll.pipeline import Pipeline
from toolroll.ports import Embedder
from toolroll.selection import Failure, Selection

_log = logging.getLogger("toolroll")

# What is read of a long message: its beginning and its end. A request stands in one of them; what is
# pasted between is not what is asked, and no message may cost more than this much reading.
_LONGEST = 8_192

_ANYONE = Context()
_NOTHING_FAILED: tuple[Failure, ...] = ()


class Engine:
    """Selects with the pipeline it holds. Safe to call from many threads: a turn reads the pipeline once."""

    def __init__(self, pipeline: Pipeline, embedder: Embedder | None) -> None:
        self._pipeline = pipeline
        self._embedder = embedder

    @property
    def pipeline(self) -> Pipeline:
        """What the next turn will use."""
        return self._pipeline

    def swap(self, pipeline: Pipeline) -> None:
        """Puts another pipeline in place; turns under way finish with the one they read."""
        self._pipeline = pipeline

    def select(
        self,
        message: str,
        context: Context | None,
        k: int | None,
        max_tools: int | None,
        budget_tokens: int | None,
        sent: Sequence[str],
        vector: npt.ArrayLike | None,
        strict: bool,
    ) -> Selection:
        """Gathers, decides and logs; see `Toolroll.select` for the arguments."""
        pipeline = self._pipeline
        text = _readable(message)
        start = time.perf_counter_ns()
        query = text if pipeline.speller is None else pipeline.speller.correct(text)
        embedded, failures = (
            self._embed(query) if vector is None else (_given(vector, pipeline.catalog.dim), _NOTHING_FAILED)
        )
        spent = time.perf_counter_ns() - start
        turn = _turn(text, query, context, embedded, k, max_tools, budget_tokens, sent)
        return _finish(pipeline, turn, failures, spent, strict)

    async def aselect(
        self,
        message: str,
        context: Context | None,
        k: int | None,
        max_tools: int | None,
        budget_tokens: int | None,
        sent: Sequence[str],
        vector: npt.ArrayLike | None,
        strict: bool,
    ) -> Selection:
        """The same; an embedder that may wait does so outside the event loop."""
        pipeline = self._pipeline
        text = _readable(message)
        start = time.perf_counter_ns()
        query = text if pipeline.speller is None else pipeline.speller.correct(text)
        embedded: Vector | None
        if vector is not None:
            embedded, failures = _given(vector, pipeline.catalog.dim), _NOTHING_FAILED
        elif self._embedder is None or self._embedder.is_instant:
            embedded, failures = self._embed(query)
        else:
            embedded, failures = await asyncio.to_thread(self._embed, query)
        spent = time.perf_counter_ns() - start
        turn = _turn(text, query, context, embedded, k, max_tools, budget_tokens, sent)
        return _finish(pipeline, turn, failures, spent, strict)

    def _embed(self, text: str) -> tuple[Vector | None, tuple[Failure, ...]]:
        """The message's vector. An embedder that fails or lies costs its own contribution and no more."""
        embedder = self._embedder
        if embedder is None:
            return None, _NOTHING_FAILED
        try:
            vector = embedder.embed_query(text)
            length = float(np.vdot(vector, vector))
            if vector.shape == (embedder.dim,) and (length == 0.0 or 0.99 < length < 1.01):
                return vector, _NOTHING_FAILED
            what = f"shape {vector.shape} and squared length {length:.3g}, must be ({embedder.dim},) and 1"
            raise EmbedderUnavailable(f"embedder {embedder.identity}: its vector has {what}")
        except Exception as error:
            return None, (Failure("embedder", error),)


def _readable(message: str) -> str:
    """The message as stages read it: valid Unicode, of bounded length.

    Raises:
        InvalidInput: the message is no str.
    """
    if not isinstance(message, str):
        raise InvalidInput(f"message: is {type(message).__name__}, must be str")
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST // 2]} {message[-_LONGEST // 2 :]}"
    if not message.isascii():
        try:
            message.encode()
        except UnicodeEncodeError:  # lone surrogates, from a name or an argument that was not UTF-8
            message = message.encode("utf-8", "replace").decode()
    return message


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


def _turn(
    text: str,
    query: str,
    context: Context | None,
    vector: Vector | None,
    k: int | None,
    max_tools: int | None,
    budget_tokens: int | None,
    sent: Sequence[str],
) -> Turn:
    if context is None:
        context = _ANYONE
    elif not isinstance(context, Context):
        raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
    k, max_tools = _limit("k", k), _limit("max_tools", max_tools)
    budget_tokens = _limit("budget_tokens", budget_tokens)
    placed = names(sent, "sent") if sent != () else ()
    seed = int.from_bytes(os.urandom(8), "little")
    return Turn(text, context, vector, k, max_tools, budget_tokens, placed, seed, query)


def _limit(name: str, limit: int | None) -> int | None:
    if limit is None:
        return None
    try:
        if isinstance(limit, bool) or (number := operator.index(limit)) < 0:
            raise TypeError
    except TypeError:
        raise InvalidInput(f"{name}: is {limit!r:.80}, must be a whole number of at least 0") from None
    return number


def _finish(
    pipeline: Pipeline, turn: Turn, failures: tuple[Failure, ...], embedding_ns: int, strict: bool
) -> Selection:
    selection = pipeline.decide(turn, os.urandom(12).hex(), failures, (("embed", embedding_ns),))
    if selection.failures:
        for failure in selection.failures:
            if strict:
                raise failure.error
            _log.warning("selection degraded: %s", failure, exc_info=failure.error)
    return selection
