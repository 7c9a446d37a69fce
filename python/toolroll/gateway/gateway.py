"""`Gateway`: the tools of many MCP servers, listed, found and called by one decision."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from mcp import MCPError

from toolroll import Answer, Context, Session, Tool, Unavailable
from toolroll.formats.meta_tools import CALL_TOOL, SEARCH_TOOLS, read_call
from toolroll.formats.schemas import SentTools, sent_tools
from toolroll.gateway.accounts import Accounts
from toolroll.gateway.caller import Caller
from toolroll.gateway.configuration import Configuration
from toolroll.gateway.hooks import AskFirst, CallHook, PlannedCall, Refused, is_destructive
from toolroll.gateway.logs import CallLog, Ending
from toolroll.gateway.places import log_file
from toolroll.gateway.protocol import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Json
from toolroll.gateway.questions import TOO_MANY, URL_NEEDED
from toolroll.gateway.reasons import said
from toolroll.gateway.results import READ_RESULT_TOOL, LimitResults, are_wrong
from toolroll.gateway.reviewed_offers import ReviewedOffers
from toolroll.gateway.search_markdown import markdown
from toolroll.gateway.sign_in_tool import OfferedSignIns, sign_in_tool
from toolroll.gateway.tool_catalog import Route, ToolCatalog
from toolroll.gateway.tool_lists import Shown, shown_for
from toolroll.gateway.tool_names import READ_RESULT, SIGN_IN
from toolroll.gateway.upstream import Upstream
from toolroll.learning.outcomes import LONGEST_MS, CallReport
from toolroll.learning.reporters import UnnamedCaller
from toolroll.model.errors import InvalidInput, Overloaded, ToolrollError

_log = logging.getLogger("toolroll.gateway")

_MOST_DYNAMIC = 24  # tools that searches of one conversation add to its list
_SEARCH_START_S = 8.0  # after the start, until which a search waits for servers that start
_LONGEST_START_S = 30.0  # the same for a call of a tool that is not known yet
_MOST_SEARCHED = 100_000  # conversations whose calls may be outcomes of their searches
_BETWEEN_STARTS_S = 0.005  # a new process holds the loop up; clients are answered in between
_COLLECT_S = 0.05  # servers that answer together are taken over together
_TOGETHER_S = 0.3  # after which a list has what was taken over; the rest follows
_OUTCOMES_S = 5.0  # that a search waits until outcomes are written or read
_RECORDS = 64  # outcomes that are written at the same time; more make their calls wait
# Errors that say nothing of the tool.
_NO_FAULT = (INTERNAL_ERROR, METHOD_NOT_FOUND, INVALID_PARAMS, TOO_MANY, URL_NEEDED)


# Gets the server, the user whose connection it is, and what the server says of a resource that changed.
OnUpdate = Callable[[Upstream, str, Json], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Found:
    """A conversation's last search.

    Attributes:
        names: of the tools that it found.
        is_answered: whether a call has followed.
    """

    names: frozenset[str]
    is_answered: bool = False


class Gateway:
    """All servers of a configuration, behind one interface.

    Attributes:
        on_update: is called when a subscribed resource has changed.
        upstreams: by name.
        catalog: their tools.
        hooks: run before and after each call.
    """

    def __init__(
        self,
        configuration: Configuration,
        catalog: ToolCatalog,
        state: Path,
        hooks: Iterable[CallHook] = (),
    ) -> None:
        """state: folder for logs. hooks: behind those that the configuration asks for."""
        self.options, self.catalog = configuration.options, catalog
        accounts = Accounts.of_configuration(configuration, state)
        self.upstreams = {
            spec.name: Upstream(
                spec,
                configuration.folder,
                log_file(state, spec.name),
                self._on_listing,
                self._on_update,
                accounts.of,
            )
            for spec in configuration.servers.values()
        }
        self.reviewed = ReviewedOffers.of_configuration(configuration, state)
        self._reviewing = anyio.Lock()
        self.offered_sign_ins = OfferedSignIns(
            self.upstreams, self.user_of, self.options.identity is None, lambda: self.tasks
        )
        self.call_log = CallLog(state / "calls.jsonl", self.options.log_arguments)
        self.results = LimitResults(self.options.result_limit) if self.options.result_limit else None
        asking: list[CallHook] = [AskFirst()] if self.options.destructive == "ask" else []
        limiting: list[CallHook] = [self.results] if self.results else []
        self.hooks: Sequence[CallHook] = (*limiting, *asking, *hooks)
        self._known: dict[str, anyio.Event] = {name: anyio.Event() for name in self.upstreams}
        self._began = 0.0
        self._away_since: dict[str, float] = {}
        self._pending: list[Upstream] = []
        self._has_pending = anyio.Event()
        self._listeners: list[Any] = []
        self.on_update: OnUpdate | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._recording = anyio.Semaphore(_RECORDS)
        self._warm: dict[str, anyio.Event] = {}  # organisation → its outcomes are read
        self._unwritten: dict[str, list[anyio.Event]] = {}  # conversation → outcomes that are being written
        self._searched: OrderedDict[str, _Found] = OrderedDict()  # by conversation
        self._destructive: tuple[object, tuple[str, ...]] | None = None

    # Its life.

    @asynccontextmanager
    async def running(self, began: float | None = None) -> AsyncIterator[Gateway]:
        """Starts all servers, guardians first, and stops them at the end.

        began: since when clients wait, by the monotonic clock; by default from now on.
        """
        self._began = time.monotonic() if began is None else began
        try:
            async with anyio.create_task_group() as self._tasks:
                for task in (self.call_log.run, self._take_over, self._compare, self._start):
                    self._tasks.start_soon(task)
                try:
                    yield self
                finally:
                    self._tasks.cancel_scope.cancel()
        finally:
            self.call_log.close()

    async def _start(self) -> None:
        guardians = [one for one in self.upstreams.values() if one.spec.role == "guardian"]
        assert self._tasks is not None
        self._tasks.start_soon(self._outcomes_read, self.options.caller.org)
        for upstream in guardians:
            self._tasks.start_soon(upstream.run)
        for upstream in guardians:
            await upstream.main.tried()
        for upstream in guardians:
            self._tasks.start_soon(self._note_first, upstream)
        for upstream in self.upstreams.values():
            if upstream not in guardians:
                self._tasks.start_soon(upstream.run)
                self._tasks.start_soon(self._note_first, upstream)
                await anyio.sleep(_BETWEEN_STARTS_S)

    async def _note_first(self, upstream: Upstream) -> None:
        """A server that could not be started does not hold up the first list."""
        await upstream.main.tried()
        if upstream.listing is None:
            self._known[upstream.spec.name].set()

    async def known(self, at_most_s: float = 0.0) -> None:
        """Waits until every server has said what it has, or cannot be started.

        at_most_s: after the start, if that is longer than the first list may take.
        """
        limit_s = max(at_most_s, self.options.first_list_s)
        with anyio.move_on_after(max(0.0, self._began + limit_s - time.monotonic())):
            for event in self._known.values():
                await event.wait()

    @property
    def is_starting(self) -> bool:
        """Whether a server has not said yet what it has."""
        return not all(event.is_set() for event in self._known.values())

    def on_change(self, listener: Any) -> None:
        """Calls `await listener(kind)` when "tools", "prompts" or "resources" may be others."""
        self._listeners.append(listener)

    async def _on_listing(self, upstream: Upstream) -> None:
        self._pending.append(upstream)
        self._has_pending.set()

    async def _on_update(self, upstream: Upstream, user: str, params: Json) -> None:
        if self.on_update is not None and self._tasks is not None:
            self._tasks.start_soon(self.on_update, upstream, user, params)  # a slow client holds up no server

    async def _take_over(self) -> None:
        """Takes the lists of servers over, those that come together at once."""
        while True:
            await self._has_pending.wait()
            self._has_pending = anyio.Event()
            await anyio.sleep(_COLLECT_S)
            taken, self._pending = list(dict.fromkeys(self._pending)), []
            began = time.monotonic()
            for number, upstream in enumerate(taken, 1):
                assert upstream.listing is not None
                try:
                    await self.catalog.take_over(upstream.spec, upstream.listing)
                    upstream.refusal = ""
                except Exception as error:  # one server's list costs its own tools only
                    upstream.refusal = said(error)
                    _log.warning(
                        "server %r: its tools are not taken over: %s", upstream.spec.name, said(error)
                    )
                if time.monotonic() - began > _TOGETHER_S:
                    self._pending = [*taken[number:], *self._pending]
                    self._has_pending.set()
                    taken = taken[:number]
                    break
            await self._review_offers(taken)
            await self.catalog.refresh()
            for upstream in taken:
                self._known[upstream.spec.name].set()
            await self._changed("tools", "prompts", "resources")

    async def _review_offers(self, upstreams: Iterable[Upstream]) -> None:
        """Takes prompts and resources over as far as they are approved: files are written side by side."""
        async with self._reviewing, anyio.create_task_group() as tasks:
            for upstream in upstreams:
                tasks.start_soon(self._review, upstream)

    async def _review(self, upstream: Upstream) -> None:
        name, listing = upstream.spec.name, upstream.listing
        if listing is not None:
            try:
                await anyio.to_thread.run_sync(self.reviewed.take_over, name, listing)
            except Exception as error:  # the state folder may be gone or closed
                _log.warning("server %r: its prompts and resources are not taken over: %s", name, error)

    async def _compare(self) -> None:
        """Compares the servers' lists from time to time, and notes which servers are away.

        What somebody changes in the registry (a rule, a pin, an approval) changes clients' lists, too.
        """
        compared, absent, revision = time.monotonic(), self._absent(), self.catalog.revision
        while True:
            await anyio.sleep(1.0)
            now = time.monotonic()
            for name, upstream in self.upstreams.items():
                if upstream.is_up:
                    self._away_since.pop(name, None)
                else:
                    self._away_since.setdefault(name, now)
            before, absent = (absent, revision), self._absent()
            revision = self.catalog.revision
            approved = [one for name, one in self.upstreams.items() if self.reviewed.is_changed(name)]
            await self._review_offers(approved)
            if revision != before[1]:
                await self.catalog.read_held()
            if approved or absent != before[0]:
                await self._changed("tools", "prompts", "resources")
            elif revision != before[1]:
                await self._changed("tools")
            if now - compared > self.options.refresh_s:
                compared = now
                for upstream in self.upstreams.values():
                    upstream.compare()

    async def _changed(self, *kinds: str) -> None:
        for listener in self._listeners:
            for kind in kinds:
                try:
                    await listener(kind)
                except Exception:
                    _log.exception("a listener failed")

    @property
    def tasks(self) -> anyio.abc.TaskGroup:
        """For what runs in the background, as long as the gateway does."""
        assert self._tasks is not None
        return self._tasks

    # Tools.

    def shown(self, caller: Caller) -> Shown:
        """What this client is shown."""
        return self._shown(caller, len(self.catalog.visible(self._listed(caller.context))))

    def _shown(self, caller: Caller, tools: int) -> Shown:
        return shown_for(self.options.mode, caller.incoming.client, None if self.is_starting else tools)

    async def list_tools(self, caller: Caller) -> SentTools:
        """The list of this caller."""
        await self.known()
        await self._start_own(caller)
        context = self._listed(caller.context)
        visible = self.catalog.visible(context)
        shown = self._shown(caller, len(visible))
        more = () if self.results is None else (READ_RESULT_TOOL,)
        if waiting := self.offered_sign_ins.servers(caller):
            more = (*more, sign_in_tool(waiting))
        tools: tuple[Tool, ...]
        if shown == "all":
            # A client that never reads the list again finds the tools of servers that start late.
            searching = (SEARCH_TOOLS, CALL_TOOL) if self.is_starting else ()
            tools = (*visible.definitions, *searching, *more)
        else:
            tools = (*visible.core.definitions, SEARCH_TOOLS, CALL_TOOL, *more)
        if shown == "dynamic":
            session = await self._session(caller, context)
            names = {tool.name for tool in tools}
            loaded = [visible.get(name) for name in session.loaded if name not in names]
            tools = (*tools, *[tool for tool in loaded if tool is not None][-_MOST_DYNAMIC:])
        return sent_tools(tools, "mcp")

    async def call_tool(self, caller: Caller, params: Json) -> Json:
        """Runs a tool, or one of the gateway's own.

        Raises:
            MCPError: as the server answered.
        """
        name, arguments = params.get("name"), params.get("arguments") or {}
        if name == SEARCH_TOOLS.name:
            return await self._search(caller, arguments)
        if name == READ_RESULT and self.results is not None:
            try:
                return _text(self.results.read(caller.client_key, arguments))
            except InvalidInput as error:
                return _text(str(error), is_error=True)
        if name == SIGN_IN:
            return await self.offered_sign_ins.call(caller, arguments)
        given: Json = {"name": name, "arguments": arguments}
        if name == CALL_TOOL.name:
            try:
                given = read_call(arguments)._asdict()
            except InvalidInput as error:
                return _text(str(error), is_error=True)
        tool = self.catalog.visible(self._callable(caller.context)).get(given["name"])
        if tool is None:
            answer = await self._answered(caller, given)
            if answer.call is None:
                return _text(self._away(caller.context, given["name"]) or answer.text, is_error=True)
            tool, given = answer.call.tool, {"arguments": answer.call.arguments}
        route = self.catalog.routes[tool.name]
        upstream = self.upstreams[route.server]
        planned = PlannedCall(caller, tool, upstream.spec, given["arguments"])
        try:
            result, call = await self._run(planned, upstream, route, params)
        except Refused as error:  # a call that was not made says nothing of the search
            return _text(str(error), is_error=True)
        if self._is_of_turn(caller, tool.name, call):
            await self._recording.acquire()
            written = anyio.Event()
            self._unwritten.setdefault(caller.client_key, []).append(written)
            assert self._tasks is not None
            self._tasks.start_soon(self._record, caller, tool.name, call, written)
        if isinstance(result, Exception):
            raise result
        return result

    async def _answered(self, caller: Caller, given: Json) -> Answer:
        """The answer to a call of an unknown tool. If its server is being started, it waits for that one."""
        session = await self._session(caller, self._callable(caller.context))
        answer = await session.aanswer(CALL_TOOL.name, given)
        server = self.catalog.server_of(given["name"]) if answer.call is None and answer.unknown else None
        if server is not None and not self._known[server].is_set():
            with anyio.move_on_after(max(0.0, self._began + _LONGEST_START_S - time.monotonic())):
                await self._known[server].wait()
            session = await self._session(caller, self._callable(caller.context))
            answer = await session.aanswer(CALL_TOOL.name, given)
        return answer

    def _away(self, context: Context, name: str) -> str:
        """Why a tool is unknown whose server has not said yet what it has; "" if it has."""
        server = self.catalog.server_of(name)
        if server is None or self.upstreams[server].listing is not None or not self.sees(context, server):
            return ""
        error = self.upstreams[server].main.away()
        return f"{error}. {_advice(error)}"

    def _is_of_turn(self, caller: Caller, name: str, call: CallReport) -> bool:
        """Whether an outcome belongs to the last search: the next call's, and those of tools that it found.

        If the next call is of another tool and does not work, the call after it is the next.
        A search that another process answered is not known here; all calls count as its outcomes.
        """
        found = self._searched.get(caller.client_key)
        if found is None:
            return bool(self.options.catalog)
        is_next, is_found = not found.is_answered, name in found.names
        found.is_answered = found.is_answered or is_found or call["succeeded"] is True
        return is_next or is_found

    def forget(self, client_key: str, context: Context) -> None:
        """Drops what is kept in memory of a conversation that has ended."""
        self._searched.pop(client_key, None)
        if self.results is not None:
            self.results.forget(client_key)
        self.tasks.start_soon(self._release, client_key, context)

    async def _release(self, client_key: str, context: Context) -> None:
        """Drops the conversation's session, once the outcomes of its calls are written."""
        await self._outcomes_written(client_key)
        self.catalog.roll.release_session(client_key, context)

    async def _search(self, caller: Caller, arguments: Json) -> Json:
        await self.known(_SEARCH_START_S)
        await self._start_own(caller)
        await self._outcomes_written(caller.client_key)
        await self._outcomes_read(caller.context.org)
        context = self._listed(caller.context)
        session = await self._session(caller, context)
        answer = await session.aanswer(SEARCH_TOOLS.name, arguments)
        if not answer.is_error:
            self._searched[caller.client_key] = _Found(frozenset(tool.name for tool in answer.tools))
            self._searched.move_to_end(caller.client_key)
            if len(self._searched) > _MOST_SEARCHED:
                self._searched.popitem(last=False)
        if answer.tools and self.shown(caller) == "dynamic":
            await session.aload([tool.name for tool in answer.tools])
            await caller.incoming.notify_later("notifications/tools/list_changed")
        is_plain = self.options.answer_format == "json" or not answer.tools
        told = answer.text if is_plain else markdown(answer.text)
        if self.is_starting and (self.options.answer_format == "markdown" or not answer.tools):
            told += "\n\nSome servers are still being started: if nothing fits, search again in some seconds."
        if waiting := self.offered_sign_ins.servers(caller):
            told += f"\n\nThese servers wait for their user's sign-in, see {SIGN_IN}: {', '.join(waiting)}."
        return _text(told, is_error=answer.is_error)

    async def _run(
        self, call: PlannedCall, upstream: Upstream, route: Route, params: Json
    ) -> tuple[Json | Exception, CallReport]:
        """Makes a call; its result or error, and what to report of it.

        The duration is the server's: from the request to its answer, without hooks.

        Raises:
            Refused: the call was not made.
        """
        began, ending, told = time.perf_counter(), "cancelled", ""
        asked_at = began
        ran: list[CallHook] = []
        try:
            for hook in self.hooks:
                call = await hook.before(call)
                ran.append(hook)
            connection = await upstream.connection_of(self.user_of(call.caller.context))
            asked: Json = {"name": route.tool, "arguments": dict(call.arguments)}
            if meta := {key: value for key, value in (params.get("_meta") or {}).items() if _passes(key)}:
                asked["_meta"] = meta
            wants_progress = "progressToken" in (params.get("_meta") or {})
            asked_at = time.perf_counter()
            result = await connection.request(
                "tools/call",
                asked,
                asker=call.caller,
                on_progress=call.caller.incoming.progress if wants_progress else None,
            )
            worked: bool | None = not result.get("isError", False)
            ending = "succeeded" if worked else "failed"
            if not worked and await anyio.to_thread.run_sync(are_wrong, call.tool, call.arguments, result):
                worked = None
            report = _report(worked, asked_at)
            for hook in reversed(ran):
                result = await hook.after(call, result)
            return result, report
        except (Refused, InvalidInput) as error:
            ending, told = "refused", str(error)
            raise Refused(told) from error
        except (Unavailable, TimeoutError) as error:
            ending, told = "unavailable", str(error)
            return _text(f"{told}. {_advice(error)}", is_error=True), {"succeeded": None}
        except MCPError as error:
            ending, told = "failed", error.message
            return error, {"succeeded": None} if error.code in _NO_FAULT else _report(False, asked_at)
        finally:
            self.call_log.write(call, _ENDINGS[ending], began, told)

    async def _record(self, caller: Caller, name: str, call: CallReport, written: anyio.Event) -> None:
        """Reports the outcome of a call. A tool that no search found counts as wanted."""
        try:
            session = await self._session(caller, self._callable(caller.context))
            if await session.aused({name: call}):
                await session.aanswer(CALL_TOOL.name, {"name": name})
                await session.aused({name: call})
        except Exception as error:  # an outcome that is lost costs no call
            _log.warning("the outcome of %r is not recorded: %s", name, error)
        finally:
            self._recording.release()
            written.set()
            self._unwritten[caller.client_key].remove(written)
            if not self._unwritten[caller.client_key]:
                del self._unwritten[caller.client_key]

    async def _outcomes_read(self, org: str) -> None:
        """Waits until an organisation's outcomes are read, for its first search in this process."""
        if org not in self._warm:
            self._warm[org] = anyio.Event()
            assert self._tasks is not None
            self._tasks.start_soon(self._warm_up, org)
        with anyio.move_on_after(_OUTCOMES_S):
            await self._warm[org].wait()

    async def _warm_up(self, org: str) -> None:
        try:
            await self.catalog.roll.awarm_up([org])
        except ToolrollError as error:
            _log.warning("organisation %r: its outcomes cannot be read yet: %s", org, error)
        finally:
            self._warm[org].set()

    async def _outcomes_written(self, client_key: str) -> None:
        """Waits for the outcomes of this conversation's calls, which belong to its last search."""
        with anyio.move_on_after(_OUTCOMES_S):
            while unwritten := self._unwritten.get(client_key):
                await unwritten[0].wait()

    async def _session(self, caller: Caller, context: Context) -> Session:
        reporter = UnnamedCaller(f"gateway {context.user}") if self.options.identity is None else None
        return await self.catalog.roll.asession(caller.client_key, context, reporter=reporter)

    async def _start_own(self, caller: Caller) -> None:
        """Starts servers whose lists only those who have signed in can read."""
        user = self.user_of(caller.context)
        for upstream in self.upstreams.values():
            with suppress(Overloaded):
                await upstream.start_for(user)

    # The one decision.

    def _callable(self, context: Context) -> Context:
        """The context that decides on calls: without tools that nobody can call or that are forbidden."""
        hidden = (*self.catalog.without_routes(), *self._forbidden())
        return replace(context, exclude=(*context.exclude, *hidden)) if hidden else context

    def _listed(self, context: Context) -> Context:
        """The context that decides on lists and searches: also without tools of servers that are away.

        Tools that are for an app are called by it and shown to no model. Where mappings name toolkits for
        the caller's page, other tools are not shown; they can be called.
        """
        away = self._absent()
        hidden: list[str] = []
        if away:
            hidden = [name for name, route in self.catalog.routes.items() if route.server in away]
        context = self._callable(context)
        visible = self.catalog.visible(context)
        if (on_page := visible.on_page) is not visible:
            hidden += set(visible.names).difference(on_page.names)
        more = (*hidden, *self.catalog.for_apps)
        return replace(context, exclude=(*context.exclude, *more)) if more else context

    def _absent(self) -> frozenset[str]:
        """Servers that are away for so long that their tools leave the lists."""
        now = time.monotonic()
        return frozenset(
            name for name, since in self._away_since.items() if now - since >= self.options.keep_s
        )

    def _forbidden(self) -> tuple[str, ...]:
        if self.options.destructive != "deny":
            return ()
        catalog = self.catalog.roll.catalog
        if self._destructive is None or self._destructive[0] is not catalog:
            self._destructive = catalog, tuple(tool.name for tool in catalog.tools if is_destructive(tool))
        return self._destructive[1]

    def user_of(self, context: Context) -> str:
        """Whose process serves a call; "" for the configured user's. Organisations share no process."""
        own = self.options.caller
        return "" if (context.org, context.user) == (own.org, own.user) else f"{context.org}/{context.user}"

    def sees(self, context: Context, server: str) -> bool:
        """Whether this caller may know of a server: he may have one of its tools, or it has none."""
        visible = self.catalog.visible(self._callable(context))
        own = [name for name, route in self.catalog.routes.items() if route.server == server]
        return not own or any(name in visible for name in own)


_ENDINGS: Mapping[str, Ending] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "unavailable": "unavailable",
    "refused": "refused",
    "cancelled": "cancelled",
}


def _report(succeeded: bool | None, asked_at: float) -> CallReport:
    """Of a call that the server has answered now."""
    return {"succeeded": succeeded, "duration_ms": min(1e3 * (time.perf_counter() - asked_at), LONGEST_MS)}


def _text(text: str, is_error: bool = False) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _passes(key: str) -> bool:
    """Whether a client's metadata goes on to the server: not what belongs to this connection."""
    return key != "progressToken" and not key.startswith("io.modelcontextprotocol/")


def _advice(error: Exception) -> str:
    wait_s = getattr(error, "retry_after_s", None)
    if wait_s:
        return f"Try again in {max(1, round(wait_s))} s, or go on without it."
    return "Try again, or go on without it."
