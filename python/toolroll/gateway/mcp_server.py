"""The gateway as an MCP server: answers a client's requests."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from mcp import MCPError

from toolroll import Context, __version__
from toolroll.gateway.caller import Caller, CallerOf
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.offers import Offers, Subscriptions
from toolroll.gateway.protocol import INTERNAL_ERROR, Json
from toolroll.gateway.server_side import Answer, Incoming, ServerSide
from toolroll.gateway.tool_lists import ToolLists
from toolroll.model.errors import Denied, ToolrollError

_log = logging.getLogger("toolroll.gateway")

_INSTRUCTIONS = (
    "This server gives access to the tools of several others. If a tool that you need is not in the list, "
    "find it with search_tools and call it with call_tool."
)
_MOST_CLIENTS = 10_000  # connections that are told of changes


class McpServer:
    """Answers clients. One object serves all of them, and resolves the caller for each request."""

    def __init__(self, gateway: Gateway, caller_of: CallerOf) -> None:
        self._gateway, self._caller_of = gateway, caller_of
        self._offers = Offers(gateway)
        self._subscriptions = Subscriptions(gateway, self._offers)
        self._lists = ToolLists()
        self._methods = self._answers()
        self.side = ServerSide("toolroll", __version__, _INSTRUCTIONS, self._methods, self._subscribed)
        self._clients: OrderedDict[str, tuple[Caller, bytes]] = OrderedDict()
        self._sessions: set[str] = set()  # over HTTP, that have not ended
        gateway.on_change(self._changed)

    async def answer(self, incoming: Incoming) -> Json:
        """The result of a request. Raises MCPError."""
        return await self._methods[incoming.method](incoming)

    def _answers(self) -> Mapping[str, Answer]:
        return {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "prompts/list": self._listed("prompts"),
            "prompts/get": self._passed_by(self._offers.passed),
            "resources/list": self._listed("resources"),
            "resources/templates/list": self._listed("resourceTemplates"),
            "resources/read": self._passed_by(self._offers.passed),
            "resources/subscribe": self._passed_by(self._subscriptions.subscribe),
            "resources/unsubscribe": self._passed_by(self._subscriptions.unsubscribe),
            "completion/complete": self._passed_by(self._offers.passed),
        }

    async def _list_tools(self, incoming: Incoming) -> Json:
        caller = await self._caller(incoming)
        found = self._lists.of(await self._gateway.list_tools(caller))
        if incoming.has_connection:  # a connection that can be told of changes
            self._clients[caller.client_key] = caller, found.digest
            self._clients.move_to_end(caller.client_key)
            if len(self._clients) > _MOST_CLIENTS:
                self._clients.popitem(last=False)
        return found.result

    def _forget_at_end(self, caller: Caller) -> None:
        """Sees to it that nothing is kept of a session over HTTP when it has ended."""
        key, incoming = caller.client_key, caller.incoming
        if incoming.session_id and incoming.has_connection and key not in self._sessions:
            self._sessions.add(key)
            incoming.on_end(partial(self._ended, key, caller.context))

    def _ended(self, client_key: str, context: Context) -> None:
        self._sessions.discard(client_key)
        self._clients.pop(client_key, None)
        self._gateway.forget(client_key, context)
        self._subscriptions.forget(client_key)

    async def _call_tool(self, incoming: Incoming) -> Json:
        caller = await self._caller(incoming)
        try:
            return await self._gateway.call_tool(caller, incoming.params)
        except ToolrollError as error:
            _log.warning("a call failed: %s", error)
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}

    def _listed(self, kind: str) -> Answer:
        async def answer(incoming: Incoming) -> Json:
            return {kind: await self._offers.listed(await self._caller(incoming), kind)}

        return answer

    def _passed_by(self, function: Callable[[Caller], Awaitable[Json]]) -> Answer:
        async def answer(incoming: Incoming) -> Json:
            try:
                return await function(await self._caller(incoming))
            except (ToolrollError, TimeoutError) as error:
                raise MCPError(INTERNAL_ERROR, str(error)) from error

        return answer

    @asynccontextmanager
    async def _subscribed(
        self, incoming: Incoming, uris: Sequence[str], updated: Callable[[str], Awaitable[None]]
    ) -> AsyncIterator[None]:
        caller = await self._caller(incoming)
        async with self._subscriptions.subscribed(caller, uris, updated):
            yield

    async def _caller(self, incoming: Incoming) -> Caller:
        try:
            caller = await self._caller_of(incoming)
        except Denied as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from error
        self._forget_at_end(caller)
        return caller

    async def _changed(self, kind: str) -> None:
        """Tells clients whose list is another one now."""
        await self.side.publish(kind)
        for key, (caller, before) in list(self._clients.items()):
            try:
                if kind == "tools":
                    now = self._lists.of(await self._gateway.list_tools(caller)).digest
                    if now == before:
                        continue
                    self._clients[key] = caller, now
                await caller.incoming.notify_later(f"notifications/{kind}/list_changed")
            except Exception as error:  # the client has left
                _log.debug("client %r cannot be told of a change: %s", key, error)
                self._clients.pop(key, None)
