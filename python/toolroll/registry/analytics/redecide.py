"""Decides logged events again: under another profile, with today's tools and earlier statistics."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

from toolroll._core import Learned, LearningRates
from toolroll.registry.editing.vectors import StoredEmbedder
from toolroll.registry.events.event_row import candidates_of
from toolroll.registry.events.fold import fold, outcomes_of
from toolroll.registry.events.replay import NotReplayable, turn_of
from toolroll.registry.events.rows import OutcomeRow, seconds
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.store.database import Database
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.selection import Selection

_CHUNK = 1_000  # outcomes in one read
_OTHER_SEED = 0x9E3779B97F4A7C15  # changes a seed, so that the new draw is independent of the logged one


@dataclass(slots=True)
class _FoldPosition:
    """How far an organisation's outcomes are folded.

    Attributes:
        pending: outcomes that were read but not folded yet.
        seq: the number of the last outcome that was read.
        is_last: whether all outcomes were read.
    """

    learned: Learned
    pending: deque[OutcomeRow] = field(default_factory=deque)
    seq: int = 0
    is_last: bool = False


class Redecider:
    """Decides rows of events again, each organisation's oldest first. Not safe to share between threads."""

    def __init__(self, database: Database, builder: PipelineBuilder, at: datetime | None = None) -> None:
        """Reads the registry and builds the shared catalog under the builder's profile.

        at: decides every event as if it happened at this time; None for the time of each event.

        Raises:
            StoreUnavailable: the registry cannot be read.
            InvalidDefinition: its tools do not form a valid catalog.
        """
        embedder = builder.embedder
        if embedder is not None and not embedder.is_instant:
            builder = replace(builder, embedder=StoredEmbedder(embedder, database))
        self._database, self._builder = database, builder
        self._at = None if at is None else seconds(at)
        self._replica = catch_up(database, Replica())
        on_error = builder.parameters.on_policy_error
        self._in_force = EffectivePolicy.of(self._replica.policy_source, on_error, None)
        self._shared = builder.pipeline(self._replica.definitions(""), self._in_force)
        self._own: dict[str, Pipeline] = {}
        self._states: dict[str, _FoldPosition] = {}

    @property
    def revision(self) -> int:
        """The registry's revision that provides tools and rules."""
        return self._replica.revision

    def restart(self) -> None:
        """Begins again, so that each organisation's next row may be its oldest."""
        self._states.clear()

    def __call__(self, row: Any) -> Mapping[str, float] | None:
        """Tool → the probability that the profile shows it; None if the event cannot be decided again."""
        selection = self.selection(row)
        if selection is None:
            return None
        candidates, error = candidates_of(selection)
        if error is None:  # without propensities, the selection itself counts
            return dict.fromkeys(selection.names, 1.0)
        chances = {name: propensity for name, *_, propensity in candidates.rows() if propensity}
        return {**dict.fromkeys(selection.names, 1.0), **chances}

    def selection(self, row: Any, allowed: Collection[str] = ()) -> Selection | None:
        """The selection, by a new draw; None if the event cannot be decided again.

        allowed: tools to include although the context excludes them.
        """
        if row.message_form != "kept":
            return None
        pipeline = self._pipeline(row.org)
        embedder = self._builder.embedder
        try:
            turn = turn_of(row, pipeline, embedder, self._learned(row), [])
        except NotReplayable:
            return None
        context = turn.context
        if allowed:
            kept = tuple(name for name in context.exclude if name not in allowed)
            context = replace(context, exclude=kept)
        at = turn.at if self._at is None else self._at
        turn = replace(turn, context=context, at=at, seed=turn.seed ^ _OTHER_SEED, variant="")
        return pipeline.decide(turn, row.event_id)

    def _pipeline(self, org: str) -> Pipeline:
        if org not in self._replica.orgs:
            return self._shared
        if org not in self._own:
            self._own[org] = self._builder.stacked(
                self._shared,
                self._replica.definitions(org),
                self._in_force.concerning(org),
                self._replica.pins_of(org),
            )
        return self._own[org]

    def _learned(self, row: Any) -> Learned:
        """The fold of the outcomes that were reported before this event, or before the fixed time."""
        embedder = self._builder.embedder
        dim, space = (0, "") if embedder is None else (embedder.dim, embedder.identity)
        state = self._states.setdefault(row.org, _FoldPosition(Learned(dim, LearningRates())))
        now, before = seconds(row.at) if self._at is None else self._at, list[OutcomeRow]()
        while True:
            if not state.pending and not state.is_last:
                with self._database.reading() as connection:
                    pending = islice(outcomes_of(connection, row.org, state.seq), _CHUNK)
                    state.pending.extend(pending)
                state.is_last = len(state.pending) < _CHUNK
                state.seq = state.pending[-1].seq if state.pending else state.seq
            if not state.pending or state.pending[0].received_at > now:
                break
            before.append(state.pending.popleft())
        if before:
            state.learned = fold(state.learned, before, dim, space)
        return state.learned
