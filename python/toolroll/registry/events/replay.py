"""Repeats the decision of a logged event to the last bit, or names the data that is missing.

A decision is a function of a catalog, rules and a turn. The event contains the turn. Tools, rules and page
mappings are read as of the event's registry revision; the statistics are folded from the outcomes that
counted then. A rebuilt catalog is correct if its revision equals the event's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll._core import Learned, latin_share
from toolroll.model.arrays import Part, Vector
from toolroll.model.context import Context, Turn
from toolroll.model.conversation import Conversation
from toolroll.model.embedder import Embedder, query_vectors_of
from toolroll.model.errors import EmbedderUnavailable, NotFound, ToolrollError
from toolroll.registry.events import priors
from toolroll.registry.events.details import read_event
from toolroll.registry.events.event_row import SelectionOrigin, event_row
from toolroll.registry.events.fold import fold_all, outcomes_of
from toolroll.registry.events.logged_tools import unsigned
from toolroll.registry.events.rows import Messages, exposure_in, seconds
from toolroll.registry.follow.history import as_of, earlier
from toolroll.registry.follow.replica import Replica
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, checked_text
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.selection import Selection

MOST_REVISIONS = 20  # in the search for an event's catalog
# Failures outside the stages; other columns of the event show their effect.
_NOT_STAGES = frozenset({"registry", "organisation", "embedder", "policy"})
_DESCRIBED = ("profile", "catalog_revision", "registry_revision", "learned_revision")
_EXACT = ("selected", "propensity_error", "confidence", "tokens_selected", "tokens_total")
_OF_CANDIDATES = ("score", "mean", "spread", "show", "propensity")


class NotReplayable(Exception):
    """Data that the decision needs is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class ReplayResult:
    """The result of a replay.

    Attributes:
        selection: the repeated decision; None if it is impossible.
        missing: a sentence for each missing part.
        differences: a sentence for each difference between event and selection.
    """

    event: SimpleNamespace
    selection: Selection | None
    missing: tuple[str, ...]
    differences: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether the selection equals the event, to the last bit."""
        return self.selection is not None and not self.missing and not self.differences

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without the user's text."""
        event, selection = self.event, self.selection
        return {
            "event_id": event.event_id,
            "same": self.is_same,
            "missing": list(self.missing),
            "differences": list(self.differences),
            "logged": list(event.selected),
            "decided": None if selection is None else list(selection.names),
            **{name: getattr(event, name) for name in _DESCRIBED},
            "degraded": list(event.degraded),
        }

    def __str__(self) -> str:
        of = f"event {self.event.event_id}"
        if self.selection is None:
            return "\n".join([f"{of}: cannot be decided again", *self._listed(self.missing)])
        if self.is_same:
            tools = len(self.event.selected)
            return f"{of}: decided again as it was, to the last bit ({tools} tools of {self.selection.total})"
        lines = [f"{of}: decided again" + (", not as it was" if self.differences else " as it was")]
        if self.missing:
            lines += ["without", *self._listed(self.missing)]
        if self.differences:
            lines += ["different", *self._listed(self.differences)]
        return "\n".join(lines)

    @staticmethod
    def _listed(sentences: tuple[str, ...]) -> Iterator[str]:
        return (f"  {sentence}" for sentence in sentences)


def replay(
    database: Database,
    event_id: str,
    builder_of: Callable[[str], PipelineBuilder],
    *,
    org: str | None = None,
    profile: str = "",
) -> ReplayResult:
    """Repeats the decision of an event.

    builder_of: name of a profile → its pipeline builder; may raise NotFound. org: the event's organisation;
        None for any. profile: decides under this profile instead of the event's own and its variant.

    Raises:
        NotFound: there is no such event.
        StoreUnavailable: the store does not answer.
    """
    event = _event(database, event_id, org)
    missing: list[str] = []
    try:
        builder = _builder(event, builder_of, profile)
        own = _builder(event, builder_of, "") if profile else builder
        selection = _decided(database, event, builder, own, missing)
    except NotReplayable as lost:
        return ReplayResult(event, None, (*missing, str(lost)), ())
    return ReplayResult(event, selection, tuple(missing), tuple(_differences(event, selection)))


def _event(database: Database, event_id: str, org: str | None) -> SimpleNamespace:
    with database.reading() as connection:
        event = read_event(connection, checked_text(event_id, "event"), org)
    if event is None or (org is not None and event.org != org):
        raise NotFound(
            f"event {event_id!r:.80}: is not in the store; it was never there, or it has been pruned"
        )
    return event


def _builder(
    event: SimpleNamespace, builder_of: Callable[[str], PipelineBuilder], profile: str
) -> PipelineBuilder:
    """The builder of the event's pipeline. A variant of an experiment is a profile over the same catalog."""
    try:
        builder = builder_of(profile or event.profile)
        if profile or not event.variant:
            return builder
        return replace(builder, variants={event.variant: builder_of(event.variant).parameters})
    except NotFound as error:
        raise NotReplayable(f"its profile is not known here: {error}") from error


