"""An embedder with planned cosines, for tests that must reproduce a system's own numbers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from toolroll.model.embedder import Scale
from toolroll.model.errors import EmbedderUnavailable

_DIM = 1_024
EVERY = ""  # plans for every message that has none of its own

Cosines = Mapping[str, float]  # what stands in a text → its cosine with the message


class PlannedEmbedder:
    """Texts with what is planned in them have that cosine with a message; all others are far from everything."""

    is_instant = True
    identity = "planned@1"
    dim = _DIM
    scale = Scale()  # so that a score is the cosine

    def __init__(self, plans: Cosines | Mapping[str, Cosines]) -> None:
        """plans: of each message, or of every message."""
        by_message = all(isinstance(plan, Mapping) for plan in plans.values())
        self.plans: Mapping[str, Cosines] = plans if by_message else {EVERY: plans}  # type: ignore[assignment]
        self.axes = {message: axis for axis, message in enumerate({**self.plans, EVERY: {}})}
        self.is_up = True
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Of tools and toolkits."""
        return np.array([self._vector(text) for text in texts], np.float32).reshape(len(texts), _DIM)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Of a message: an axis of its own, if there is a plan for it."""
        self.asked.append(text)
        if not self.is_up:
            raise EmbedderUnavailable("planned embedder: is down")
        vector = np.zeros(_DIM, np.float32)
        vector[self.axes.get(text, self.axes[EVERY])] = 1
        return vector

    def _vector(self, text: str) -> npt.NDArray[np.float64]:
        vector = np.zeros(_DIM)
        if ": " not in text:  # names of parameters say nothing, so that a tool's cosine is the planned one
            return vector
        for message, plan in self.plans.items():
            found = [cosine for part, cosine in plan.items() if part in text]
            vector[self.axes[message]] = found[0] if found else 0.0
        n = len(self.axes)
        vector[n + zlib.crc32(text.encode()) % (_DIM - n)] = np.sqrt(1 - vector @ vector)
        return vector
