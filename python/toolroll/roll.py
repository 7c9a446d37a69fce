"""`Toolroll`, the object that users hold: checks arguments and passes them to a `Home`."""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

import numpy.typing as npt

from toolroll.catalog.catalog import Catalog, Progress
from toolroll.embedders.named import EmbedderChoice
from toolroll.formats.schemas import own_name_of
from toolroll.formats.sources.bad_tools import OnBadTool
from toolroll.formats.sources.dicts import list_of
from toolroll.formats.sources.folder import read_folder
from toolroll.homes.memory import Home, MemoryHome, OutcomeChoice
from toolroll.homes.options import (
    PROGRESS,
    BuildOptions,
    CheckedOptions,
    EngineOptions,
    SourceOptions,
    profile_of,
    with_tools,
)
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import WANTED, Called, Entry, Report, read_called
from toolroll.learning.record_result import RecordResult
from toolroll.learning.reporters import Reporter, UnnamedCaller, stored_reporter
from toolroll.model.argument_checks import check_callable, check_flag, check_registry_url, items_of
from toolroll.model.context import Context
from toolroll.model.errors import Denied, InvalidDefinition, InvalidInput, NotFound, quoted
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions, Route, Tool, Toolkit
from toolroll.registry.options import Follow, Recording, Sessions
from toolroll.runtime.extras import needs_extra
from toolroll.runtime.threads import CallPool, survive_forks
from toolroll.selection.engine import Engine, RequestOptions, SelectRequest
from toolroll.selection.environment_names import warn_of_unknown
from toolroll.selection.observer import Observer, OutcomeReport
from toolroll.selection.policy.absent_names import AbsentNames
from toolroll.selection.profiles import Profile
from toolroll.selection.selection import Selection
from toolroll.selection.steps import Step
from toolroll.selection.telemetry import Counters
from toolroll.selection.unknown_values import unknown_values
from toolroll.selection.verdict import Verdict, judge
from toolroll.selection.visible import VisibleTools
from toolroll.selection.what_if import with_rules
from toolroll.sessions.session import Session
from toolroll.sessions.state import LiveConversation
from toolroll.snapshots.saved_source import SavedSource

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from toolroll.homes.registry import RegistryHome
    from toolroll.snapshots.manifest import Manifest
    from toolroll.snapshots.replica import PublishedCatalogs

_LONGEST_REPORTER = 4_096
_OWN_TOOLS_S = 0.5  # how long the first request of an organisation waits for the organisation's own tools
_LOOK_S = 0.002  # between two looks for them
_TASKS = 4  # refreshes, flushes and the like of event loops at the same time
LONGEST_SESSION = 1_024
_LONGEST_TIMEOUT_S = 86_400 * 365

_Read = Callable[["Iterable[Any] | None"], "Definitions | SavedSource"]


class RecordOptions(TypedDict, total=False):
    """Keyword arguments of `Toolroll.record`."""

    wanted: Called
    corrected: Mapping[str, str | None] | Iterable[str]
    final: bool
    reporter: Reporter | None
    org: str | None


