"""The engine of a `Toolroll`: gathers what a decision needs, decides, logs, and keeps the snapshot in use."""

from __future__ import annotations

import logging
import operator
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, Learned, Reading
from toolroll.catalog.background_graph import BackgroundGraph
from toolroll.embedders.static import StaticEmbedder
from toolroll.learning.categories import category
from toolroll.learning.exposure import Exposure
from toolroll.model.argument_checks import check_flag
from toolroll.model.arrays import Vector
from toolroll.model.context import Context, Turn, names
from toolroll.model.conversation import Conversation
from toolroll.model.embedder import Embedder
from toolroll.model.errors import (
    EmbedderUnavailable,
    Failure,
    InvalidInput,
    Overloaded,
    StoreUnavailable,
    Unavailable,
    quoted,
)
from toolroll.model.identity import key
from toolroll.model.tool_list import ToolList
from toolroll.model.tools import Tool
from toolroll.runtime.threads import CallPool, Full
from toolroll.selection.built_in_vector import built_in_vector
from toolroll.selection.calls import Calls, Denial, NoConversation
from toolroll.selection.compose import recomposed
from toolroll.selection.exposure import exposure_of
from toolroll.selection.listed_visibility import ListedVisibility
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.profiles import Profile
from toolroll.selection.random_bytes import random_bytes
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.telemetry import Counters, Telemetry
from toolroll.selection.visible import VisibleTools

_log = logging.getLogger("toolroll")

T = TypeVar("T")
_EMBEDDINGS = 32  # turns of event loops whose message may be embedded at the same time
_EMBEDDING_PATIENCE_S = 0.25  # how long such a turn waits for its thread
_OVERLOAD_S = 5.0  # without a refused call, until selections count as whole again

_ANYONE = Context()
_NOTHING_FAILED: tuple[Failure, ...] = ()
_NO_SETTINGS: frozenset[str] = frozenset()


def _nothing_learned(org: str) -> Learned | None:
    return None


def _ignore(*event: object) -> None:
    pass


def _random_seed() -> int:
    return int.from_bytes(random_bytes()[:8], "little")


@lru_cache(maxsize=4_096)
def _session_seed(org: str, session: str) -> int:
    return key("session", org, session)


class TurnOptions(TypedDict, total=False):
    """Keyword arguments of every `select`; see `Toolroll.select`."""

    max_tools: int | None
    budget_tokens: int | None
    always_include: Collection[str]
    vector: npt.ArrayLike | None
    strict: bool


class RequestOptions(TurnOptions, total=False):
    """Keyword arguments of `Toolroll.select`."""

    sent: Sequence[str]
    history: Sequence[object]


@dataclass(slots=True, eq=False)  # not frozen: as `Turn`
class SelectRequest:
    """One call of `select`. Immutable; `Toolroll.select` documents the fields.

    Attributes:
        shown: names that the same turn has shown before; None for the first step of a turn.
        event_id: the turn's event for a further step; "" for a new event.
        failures: failures of the conversation's state, which the selection names.
    """

    message: str
    context: Context | None = None
    k: int | None = None
    max_tools: int | None = None
    budget_tokens: int | None = None
    always_include: Collection[str] = ()
    sent: Sequence[str] = ()
    history: Sequence[object] = ()
    vector: npt.ArrayLike | None = None
    strict: bool = False
    shown: tuple[str, ...] | None = None
    event_id: str = ""
    failures: tuple[Failure, ...] = ()


class _TurnStart(NamedTuple):
    """A request with its message read but not yet embedded, and the snapshot and pipeline of its turn."""

    request: SelectRequest
    context: Context
    snapshot: Snapshot
    variant: str
    pipeline: Pipeline
    reading: Reading
    embedder: Embedder | None
    vector: Vector | None
    start_ns: int
    read_ns: int
    is_search: bool

    @property
    def tool_list(self) -> ToolList | None:
        """The request's list of tools, without hosted tools that this caller may not have."""
        return _listed_for(self.snapshot, self.context)


