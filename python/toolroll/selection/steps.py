"""The caller's own steps in every selection: they leave tools out, or change scores.

A step has a method `narrow`, a method `rerank`, or both. It needs no base class and nothing of this package.
It can never bring back a tool that is denied, or one that the core did not consider: `narrow` only keeps
allowed tools, and `rerank` returns numbers. A step that fails changes nothing and is named in `degraded`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.model.argument_checks import items_of
from toolroll.model.arrays import Rows, Scores
from toolroll.model.context import Context, Turn, names
from toolroll.model.errors import Failure, InvalidInput, quoted
from toolroll.model.tools import Tool
from toolroll.selection.candidates import Candidates
from toolroll.selection.picker import NamedRerank
from toolroll.selection.visible import VisibleTools


@dataclass(frozen=True, slots=True)
class StepTurn:
    """The turn as a step sees it.

    Attributes:
        message: the user's message.
        context: who asks, and from where.
        history: messages before this one that still count.
        k: how many tools the call asks for; None leaves it to the profile.
        seed: for random draws, so that a replay repeats them.
    """

    message: str
    context: Context
    history: tuple[str, ...]
    k: int | None
    seed: int


class NarrowingStep(Protocol):
    """A step before the core."""

    def narrow(self, allowed: VisibleTools, turn: StepTurn, /) -> Collection[str]:
        """The names of the tools that this turn may select.

        allowed: the tools that policy, settings and earlier steps leave; return it to keep all. Names of
            other tools are ignored; if no tool of the catalog has one of the names, the step has failed.
        """
        ...


class RerankingStep(Protocol):
    """A step after the core has ranked, and before it cuts to k."""

    def rerank(
        self, tools: Sequence[Tool], scores: npt.NDArray[np.float32], turn: StepTurn, /
    ) -> npt.ArrayLike | None:
        """A new score for each of these tools; None leaves the scores unchanged.

        The highest score comes first, and equal ones keep their order.

        tools: the best tools that were found, best first: as many as the profile's parameter `candidates`
            (20 by default), or k if k is larger. Core tools are not among them: they are always selected.
        scores: float32[n]; higher is better, and 0 is no evidence.
        """
        ...


Step: TypeAlias = NarrowingStep | RerankingStep


class OwnStep(NamedTuple):
    """A step with the name that trails, events and failures give it."""

    name: str
    narrow: Callable[[VisibleTools, StepTurn], Collection[str]] | None
    rerank: Callable[[Sequence[Tool], npt.NDArray[np.float32], StepTurn], npt.ArrayLike | None] | None


def own_steps(steps: Iterable[Step]) -> tuple[OwnStep, ...]:
    """The steps with their names: the attribute `name` of each, or the name of its class.

    Raises:
        InvalidInput: one has neither method, a method is a coroutine function, or two have one name.
    """
    found: list[OwnStep] = []
    for step in items_of(steps, "steps"):
        methods: dict[str, Any] = {}
        for method in ("narrow", "rerank"):
            call = methods[method] = getattr(step, method, None)
            if call is not None and (not callable(call) or inspect.iscoroutinefunction(call)):
                raise InvalidInput(f"steps: {method} of {quoted(step)} must be a plain method")
        name = getattr(step, "name", None) or type(step).__name__
        if isinstance(step, type):
            raise InvalidInput(f"steps: {quoted(step)} is a class, must be an instance of it")
        if not any(methods.values()):
            raise InvalidInput(f"steps: {quoted(step)} must be an object with a method narrow or rerank")
        if not isinstance(name, str) or not name.isprintable():
            raise InvalidInput(f"steps: name {quoted(name)} must be a line of printable text")
        if any(name == other.name for other in found):
            raise InvalidInput(f"steps: name {quoted(name)} must be a name that no other step has")
        found.append(OwnStep(name, **methods))
    return tuple(found)


class TurnSteps:
    """The steps of one turn."""

    def __init__(
        self, steps: Sequence[OwnStep], catalog: Catalog, turn: Turn, failures: list[Failure]
    ) -> None:
        """failures: a failure is added for each step that fails."""
        self._steps, self._catalog, self._failures = steps, catalog, failures
        self._turn = StepTurn(
            turn.text, turn.context, tuple([text for text, *_ in turn.earlier]), turn.k, turn.seed
        )

    def narrowed(self, candidates: Candidates) -> Candidates:
        """The candidates that all steps keep."""
        for step in self._steps:
            if step.narrow is not None:
                candidates = self._narrowed(step, candidates)
        return candidates

    def _narrowed(self, step: OwnStep, candidates: Candidates) -> Candidates:
        assert step.narrow is not None and candidates.pool is not None
        allowed, known = VisibleTools(self._catalog, candidates.pool), self._catalog.names
        try:
            kept = step.narrow(allowed, self._turn)
            if kept is allowed:
                return candidates
            wanted = names(kept, "narrow: the result")
            rows = [known[name] for name in wanted if name in known]
            if wanted and not rows:
                raise InvalidInput(f"narrow: holds {quoted(wanted[0])} and no name of a tool")
            narrowed = candidates.narrow(
                Bitset.of(len(self._catalog), np.array(rows, np.int32)), f"step {step.name}"
            )
        except Exception as error:
            self._failed(step, error)
            return candidates
        return candidates if len(narrowed) == len(candidates) else narrowed

    @property
    def reranks(self) -> list[NamedRerank]:
        """For each reranking step, its name and a function of rows and scores that never raises."""
        return [(step.name, self._reranked(step)) for step in self._steps if step.rerank is not None]

    def _reranked(self, step: OwnStep) -> Callable[[Rows, Scores], Scores | None]:
        rerank, all_tools = step.rerank, self._catalog.tools
        assert rerank is not None

        def scores_of(rows: Rows, scores: Scores) -> Scores | None:
            try:
                given = rerank([all_tools[row] for row in rows.tolist()], scores.copy(), self._turn)
                if given is None:
                    return None
                values = np.asarray(given)
                if values.dtype.kind not in "biufO":
                    raise InvalidInput(f"rerank: holds {quoted(given)}, must hold real numbers")
                found = values.astype(np.float32)
                if found.shape != scores.shape:
                    raise InvalidInput(
                        f"rerank: has shape {found.shape}, must be {scores.shape}: a score each"
                    )
                if not np.isfinite(found).all():
                    raise InvalidInput("rerank: a score is NaN or infinite, must be finite")
                return None if np.array_equal(found, scores) else found
            except Exception as error:
                self._failed(step, error)
                return None

        return scores_of

    def _failed(self, step: OwnStep, error: Exception) -> None:
        self._failures.append(Failure(f"step {step.name}", error))
