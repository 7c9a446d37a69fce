"""`Toolroll`, what users hold: the one place that picks sources, embedders and profiles."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from toolroll._core import Learned
from toolroll.catalog.catalog import Catalog
from toolroll.context import Context
from toolroll.conversation import Retention
from toolroll.embedders import named
from toolroll.embedders.named import EmbedderChoice
from toolroll.errors import Denied, EmbedderUnavailable, InvalidInput, NotFound
from toolroll.formats.sources.dicts import read_tools
from toolroll.formats.sources.folder import read_folder
from toolroll.learning.experiments import Experiment
from toolroll.learning.memory import Memory, Recorded
from toolroll.learning.outcomes import NOT_SHOWN, Called, Report, read_called
from toolroll.rules import PageMapping, Rule
from toolroll.selection.effective_policy import EffectivePolicy, PolicySource
from toolroll.selection.engine import Engine
from toolroll.selection.exposure import not_shown
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import Profile, profile
from toolroll.selection.selection import Selection
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.verdict import Verdict, judge
from toolroll.sessions.session import Session
from toolroll.sessions.state import ConversationCache, ConversationState
from toolroll.tools import Definitions, Route, Toolkit

if TYPE_CHECKING:
    from toolroll.registry.home import RegistryRoll

_log = logging.getLogger("toolroll")

Progress = Callable[[int, int], None]

_RECENT = 128  # selections that an event's id still finds
_LONGEST_REPORTER = 4_096
MOST_CONVERSATIONS = 100_000  # in memory
_LONGEST_SESSION = 1_024


class Toolroll:
    """A catalog, and selections from it. Safe to share between threads.

    Make one with `from_tools`, `from_folder` or `demo`, keep it, call `select` for each message.
    """

    def __init__(
        self,
        definitions: Definitions,
        *,
        embedder: EmbedderChoice = "static",
        profile: str | Profile = "default",
        hnsw: bool = False,
        experiment: Experiment | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._read: Callable[[], Definitions] | None = None
        self._declared = Definitions()  # what was given beside the tools
        self._builder = PipelineBuilder(
            named.embedder(embedder), profile_of(profile), hnsw, variants_of(experiment)
        )
        self._building = threading.RLock()  # held while a catalog is built: the later one wins
        self._definitions = definitions
        self._experiments = {} if experiment is None else {"": experiment}
        self._engine = Engine(self._snapshot(self._first(definitions, progress)), self._builder.embedder)
        self._recent: deque[Selection] = deque(maxlen=_RECENT)  # that an event's id still finds
        self._memory = Memory(self.catalog.dim)
        self._live = ConversationCache(MOST_CONVERSATIONS)
        self._engine.learned = self._memory.learned
        self._engine.observe = self._recent.append

    @classmethod
    def from_tools(
        cls,
        tools: Iterable[Any],
        *,
        toolkits: Iterable[Toolkit] = (),
        routes: Iterable[Route] = (),
        rules: Iterable[Rule] = (),
        pages: Iterable[PageMapping] = (),
        tiers: Iterable[str] = (),
        embedder: EmbedderChoice = "static",
        profile: str | Profile = "default",
        hnsw: bool = False,
        experiment: Experiment | None = None,
        progress: Progress | None = None,
    ) -> Toolroll:
        """From `Tool`s, OpenAI, Anthropic, Gemini or MCP definitions and annotated callables, mixed.

        toolkits, routes: what the tools themselves do not say. rules, pages: who sees what, and what belongs
        to which page (`docs/registry.md`). tiers: subscription tiers, lowest first. embedder: "static"
        (offline, built in), "minilm", "multilingual", "ollama:MODEL", … (`docs/embedders.md`), "none" for
        lexical retrieval only, or an `Embedder`. hnsw: also builds an HNSW graph, which pays above some
        50,000 tools. experiment: deals selections out to profiles by their names (`docs/learning.md`).
        progress: called with (texts embedded, in all).

        Raises:
            InvalidDefinition: a tool, toolkit or route is malformed, or a name is there twice.
        """
        declared = Definitions((), tuple(toolkits), tuple(routes), tuple(rules), tuple(pages), tuple(tiers))
        roll = cls(
            _joined(tools, declared),
            embedder=embedder,
            profile=profile,
            hnsw=hnsw,
            experiment=experiment,
            progress=progress,
        )
        roll._declared = declared
        return roll

    @classmethod
    def from_folder(
        cls,
        path: str | PathLike[str],
        *,
        rules: Iterable[Rule] = (),
        pages: Iterable[PageMapping] = (),
        tiers: Iterable[str] = (),
        embedder: EmbedderChoice = "static",
        profile: str | Profile = "default",
        hnsw: bool = False,
        experiment: Experiment | None = None,
        progress: Progress | None = None,
    ) -> Toolroll:
        """From a folder with one JSON file a toolkit, a folder with `tools.jsonl`, or one such file.

        The other arguments are those of `from_tools`.

        Raises:
            InvalidDefinition: with file, line and key of what is wrong.
            NotFound: there is no such file or folder.
        """
        if not Path(path).exists():
            raise NotFound(f"catalog {str(path)!r}: no such file or folder")
        declared = Definitions((), (), (), tuple(rules), tuple(pages), tuple(tiers))

        def read() -> Definitions:
            found = read_folder(path)
            return replace(found, rules=declared.rules, pages=declared.pages, tiers=declared.tiers)

        roll = cls(
            read(), embedder=embedder, profile=profile, hnsw=hnsw, experiment=experiment, progress=progress
        )
        roll._read, roll._declared = read, declared
        return roll

    @classmethod
    def open(
        cls,
        url: str,
        *,
        embedder: EmbedderChoice = "static",
        profile: str | Profile = "default",
        hnsw: bool = False,
        progress: Progress | None = None,
        poll_s: float = 0.5,
        settings_s: float = 10.0,
        organisations: int = 1_000,
        listens: bool = True,
        messages: Literal["kept", "hashed", "dropped", "none"] = "kept",
        journal: str | PathLike[str] | None = None,
        durable: Literal["process", "disk"] = "process",
        sessions_s: float | None = 14 * 86_400.0,
    ) -> RegistryRoll:
        """From a registry: "sqlite:///tools.db", or "postgresql://…" where several processes share one.

        The catalog follows the registry by itself, off the path of every selection (`docs/registry.md`).
        Close it, or use it in a `with`. Needs the extra `store` or `postgres`. The arguments that are not
        here are those of `from_tools`.

        url: where the registry is; `toolroll import FOLDER --to URL` makes one. poll_s: seconds between looks
        at the registry, should its notifications not come through. settings_s: seconds for which stored
        settings are believed. organisations: how many organisations' own catalogs are kept in memory.
        listens: whether the database's notifications are used. messages: what is written down of the messages
        of selections: their text ("kept"), a keyed digest of it ("hashed") or nothing of it ("dropped");
        "none" writes no events at all. journal: folder where outcomes wait for the database; by default one
        beside the file, or in the user's state folder. durable: what is recorded survives the end of the
        process, or, as "disk", a power cut too. sessions_s: seconds for which a conversation is kept that
        nobody goes on with; None for good.

        Raises:
            NotFound: there is no such database.
            StoreUnavailable: it cannot be read, or is of another version.
            InvalidInput: the URL or an option is wrong, or the extra is not installed.
        """
        try:
            from toolroll.registry.home import RegistryRoll, keeping_of, pace_of
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"a registry needs {error.name}: pip install 'toolroll[store]', or 'toolroll[postgres]'"
            ) from error
        pace = pace_of(poll_s, settings_s, organisations, listens)
        keeping = keeping_of(messages, journal, durable)
        builder = PipelineBuilder(named.embedder(embedder), profile_of(profile), hnsw)
        name = profile if isinstance(profile, str) else "custom"
        return RegistryRoll(url, builder, pace, progress, keeping, name, sessions_s)

    @classmethod
    def demo(cls, *, embedder: EmbedderChoice = "static", profile: str | Profile = "default") -> Toolroll:
        """The built-in demonstration catalog: a revenue platform, a personal assistant, a home server."""
        return cls.from_folder(
            Path(__file__).with_name("demo") / "toolkits", embedder=embedder, profile=profile
        )

    def select(
        self,
        message: str,
        context: Context | None = None,
        k: int | None = None,
        *,
        max_tools: int | None = None,
        budget_tokens: int | None = None,
        sent: Sequence[str] = (),
        history: Sequence[object] = (),
        vector: npt.ArrayLike | None = None,
        strict: bool = False,
    ) -> Selection:
        """Picks the tools for a message.

        Args:
            message: what the user wrote. Of a long one the first and the last 4,096 characters are read.
            context: who asks, from where; None for anyone.
            k: how many tools retrieval adds at the most; base and pinned tools come on top. None leaves it
                to the profile, and hands a small catalog on whole.
            max_tools: how many tools at the most, base and pinned ones included.
            budget_tokens: how many tokens the selected schemas may cost.
            sent: names already in the conversation's tool list: they keep their places, newcomers go behind.
            history: messages of the conversation before this one, oldest first: dicts with role and content
                as OpenAI's and Anthropic's, or the user's as plain str. A short message ("yes, at 8") is
                read with the turns it answers.
            vector: the message's embedding, where the caller has it from this catalog's embedder.
            strict: raises what would otherwise only be named in `Selection.degraded`.

        Raises:
            InvalidInput: an argument is of the wrong type or out of range. Nothing else, unless strict.
        """
        return self._engine.select(
            message, context, k, max_tools, budget_tokens, sent, history, vector, strict
        )

    async def aselect(
        self,
        message: str,
        context: Context | None = None,
        k: int | None = None,
        *,
        max_tools: int | None = None,
        budget_tokens: int | None = None,
        sent: Sequence[str] = (),
        history: Sequence[object] = (),
        vector: npt.ArrayLike | None = None,
        strict: bool = False,
    ) -> Selection:
        """`select` for an event loop: an embedder that waits does so in a thread."""
        return await self._engine.aselect(
            message, context, k, max_tools, budget_tokens, sent, history, vector, strict
        )

    def refresh(self, tools: Iterable[Any] | None = None, *, progress: Progress | None = None) -> Catalog:
        """Builds the next catalog and puts it in place; if that fails, the last good one goes on serving.

        tools: the new tools, under the toolkits and routes that were given at first; None reads the
            folder again.

        Raises:
            InvalidDefinition: the new definitions are malformed.
            InvalidInput: there is nothing to read again.
        """
        with self._building:
            if tools is not None:
                definitions = _joined(tools, self._declared)
            elif self._read is not None:
                definitions = self._read()
            else:
                raise InvalidInput("refresh: this catalog was made from objects, pass the new ones as tools")
            self._engine.swap(self._snapshot(self._compose(definitions, progress)))
            self._definitions = definitions
            return self.catalog

    def record(
        self,
        picked: Selection | str,
        called: Called = (),
        *,
        wanted: Called = (),
        corrected: Mapping[str, str | None] | Iterable[str] = (),
        final: bool = True,
        reporter: str | None = None,
    ) -> Recorded:
        """Says what the model did with a selection; the next ones are better for it.

        Each tool of an event counts once, whatever is reported again; saying something else of it replaces
        what was said. Costs less than a selection, and no selection waits for it.

        Args:
            picked: the selection that the model was sent, or its event id while it is among the last 128.
            called: tools that were called → whether they did what was asked; None where that is not known,
                or was no fault of the tool's. Names alone succeeded. Tools that are not named were not
                called.
            wanted: the same for tools that were not shown, and that the model found by a search and called.
            corrected: tools that were called and were the wrong ones → the right one, or None.
            final: False where more of this turn is to be reported.
            reporter: who this comes from, such as a user's id; None for the context's user. What one reporter
                says counts for a tool three times a day, and what fewer than three of them say teaches
                nothing. "" is the application itself, whose word counts.

        Raises:
            InvalidInput: a tool was not shown, an argument is of the wrong type.
            NotFound: no event of that id is known, or the selection is another Toolroll's.
        """
        selection = self._selection(picked)
        entries = tuple(
            replace(entry, name=own_name(selection, entry.name))
            for entry in read_called(called, wanted, corrected)
        )
        said_by = selection.turn.context.user if reporter is None else checked_reporter(reporter)
        exposure = self._engine.exposure(selection, said_by)
        found = not_shown(selection, [entry.name for entry in entries if entry.kind in NOT_SHOWN])
        return self._memory.record(exposure, Report(selection.event_id, entries, found, final))

    def session(self, session: str, context: Context | None = None, *, learns: bool = True) -> Session:
        """The conversation of this name, as far as it has come: in memory, for the last 100,000 of them.

        Args:
            session: names it within its organisation; as long as it is the same, so is the conversation.
            context: who talks, from where.
            learns: whether what `Session.used` says is recorded as outcomes.

        Raises:
            InvalidInput: the name is empty or no text.
        """
        context = of_session(session, context)
        live = self._live.get((context.org, session), self._retention(context.org))
        return Session(self._engine, context, live, self._report if learns else None, _unheard)

    def forget_session(self, session: str, org: str = "") -> bool:
        """Deletes what a conversation holds; whether there was any."""
        return self._live.pop((org, session)) is not None

    async def asession(self, session: str, context: Context | None = None, *, learns: bool = True) -> Session:
        """`session` for an event loop: a store is read in a thread."""
        return await asyncio.to_thread(self.session, session, context, learns=learns)

    def learned(self, org: str = "") -> Learned | None:
        """What an organisation's outcomes have taught so far; None for nothing."""
        return self._engine.learned.get(org)

    @property
    def catalog(self) -> Catalog:
        """The snapshot that the next selection reads; of a registry, the shared one."""
        return self._engine.snapshot.shared.catalog

    def why(self, name: str, context: Context | None = None) -> Verdict:
        """Whether this context may see the tool, and what decides it: a rule, its status or a setting.

        Raises:
            NotFound: no tool of that name in the catalog.
        """
        context = context or Context()
        snapshot = self._engine.snapshot
        return judge(snapshot.pipeline(context.org), name, context, snapshot.settings(context.org))

    def __len__(self) -> int:
        return len(self.catalog)

    def _retention(self, org: str) -> Retention:
        return self._engine.snapshot.pipeline(org).retention

    def _report(
        self,
        picked: Selection,
        called: Mapping[str, bool | None],
        wanted: Mapping[str, bool | None],
        final: bool,
    ) -> None:
        """What a session says of a turn."""
        self.record(picked, called, wanted=wanted, final=final)

    def _snapshot(self, pipeline: Pipeline) -> Snapshot:
        return Snapshot(pipeline, experiments=self._experiments)

    def _selection(self, picked: Selection | str) -> Selection:
        """The selection itself, if it was made here."""
        if isinstance(picked, str):
            for selection in reversed(self._recent):
                if selection.event_id == picked:
                    return selection
            raise NotFound(
                f"event {picked!r:.80}: is not among the last {_RECENT} selections; keep the selection itself"
            )
        if not isinstance(picked, Selection):
            raise InvalidInput(f"picked: is {type(picked).__name__}, must be the Selection, or its event id")
        return self._own(picked)

    def _own(self, picked: Selection) -> Selection:
        """The selection, if it was made here."""
        if picked.turn.issuer is not self._engine:
            raise NotFound(f"event {picked.event_id}: was selected by another Toolroll; record it there")
        return picked

    def _first(self, definitions: Definitions, progress: Progress | None) -> Pipeline:
        """A pipeline in any case: where the tools cannot be embedded now, one by words alone that says so."""
        try:
            return self._compose(definitions, progress)
        except EmbedderUnavailable as error:
            _log.warning("catalog: built without vectors until refresh(): %s", error)
            return self._builder.by_words(definitions, _in_force(definitions), error)

    def _compose(self, definitions: Definitions, progress: Progress | None) -> Pipeline:
        return self._builder.pipeline(definitions, _in_force(definitions), progress)