# For an engine over other tools: the base engine; its snapshot, and ours; the function that makes ours.
_Base: TypeAlias = "tuple[Engine, tuple[Snapshot, Snapshot] | None, Callable[[Snapshot], Snapshot]]"


class Engine(NoConversation):
    """Selects from the current snapshot. Safe to call from many threads: a turn reads `snapshot` once."""

    def __init__(
        self,
        snapshot: Snapshot,
        embedder: Embedder | None,
        *,
        learned: Callable[[str], Learned | None] = _nothing_learned,
        observe: Callable[[Selection], object] = _ignore,
        want: Callable[[str], object] = _ignore,
        expired: Callable[[], Failure | None] | None = None,
        clock: Callable[[], float] = time.time,
        draw: Callable[[], int] = _random_seed,
    ) -> None:
        """The callables run on the path of every selection, so none of them may wait.

        Args:
            snapshot: the first snapshot.
            embedder: embeds messages; None if the catalogs have no vectors.
            learned: returns the statistics of an organisation.
            observe: called with every selection.
            want: called with an organisation that selects before its own pipeline is built.
            expired: returns the failure of a policy that is too old; None if policies never expire.
            clock: seconds since the epoch.
            draw: the seed of a turn outside a session.
        """
        self._snapshot = snapshot
        self._embedder = embedder
        self._learned, self._observe, self._want = learned, observe, want
        self._expired, self._clock, self._draw = expired, clock, draw
        self._is_english = embedder is not None and embedder.is_english
        self._table = embedder.table if type(embedder) is StaticEmbedder else None
        self._is_built_in = isinstance(embedder, StaticEmbedder)
        # For event loops.
        self._embedding = CallPool(_EMBEDDINGS, "toolroll-embedding", patience_s=_EMBEDDING_PATIENCE_S)
        self.telemetry = Telemetry()
        self.graph = BackgroundGraph()
        self.graph.follow(snapshot.shared.catalog)
        self._catalog_since = clock()
        self.id = os.urandom(8).hex()  # names this engine in its turns
        self.used: dict[str, int] = {}  # organisation → when it last asked, for evicting the oldest pipeline
        # Of the last selection: a lasting failure is logged once. In a list, which `over` shares. As texts,
        # because an exception would keep the frames of its caller alive.
        self._failing: list[dict[str, str]] = [{}]
        # Under too much load, every other selection may be whole: that counts from this time on. Monotonic.
        self._overloaded_until = [0.0]
        self._visible: tuple[Snapshot, Context, VisibleTools] | None = None  # the last result of `visible`
        self._is_closed = [False]  # in a list too: engines made by `over` close with this one
        self._base: _Base | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the next turn will use."""
        if self._base is None:
            return self._snapshot
        # A list of tools that came with a request, under rules that may change.
        engine, seen, follow = self._base
        now = engine.snapshot
        if seen is not None and seen[0] is now:
            return seen[1]
        snapshot = self._snapshot = follow(now)
        self._base = engine, (now, snapshot), follow
        return snapshot

    @property
    def serving(self) -> Snapshot:
        """The snapshot for a turn that begins now.

        Raises:
            StoreUnavailable: `close` was called.
        """
        self.check_open()
        snapshot = self.snapshot
        if self._expired is None or (failure := self._expired()) is None:
            return snapshot
        return replace(snapshot, expired=failure)

    def check_open(self) -> None:
        """Checks that the engine is open: a closed one answers nothing about rules and takes no report.

        Raises:
            StoreUnavailable: `close` was called.
        """
        if self._is_closed[0]:
            raise StoreUnavailable(
                "this Toolroll is closed and no longer follows its registry: open it again"
            )

    def close(self) -> None:
        """Refuses all further turns. Turns that have begun finish."""
        self._is_closed[0] = True
        self.graph.stop()

    @property
    def failing(self) -> Mapping[str, str]:
        """Where → why: the failures of the last selection that are not lasting."""
        return self._failing[0]

    def swap(self, snapshot: Snapshot) -> None:
        """Replaces the snapshot. Turns that have begun finish with the old one."""
        was_whole = not self._snapshot.shared.lasting_failures
        if snapshot.shared.catalog is not self._snapshot.shared.catalog:
            self._catalog_since = self._clock()
        self._snapshot, self._visible = snapshot, None
        self.graph.follow(snapshot.shared.catalog)
        if not was_whole and not snapshot.shared.lasting_failures:
            _log.warning("selection is whole again")

    def over(self, follow: Callable[[Snapshot], Snapshot]) -> Engine:
        """An engine over other tools that shares outcomes and observers with this one.

        follow: makes the snapshot of the other tools under the rules of a snapshot of this engine.
        """
        base = self.snapshot
        engine = object.__new__(Engine)
        engine.__dict__.update(self.__dict__)  # copy.copy takes four times as long
        engine._snapshot = follow(base)
        engine._base = self, (base, engine._snapshot), follow
        return engine

    def release(self) -> None:
        """Releases the catalog of an engine made by `over`. The next use builds it again."""
        assert self._base is not None
        engine, _, follow = self._base
        self._snapshot = engine.snapshot  # not read before `follow` makes the next one
        self._base, self._visible = (engine, None, follow), None

    @property
    def base(self) -> Engine:
        """The engine on which `over` was called."""
        assert self._base is not None
        return self._base[0]

    def followed(self, base: Snapshot) -> Snapshot:
        """The snapshot of this engine's tools under the rules of `base`. For engines made by `over`."""
        assert self._base is not None
        return self._base[2](base)

    def select(
        self, request: SelectRequest, conversation: Conversation | None = None, calls: Calls | None = None
    ) -> Selection:
        """Gathers, decides and logs.

        conversation: the turn's, if it belongs to one. calls: for the selection's `check`; None for this
        engine.
        """
        start = self._begin(request)
        reading, failures = _embed(start.embedder, start.reading, start.vector)
        return self._finish(start, reading, failures, conversation, calls)

    async def aselect(
        self, request: SelectRequest, conversation: Conversation | None = None, calls: Calls | None = None
    ) -> Selection:
        """`select` for event loops: an embedder that may wait runs outside the loop."""
        start = self._begin(request)
        embedder = start.embedder
        if embedder is None or embedder.is_instant:
            reading, failures = _embed(embedder, start.reading, start.vector)
        else:
            reading, failures = await self._aembed(embedder, start.reading, start.vector)
        return self._finish(start, reading, failures, conversation, calls)

    def preview(self, request: SelectRequest, profile: Profile | None = None) -> Selection:
        """The selection that `select` would return, without an event, a count or an observer's call.

        profile: decides in place of the engine's own.
        """
        start = self._begin(request, profile=profile)
        self.ask(start.context.org)
        reading, failures = _embed(start.embedder, start.reading, start.vector)
        lasting = start.snapshot.failures(start.context.org)
        return start.pipeline.decide(self._turn(start, reading, None), "", (*lasting, *failures), calls=self)

    async def arun(self, call: Callable[[], T]) -> T:
        """The result of a call that embeds, in a thread if the embedder may wait.

        Raises:
            EmbedderUnavailable: all threads wait for an embedder that does not answer.
            Overloaded: too many calls wait for a thread.
        """
        embedder = self._embedder
        if embedder is None or embedder.is_instant:
            return call()
        try:
            return await self._embedding.arun(call)
        except Full as error:
            raise EmbedderUnavailable(f"embedder {embedder.identity}: {error}", retry_after_s=1.0) from error

    def stop_threads(self) -> None:
        """Ends idle threads and the build of a graph. The engine can still select."""
        self._embedding.stop()
        self.graph.stop()

    async def _aembed(
        self, embedder: Embedder, reading: Reading, vector: Vector | None
    ) -> tuple[Reading, tuple[Failure, ...]]:
        """`_embed` in a thread. If no thread is free soon, the turn continues without vectors."""
        try:
            return await self.arun(lambda: _embed(embedder, reading, vector))
        except Unavailable as error:
            return _embed(None, reading, vector)[0], (Failure("embedder", error),)

    def _begin(
        self, request: SelectRequest, *, is_search: bool = False, profile: Profile | None = None
    ) -> _TurnStart:
        snapshot, context, vector = self.serving, _checked(request.context), request.vector
        if request.strict is not False:
            check_flag(request.strict, "strict")
        variant, pipeline = _variant_for(snapshot, context)
        if profile is not None:
            pipeline = recomposed(pipeline, profile, self._embedder is None or self._embedder.is_instant)
        own = None
        if vector is not None and not _lacks_vectors(pipeline):
            own = _caller_vector(vector, pipeline.catalog.dim)
        # No embedding where no stage of this turn reads vectors, or the catalog has none to compare with.
        is_ranked = not context.required and not context.everything
        asks = bool(pipeline.catalog.dim) and (is_search or (pipeline.reads_vectors and is_ranked))
        may_be_spared = asks and not is_search and pipeline.keywords_suffice is not None
        table = self._table if asks and own is None and not may_be_spared else None
        start_ns = time.perf_counter_ns()
        reading = pipeline.reader.read(
            request.message,
            request.history,
            lambda: _allowed(snapshot, pipeline, context),
            table,
            self._is_english,
        )
        read_ns = time.perf_counter_ns()
        if may_be_spared:
            asks = pipeline.reads_vector(_turn_without_vector(snapshot, context, reading.text))
        embedder = self._embedder if asks and table is None else None
        return _TurnStart(
            request,
            context,
            snapshot,
            variant,
            pipeline,
            reading,
            embedder,
            own,
            start_ns,
            read_ns,
            is_search,
        )

    def resume(self, request: SelectRequest, conversation: Conversation, calls: Calls) -> Selection:
        """The tools that a turn has shown and loaded, under the newest policy. No retrieval and no event.

        request: without a message, but with the names that the turn has shown.
        """
        snapshot, context = self.serving, _checked(request.context)
        self.ask(context.org)
        _, pipeline = snapshot.variant_for(context)
        turn = Turn(
            text="",
            context=context,
            max_tools=request.max_tools,
            budget_tokens=request.budget_tokens,
            stored=snapshot.settings(context.org),
            revision=snapshot.revision,
            conversation=conversation,
            shown=request.shown or (),
            loading=pipeline.retention.loading,
            engine_id=self.id,
            tool_list=_listed_for(snapshot, context),
            public_only=snapshot.expired is not None,
        )
        selection = pipeline.decide(turn, request.event_id, snapshot.failures(context.org), calls=calls)
        self.telemetry.failed(selection.failures)
        return selection

    def find(self, query: str, context: Context, k: int) -> Selection:
        """The allowed tools that fit the query best. Writes no event; core tools get no preference."""
        start = self._begin(SelectRequest(query, context, k), is_search=True)
        self.ask(start.context.org)
        reading, failures = _embed(start.embedder, start.reading, None)
        turn = self._turn(start, reading, None)
        failures = (*start.snapshot.failures(turn.context.org), *failures)
        selection = start.pipeline.decide(turn, "", failures)
        self.telemetry.failed(selection.failures)
        return selection

    def search(
        self, query: str, context: Context, k: int, conversation: Conversation, calls: Calls
    ) -> Selection:
        """`find` as a turn of its own in a conversation, with an event whose message is the query."""
        start = self._begin(SelectRequest(query, context, k), is_search=True)
        reading, failures = _embed(start.embedder, start.reading, None)
        return self._finish(start, reading, failures, conversation, calls)

    # One decision, for lists and calls alike (`Calls`).

    def visible(self, context: Context) -> VisibleTools:
        """The tools that this caller may have now.

        The last answer is kept, because a model's calls are checked one after the other. A change of rules,
        settings or catalog brings a new snapshot. Only a caller's own collection of settings can change
        unseen.
        """
        snapshot, known = self.serving, self._visible
        self.ask(context.org)
        if known is not None and known[0] is snapshot and known[1] is context:
            return known[2]
        pipeline = snapshot.own.get(context.org, snapshot.shared)
        failures: list[Failure] = []
        allowed = _allowed(snapshot, pipeline, context, failures)
        if failures:
            self.telemetry.failed(failures)
        tool_list = _listed_for(snapshot, context)
        visible = VisibleTools.of(pipeline.catalog, allowed, context, pipeline.on_page(context), tool_list)
        if not failures and isinstance(context.settings, (tuple, frozenset)):
            self._visible = snapshot, context, visible
        return visible

    def may(self, name: str, context: Context) -> Tool | None:
        """The tool of this own name; None if this caller may not have it now."""
        return self.visible(context).get(name)

    def denied(self, reason: Denial) -> None:
        """Counts a refused call."""
        self.telemetry.denied(reason)

    def ask(self, org: str) -> None:
        """Requests the pipeline of an organisation if it is not built yet. Does not wait."""
        if org in self._snapshot.awaited:
            self._want(org)

    def exposure(self, selection: Selection, reporter: str) -> Exposure:
        """The exposure of a selection. reporter: reports its outcome; "" for the application itself."""
        return exposure_of(selection, reporter, self.category(selection))

    def category(self, selection: Selection) -> str:
        """The category of a selection's message."""
        turn = selection.turn
        vector = turn.vector if turn.reading is None else turn.reading.vector
        return turn.category or self._category(turn.text, vector)

    def _category(self, text: str, vector: Vector | None) -> str:
        # The built-in table's vectors are used again.
        known = vector is not None and self._is_built_in
        return category(text, vector if vector is not None and known else built_in_vector(text))

    def counters(self) -> Counters:
        """The totals so far; see `Toolroll.counters`."""
        return self.telemetry.counters(
            now=self._clock(),
            catalog_since=self._catalog_since,
            build_s=self._snapshot.shared.build_s,
            calls_refused={"embedder": self._embedding.refused},
        )

    def now(self) -> float:
        """Seconds since the epoch, by the engine's clock."""
        return self._clock()

    def _turn(self, start: _TurnStart, reading: Reading, conversation: Conversation | None) -> Turn:
        """The turn. reading: with its vectors."""
        request, context, text = start.request, start.context, reading.text
        learned = self._learned(context.org)
        return Turn(
            text=text,
            context=context,
            k=None if request.k is None else _limit("k", request.k),
            max_tools=None if request.max_tools is None else _limit("max_tools", request.max_tools),
            budget_tokens=None
            if request.budget_tokens is None
            else _limit("budget_tokens", request.budget_tokens),
            always_include=_names("always_include", request.always_include),
            sent=_names("sent", request.sent),
            seed=_session_seed(context.org, context.session) if context.session else self._draw(),
            query=reading.query,
            trust=reading.trust,
            stored=_stored(start.snapshot, context.org),
            revision=start.snapshot.revision,
            at=round(self._clock() * 1e6) / 1e6,  # as events keep it: a replay must read the same
            learned=learned,
            category="" if learned is None else self._category(text, reading.vector),
            conversation=conversation,
            shown=request.shown,
            is_search=start.is_search,
            room=1.0
            if conversation is None or start.is_search
            else start.pipeline.retention.room(conversation),
            loading=start.pipeline.retention.loading,
            variant=start.variant,
            steps=tuple([step.name for step in start.pipeline.steps]) if start.pipeline.steps else (),
            engine_id=self.id,
            tool_list=start.tool_list,
            public_only=start.snapshot.expired is not None,
            taken=reading,
        )

    def _finish(
        self,
        start: _TurnStart,
        reading: Reading,
        failures: tuple[Failure, ...],
        conversation: Conversation | None,
        calls: Calls | None,
    ) -> Selection:
        embed_ns = reading.embed_ns  # the built-in table embeds while the message is read
        timings = (
            ("read", start.read_ns - start.start_ns - embed_ns),
            ("embed", time.perf_counter_ns() - start.read_ns + embed_ns),
        )
        snapshot, pipeline, org = start.snapshot, start.pipeline, start.context.org
        turn = self._turn(start, reading, conversation)
        lasting = (*_failures(snapshot, org), *start.request.failures)
        if org in snapshot.own:
            self.used[org] = time.perf_counter_ns()
        self.ask(org)
        calls = self if calls is None else calls
        event_id = start.request.event_id or random_bytes()[:12].hex()
        selection = pipeline.decide(turn, event_id, (*lasting, *failures), timings, calls)
        if not start.request.event_id:  # else a further step of a turn
            self._observe(selection)
            self.telemetry.selected(selection, time.perf_counter_ns() - start.start_ns)
        else:
            self.telemetry.failed(selection.failures)
        if start.request.strict and selection.failures:
            raise selection.failures[0].error
        # A lasting failure was logged where it was found. It is only in some organisations' selections.
        passing = selection.failures[len(pipeline.lasting_failures) + len(lasting) :]
        if not passing and not self._failing[0]:
            return selection
        if passing and any(isinstance(failure.error, Overloaded) for failure in passing):
            self._overloaded_until[0] = time.monotonic() + _OVERLOAD_S
        failing = {failure.where: str(failure) for failure in passing} if passing else {}
        is_other = failing.keys() != self._failing[0].keys()
        if is_other and (failing or time.monotonic() >= self._overloaded_until[0]):
            self._failing[0] = failing
            for failure in passing:
                is_known = isinstance(failure.error, Overloaded) or failure.where == "pick"
                _log.warning("selection degraded: %s", failure, exc_info=None if is_known else failure.error)
            if not passing:
                _log.warning("selection is whole again")
        return selection


