"""What the shell implements and everybody else sees: protocols, no classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from toolroll.errors import EmbedderUnavailable


class Embedder(Protocol):
    """Turns texts into unit vectors whose inner product says how much two texts have in common.

    A vector is a function of its text and of `identity` alone, whatever else is embedded beside it. Any str
    is accepted: empty, a megabyte long, with NUL or lone surrogates. A zero row means that nothing is known
    of the text; it matches nothing. Calls from several threads are safe. Failing raises EmbedderUnavailable.

    Two attributes may be left out. `is_english` (bool): it has learnt English alone, so of a text in another
    script its vector says nothing. `scale` (`toolroll.embedder.Scale`): how its cosines compare to others';
    measured where it is missing.
    """

    @property
    def identity(self) -> str:
        """`name@revision`: keys every cache, and vectors of two identities are never compared."""
        ...

    @property
    def dim(self) -> int:
        """Width of a vector."""
        ...

    @property
    def is_instant(self) -> bool:
        """Whether a message is embedded without waiting, so that an event loop may do it itself."""
        ...

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], a row for each text, each of unit length or zero."""
        ...

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim]: the row that `embed([text])` gives, for the one message that a turn has."""
        ...


# Units of score that are one nat of the odds of being called, by maximum likelihood over the 40 best tools:
# 0.10 on metatool and multiturn, 0.08 on azure-cli, 0.12 on toolret-4, and with MiniLM 0.085
# (`python -m bench.quality.temperature FOLDER`).
TEMPERATURE = 0.1

MEAN, SPREAD = 0.05, 0.076  # of the pairs below for all-MiniLM-L6-v2
_LEAST_SPREAD = 0.005  # below it there is nothing to stretch

# Eight messages, and eight tools that have nothing to do with any but their own.
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


@dataclass(frozen=True, slots=True)
class Scale:
    """cosine on the common scale = gain * (cosine - floor).

    Attributes:
        gain: at least 0.
        floor: the cosine that stands for 0.
    """

    gain: float = 1.0
    floor: float = 0.0


def scale_of(embedder: Embedder) -> Scale:
    """The embedder's own `scale` where it has one, else what the pairs say: 16 texts are embedded.

    Raises:
        EmbedderUnavailable: the embedder fails, or answers what is no vector.
    """
    own = getattr(embedder, "scale", None)
    if isinstance(own, Scale):
        return own
    vectors = vectors_of(embedder, SAMPLES)
    cosines = vectors[: len(_MESSAGES)] @ vectors[len(_MESSAGES) :].T
    unrelated = cosines[~np.eye(len(_MESSAGES), dtype=np.bool_)]
    spread = max(float(unrelated.std()), _LEAST_SPREAD)
    gain = SPREAD / spread
    return Scale(gain, float(unrelated.mean()) - MEAN / gain)


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """float32[n, dim], a row for each text.

    Raises:
        EmbedderUnavailable: the embedder fails, or answers what is no vector for each text.
    """
    try:
        vectors = np.asarray(embedder.embed(texts), np.float32)
    except EmbedderUnavailable:
        raise
    except Exception as error:
        raise EmbedderUnavailable(f"embedder {embedder.identity}: {error or type(error).__name__}") from error
    if vectors.shape != (len(texts), embedder.dim) or not np.isfinite(vectors).all():
        raise EmbedderUnavailable(
            f"embedder {embedder.identity}: answered {len(texts)} texts with shape {vectors.shape}, must be "
            f"({len(texts)}, {embedder.dim}) and finite"
        )
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    wrong = np.flatnonzero((np.abs(squares - 1) > 0.01) & (squares != 0))
    if len(wrong):
        raise EmbedderUnavailable(
            f"embedder {embedder.identity}: row {wrong[0]} has length {np.sqrt(squares[wrong[0]]):.3g}, "
            "must be 1 (or 0: nothing known)"
        )
    return vectors