class Toolroll:
    """A catalog, and selections from it. Safe to share between threads.

    Make one with `from_tools`, `from_folder` or `demo`, or over a registry with `open`. Keep it, and call
    `select` for each message. Close it at the end, or use it in a `with` or an `async with`.
    """

    def __init__(self, home: Home, observers: Iterable[Observer] = ()) -> None:
        """home: selects, learns and keeps conversations; the class methods make one."""
        warn_of_unknown()
        self._home, self._engine = home, home.engine
        survive_forks(home, lambda one: one.fork_locks(), lambda one: one.after_fork())
        self._base: Toolroll | None = None  # the one that `with_tools` was called on
        self._tasks = CallPool(_TASKS, "toolroll-tasks")  # event loops may wait for minutes here
        for observer in items_of(observers, "observers"):
            self.observe(observer)

    @classmethod
    def from_tools(
        cls,
        tools: Iterable[Any],
        *,
        toolkits: Iterable[Toolkit] = (),
        routes: Iterable[Route] = (),
        **options: Unpack[SourceOptions],
    ) -> Toolroll:
        """From `Tool`s, OpenAI, Anthropic, Gemini or MCP definitions and annotated callables, mixed.

        Args:
            tools: the definitions; `Selection.tools` gives these objects back.
            toolkits: toolkits with their descriptions and settings.
            routes: keywords and patterns that activate toolkits.
            **options: all optional:

                - rules: who sees which tool (`docs/registry.md`).
                - pages: which toolkits belong to which page.
                - tiers: subscription tiers, lowest first.
                - embedder: "static" (offline, built in; the default), "minilm", "multilingual",
                  "ollama:MODEL", … (`docs/embedders.md`), "none" for words alone, or an `Embedder`.
                - profile: the name of a profile, or a `Profile`.
                - hnsw: whether a large catalog gets an HNSW graph: "auto" (the default) builds it in the
                  background from some 40,000 tools on, True before the call returns, False never
                  (`docs/catalogs.md`).
                - experiment: assigns selections to profiles (`docs/learning.md`).
                - on_bad_tool: what happens to a tool with an error: "refuse" raises, "skip" repairs the tool
                  or leaves it out, and logs that. None skips tools in MCP's form and refuses all others.
                - progress: called with (texts embedded, in all).
                - observers: called with each selection and each report (`docs/observability.md`).
                - steps: your own steps in every selection: objects with a method `narrow`, `rerank` or both
                  (`docs/selections.md`).

        Raises:
            InvalidDefinition: a tool, toolkit or route is malformed, or two have the same name.
        """
        checked = CheckedOptions.of("from_tools", options, SourceOptions)
        declared = checked.declared(toolkits, routes)
        if tools is None:
            raise InvalidDefinition("tools is None, must be a list of tools")
        read = _reader(declared, checked.on_bad_tool)
        return cls._in_memory(checked, lambda: read(tools), read)

    @classmethod
    def from_folder(cls, path: str | PathLike[str], **options: Unpack[SourceOptions]) -> Toolroll:
        """From a folder with one JSON file a toolkit, a folder with `tools.jsonl`, or one such file.

        The options are the same as of `from_tools`. `catalog.json` in the folder may hold further `pages`,
        and `tiers` if none are passed.

        Raises:
            InvalidDefinition: with file, line and key of the error.
            NotFound: there is no such file or folder.
        """
        checked = CheckedOptions.of("from_folder", options, SourceOptions)
        if not isinstance(path, (str, PathLike)):
            raise InvalidInput(f"path: is {quoted(path)}, must be a folder or a file")
        if not os.path.exists(path):  # Path.exists raises for a name that is too long
            raise NotFound(f"catalog {str(path)!r:.300}: no such file or folder")
        declared, on_bad_tool = checked.declared(), checked.on_bad_tool
        absent = AbsentNames(declared.rules, declared.pages)  # reading the files warns of names in them

        def read(newer: Iterable[Any] | None) -> Definitions:
            if newer is not None:
                return absent.warn(with_tools(declared, newer, on_bad_tool))
            found = read_folder(path, declared.tiers, on_bad_tool)
            return absent.warn(replace(found, rules=declared.rules, pages=(*found.pages, *declared.pages)))

        return cls._in_memory(checked, lambda: read(None), read)

    @classmethod
    def from_definitions(cls, definitions: Definitions, **options: Unpack[BuildOptions]) -> Toolroll:
        """From definitions that were read before (`Definitions`).

        The options are `embedder`, `profile`, `experiment`, `observers`, `steps`, `hnsw` and `progress` of
        `from_tools`.

        Raises:
            InvalidDefinition: they make no catalog, for example because two tools have the same name.
        """
        checked = CheckedOptions.of("from_definitions", options, BuildOptions)
        if not isinstance(definitions, Definitions):
            raise InvalidInput(
                f"definitions: is {type(definitions).__name__}, must be toolroll.Definitions; "
                "from_tools takes a list of tools"
            )
        absent = AbsentNames(definitions.rules, definitions.pages)
        read = _reader(replace(definitions, tools=()), None, absent)
        return cls._in_memory(checked, lambda: absent.warn(definitions), read)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        rules: Iterable[Rule] | None = None,
        pages: Iterable[PageMapping] | None = None,
        tiers: Iterable[str] | None = None,
        **options: Unpack[EngineOptions],
    ) -> Toolroll:
        """From a file that `save` or `toolroll build` wrote: nothing is embedded, read or indexed again.

        The file is mapped: all processes that load it share its memory, forked workers too. Replace it (as
        `save` does), never edit it: a process that has it open keeps the old one until `refresh()`.
        `Selection.tools` has `Tool` values, since the objects of the process that saved it are gone.

        The options are `embedder`, `profile`, `experiment`, `observers` and `steps` of `from_tools`. The
        embedder must be the one that the catalog was built with. The file has the measurements for the
        profile of `save`; for other weights `load` measures again.

        rules, pages, tiers: replace the saved ones; None keeps the saved ones.

        Raises:
            NotFound: there is no such file.
            InvalidInput: it is no saved catalog, is damaged, or was built by another version of toolroll,
                with another embedder or for another kind of profile: build it again.
        """
        checked = CheckedOptions.of("load", options, EngineOptions, rules=rules, pages=pages, tiers=tiers)
        if not isinstance(path, (str, PathLike)):
            raise InvalidInput(f"path: is {quoted(path)}, must be a file")
        source = SavedSource.open(path, *checked.policy)
        absent = AbsentNames(source.declared.rules, source.declared.pages)

        def read(newer: Iterable[Any] | None) -> Definitions | SavedSource:
            if newer is None:
                return SavedSource.open(path, *checked.policy)
            return absent.warn(with_tools(source.declared, newer))

        return cls._in_memory(replace(checked, hnsw=source.saved.options.hnsw), lambda: source, read)

    @classmethod
    def _in_memory(
        cls, options: CheckedOptions, first: Callable[[], Definitions | SavedSource], read: _Read
    ) -> Toolroll:
        """first: makes the definitions or opens the file. read: makes the next definitions, for `refresh`."""
        builder = options.builder()
        home = MemoryHome(
            first(), builder, read=read, experiment=options.experiment, progress=options.progress
        )
        return cls(home, options.observers)

    @classmethod
    def from_published(
        cls,
        published: PublishedCatalogs,
        otherwise: str | PathLike[str] | None = None,
        **options: Unpack[SourceOptions],
    ) -> Toolroll:
        """From the newest catalog that `toolroll catalogs build` published, and from each newer one.

        The catalog is copied to this machine, verified and mapped, so all processes of the machine share its
        memory. If none can be used, the process builds its own from `otherwise`, and `health()` says so.
        Needs the extra `published` (`docs/scale.md`).

        The options are the same as of `from_tools`. Rules, pages and tiers replace the published ones. The
        embedder must be the one that the catalog was built with.

        Args:
            published: the location, and the keys of trusted publishers.
            otherwise: a folder or file as for `from_folder`. Then only catalogs of exactly these files are
                used. None uses any catalog of a trusted publisher, and builds none.
            **options: see above.

        Raises:
            Unavailable: no published catalog can be used and there is nothing to build from, or the extra is
                not installed.
        """
        from toolroll.homes.published import PublishedHome
        from toolroll.snapshots.publisher import source_digest

        checked = CheckedOptions.of("from_published", options, SourceOptions)
        declared = checked.declared()

        def own() -> Definitions:
            assert otherwise is not None
            found = read_folder(otherwise, declared.tiers, checked.on_bad_tool)
            return replace(found, rules=declared.rules, pages=(*found.pages, *declared.pages))

        def digest() -> str:
            assert otherwise is not None
            return source_digest(otherwise, checked.on_bad_tool)

        if otherwise is not None and not os.path.exists(otherwise):
            raise NotFound(
                f"{str(otherwise)!r:.300}: no such file or folder; `otherwise` names the tools to build from"
            )
        home = PublishedHome(
            published,
            checked.builder(),
            own=None if otherwise is None else own,
            source=None if otherwise is None else digest,
            open_file=lambda path: SavedSource.open(path, *checked.policy),
            experiment=checked.experiment,
            progress=checked.progress,
        )
        return cls(home, checked.observers)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the catalog to a file that `load` reads in milliseconds.

        The file holds tools, toolkits, routes, rules and page mappings, all vectors and indexes, and the
        measurements for this profile. It replaces an older one in one step. It holds neither
        conversations nor statistics of outcomes.

        Raises:
            InvalidInput: it cannot be written; the catalog belongs to a registry or to one request; a tool
                has a value that is no JSON.
        """
        if not isinstance(path, (str, PathLike)):
            raise InvalidInput(f"path: is {quoted(path)}, must be a file")
        if self._base is not None:
            raise InvalidInput("save: the catalog is that of one request; make one with from_tools")
        self._home.save(path)

    def publish(
        self,
        location: str | PathLike[str],
        name: str = "main",
        *,
        key: str | PathLike[str],
        source: str | PathLike[str] | None = None,
        on_bad_tool: OnBadTool | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Publishes the catalog (over a registry, the shared one) as the newest of its name.

        `from_published` and `Follow(published=…)` read it. Needs the extra `published` (`docs/scale.md`).

        Args:
            location: a folder, or a URL such as s3://bucket/catalogs.
            name: names the catalog in the location.
            key: the file of the private key that signs it; `toolroll catalogs key` makes one.
            source: the folder or file that the catalog was built from: replicas with the same files use
                the catalog.
            on_bad_tool: as in the build.
            options: for the storage's package.

        Raises:
            InvalidInput: the catalog cannot be saved, has no vectors because the embedder failed, or the
                registry's policy is not whole.
            Unavailable: the location does not accept it, or the extra is not installed.
        """
        with needs_extra("publish", "published"):
            from toolroll.runtime.locations import Location
        from toolroll.snapshots.keys import SigningKey
        from toolroll.snapshots.manifest import checked_name
        from toolroll.snapshots.publisher import publish, source_digest
        from toolroll.snapshots.shelf import Shelf

        if self._base is not None:
            raise InvalidInput("publish: the catalog is that of one request; make one with from_tools")
        snapshot = self._engine.snapshot
        for failure in snapshot.shared.lasting_failures:
            raise InvalidInput(f"publish: the catalog is not whole ({failure}); call refresh() first")
        if snapshot.policy.failures:
            raise InvalidInput("publish: the registry's policy is not whole; see: toolroll registry check")
        signing = SigningKey.read(key)
        manifest, _ = publish(
            Shelf(Location.of(location, options), checked_name(name), (signing.public,)),
            signing,
            snapshot.shared.catalog,
            snapshot.policy.policy_source,
            source="" if source is None else source_digest(source, on_bad_tool),
            registry_revision=self._home.health()["revision"],
        )
        return manifest

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = False,
        embedder: EmbedderChoice = "static",
        profile: str | Profile = "default",
        observers: Iterable[Observer] = (),
        steps: Iterable[Step] = (),
        follow: Follow = Follow(),
        recording: Recording = Recording(),
        sessions: Sessions = Sessions(),
    ) -> Toolroll:
        """From a registry: "sqlite:///tools.db", or "postgresql://…" if several processes share one.

        The catalog follows the registry in the background, so that no selection waits for it
        (`docs/registry.md`). Needs the extra `store` or `postgres`.

        Args:
            url: where the registry is; `toolroll import FOLDER --to URL` makes one.
            create: makes an empty registry if there is none: for adapters of agent frameworks and tool lists
                of requests, whose rules, outcomes and conversations it keeps.
            embedder: see `from_tools`.
            profile: see `from_tools`.
            observers: see `from_tools`.
            steps: see `from_tools`.
            follow: how this process learns of changes, and builds catalogs.
            recording: how selections and outcomes are kept.
            sessions: how long conversations are kept.

        Raises:
            NotFound: there is no such database.
            StoreUnavailable: it cannot be read, or is of another version.
            InvalidInput: the URL or an argument is wrong, or the extra is not installed.
        """
        try:
            from toolroll.homes.registry import RegistryHome
        except ModuleNotFoundError as error:
            check_registry_url(url)  # a wrong URL needs no package
            raise InvalidInput(
                f"a registry needs {error.name}: pip install 'toolroll[store]', or 'toolroll[postgres]'"
            ) from error
        check_flag(create, "create")
        for value, name, kind in (
            (follow, "follow", Follow),
            (recording, "recording", Recording),
            (sessions, "sessions", Sessions),
        ):
            if not isinstance(value, kind):
                raise InvalidInput(f"{name}: is {quoted(value)}, must be toolroll.{kind.__name__}")
        builder = CheckedOptions(embedder, profile, steps=steps, hnsw=follow.hnsw).builder()
        if follow.published is not None:
            from toolroll.homes.published import PublishedFor

            builder = replace(builder, find_saved=PublishedFor(follow.published))
        name = profile if isinstance(profile, str) else "custom"
        home = RegistryHome(url, builder, follow, recording, sessions, profile=name, create=create)
        roll = cls(home, observers)
        # Its threads hold the home, which would outlive the Toolroll.
        weakref.finalize(roll, _abandon, home).atexit = False
        return roll

    @classmethod
    def demo(cls, **options: Unpack[EngineOptions]) -> Toolroll:
        """The built-in demonstration catalog: a revenue platform, a personal assistant, a home server.

        The options are `embedder`, `profile`, `experiment`, `observers` and `steps` of `from_tools`.
        """
        return cls.from_folder(Path(__file__).with_name("demo") / "toolkits", **options)

    def _over(self, engine: Engine) -> Toolroll:
        """A Toolroll with the same home and another engine."""
        roll = object.__new__(Toolroll)
        roll._home, roll._tasks, roll._base, roll._engine = self._home, self._tasks, self, engine
        return roll

    # Selecting.

    def select(
        self,
        message: str,
        context: Context | None = None,
        k: int | None = None,
        *,
        max_tools: int | None = None,
        budget_tokens: int | None = None,
        always_include: Collection[str] = (),
        sent: Sequence[str] = (),
        history: Sequence[object] = (),
        vector: npt.ArrayLike | None = None,
        strict: bool = False,
    ) -> Selection:
        """Picks the tools for a message.

        Args:
            message: what the user wrote. Of a long one the first and the last 4,096 characters are read.
            context: who asks, from where; None for anyone.
            k: how many tools retrieval adds at most; base, pinned and always included tools are extra. None
                leaves the number to the profile, and selects all tools of a small catalog.
            max_tools: how many tools at most, of whatever origin.
            budget_tokens: how many tokens the selected schemas may cost.
            always_include: names of tools to select whatever the message says, if the caller may have them;
                `Selection.missing_required` names the others.
            sent: names in the conversation's tool list: they keep their places, and new tools follow.
            history: messages of the conversation before this one, oldest first: dicts with role and content
                in OpenAI's or Anthropic's form, or the user's as plain str. A short message ("yes, at 8") is
                read with the turns that it answers.
            vector: the message's embedding, if the caller has it from this catalog's embedder.
            strict: raises the first failure instead of listing it in `Selection.degraded`.

        Raises:
            InvalidInput: an argument is of the wrong type or out of range.
            StoreUnavailable: this Toolroll follows a registry and is closed. Nothing else, unless strict.
        """
        return self._engine.select(
            SelectRequest(
                message, context, k, max_tools, budget_tokens, always_include, sent, history, vector, strict
            )
        )

    async def aselect(
        self,
        message: str,
        context: Context | None = None,
        k: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> Selection:
        """`select` for an event loop: an embedder that waits does so in a thread.

        Over a registry, the first selection of an organisation waits up to half a second for its own tools.
        """
        if isinstance(context, Context):
            await self._aown_tools(context.org)
        return await self._engine.aselect(SelectRequest(message, context, k, **options))

    def preview(
        self,
        message: str,
        context: Context | None = None,
        k: int | None = None,
        *,
        profile: str | Profile | None = None,
        **options: Unpack[RequestOptions],
    ) -> Selection:
        """The selection that `select` would return now, for trials: not logged, counted or learnt from.

        The selection has no event, so no outcome can be reported for it. The arguments are the same as of
        `select`.

        profile: decides instead of the present one, over the same catalog. Its `description_counts` and
            `keyword_mode` have no effect: the present profile's are in the catalog's indexes.

        Raises:
            NotFound: there is no profile of that name.
        """
        request = SelectRequest(message, context, k, **options)
        return self._engine.preview(request, None if profile is None else profile_of(profile))

    def what_if(
        self,
        rules: Iterable[Rule] = (),
        *,
        without_rules: Iterable[tuple[str, str]] = (),
        tools: Iterable[Tool] = (),
        orgs: Iterable[str] = (),
    ) -> WhatIf:
        """Previews under other rules or with other tools: nothing is saved, logged, counted or learnt from.

        The result shows the moment of the call. Over a registry, a rule or tool that was saved within the
        last second may be missing.

        Args:
            rules: added to the present ones, or replacing those with the same `org` and `name`.
            without_rules: organisation and name of rules that do not apply.
            tools: replace the tools of the same names. Damping and calibration stay as measured.
            orgs: the organisations whose contexts will be asked about, besides those of `rules`.

        Raises:
            InvalidDefinition: a rule or tool makes no sense.
            NotFound: there is no tool of that name.
            InvalidInput: the tools came with a request, or from a saved catalog, which cannot have others.
        """
        new, gone, others = tuple(rules), tuple(without_rules), items_of(tools, "tools", Tool)
        asked = {*orgs, *(rule.org for rule in new), *(org for org, _ in gone)}
        engine = self._engine
        snapshot = engine.serving
        if others:
            if snapshot.tool_list is not None:
                raise InvalidInput("tools: these came with a request; call with_tools with the other ones")
            snapshot = replace(self._home.trial(others, asked), expired=snapshot.expired)
        if snapshot.tool_list is not None:  # the registry decides about its tools, under the other rules
            changed = engine.followed(with_rules(engine.base.serving, new, gone, asked))
        else:
            changed = with_rules(snapshot, new, gone, asked)
        return WhatIf(self._over(engine.over(lambda _: changed)))

    def with_tools(self, tools: Iterable[Any]) -> Toolroll:
        """A Toolroll over the tools that came with a request, instead of its own.

            picked = roll.with_tools(request["tools"]).select(message, context)
            request["tools"] = list(picked.tools)

        Rules apply to these tools by name, and outcomes are learnt by the tools' names and texts, for all
        lists alike. Either Toolroll takes reports; a session needs the same list. `Selection.tools` has
        the request's own objects in their order: the selected ones, all others of the same name, and the
        hosted tools (`{"type": "web_search"}`), which no limit counts. No invalid item refuses the list.

        The last lists are cached by their content. In an event loop, use `awith_tools`. To change a tool,
        replace its object in the list: a change in place in a long list is noticed some calls later.

        Args:
            tools: as for `from_tools`, in one list or as MCP's result of `tools/list`.

        Raises:
            InvalidDefinition: it is no list.
        """
        self._engine.check_open()
        lists, items = self._home.tool_lists, tools if type(tools) is list else list_of(tools)
        return self._over(self._engine.over(lambda base: lists.snapshot(items, base)))

    def release_tools(self) -> None:
        """Releases the catalogs that a Toolroll of `with_tools` has read; the next call reads them again.

        For callers that keep such a Toolroll while the catalog behind it changes.

        Raises:
            InvalidInput: `with_tools` did not make it.
        """
        if self._base is None:
            raise InvalidInput("release_tools: these tools came with no request")
        self._engine.release()

    async def awith_tools(self, tools: Iterable[Any]) -> Toolroll:
        """`with_tools` for an event loop: an embedder that waits does so in a thread."""
        return await self._engine.arun(lambda: self.with_tools(tools))

    def session(
        self,
        session: str,
        context: Context | None = None,
        *,
        learns: bool = True,
        reporter: Reporter | None = None,
    ) -> Session:
        """The conversation of this name, in its present state.

        In memory the last 100,000 conversations are kept. Over a registry this reads the store, so that any
        process can continue the conversation; if the store does not answer, the state in this process counts.
        The first request of an organisation waits up to half a second for its own tools. In an event loop,
        use `asession`.

        Args:
            session: names the conversation within its organisation.
            context: who talks, from where.
            learns: whether outcomes that `Session.used` reports are recorded.
            reporter: reports its outcomes, as for `record`; None for the context's user.

        Raises:
            InvalidInput: the name is empty or no text.
        """
        org = _checked_context(context).org
        snapshot = self._engine.serving
        if org in snapshot.awaited:
            deadline = time.monotonic() + _OWN_TOOLS_S
            while self._home.is_preparing(org) and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
            snapshot = self._engine.serving
        retention = snapshot.own.get(org, snapshot.shared).retention
        live = self._home.conversations.open((org, _checked_session(session)), retention)
        return self._session(session, context, live, learns, reporter)

    async def asession(
        self,
        session: str,
        context: Context | None = None,
        *,
        learns: bool = True,
        reporter: Reporter | None = None,
    ) -> Session:
        """`session` for an event loop: a store that waits does so in a thread."""
        org = _checked_context(context).org
        await self._aown_tools(org)
        retention = self._engine.serving.pipeline(org).retention
        live = await self._home.conversations.aopen((org, _checked_session(session)), retention)
        return self._session(session, context, live, learns, reporter)

    def release_session(self, session: str, context: Context | None = None) -> None:
        """Drops this process's memory of a conversation that a registry has. Does not wait.

        For hosts that know that a conversation has ended or continues in another process. It can also
        continue here, read from the registry. In memory this does nothing; `Session.delete` drops a
        conversation.

        Raises:
            InvalidInput: the name is empty or no text.
        """
        self._home.conversations.release((_checked_context(context).org, _checked_session(session)))

    async def _aown_tools(self, org: str) -> None:
        """Waits a moment for the tools of an organisation that asks for the first time in this process."""
        if org in self._engine.snapshot.awaited:
            import asyncio  # the caller has imported it

            deadline = time.monotonic() + _OWN_TOOLS_S
            while self._home.is_preparing(org) and time.monotonic() < deadline:
                await asyncio.sleep(_LOOK_S)

    def _session(
        self,
        session: str,
        context: Context | None,
        live: LiveConversation,
        learns: bool,
        reporter: Reporter | None,
    ) -> Session:
        if learns is not True:
            check_flag(learns, "learns")
        _stored_reporter(reporter)
        record = self._record_turn if learns else None
        home, asked = self._home, live.contexts
        if asked is not None and asked[0] is context:  # then the tools that it may have are known
            own = asked[1]
        else:
            own = _checked_context(context)
            own = own if own.session == session else replace(own, session=session)
            live.contexts = None if context is None else (context, own)
        if home.conversations.store is not None:
            self._engine.check_open()  # `close` may have come while the store was read
        return Session(
            self._engine, home.conversations, own, live, record, home.arun, owner=self, reporter=reporter
        )

    def may(self, name: str, context: Context | None = None) -> bool:
        """Whether this context may have the tool now: one decision for lists, searches and calls.

        False for a tool that does not exist. `Selection.check` and `Session.check` also ask whether the model
        was offered the tool.
        """
        return name in self.visible(context)

    def has_rules(self, context: Context | None = None) -> bool:
        """Whether a rule, a toolkit's tier or a tool's status could deny a tool to this organisation.

        `why` tells it for one tool.
        """
        return self._engine.serving.has_rules(_checked_context(context).org)

    def visible(self, context: Context | None = None) -> VisibleTools:
        """All tools that this context may have now, as a collection of their names."""
        return self._engine.visible(_checked_context(context))

    def core(self, context: Context | None = None) -> VisibleTools:
        """The visible tools that every selection has: pinned tools and the tools of base toolkits."""
        return self.visible(context).core

    def why(self, name: str, context: Context | None = None) -> Verdict:
        """Whether this context may see the tool, and the reason: a rule, its status or a setting.

        Raises:
            NotFound: no tool of that name in the catalog.
        """
        context = _checked_context(context)
        if not isinstance(name, str):
            raise NotFound(f"tool {quoted(name)}: is no name")
        snapshot = self._engine.serving
        self._engine.ask(context.org)
        pipeline, stored = snapshot.pipeline(context.org), snapshot.settings(context.org)
        return judge(pipeline, name, context, stored, snapshot.expired)

    def unknown_values(self, context: Context) -> tuple[str, ...]:
        """Names in the context that match nothing, one sentence each: unknown tiers, tools and pages.

        A selection ignores such values, because a catalog may change between two turns.
        """
        if not isinstance(context, Context):
            raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
        pipeline = self._engine.snapshot.pipeline(context.org)
        visible = self.visible(replace(context, exclude=(), only=(), required=()))
        return tuple(unknown_values(pipeline, context, visible))

    # Learning.

    def record(
        self,
        picked: Selection | str,
        called: Called = (),
        *,
        wanted: Called = (),
        corrected: Mapping[str, str | None] | Iterable[str] = (),
        final: bool = True,
        reporter: Reporter | None = None,
        org: str | None = None,
    ) -> RecordResult:
        """Reports the model's calls after a selection; later selections learn from it.

        Each tool of an event counts once, however often it is reported; a different report on it replaces
        the earlier one. In memory this costs less than a selection, and no selection waits for it. Over a
        registry the report is on disk when this returns and survives the end of the process, also while
        the database does not answer; other processes learn from it within a second.

        A selection, or a receipt with a key that this process knows, is recorded without the store. For the
        event id of another process, or a receipt with a newer key, this waits for the store, up to 5 s: in an
        event loop, call `arecord`.

        Args:
            picked: the selection that the model was sent, its receipt, or its event id (in memory: while it
                is among the last 128).
            called: called tool → whether it succeeded; None if that is unknown or was not the tool's fault.
                In a list of names, all succeeded. Shown tools that are not named were not called. To report
                the duration of a call, give a mapping: `{"weather": {"succeeded": True, "duration_ms":
                84.0}}`.
            wanted: the same for tools that were not shown, and that the model found by a search and called.
            corrected: wrongly called tool → the right one, or None.
            final: False if more reports on this turn will follow. A turn without a final report is closed
                ten minutes after its first one.
            reporter: the reporter, such as a user's id; None for the context's user. A reporter counts for a
                tool three times a day, and a tool's estimates stay at their prior until two reporters have
                reported on it. "" is the application itself, whose reports always count. Give an
                `UnnamedCaller` of `toolroll.learning.reporters` for people whom nobody has identified.
            org: the reporter's organisation, if it is known: events of other organisations are refused.

        Raises:
            InvalidInput: a tool was not shown, or an argument is of the wrong type. Nothing was recorded.
            NotFound: no event of that id is known, or the selection is another Toolroll's.
            Denied: a receipt was not signed by this registry, has expired, or is another organisation's.
            StoreUnavailable: the outbox is full or cannot be written; or an event or key must be read from
                the store, and it does not answer.
        """
        entries = read_called(called, wanted, corrected)
        if final is not True:
            check_flag(final, "final")
        if org is not None and not isinstance(org, str):
            raise InvalidInput(f"org: is {quoted(org)}, must be the name of an organisation, or None")
        self._engine.check_open()
        found: Selection | Exposure | str = picked
        if isinstance(picked, str):
            found = self._home.recent(picked) or picked
        if not isinstance(found, (str, Exposure)):
            selection = found = self._own(found)
            shown = selection.shown
            if any([entry.name not in shown for entry in entries]):
                entries = tuple([_of_selection(selection, entry) for entry in entries])
        stored = _stored_reporter(reporter)
        try:
            result = self._home.record(found, entries, final=final, reporter=stored, org=org)
        except Denied:
            self._engine.telemetry.denied("receipt")
            raise
        return self._recorded(result, entries, final)

    def _recorded(self, result: RecordResult, entries: tuple[Entry, ...], final: bool) -> RecordResult:
        """Tells observers and counters of a report."""
        outcomes = {entry.name: entry.kind for entry in entries}
        durations = {entry.name: entry.duration_ms for entry in entries if entry.duration_ms is not None}
        self._engine.telemetry.recorded(
            OutcomeReport(result.event_id, result.org, outcomes, result.counted, final, durations)
        )
        return result

    async def arecord(
        self, picked: Selection | str, called: Called = (), **options: Unpack[RecordOptions]
    ) -> RecordResult:
        """`record` for an event loop: over a registry it runs in a thread.

        If the caller is cancelled, the report counts wholly or not at all.
        """
        return await self._home.arun(lambda: self.record(picked, called, **options))

    def receipt(self, picked: Selection) -> str:
        """A text by which another process can report the outcome later: `record` takes it.

        Over a registry it is signed, and every process over the same registry accepts it for a day. It is
        not encrypted: names of tools and the context can be read from it. In memory it is the event id.

        `open` reads the key to sign with. If the store did not answer then, this waits: see `areceipt`.

        Raises:
            StoreUnavailable: the key to sign with has not been read yet, and the store does not answer.
        """
        picked = self._own(picked)
        self._engine.check_open()
        return self._home.receipt(picked)

    async def areceipt(self, picked: Selection) -> str:
        """`receipt` for an event loop: over a registry it runs in a thread."""
        return await self._home.arun(lambda: self.receipt(picked))

    def forget_outcomes(
        self, org: str = "", *, actor: str, reason: str = "", **which: Unpack[OutcomeChoice]
    ) -> int:
        """Takes an organisation's outcomes back, whole events at a time, and unlearns them.

        They stay in the store but no longer count, and a new report does not bring them back. The audit
        log keeps the actor. Only over a registry: in memory, outcomes are not kept.

        Args:
            org: the organisation of the outcomes.
            actor: the caller, for the audit log.
            reason: for the audit log.
            **which: at least one; each narrows the choice: `event` (its id), `reporter`, `tool` (events in
                which it was reported), `since` and `until` (events that were shown in this time).

        Returns:
            The number of events.

        Raises:
            InvalidInput: no choice is passed, or this Toolroll is in memory.
            StoreUnavailable: nothing was changed.
        """
        self._engine.check_open()
        return self._home.forget_outcomes(org, actor=actor, reason=reason, **which)

    async def aforget_outcomes(
        self, org: str = "", *, actor: str, reason: str = "", **which: Unpack[OutcomeChoice]
    ) -> int:
        """`forget_outcomes` for an event loop: it runs in a thread."""
        return await self._tasks.arun(lambda: self.forget_outcomes(org, actor=actor, reason=reason, **which))

    # The catalog, and the work behind it.

    @property
    def catalog(self) -> Catalog:
        """The catalog that the next selection reads; over a registry, the shared one."""
        return self._engine.snapshot.shared.catalog

    def __len__(self) -> int:
        return len(self.catalog)

    def __bool__(self) -> bool:
        """Always true, so `if roll:` also holds for a Toolroll that has no tools yet."""
        return True

    def refresh(self, tools: Iterable[Any] | None = None, *, progress: Progress | None = None) -> Catalog:
        """Replaces the catalog now. If that fails, the last good one stays.

        In memory it reads the folder again, or takes the tools. Over a registry it reads all changes,
        settings included, instead of waiting for the next poll.

        Args:
            tools: the new tools, under the toolkits and routes of the first ones; None reads the folder or
                the registry again.
            progress: called with (texts embedded, in all).

        Raises:
            InvalidDefinition: the new definitions make no catalog.
            InvalidInput: there is nothing to read again, or tools are passed for a registry.
            StoreUnavailable: the registry cannot be read.
        """
        check_callable(progress, "progress", PROGRESS)
        self._engine.check_open()
        self._home.refresh(tools, progress)
        return self.catalog

    async def arefresh(
        self, tools: Iterable[Any] | None = None, *, progress: Progress | None = None
    ) -> Catalog:
        """`refresh` for an event loop: it runs in a thread, and `progress` is called there."""
        return await self._tasks.arun(lambda: self.refresh(tools, progress=progress))

    def warm_up(self, orgs: Iterable[str] | None = None, *, progress: Progress | None = None) -> None:
        """Builds the catalogs of these organisations and reads their outcomes; waits for both.

        None stands for all organisations with tools of their own, up to `Follow.organisations`. Without this
        call, a registry's organisations are built in the background when they first ask; until then the
        shared tools serve them and `degraded` lists "organisation". In memory there is nothing to do.

        progress: called with (organisations built, in all).

        Raises:
            StoreUnavailable: the registry cannot be read.
            ToolrollError: an organisation's tools make no catalog; the others are built.
        """
        check_callable(progress, "progress", "(organisations built, in all)")
        self._engine.check_open()
        self._home.warm_up(None if orgs is None else frozenset(items_of(orgs, "orgs", str)), progress)

    async def awarm_up(self, orgs: Iterable[str] | None = None, *, progress: Progress | None = None) -> None:
        """`warm_up` for an event loop: it runs in a thread, and `progress` is called there."""
        await self._tasks.arun(lambda: self.warm_up(orgs, progress=progress))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Waits up to `timeout_s` until everything recorded so far is in the store. Returns whether it is.

        In memory it returns True at once.
        """
        self._engine.check_open()
        return self._home.flush(_checked_timeout(timeout_s))

    async def aflush(self, timeout_s: float = 10.0) -> bool:
        """`flush` for an event loop: it waits in a thread."""
        return await self._tasks.arun(lambda: self.flush(timeout_s))

    @property
    def ready(self) -> bool:
        """Whether requests may come: there is a catalog, and `close` was not called.

        A degraded Toolroll is still ready: it serves the last good catalog.
        """
        return not self._home.is_closed

    def health(self) -> dict[str, Any]:
        """The state for a health check. Never waits; the keys are the same in memory and over a registry.

        `ready` (bool), `degraded` (names of the failing parts) and `why` (a sentence for each) are the
        verdict. `catalog_revision`, `tools`, `graph` and `sessions` follow. `revision`, `age_s`,
        `organisations` and `recording` are None in memory. `docs/server.md` describes them.
        """
        return self._home.health()

    def counters(self) -> Counters:
        """The counts of this process: selections, latency, failures, reports (`docs/observability.md`).

        Asks no database, and costs some microseconds for each thread that has selected.
        """
        return self._home.counters()

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Calls the observer with each selection and each report from now on.

        The calls come before the caller gets its result, so an observer must not wait. If it raises, the
        first error is logged, and all are counted in `Counters.observer_errors`.

        Returns:
            A function that removes the observer.

        Raises:
            InvalidInput: it lacks one of the two methods of `Observer`, or one is a coroutine function.
        """
        return self._engine.telemetry.observe(observer)

    def close(self, timeout_s: float = 10.0) -> None:
        """Writes everything that waits, and stops background work.

        Over a registry, every later call that selects, checks, opens or continues a conversation, signs,
        records or refreshes is refused (`StoreUnavailable`), because the rules are no longer followed. Past
        selections, `catalog`, `health` and `counters` can still be read. A catalog in memory continues to
        serve.

        Outcomes that the store does not take in time stay in the outbox for the next process. A call that
        waits for PostgreSQL in another thread fails. A build of a catalog, or a wait for a lock of SQLite,
        ends by itself, maybe after this returns.

        timeout_s: for all of it together.
        """
        self._home.close(_checked_timeout(timeout_s))
        self._tasks.stop()

    async def aclose(self, timeout_s: float = 10.0) -> None:
        """`close` for an event loop: it waits in a thread, also after the caller is cancelled."""
        closing = CallPool(1, "toolroll-close")  # a thread of its own, whatever the others wait for
        closing.stop()  # its thread ends with the call
        await closing.arun(lambda: self.close(timeout_s))

    async def __aenter__(self) -> Toolroll:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a Toolroll has threads and cannot be copied or pickled: open it in the other process, or fork"
        )

    def __enter__(self) -> Toolroll:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _record_turn(
        self, exposure: Exposure, entries: tuple[Entry, ...], found: tuple[ShownTool, ...], final: bool
    ) -> None:
        """Records a session's report about a turn."""
        result = self._home.record_turn(exposure, Report(exposure.event_id, entries, found, final))
        self._recorded(result, entries, final)

    def _own(self, picked: Selection) -> Selection:
        """The selection, if it was made here."""
        if not isinstance(picked, Selection):
            raise InvalidInput(
                f"picked: is {type(picked).__name__}, must be a Selection, its receipt or its event id"
            )
        if not picked.event_id:
            raise InvalidInput("picked: is a preview, which has no event to report on")
        if picked.turn.engine_id != self._engine.id:
            raise NotFound(f"event {picked.event_id}: was selected by another Toolroll; record it there")
        return picked