def _allowed(
    snapshot: Snapshot, pipeline: Pipeline, context: Context, failures: list[Failure] | None = None
) -> Bitset:
    """The rows that this caller may have. failures: the hard stages' failures are added to it."""
    return pipeline.allowed(_turn_without_vector(snapshot, context), failures)


def _listed_for(snapshot: Snapshot, context: Context) -> ToolList | None:
    """The request's list of tools, without the hosted tools that are withheld from this caller."""
    tool_list = snapshot.tool_list
    if tool_list is not None:
        (stage,) = [one for one in snapshot.shared.hard if isinstance(one, ListedVisibility)]
        if stage.rows.own and (withheld := stage.withheld(_turn_without_vector(snapshot, context))):
            return replace(tool_list, withheld=withheld, unjudged=stage.rows.unjudged(withheld))
    return tool_list


def _turn_without_vector(snapshot: Snapshot, context: Context, text: str = "") -> Turn:
    """A turn for decisions before the embedding: permissions, and whether the turn needs a vector."""
    return Turn(
        text,
        context,
        stored=_stored(snapshot, context.org),
        revision=snapshot.revision,
        public_only=snapshot.expired is not None,
    )


def _variant_for(snapshot: Snapshot, context: Context) -> tuple[str, Pipeline]:
    """`Snapshot.variant_for`, called only if there is an experiment."""
    if snapshot.experiments:
        return snapshot.variant_for(context)
    return "", snapshot.own.get(context.org, snapshot.shared)


