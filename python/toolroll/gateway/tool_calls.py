"""`ToolCalls`: lists, finds and calls tools for clients, and reports the outcomes of calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

import anyio
import anyio.to_thread
from mcp import MCPError

from toolroll import Answer, Context, Session, Tool, Unavailable
from toolroll.formats.meta_tools import CALL_TOOL, SEARCH_TOOLS, read_call
from toolroll.formats.schemas import SentTools, sent_tools
from toolroll.gateway.caller import Caller
from toolroll.gateway.clients import KnownClient
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.hooks import AskFirst, Hook, PlannedCall, Refused, run_after, run_before
from toolroll.gateway.logs import Ending
from toolroll.gateway.protocol import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Json, text_result
from toolroll.gateway.questions import TOO_MANY, URL_NEEDED
from toolroll.gateway.results import READ_RESULT_TOOL, LimitResults, are_wrong
from toolroll.gateway.search_markdown import markdown
from toolroll.gateway.sign_in_tool import sign_in_definition
from toolroll.gateway.tool_catalog import ToolServer
from toolroll.gateway.tool_lists import ListMode, list_mode
from toolroll.gateway.tool_names import READ_RESULT, SIGN_IN
from toolroll.gateway.upstream import Upstream
from toolroll.learning.outcomes import LONGEST_MS, CallReport
from toolroll.learning.reporters import UnnamedCaller
from toolroll.model.errors import InvalidInput, Overloaded

_log = logging.getLogger("toolroll.gateway")

_MOST_DYNAMIC = 24  # tools that searches of one conversation add to its list
_SEARCH_START_S = 8.0  # after the start, until which a search waits for servers that start
_LONGEST_START_S = 30.0  # the same for a call of a tool that is not known yet
_OUTCOMES_S = 5.0  # that a search waits until outcomes are written or read
_RECORDS = 64  # outcomes that are written at the same time; more make their calls wait
# Errors that say nothing of the tool.
_NO_FAULT = (INTERNAL_ERROR, METHOD_NOT_FOUND, INVALID_PARAMS, TOO_MANY, URL_NEEDED)


class ToolCalls:
    """Serves clients' requests about tools."""

    def __init__(self, gateway: Gateway, hooks: Iterable[Hook] = ()) -> None:
        """hooks: run around each call, inside the hooks of the options."""
        self._gateway, self._catalog, self._options = gateway, gateway.catalog, gateway.options
        self._clients, self._sign_ins = gateway.clients, gateway.sign_in_tool
        limit = self._options.result_limit
        self._results = LimitResults(limit, self._clients) if limit else None
        limiting: list[Hook] = [self._results] if self._results else []
        asking: list[Hook] = [AskFirst()] if self._options.destructive == "ask" else []
        self._hooks: Sequence[Hook] = (*limiting, *asking, *hooks)
        self._recording = anyio.Semaphore(_RECORDS)

    async def list_tools(self, caller: Caller) -> SentTools:
        """Returns the list of this caller."""
        await self._gateway.known()
        await self._start_own(caller)
        context = self._gateway.listed(caller.context)
        visible = self._catalog.visible(context)
        shown = self._shown(caller, len(visible))
        more = () if self._results is None else (READ_RESULT_TOOL,)
        if waiting := self._sign_ins.servers(caller):
            more = (*more, sign_in_definition(waiting))
        tools: tuple[Tool, ...]
        if shown == "all":
            # A client that never reads the list again finds the tools of servers that start late.
            searching = (SEARCH_TOOLS, CALL_TOOL) if self._gateway.is_starting else ()
            tools = (*visible.definitions, *searching, *more)
        else:
            tools = (*visible.core.definitions, SEARCH_TOOLS, CALL_TOOL, *more)
        if shown == "dynamic":
            session = await self._session(caller, context)
            names = {tool.name for tool in tools}
            loaded = [visible.get(name) for name in session.loaded if name not in names]
            tools = (*tools, *[tool for tool in loaded if tool is not None][-_MOST_DYNAMIC:])
        return sent_tools(tools, "mcp")

    def _shown(self, caller: Caller, tools: int) -> ListMode:
        count = None if self._gateway.is_starting else tools
        return list_mode(self._options.mode, caller.incoming.client, count)

    async def call_tool(self, caller: Caller, params: Json) -> Json:
        """Runs a tool, or one of the gateway's own.

        Raises:
            MCPError: the server's error.
        """
        name, arguments = params.get("name"), params.get("arguments") or {}
        if name == SEARCH_TOOLS.name:
            return await self._search(caller, arguments)
        if name == SIGN_IN:
            return await self._sign_ins.call(caller, arguments)
        asked: Json = {"name": name, "arguments": arguments}
        try:
            if name == READ_RESULT and self._results is not None:
                return text_result(self._results.read(caller.client_key, arguments))
            if name == CALL_TOOL.name:
                asked = read_call(arguments)._asdict()
        except InvalidInput as error:
            return text_result(str(error), is_error=True)
        tool = self._catalog.visible(self._gateway.callable(caller.context)).get(asked["name"])
        if tool is None:
            answer = await self._answer(caller, asked)
            if answer.call is None:
                away = self._away(caller.context, asked["name"])
                return text_result(away or answer.text, is_error=True)
            tool, asked = answer.call.tool, {"arguments": answer.call.arguments}
        route = self._catalog.routes[tool.name]
        upstream = self._gateway.upstreams[route.server]
        planned = PlannedCall(caller, tool, upstream.spec, asked["arguments"])
        try:
            result, report = await self._run(planned, upstream, route, params)
        except Refused as error:  # a call that was not made is no outcome of the search
            return text_result(str(error), is_error=True)
        if self._is_of_turn(caller, tool.name, report):
            await self._recording.acquire()
            client, written = self._clients.of(caller.client_key), anyio.Event()
            client.unwritten.append(written)
            self._gateway.tasks.start_soon(self._record, caller, tool.name, report, client, written)
        if isinstance(result, Exception):
            raise result
        return result

    async def _answer(self, caller: Caller, asked: Json) -> Answer:
        """Answers a call of an unknown tool, after waiting if the tool's server is being started."""
        session = await self._session(caller, self._gateway.callable(caller.context))
        answer = await session.aanswer(CALL_TOOL.name, asked)
        server = self._catalog.server_of(asked["name"]) if answer.call is None and answer.unknown else None
        if server is not None and await self._gateway.started(server, _LONGEST_START_S):
            session = await self._session(caller, self._gateway.callable(caller.context))
            answer = await session.aanswer(CALL_TOOL.name, asked)
        return answer

    def _away(self, context: Context, name: str) -> str:
        """The reason why a tool is unknown while its server has not listed its tools; "" otherwise."""
        server = self._catalog.server_of(name)
        if server is None or not self._gateway.sees(context, server):
            return ""
        upstream = self._gateway.upstreams[server]
        if upstream.listing is not None:
            return ""
        error = upstream.main.away()
        return f"{error}. {_advice(error)}"

    def _is_of_turn(self, caller: Caller, name: str, report: CallReport) -> bool:
        """Whether an outcome belongs to the last search: if it is of the next call, or of a found tool.

        If the next call is of another tool and fails, the call after it counts as the next. If another
        process answered the search, all calls count as its outcomes.
        """
        client = self._clients.get(caller.client_key)
        if client is None or client.found is None:
            return bool(self._options.catalog)
        is_next, is_found = not client.is_answered, name in client.found
        client.is_answered = client.is_answered or is_found or report["succeeded"] is True
        return is_next or is_found

    async def release(self, client_key: str, client: KnownClient, context: Context) -> None:
        """Drops the session of a conversation that has ended, once the outcomes of its calls are written."""
        await _outcomes_written(client)
        self._catalog.roll.release_session(client_key, context)

    async def _search(self, caller: Caller, arguments: Json) -> Json:
        await self._gateway.known(_SEARCH_START_S)
        await self._start_own(caller)
        if (client := self._clients.get(caller.client_key)) is not None:
            await _outcomes_written(client)
        await self._gateway.outcomes_read(caller.context.org, _OUTCOMES_S)
        context = self._gateway.listed(caller.context)
        session = await self._session(caller, context)
        answer = await session.aanswer(SEARCH_TOOLS.name, arguments)
        if not answer.is_error:
            client = self._clients.of(caller.client_key)
            client.found, client.is_answered = frozenset(tool.name for tool in answer.tools), False
        if answer.tools and self._shown(caller, len(self._catalog.visible(context))) == "dynamic":
            await session.aload([tool.name for tool in answer.tools])
            await caller.incoming.notify_later("notifications/tools/list_changed")
        is_json = self._options.answer_format == "json"
        text = answer.text if is_json or not answer.tools else markdown(answer.text)
        if self._gateway.is_starting and (not is_json or not answer.tools):
            text += "\n\nSome servers are still being started: if nothing fits, search again in some seconds."
        if waiting := self._sign_ins.servers(caller):
            text += f"\n\nThese servers wait for their user's sign-in, see {SIGN_IN}: {', '.join(waiting)}."
        return text_result(text, is_error=answer.is_error)

    async def _run(
        self, call: PlannedCall, upstream: Upstream, route: ToolServer, params: Json
    ) -> tuple[Json | Exception, CallReport]:
        """Makes a call; returns its result or error, and its report.

        The duration is the server's: from the request to its answer, without hooks.

        Raises:
            Refused: the call was not made.
        """
        ending: Ending = "cancelled"
        began, problem = time.perf_counter(), ""
        asked_at = began
        passed: list[Hook] = []
        try:
            for hook in self._hooks:
                call = await run_before(hook, call)
                passed.append(hook)
            connection = await upstream.connection_of(self._gateway.user_of(call.caller.context))
            asked: Json = {"name": route.tool, "arguments": dict(call.arguments)}
            own_meta = params.get("_meta") or {}
            if meta := {key: value for key, value in own_meta.items() if _passes(key)}:
                asked["_meta"] = meta
            on_progress = call.caller.incoming.progress if "progressToken" in own_meta else None
            asked_at = time.perf_counter()
            result = await connection.request("tools/call", asked, asker=call.caller, on_progress=on_progress)
            worked: bool | None = not result.get("isError", False)
            ending = "succeeded" if worked else "failed"
            if not worked and await anyio.to_thread.run_sync(are_wrong, call.tool, call.arguments, result):
                worked = None
            report = _report(worked, asked_at)
            for hook in reversed(passed):
                result = await run_after(hook, call, result)
            return result, report
        except (Refused, InvalidInput) as error:
            ending, problem = "refused", str(error)
            raise Refused(problem) from error
        except (Unavailable, TimeoutError) as error:
            ending, problem = "unavailable", str(error)
            return text_result(f"{problem}. {_advice(error)}", is_error=True), {"succeeded": None}
        except MCPError as error:
            ending, problem = "failed", error.message
            return error, {"succeeded": None} if error.code in _NO_FAULT else _report(False, asked_at)
        finally:
            self._gateway.call_log.write(call, ending, began, problem)

    async def _record(
        self, caller: Caller, name: str, report: CallReport, client: KnownClient, written: anyio.Event
    ) -> None:
        """Reports the outcome of a call. A tool that no search found counts as wanted."""
        try:
            session = await self._session(caller, self._gateway.callable(caller.context))
            if await session.aused({name: report}):
                await session.aanswer(CALL_TOOL.name, {"name": name})
                await session.aused({name: report})
        except Exception as error:  # an outcome that is lost costs no call
            _log.warning("the outcome of %r is not recorded: %s", name, error)
        finally:
            self._recording.release()
            written.set()
            client.unwritten.remove(written)

    async def _session(self, caller: Caller, context: Context) -> Session:
        reporter = UnnamedCaller(f"gateway {context.user}") if self._options.identity is None else None
        return await self._catalog.roll.asession(caller.client_key, context, reporter=reporter)

    async def _start_own(self, caller: Caller) -> None:
        """Starts servers that show their lists only to users who have signed in."""
        user = self._gateway.user_of(caller.context)
        for upstream in self._gateway.upstreams.values():
            with suppress(Overloaded):
                await upstream.start_for(user)


async def _outcomes_written(client: KnownClient) -> None:
    """Waits until the outcomes of this client's calls are written: they belong to its last search."""
    with anyio.move_on_after(_OUTCOMES_S):
        while client.unwritten:
            await client.unwritten[0].wait()


def _report(succeeded: bool | None, asked_at: float) -> CallReport:
    """The report of a call that the server has just answered."""
    return {"succeeded": succeeded, "duration_ms": min(1e3 * (time.perf_counter() - asked_at), LONGEST_MS)}


def _passes(key: str) -> bool:
    """Whether to forward a key of a client's metadata: not if it belongs to this connection."""
    return key != "progressToken" and not key.startswith("io.modelcontextprotocol/")


def _advice(error: Exception) -> str:
    wait_s = getattr(error, "retry_after_s", None)
    if wait_s:
        return f"Try again in {max(1, round(wait_s))} s, or go on without it."
    return "Try again, or go on without it."