@dataclass(frozen=True, slots=True, eq=False)
class WhatIf:
    """Decisions under other rules, without a trace. `Toolroll.what_if` makes it."""

    _roll: Toolroll

    def preview(
        self,
        message: str,
        context: Context | None = None,
        k: int | None = None,
        *,
        profile: str | Profile | None = None,
        **options: Unpack[RequestOptions],
    ) -> Selection:
        """As `Toolroll.preview`."""
        return self._roll.preview(message, context, k, profile=profile, **options)

    def visible(self, context: Context | None = None) -> VisibleTools:
        """As `Toolroll.visible`."""
        return self._roll.visible(context)

    def why(self, name: str, context: Context | None = None) -> Verdict:
        """As `Toolroll.why`."""
        return self._roll.why(name, context)


def _abandon(home: RegistryHome) -> None:
    if not home.is_closed:
        home.abandon()
        warnings.warn(f"{home!r} was not closed: call close, or use a `with`", ResourceWarning, stacklevel=2)


def _reader(
    declared: Definitions, on_bad_tool: OnBadTool | None, absent: AbsentNames | None = None
) -> Callable[[Iterable[Any] | None], Definitions]:
    """Returns a function that makes definitions from new tools, for a catalog that was made from objects."""
    warned = AbsentNames(declared.rules, declared.pages) if absent is None else absent

    def read(newer: Iterable[Any] | None) -> Definitions:
        if newer is None:
            raise InvalidInput("refresh: this catalog was made from objects, pass the new ones as tools")
        return warned.warn(with_tools(declared, newer, on_bad_tool))

    return read


