"""Faults of stages and of the embedder, put into a pipeline by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toolroll._core import Bitset
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.context import Turn
from toolroll.model.embedder import Embedder
from toolroll.model.errors import EmbedderUnavailable
from toolroll.selection.candidates import Candidates
from toolroll.selection.pipeline import Pipeline

# The parts of a pipeline: a tuple of stages, one stage, and one call into the core.
HARD = "hard"
STAGES = ("required", "continued")
PICKERS = ("whole", "everything", "soft", "search")
SOFT = (*STAGES, *PICKERS)


def _raise(candidates: Candidates) -> None:
    raise RuntimeError("out of order")


def _larger(candidates: Candidates) -> Candidates:
    size = candidates.allowed.size
    full = Bitset.full(size if len(candidates.allowed) < size else size + 1)  # in any case too many
    return replace(candidates, allowed=full, pool=full)


def _outside(candidates: Candidates) -> Candidates:
    rows = np.arange(candidates.allowed.size, dtype=np.int32) + 1
    return replace(candidates, pool=None, rows=rows, scores=rows.astype(np.float32))


def _ragged(candidates: Candidates) -> Candidates:
    return replace(candidates, pool=None, rows=candidates.allowed.rows(), scores=np.zeros(999, np.float32))


FAULTS: dict[str, Callable[[Candidates], Any]] = {
    "raises": _raise,
    "None": lambda candidates: None,
    "text": lambda candidates: "candidates",
    "larger": _larger,
    "outside": _outside,
    "ragged": _ragged,
}


class Faulty:
    """A stage that fails in place of another one, whose name and bounds it has."""

    def __init__(self, stage: Any, kind: str) -> None:
        self.kind = kind
        if hasattr(stage, "could_forbid"):
            self.could_forbid = stage.could_forbid

    def __call__(self, candidates: Candidates, turn: Turn) -> Any:
        return FAULTS[self.kind](candidates)


class FaultySelector:
    """Fails in place of the core."""

    def pick(self, turn: object) -> object:
        raise RuntimeError("out of order")


@dataclass(frozen=True)
class Fault:
    """Something that fails.

    Attributes:
        name: of the part that fails, with the way in which it does.
        is_hard: whether it is a stage that forbids: then answers may shrink.
        pipeline: with the fault in it.
    """

    name: str
    is_hard: bool
    pipeline: Pipeline


def with_fault(pipeline: Pipeline, part: str, kind: str, at: int = 0) -> Pipeline:
    """The pipeline in which this part fails. at: of the hard stages."""
    one = getattr(pipeline, part)
    if part == HARD:
        return replace(pipeline, hard=(*one[:at], Faulty(one[at], kind), *one[at + 1 :]))
    if part in STAGES:
        return replace(pipeline, **{part: Faulty(one, kind)})
    return replace(pipeline, **{part: replace(one, selector=FaultySelector())})


def fault(draw: random.Random, pipeline: Pipeline, *, rules: bool) -> Fault:
    """Any fault: of a hard stage, of a later part, of the embedder or, with `rules`, of a rule."""
    part = draw.choice(("embedder", *(["rule"] * 3 if rules else []), HARD, HARD, HARD, *SOFT))
    if part in ("embedder", "rule"):
        return Fault(part, False, pipeline)
    kind, at = draw.choice(list(FAULTS)), draw.randrange(len(pipeline.hard))
    return Fault(f"{part} {kind}", part == HARD, with_fault(pipeline, part, kind, at))


class Flaky(Embedder):
    """The built-in embedder, until it is told to fail."""

    MODES = ("unavailable", "raises", "None", "nan", "narrow", "short")

    def __init__(self) -> None:
        self._inner = StaticEmbedder()
        self.identity, self.dim = self._inner.identity, self._inner.dim
        self.is_instant, self.is_english, self.scale = True, True, self._inner.scale
        self.mode = ""

    def embed(self, texts: Any) -> Any:
        vectors = self._inner.embed(texts)
        if self.mode == "unavailable":
            raise EmbedderUnavailable("out of order")
        if self.mode == "raises":
            raise RuntimeError("out of order")
        changed = {
            "": vectors,
            "None": None,
            "nan": np.full_like(vectors, np.nan),
            "narrow": vectors[:, :3],
            "short": vectors[:0],
        }
        return changed[self.mode]