def _stored(snapshot: Snapshot, org: str) -> frozenset[str]:
    """`Snapshot.settings`, called only if there are any."""
    return snapshot.settings(org) if snapshot.stored else _NO_SETTINGS


def _failures(snapshot: Snapshot, org: str) -> tuple[Failure, ...]:
    """`Snapshot.failures`, called only if there may be any."""
    may_fail = snapshot.lasting_failures or snapshot.org_failures or snapshot.expired or snapshot.awaited
    return snapshot.failures(org) if may_fail else _NOTHING_FAILED


def _checked(context: Context | None) -> Context:
    if context is None:
        return _ANYONE
    if not isinstance(context, Context):
        raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
    return context


def _embed(
    embedder: Embedder | None, reading: Reading, vector: Vector | None
) -> tuple[Reading, tuple[Failure, ...]]:
    """The reading with vectors of the query, its clauses and the earlier messages.

    If the embedder fails or returns invalid vectors, selection continues with the vectors made before that.
    embedder: None to make no more vectors. vector: the caller's, of the query.
    """
    if embedder is None and vector is None:
        return reading, _NOTHING_FAILED
    texts = reading.texts
    vectors: list[Vector | None] = [vector, *[None] * (len(texts) - 1)]
    failures = _NOTHING_FAILED
    if embedder is not None:
        try:
            _fill(embedder, texts, vectors)
        except Exception as error:
            failures = (Failure("embedder", error),)
    return reading.with_vectors(vectors), failures