def _checked_session(session: object) -> str:
    """The session's name.

    Raises:
        InvalidInput: it is empty or no text.
    """
    if not isinstance(session, str) or not 0 < len(session) <= LONGEST_SESSION:
        raise InvalidInput(
            f"session: is {quoted(session)}, must be a name of at most {LONGEST_SESSION:,} characters"
        )
    return session


def _stored_reporter(reporter: object) -> str | None:
    """The reporter in the form that outcomes store; None for the context's user.

    Raises:
        InvalidInput: it is no reporter, or too long.
    """
    if reporter is None:
        return None
    if isinstance(reporter, (str, UnnamedCaller)):
        stored = stored_reporter(reporter)
        if len(stored) <= _LONGEST_REPORTER:
            return stored
    raise InvalidInput(
        f"reporter: is {quoted(reporter)}, must be a str of at most {_LONGEST_REPORTER:,} characters, or an "
        "UnnamedCaller"
    )


def _of_selection(selection: Selection, entry: Entry) -> Entry:
    """The entry by the tool's own name. A tool that was selected and not sent was wanted, not called."""
    name = entry.name
    if name not in selection:
        name = own_name_of(name, selection.names) or name
    is_unsent = entry.kind in WANTED and name in selection and name not in selection.shown
    return replace(entry, name=name, kind=WANTED[entry.kind] if is_unsent else entry.kind)


def _checked_timeout(timeout_s: object) -> float:
    is_number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
    if not is_number or not 0 <= timeout_s <= _LONGEST_TIMEOUT_S:  # type: ignore[operator]
        raise InvalidInput(
            f"timeout_s: is {quoted(timeout_s)}, must be seconds from 0 to {_LONGEST_TIMEOUT_S:,}"
        )
    return float(timeout_s)  # type: ignore[arg-type]


def _checked_context(context: Context | None) -> Context:
    if context is not None and not isinstance(context, Context):
        raise InvalidInput(f"context: is {type(context).__name__}, must be toolroll.Context")
    return Context() if context is None else context
