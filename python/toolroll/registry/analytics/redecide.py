"""Decides logged events again under another profile: with the tools of now, and with what was known then."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from toolroll._core import Learned, LearningRates
from toolroll.registry.events.event_row import candidates_of
from toolroll.registry.events.fold import fold, outcomes_of
from toolroll.registry.events.replay import NotReplayable, turn_of
from toolroll.registry.events.rows import OutcomeRow, seconds
from toolroll.registry.replica import Replica, catch_up
from toolroll.registry.store.database import Database
from toolroll.registry.vectors import StoredEmbedder
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress

_CHUNK = 1_000  # outcomes that are read at a time
_OTHERWISE = (
    0x9E3779B97F4A7C15  # turns a seed into another: what is drawn now owes nothing to the logged draw
)


@dataclass(slots=True)
class _Known:
    """What an organisation's outcomes have taught so far.

    Attributes:
        learned: the outcomes up to here, folded.
        coming: read and not folded yet.
        seq: of the last one read.
        is_last: whether there are no more to read.
    """

    learned: Learned
    coming: deque[OutcomeRow] = field(default_factory=deque)
    seq: int = 0
    is_last: bool = False


class Redecider:
    """Takes the rows of events, each organisation's oldest first. Not for several threads."""

    def __init__(
        self,
        database: Database,
        builder: PipelineBuilder,
        rates: LearningRates | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Reads the registry as it is and builds the shared catalog under the profile of the assembly.

        Raises:
            StoreUnavailable: the registry cannot be read.
            InvalidDefinition: what is in it makes no catalog.
        """
        embedder = builder.embedder
        if embedder is not None and not embedder.is_instant:
            builder = replace(builder, embedder=StoredEmbedder(embedder, database))
        self._database, self._builder = database, builder
        self._rates = rates or LearningRates()
        self._replica = catch_up(database, Replica())
        on_error = builder.parameters.on_policy_error
        self._in_force = EffectivePolicy.of(self._replica.policy_source, on_error, None)
        self._shared = builder.pipeline(self._replica.definitions(""), self._in_force, progress)
        self._own: dict[str, Pipeline] = {}
        self._known: dict[str, _Known] = {}

    def __call__(self, row: Any) -> Mapping[str, float] | None:
        """Tool → how probable it is that the profile shows it; None where that cannot be known."""
        if row.message_form != "kept":
            return None
        pipeline = self._pipeline(row.org)
        embedder = self._builder.embedder
        try:
            turn = turn_of(row, pipeline, embedder, self._learned(row), [])
        except NotReplayable:
            return None
        selection = pipeline.decide(replace(turn, seed=turn.seed ^ _OTHERWISE, variant=""), row.event_id)
        candidates, error = candidates_of(selection)
        if error is None:  # a draw whose probabilities nobody knows stands for itself
            return dict.fromkeys(selection.names, 1.0)
        chances = {name: propensity for name, *_, propensity in candidates if propensity}
        return {**dict.fromkeys(selection.names, 1.0), **chances}

    def _pipeline(self, org: str) -> Pipeline:
        if org not in self._replica.orgs:
            return self._shared
        if org not in self._own:
            self._own[org] = self._builder.stacked(
                self._shared, self._replica.definitions(org), self._in_force.concerning(org)
            )
        return self._own[org]

    def _learned(self, row: Any) -> Learned:
        """What had been reported of the organisation's events when this one was decided."""
        embedder = self._builder.embedder
        dim, space = (0, "") if embedder is None else (embedder.dim, embedder.identity)
        known = self._known.setdefault(row.org, _Known(Learned(dim, self._rates)))
        now, before = seconds(row.at), list[OutcomeRow]()
        while True:
            if not known.coming and not known.is_last:
                with self._database.reading() as connection:
                    coming = islice(outcomes_of(connection, row.org, known.seq), _CHUNK)
                    known.coming.extend(coming)
                known.is_last = len(known.coming) < _CHUNK
                known.seq = known.coming[-1].seq if known.coming else known.seq
            if not known.coming or known.coming[0].received_at > now:
                break
            before.append(known.coming.popleft())
        if before:
            known.learned = fold(known.learned, before, dim, space)
        return known.learned