def _decided(
    database: Database,
    event: SimpleNamespace,
    builder: PipelineBuilder,
    own: PipelineBuilder,
    missing: list[str],
) -> Selection:
    form = event.message_form
    if form != "kept":
        raise NotReplayable(f"its message was not kept: it was {form}")
    embedder, space = builder.embedder, event.space
    if space and (embedder is None or embedder.identity != space):
        here = "none" if embedder is None else embedder.identity
        raise NotReplayable(f"its message was embedded by {space}; the embedder here is {here}")
    pipeline = _pipeline(database, event, builder, own)
    pipeline = _with_steps(pipeline.variants.get(event.variant, pipeline), event, missing)
    learned = _learned(database, event, embedder)
    return pipeline.decide(turn_of(event, pipeline, embedder, learned, missing), event.event_id)


def _with_steps(pipeline: Pipeline, event: SimpleNamespace, missing: list[str]) -> Pipeline:
    """The pipeline with the caller's steps in the event, as far as they are installed here."""
    installed, named = {step.name: step for step in pipeline.steps}, event.limits.get("steps", ())
    if absent := [name for name in named if name not in installed]:
        missing.append(f"its steps are not installed here: {', '.join(absent)}")
    return replace(pipeline, steps=tuple([installed[name] for name in named if name in installed]))


# The catalog and the rules.


def _pipeline(
    database: Database, event: SimpleNamespace, builder: PipelineBuilder, own: PipelineBuilder
) -> Pipeline:
    """The event's catalog under the rules of its time, built by `builder`.

    own: the builder of the event's own profile, whose catalog has the revision in the event.
    """
    org, revision = event.org, event.registry_revision
    try:
        now = as_of(database, revision, [org])
    except NotFound as error:
        raise NotReplayable(str(error)) from error
    in_force = EffectivePolicy.of(now.policy_source, builder.parameters.on_policy_error, None).concerning(org)
    # Catalogs are built in the background, so the catalog may be older than the rules.
    tried: list[tuple[object, ...]] = []
    for number in (revision, *earlier(database, revision, [org], MOST_REVISIONS)):
        try:
            was = now if number == revision else as_of(database, number, [org])
        except NotFound as error:
            raise NotReplayable(str(error)) from error
        definitions = (was.definitions(""), was.definitions(org), was.pins_of(org))
        if definitions in tried:
            continue
        tried.append(definitions)
        for at, pipeline in enumerate(_built(own, event, was, in_force)):
            if pipeline.catalog.revision == event.catalog_revision:
                if builder is not own:
                    pipeline = next(islice(_built(builder, event, was, in_force), at, None), pipeline)
                return pipeline.without(_inactive_names(was, now, org))
    raise NotReplayable(
        f"catalog {event.catalog_revision} cannot be rebuilt from registry revision {revision}, nor from the "
        f"{len(tried) - 1} before it: another version of toolroll or of its embedder built it, or it is not "
        "from this registry"
    )


def _built(
    builder: PipelineBuilder, event: SimpleNamespace, was: Replica, in_force: EffectivePolicy
) -> Iterator[Pipeline]:
    """The pipelines that may have decided, the most likely first."""
    org = event.org
    ways = [builder]
    if builder.embedder is not None and not event.space:
        ways.append(replace(builder, embedder=None))  # it was not available
    for way in ways:
        try:
            shared = way.pipeline(was.definitions(""), in_force)
            if org in was.orgs:
                yield way.stacked(shared, was.definitions(org), in_force, was.pins_of(org))
            yield shared
        except EmbedderUnavailable as error:
            raise NotReplayable(f"the embedder does not answer: {error}") from error
        except ToolrollError:
            continue  # without a catalog there was no decision


def _inactive_names(was: Replica, now: Replica, org: str) -> frozenset[str]:
    """Names of tools in the index that were inactive by then."""
    gone = set()
    for whose in {"", org}:
        active = {tool.name for tool in now.definitions(whose).tools if tool.status == "active"}
        gone |= {tool.name for tool in was.definitions(whose).tools} - active
    return frozenset(gone)


# The turn.


def turn_of(
    event: SimpleNamespace,
    pipeline: Pipeline,
    embedder: Embedder | None,
    learned: Learned | None,
    missing: list[str],
) -> Turn:
    """The turn of an event with a kept message, for this pipeline. Raises NotReplayable.

    missing: gets a sentence for each missing part.
    """
    limits = event.limits
    fields: dict[str, Any] = {name: getattr(event, name) for name in ("org", "tier", "page", "session")}
    fields |= {name: tuple(one) if isinstance(one, list) else one for name, one in event.context.items()}
    context = Context(**fields)
    reading = pipeline.reader.read(event.message, visible=lambda: pipeline.allowed(Turn("", context)))
    asks = bool(event.space) or _was_spared(event, pipeline, Turn(reading.text, context))
    embed = _Embedding(embedder if pipeline.catalog.dim and asks else None)
    is_search = limits.get("is_search", False)
    vector = _message_vector(event, embed(reading.query), missing)
    kept = limits.get("conversation")
    conversation = None if kept is None else Conversation.from_record(kept)
    earlier = tuple((text, float(weight)) for text, weight in limits["earlier"])
    parts: list[Part] = [
        (text, embed(text), embed.trust(text), weight)
        for text, weight in (*((text, 1.0) for text, *_ in reading.clauses), *earlier)
    ]
    return Turn(
        text=reading.text,
        context=context,
        vector=vector,
        k=limits["k"],
        max_tools=limits["max_tools"],
        budget_tokens=limits["budget_tokens"],
        always_include=tuple(limits["always_include"]),
        sent=tuple(limits["sent"]),
        seed=unsigned(event.seed),
        query=reading.query,
        trust=embed.trust(reading.query),
        clauses=tuple(parts[: len(reading.clauses)]),
        earlier=tuple(parts[len(reading.clauses) :]),
        at=seconds(event.at),
        learned=learned,
        category=event.category,
        conversation=conversation,
        is_search=is_search,
        room=1.0 if is_search else pipeline.retention.room(conversation),
        variant=event.variant,
        steps=tuple(limits.get("steps", ())),
    )


