"""Decides a turn: hard stages forbid, then the core ranks, cuts and orders.

A hard stage fails if it raises, if its output is no set of candidates, or if it allows rows that its input
does not allow. It then leaves only public tools that it could not have forbidden. A stage that never returns
cannot be interrupted: its selection does not return either, so it shows nothing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.message_text import Reader
from toolroll.model.context import Context, Turn
from toolroll.model.conversation import Retention
from toolroll.model.errors import Failure, ToolrollError
from toolroll.selection.calls import Calls
from toolroll.selection.candidates import Candidates
from toolroll.selection.limits import Limits
from toolroll.selection.picker import NamedRerank, Picker
from toolroll.selection.policy.pages import NO_PAGES, PageTable
from toolroll.selection.selection import Selection
from toolroll.selection.stages import HardStage, Stage
from toolroll.selection.stages.visibility import Visibility
from toolroll.selection.steps import OwnStep, TurnSteps

_log = logging.getLogger("toolroll")

_RETENTION = Retention()
_MOST_PERMITTED = 1_024  # contexts whose permitted rows are kept
_MOST_PERMITTED_ROWS = 1 << 24  # rows of their sets together: some megabytes
_NO_RERANKS: Sequence[NamedRerank] = ()
_AS_IT_IS = Reader(None, clauses=False)


class _Permitted(NamedTuple):
    """The rows that the hard stages left, with the parts of the turn that these stages read."""

    context: Context
    stored: frozenset[str]
    public_only: bool
    candidates: Candidates

    def holds_for(self, turn: Turn) -> bool:
        """Whether the hard stages would leave the same rows in this turn."""
        return (
            self.context is turn.context
            and self.stored is turn.stored
            and self.public_only is turn.public_only
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A catalog and the stages over it: everything that a turn needs, replaced as one.

    Attributes:
        catalog: the tools behind the rows.
        hard: always run, in order; a failure leaves public tools that the stage could not have forbidden.
        required: runs if the caller names the tools.
        soft: picks for a message.
        whole: picks if `passes_through` holds.
        everything: picks if the caller asks for everything.
        search: picks for a search: core tools get no preference.
        continued: runs after all of these, for a further step of a turn that has shown tools.
        limits: of the profile and the providers, for turns that cannot be ranked.
        passes_through: tells whether the candidates are few enough to select all.
        pages: the page mappings in force.
        steps: the caller's, before and after the core.
        withdrawn: rows that must not be selected any more, though they are still indexed.
        lasting_failures: in every selection until the next catalog, such as tools without vectors.
        variants: name → other stages over the same catalog, for the variants of an experiment.
        retention: how long a conversation keeps its tools.
        reader: makes the texts for retrieval from a message.
        reads_vectors: whether a selection reads the message's vector; otherwise no message is embedded.
        keywords_suffice: tells whether a message needs no vector; None if every message needs one.
        build_s: seconds for the build, with the catalog's.
    """

    catalog: Catalog
    hard: tuple[HardStage, ...]
    required: Stage
    soft: Picker
    whole: Picker
    everything: Picker
    search: Picker
    continued: Stage
    limits: Limits
    passes_through: Callable[[Candidates, Turn], bool]
    pages: PageTable = NO_PAGES
    steps: tuple[OwnStep, ...] = ()
    reader: Reader = _AS_IT_IS
    reads_vectors: bool = True
    keywords_suffice: Callable[[Bitset, Turn], bool] | None = None
    lasting_failures: tuple[Failure, ...] = ()
    withdrawn: Bitset | None = None
    variants: Mapping[str, Pipeline] = field(default_factory=dict)
    retention: Retention = _RETENTION
    build_s: float = 0.0
    _start: Candidates = field(init=False, repr=False)
    # By the identity of the context, which is kept alive here; forgotten all at once when there are too many.
    _permitted: dict[int, _Permitted] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        start = Candidates.everything(len(self.catalog))
        if self.catalog.inactive is not None:  # before any stage, so that no failing stage brings one back
            start = start.forbid(self.catalog.inactive, "status.inactive")
        if self.withdrawn is not None:
            start = start.forbid(self.withdrawn, "withdrawn")
        object.__setattr__(self, "_start", start)

    def without(self, names: Iterable[str]) -> Pipeline:
        """The pipeline without these tools: a deleted tool must go before the next catalog is built."""
        known = self.catalog.names
        rows = np.array(sorted(known[name] for name in names if name in known), np.int32)
        if not len(rows):
            return self
        gone = Bitset.of(len(self.catalog), rows)
        return self.withdrawing(gone if self.withdrawn is None else self.withdrawn | gone)

    def withdrawing(self, rows: Bitset | None) -> Pipeline:
        """The pipeline without these rows, which stay indexed."""
        return self._everywhere(lambda pipeline: replace(pipeline, withdrawn=rows))

    def lacking(self, *lasting_failures: Failure) -> Pipeline:
        """The pipeline with these failures in every selection."""
        return self._everywhere(lambda pipeline: replace(pipeline, lasting_failures=lasting_failures))

    def governed(self, visibility: HardStage, pages: PageTable) -> Pipeline:
        """The pipeline under other rules and page mappings. Nothing is indexed again."""
        return self._everywhere(
            lambda pipeline: replace(pipeline, hard=(visibility, *pipeline.hard[1:]), pages=pages)
        )

    @property
    def may_deny(self) -> bool:
        """Whether a tier or a status could deny a tool to some caller. Rules do not count."""
        if self.catalog.inactive is not None:
            return True
        stages = (stage for stage in self.hard if isinstance(stage, Visibility))
        return any(stage.policy is not None and stage.policy.gates for stage in stages)

    def _everywhere(self, change: Callable[[Pipeline], Pipeline]) -> Pipeline:
        """Applies the change to this pipeline and to its variants."""
        variants = {name: change(variant) for name, variant in self.variants.items()}
        return replace(change(self), variants=variants)

    def decide(
        self,
        turn: Turn,
        event_id: str = "",
        failures: tuple[Failure, ...] = (),
        timings: tuple[tuple[str, int], ...] = (),
        calls: Calls | None = None,
    ) -> Selection:
        """Selects. Pure, apart from the clock of its timings: the same turn gives the same tools.

        failures, timings: from before the decision, such as embedding the message. calls: for the selection's
        `check`.
        """
        runner = _Runner([*self.lasting_failures, *failures], list(timings))
        candidates, context = self._allowed(turn, runner), turn.context
        if turn.is_search:
            candidates = self._picked(self.search, candidates, turn, runner, self.steps)
        elif turn.shown is not None and not turn.text:
            pass  # the model continues without a message: its shown tools stay
        elif context.required:
            candidates, _ = runner.run(self.required, candidates, turn)
        elif context.everything:
            candidates = candidates.narrow(candidates.allowed, "everything")
            candidates = self._picked(self.everything, candidates, turn, runner)
        elif self.passes_through(candidates, turn):
            candidates = candidates.narrow(candidates.allowed, "pass_through")
            candidates = self._picked(self.whole, candidates, turn, runner, self.steps)
        else:
            candidates = self._picked(self.soft, candidates, turn, runner, self.steps)
        if turn.shown is not None:
            candidates, _ = runner.run(self.continued, candidates, turn)
        failed, spent = tuple(runner.failures), tuple(runner.timings)
        return Selection.of(candidates, self.catalog, turn, failed, spent, event_id, calls)

    def _picked(
        self,
        picker: Picker,
        candidates: Candidates,
        turn: Turn,
        runner: _Runner,
        steps: tuple[OwnStep, ...] = (),
    ) -> Candidates:
        """The tools that the core selects. If it fails: `Limits.without_ranking`."""
        start, reranks = time.perf_counter_ns(), _NO_RERANKS
        if steps:
            own = TurnSteps(steps, self.catalog, turn, runner.failures)
            candidates, reranks = own.narrowed(candidates), own.reranks
        try:
            picked = picker(candidates, turn, self.pages, reranks)
        except Exception as error:
            _log.exception("the core failed to select, a bug in toolroll: tools stand in unranked")
            runner.failures.append(Failure("pick", error))
            pool = candidates.allowed if candidates.pool is None else candidates.pool
            rows = np.array(self.limits.without_ranking(turn, pool), np.int32)
            picked = candidates.narrow(rows, "failed.pick")
        runner.timings.append(("pick", time.perf_counter_ns() - start))
        return picked

    def reads_vector(self, turn: Turn) -> bool:
        """Whether the selection of this turn needs the message's vector, which is not made yet."""
        if not self.reads_vectors or self.keywords_suffice is None:
            return self.reads_vectors
        pool, page = self.allowed(turn), self.on_page(turn.context)
        if page is not None and (kept := pool & page):
            pool = kept
        return not self.keywords_suffice(pool, turn)

    def allowed(self, turn: Turn, failures: list[Failure] | None = None) -> Bitset:
        """The rows that the hard stages leave. failures: the stages' failures are added to it."""
        return self._allowed(turn, _Runner([] if failures is None else failures, [])).allowed

    def on_page(self, context: Context) -> Bitset | None:
        """The rows of the toolkits that mappings name for the context's page; None if no mapping matches."""
        found = self.pages.kept(context)
        return None if found is None else found.rows

    def _allowed(self, turn: Turn, runner: _Runner) -> Candidates:
        """The candidates after the hard stages. Answers are kept, because applications reuse contexts."""
        context = turn.context
        known = self._permitted.get(id(context))
        if known is not None and known.holds_for(turn):
            return known.candidates
        before = len(runner.failures)
        candidates = self._forbidden(turn, runner)
        if len(runner.failures) == before and context.has_fixed_settings:
            kept = len(self._permitted)
            if kept >= _MOST_PERMITTED or kept * len(self.catalog) >= _MOST_PERMITTED_ROWS:
                self._permitted.clear()
            self._permitted[id(context)] = _Permitted(context, turn.stored, turn.public_only, candidates)
        return candidates

    def _forbidden(self, turn: Turn, runner: _Runner) -> Candidates:
        candidates = self._start
        if turn.public_only:
            candidates = candidates.forbid(self.catalog.not_public, "policy.expired")
        for stage in self.hard:
            candidates, failed = runner.run(stage, candidates, turn, forbids=True)
            if failed:
                candidates = candidates.forbid(self._closed_by(stage, turn), "failed.closed")
        return candidates

    def _closed_by(self, stage: HardStage, turn: Turn) -> Bitset:
        """The rows that a hard stage hides by its failure."""
        not_public = self.catalog.not_public
        try:
            could_forbid = stage.could_forbid(turn)
            return not_public if could_forbid is None else not_public | could_forbid
        except Exception:  # the stage cannot tell
            return Bitset.full(len(self.catalog))