def _fill(embedder: Embedder, texts: list[str], vectors: list[Vector | None]) -> None:
    """Embeds the texts that have no vector yet."""
    if embedder.is_instant and vectors[0] is None and len(texts) > 1:
        try:
            vectors[:] = _embed_together(embedder, texts)
            return
        except Exception:  # one by one, to keep the vectors made before the failure
            pass
    for at, text in enumerate(texts):
        if vectors[at] is None:
            vectors[at] = _checked_vector(embedder, text, _row(embedder.embed_query(text)))


def _embed_together(embedder: Embedder, texts: list[str]) -> list[Vector | None]:
    rows = embedder.embed_queries(texts)
    return [_checked_vector(embedder, text, _row(row)) for text, row in zip(texts, rows, strict=True)]


def _row(answer: object) -> Vector:
    """The vector as the core reads it: contiguous float32."""
    return np.asarray(answer, np.float32, order="C")


def _checked_vector(embedder: Embedder, text: str, vector: Vector) -> Vector:
    """The vector if it is valid.

    Raises:
        EmbedderUnavailable: it is no unit vector of the embedder's width. Zeros are valid for a text without
            Latin letters, about which an embedder may know nothing.
    """
    length = float(np.vdot(vector, vector))
    if vector.shape == (embedder.dim,) and (
        0.99 < length < 1.01
        or (length == 0.0 and (isinstance(embedder, StaticEmbedder) or not _has_latin(text)))
    ):
        return vector
    raise EmbedderUnavailable(
        f"embedder {embedder.identity}: its vector has shape {vector.shape} and squared length {length:.3g}, "
        f"must be ({embedder.dim},) and 1"
    )