def _was_spared(event: SimpleNamespace, pipeline: Pipeline, turn: Turn) -> bool:
    """Whether the event's own profile needed no vector of the message, but this pipeline does."""
    is_ranked = not turn.context.required and not turn.context.everything
    return is_ranked and "embedder" not in event.degraded and pipeline.reads_vector(turn)


class _Embedding:
    """Vectors and weights of texts, as in the engine."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._is_english = embedder is not None and embedder.is_english

    def __call__(self, text: str) -> Vector | None:
        if self._embedder is None:
            return None
        try:
            vector: Vector = query_vectors_of(self._embedder, [text])[0]
            return vector
        except Exception as error:  # a foreign server may raise anything
            raise NotReplayable(f"the embedder does not answer: {error}") from error

    def trust(self, text: str) -> float:
        return 1.0 if not self._is_english or text.isascii() else latin_share(text)


def _message_vector(event: SimpleNamespace, now: Vector | None, missing: list[str]) -> Vector | None:
    """The message's vector: the embedder's, if it equals the logged one in half precision."""
    kept = event.vector
    if now is None or kept is None or now.astype("<f2").tobytes() == kept:
        return now
    missing.append(
        "the vector of its message is not the embedder's: the caller passed one, or the embedder has "
        "changed; the logged vector is used, in half precision"
    )
    vector = np.frombuffer(kept, "<f2").astype(np.float32)
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


# The learnt statistics.


def _learned(database: Database, event: SimpleNamespace, embedder: Embedder | None) -> Learned | None:
    """The organisation's statistics at that time, including outcomes that were voided later."""
    org, revision = event.org, event.learned_revision
    if revision < 0:
        raise NotReplayable("which outcomes had counted was no longer known when it was written")
    dim, space = (0, "") if embedder is None else (embedder.dim, embedder.identity)
    table, state = tables.outcomes, tables.learning_state
    with database.reading() as connection:
        query = sa.select(state.c.seq, state.c.priors).where(state.c.org == org)
        known = connection.execute(query).first()
        seq, release = (0, 0) if known is None else known
        if seq < revision:
            raise NotReplayable(f"{revision} outcomes had counted, and the store has {seq}")
        if not revision:
            release = priors.latest_release(connection, event.at)
        learned = priors.beginning(connection, release, dim)
        if not revision:
            return learned if learned.revision else None
        voided = sa.select(table.c.seq).where(
            table.c.org == org, table.c.seq <= revision, table.c.voided_at <= event.at
        )
        gone = set(connection.execute(voided).scalars())
        rows = outcomes_of(connection, org, 0, revision, voided=True)
        return fold_all(learned, (row for row in rows if row.seq not in gone), dim, space)


# The differences.


def _differences(event: SimpleNamespace, selection: Selection) -> Iterator[str]:
    """The differences between the event's row and the repeated selection's row."""
    names = ("registry_revision", "learned_revision", "profile", "experiment", "variant")
    origin = SelectionOrigin(*(getattr(event, name) for name in names))
    has_odds = event.propensity_error is not None  # omitted under load
    now = event_row(selection, exposure_in(event), origin, Messages("dropped"), has_odds=has_odds)
    for name in _EXACT:
        was = getattr(event, name)
        if now[name] != was:
            yield f"{name}: {_shown(was)} → {_shown(now[name])}"
    before, after = set(event.degraded) - _NOT_STAGES, set(now["degraded"]) - _NOT_STAGES
    if before != after:
        yield f"failed: {_shown(sorted(before))} → {_shown(sorted(after))}"
    old_numbers = {name: numbers for name, *numbers in event.candidates}
    new_numbers = {name: numbers for name, *numbers in now["candidates"].rows()}
    if list(old_numbers) != list(new_numbers):
        yield f"candidates: {_shown(list(old_numbers))} → {_shown(list(new_numbers))}"
    for name in old_numbers.keys() & new_numbers.keys():
        for what, old, new in zip(_OF_CANDIDATES, old_numbers[name], new_numbers[name], strict=True):
            if old != new:
                yield f"{what} of {name}: {_shown(old)} → {_shown(new)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    return "none" if value is None else repr(value)
