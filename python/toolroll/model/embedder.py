"""The protocol of embedders, and the common scale of their cosines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from toolroll.model.errors import EmbedderUnavailable, InvalidInput, quoted


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale: cosine on the common scale = gain * (cosine - floor).

    Attributes:
        gain: at least 0.
        floor: the cosine that becomes 0.
        centre: the common part of all texts' vectors, as bytes of a float32 vector; b"" for nothing.
    """

    gain: float = 1.0
    floor: float = 0.0
    centre: bytes = b""


class EmbedsTexts(Protocol):
    """The members that an embedder from outside needs; `Embedder` documents them and has the others."""

    @property
    def identity(self) -> str: ...  # noqa: D102  documented there

    @property
    def dim(self) -> int: ...  # noqa: D102

    def embed(self, texts: Sequence[str], /) -> npt.ArrayLike: ...  # noqa: D102


_MEMBERS = ("embed", "identity", "dim")  # of EmbedsTexts


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors whose inner product says how much two texts have in common.

    A subclass sets `identity` and `dim` and implements `embed`; everything else has a default. A class that
    is no subclass works too: `as_embedder` gives it the missing defaults.

    A vector depends on its text and on `identity` alone, whatever else is embedded beside it. Any str is
    accepted: empty, a megabyte long, with NUL or lone surrogates. A zero row means that the embedder knows
    nothing of the text; it matches nothing. Several threads may call at once. A failure raises
    EmbedderUnavailable.

    Attributes:
        identity: `name@revision`; the key of every cache. Vectors of two identities are never compared.
        dim: width of a vector.
        is_instant: whether it embeds a message without waiting, so that an event loop may call it directly.
        is_english: whether it has learnt English alone, so that its vectors of other scripts mean nothing.
        scale: how its cosines compare with those of other embedders; None to have it measured.
    """

    identity: str
    dim: int
    is_instant: bool = False
    is_english: bool = False
    scale: Scale | None = None

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], a row for each text, each of unit length or zero."""
        ...

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim]: the row of `embed([text])`, for the one message of a turn."""
        row: npt.NDArray[np.float32] = self.embed([text])[0]
        return row

    def embed_queries(self, texts: Sequence[str]) -> Sequence[npt.NDArray[np.float32]]:
        """float32[dim] for each text: the rows of `embed_query`, for a message of several clauses."""
        return [self.embed_query(text) for text in texts]


class _WithDefaults(Embedder):
    """Wraps an embedder of another class and adds the defaults that it lacks."""

    def __init__(self, inner: Any) -> None:
        self.identity, self.dim = inner.identity, inner.dim
        for name in ("is_instant", "is_english", "scale", "embed", "embed_query", "embed_queries"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        raise NotImplementedError  # the instance's own attribute stands in front of this


def as_embedder(embedder: EmbedsTexts) -> Embedder:
    """The embedder, with defaults for the members of `Embedder` that it lacks.

    Raises InvalidInput if it lacks a member of `EmbedsTexts`; the message names it.
    """
    if fault := fault_of(embedder):
        raise InvalidInput(f"embedder: is {fault}, must be an Embedder")
    return embedder if isinstance(embedder, Embedder) else _WithDefaults(embedder)


def fault_of(embedder: object) -> str:
    """The reason why an object is no embedder, for a message, such as "a Words without dim"; else ""."""
    if isinstance(embedder, type):
        return f"the class {embedder.__name__} instead of an object of it"
    kind = f"a {type(embedder).__name__}"
    if missing := [member for member in _MEMBERS if not hasattr(embedder, member)]:
        return f"{kind} without {' and '.join(missing)}"
    embed, identity, dim = (getattr(embedder, member) for member in _MEMBERS)
    if not callable(embed):
        return f"{kind} whose embed is {quoted(embed)} instead of a method"
    if not isinstance(identity, str) or not identity:
        return f"{kind} whose identity is {quoted(identity)} instead of a text such as 'name@revision'"
    if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool) or dim < 1:
        return f"{kind} whose dim is {quoted(dim)} instead of a whole number above 0"
    return ""


# Score difference that equals one nat of the odds of a call, by maximum likelihood over the 40 best tools:
# 0.10 on metatool and multiturn, 0.08 on azure-cli, 0.12 on toolret-4, and with MiniLM 0.085
# (`python -m bench.quality.temperature FOLDER`).
TEMPERATURE = 0.1

MEAN, SPREAD = 0.05, 0.076  # cosines of the pairs below, for all-MiniLM-L6-v2
_SQUARE_TOLERANCE = 0.01  # how far the square of a row's length may be from 1
_LEAST_SPREAD = 0.005  # a smaller spread is not stretched

# Eight messages and a tool for each; every other pair is unrelated.
_MESSAGES = (
    "Will it rain in Oslo on Sunday?",
    "Send Anna the minutes of yesterday's call",
    "How many euros are 300 dollars?",
    "Play something quiet by Miles Davis",
    "Who won the match between Ajax and Porto?",
    "Restart the web server on the staging machine",
    "I need a recipe with lentils and spinach",
    "Translate this letter into Portuguese",
)
_TOOLS = (
    "get forecast: Weather forecast for a city: temperature, rain and wind for the next days.",
    "send email: Sends a message with attachments to one or more recipients.",
    "convert currency: Converts an amount from one currency into another at today's rate.",
    "play music: Plays a song, an album or a playlist on the speaker.",
    "sports results: Scores and tables of football leagues.",
    "run command: Runs a shell command on a remote host and returns what it prints.",
    "find recipes: Looks up recipes by their ingredients.",
    "translate text: Translates a text from one language into another.",
)
SAMPLES = (*_MESSAGES, *_TOOLS)


def scale_of(embedder: Embedder) -> Scale:
    """The embedder's own `scale`; if it has none, one that is measured by embedding 16 texts.

    Raises EmbedderUnavailable if the embedder fails, or does not answer with vectors.
    """
    if isinstance(embedder.scale, Scale):
        return embedder.scale
    vectors = vectors_of(embedder, SAMPLES)
    cosines = vectors[: len(_MESSAGES)] @ vectors[len(_MESSAGES) :].T
    unrelated = cosines[~np.eye(len(_MESSAGES), dtype=np.bool_)]
    spread = max(float(unrelated.std()), _LEAST_SPREAD)
    gain = SPREAD / spread
    return Scale(gain, float(unrelated.mean()) - MEAN / gain, vectors.mean(0, dtype=np.float32).tobytes())


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """float32[n, dim], contiguous: a row for each text, by `embed`.

    Raises EmbedderUnavailable if the embedder fails, or does not answer with a vector for each text.
    """
    return _checked(embedder, lambda: embedder.embed(texts), len(texts))


def query_vectors_of(embedder: Embedder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """float32[n, dim], contiguous: a row for each text, by `embed_queries`.

    Raises EmbedderUnavailable if the embedder fails, or does not answer with a vector for each text.
    """
    if not texts:
        return np.empty((0, embedder.dim), np.float32)
    return _checked(embedder, lambda: list(embedder.embed_queries(texts)), len(texts))


def _checked(embedder: Embedder, ask: Callable[[], object], count: int) -> npt.NDArray[np.float32]:
    try:
        answer = ask()
    except EmbedderUnavailable:
        raise
    except Exception as error:
        raise EmbedderUnavailable(f"embedder {embedder.identity}: {error or type(error).__name__}") from error
    return unit_rows(answer, count, embedder.dim, embedder.identity)


def unit_rows(answer: object, count: int, dim: int, identity: str) -> npt.NDArray[np.float32]:
    """The answer as contiguous float32[count, dim], copied only if needed; each row has length 1 or 0.

    Raises:
        EmbedderUnavailable: the answer is no array of that shape, or a row has another length or holds NaN.
    """
    try:
        rows = np.asarray(answer, np.float32, order="C")
    except (TypeError, ValueError) as error:
        raise EmbedderUnavailable(f"embedder {identity}: its answer is no array: {error}") from error
    if rows.shape != (count, dim):
        raise EmbedderUnavailable(
            f"embedder {identity}: answered {count} texts with shape {rows.shape}, must be ({count}, {dim})"
        )
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    wrong = np.flatnonzero(~((np.abs(squares - 1) <= _SQUARE_TOLERANCE) | (squares == 0)))  # NaN is neither
    if len(wrong):
        raise EmbedderUnavailable(
            f"embedder {identity}: row {wrong[0]} has length {np.sqrt(squares[wrong[0]]):.6g}, "
            "must be 1 (or 0: nothing known)"
        )
    return rows