class BadOutput(ToolrollError):
    """A stage returned something that no stage may return."""


@dataclass(slots=True)
class _Runner:
    """Runs stages, and keeps their failures and times."""

    failures: list[Failure]
    timings: list[tuple[str, int]]

    def run(
        self, stage: Stage, candidates: Candidates, turn: Turn, *, forbids: bool = False
    ) -> tuple[Candidates, bool]:
        """The stage's output and False; if it failed, its input and True. forbids: whether it may forbid."""
        name = _name(type(stage))
        start = time.perf_counter_ns()
        failed = False
        try:
            output = stage(candidates, turn)
            if output is not candidates:
                _check(output, candidates.allowed, forbids)
                candidates = output
        except Exception as error:
            self.failures.append(Failure(name, error))
            failed = True
        self.timings.append((name, time.perf_counter_ns() - start))
        return candidates, failed


def _check(output: object, allowed: Bitset, forbids: bool) -> None:
    """Raises BadOutput unless these are candidates within the allowed rows."""
    if not isinstance(output, Candidates):
        raise BadOutput(f"returned {type(output).__name__}, must return candidates")
    now, pool, rows = output.allowed, output.pool, output.rows
    if now is not allowed:  # sets of two catalogs cannot be compared: that is an error, too
        if not forbids and now != allowed:
            raise BadOutput("changed the allowed rows, which only a hard stage may")
        if forbids and now - allowed:
            raise BadOutput("allows rows that were forbidden before it")
    if pool is not None and pool is not now and pool - now:
        raise BadOutput("has rows in play that are forbidden")
    if len(rows) and not now.holds_all(rows):
        raise BadOutput("has rows in play that are forbidden")
    if len(rows) != len(output.scores):
        raise BadOutput(f"has {len(rows)} rows and {len(output.scores)} scores")


@cache
def _name(kind: type) -> str:
    """The name of a stage in timings and failures."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