def _has_latin(text: str) -> bool:
    return any("a" <= letter <= "z" for letter in text.lower())


def _lacks_vectors(pipeline: Pipeline) -> bool:
    """Whether the catalog temporarily has no vectors, so that a vector from the caller cannot be used."""
    return bool(pipeline.lasting_failures) and not pipeline.catalog.dim


def _caller_vector(vector: npt.ArrayLike, dim: int) -> Vector:
    """The caller's own vector as float32.

    Raises:
        InvalidInput: it is no vector of finite numbers, or not of the catalog's width.
    """
    if not dim:
        raise InvalidInput("vector: this catalog has none, leave it out or build it with an embedder")
    try:
        if np.iscomplexobj(vector):
            raise TypeError("complex numbers")
        array = np.ascontiguousarray(vector, np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"vector: {str(error)[:100]}; must be a sequence of numbers") from error
    if array.shape != (dim,):
        raise InvalidInput(
            f"vector: has shape {array.shape}, must be ({dim},), the width of the catalog's vectors"
        )
    length = float(np.linalg.norm(array.astype(np.float64)))
    if not np.isfinite(length):
        raise InvalidInput("vector: holds NaN or infinity, must hold finite numbers")
    return array if length == 0 else (array / length).astype(np.float32)


def _names(name: str, value: Collection[str]) -> tuple[str, ...]:
    return () if type(value) is tuple and not value else names(value, name)


def _limit(name: str, limit: int) -> int:
    try:
        if isinstance(limit, bool) or (number := operator.index(limit)) < 0:
            raise TypeError
    except TypeError:
        raise InvalidInput(f"{name}: is {quoted(limit)}, must be a whole number of at least 0") from None
    return number