def of_session(session: object, context: Context | None) -> Context:
    """The context of a conversation.

    Raises:
        InvalidInput: its name is empty or no text.
    """
    if not isinstance(session, str) or not 0 < len(session) <= _LONGEST_SESSION:
        raise InvalidInput(
            f"session: is {session!r:.80}, must be a name of at most {_LONGEST_SESSION:,} characters"
        )
    if context is not None and not isinstance(context, Context):
        raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
    context = Context() if context is None else context
    return context if context.session == session else replace(context, session=session)


def _unheard(context: Context, live: ConversationState) -> None:
    """In memory there is nobody to tell of a change."""


def checked_reporter(reporter: object) -> str:
    """The name of who reports.

    Raises:
        InvalidInput: it is no text, or too long.
    """
    if not isinstance(reporter, str) or len(reporter) > _LONGEST_REPORTER:
        raise InvalidInput(
            f"reporter: is {reporter!r:.80}, must be a str of at most {_LONGEST_REPORTER:,} characters"
        )
    return reporter


def own_name(selection: Selection, name: str) -> str:
    """The tool's own name, where it is one that the selection was sent under."""
    if name in selection:
        return name
    with suppress(Denied):
        return selection.check(name).name
    return name


def _in_force(definitions: Definitions) -> EffectivePolicy:
    return EffectivePolicy.validated(PolicySource(definitions.rules, definitions.pages, definitions.tiers))


def _joined(tools: Iterable[Any], declared: Definitions) -> Definitions:
    """The tools, and what was said about their toolkits, which comes before what the tools imply."""
    for toolkit in declared.toolkits:
        if not isinstance(toolkit, Toolkit):
            raise InvalidInput(f"toolkits: holds {toolkit!r:.80}, must hold toolroll.Toolkit")
    for route in declared.routes:
        if not isinstance(route, Route):
            raise InvalidInput(f"routes: holds {route!r:.80}, must hold toolroll.Route")
    for rule in declared.rules:
        if not isinstance(rule, Rule):
            raise InvalidInput(f"rules: holds {rule!r:.80}, must hold toolroll.Rule")
    for page in declared.pages:
        if not isinstance(page, PageMapping):
            raise InvalidInput(f"pages: holds {page!r:.80}, must hold toolroll.PageMapping")
    given = read_tools(tools)
    known = {toolkit.name for toolkit in declared.toolkits}
    implied = (toolkit for toolkit in given.toolkits if toolkit.name not in known)
    return replace(
        declared,
        tools=given.tools,
        toolkits=(*implied, *declared.toolkits),
        routes=(*given.routes, *declared.routes),
    )


def variants_of(experiment: Experiment | None) -> dict[str, Profile]:
    """The profiles that an experiment deals out, by their names.

    Raises:
        NotFound: there is no profile of a variant's name.
    """
    return {} if experiment is None else {name: profile(name) for name in experiment.variants}


def profile_of(choice: str | Profile) -> Profile:
    """The profile of that name, or the parameters themselves."""
    if isinstance(choice, Profile):
        return choice
    if not isinstance(choice, str):
        raise InvalidInput(f"profile: is {choice!r:.80}, must be a name or toolroll.Parameters")
    return profile(choice)
