"""The gateway as an MCP server: answers a client's requests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from mcp import MCPError

from toolroll import Context, __version__
from toolroll.gateway.caller import Caller, FindCaller
from toolroll.gateway.clients import KnownClient
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.hooks import Hook
from toolroll.gateway.offers import Offers, Subscriptions
from toolroll.gateway.protocol import INTERNAL_ERROR, Json
from toolroll.gateway.server_side import Incoming, RequestFunction, ServerSide
from toolroll.gateway.tool_calls import ToolCalls
from toolroll.gateway.tool_lists import McpToolLists
from toolroll.model.errors import Denied, ToolrollError

_log = logging.getLogger("toolroll.gateway")

_INSTRUCTIONS = (
    "This server gives access to the tools of several others. If a tool that you need is not in the list, "
    "find it with search_tools and call it with call_tool."
)


class McpServer:
    """Answers all clients, and determines the caller of each request."""

    def __init__(self, gateway: Gateway, caller_of: FindCaller, hooks: Iterable[Hook] = ()) -> None:
        """hooks: run around each call, inside the hooks of the options."""
        self._gateway, self._caller_of = gateway, caller_of
        self._tools = ToolCalls(gateway, hooks)
        self._offers = Offers(gateway)
        self._subscriptions = Subscriptions(gateway, self._offers)
        self._lists = McpToolLists()
        self._methods = self._answers()
        self.side = ServerSide("toolroll", __version__, _INSTRUCTIONS, self._methods, self._subscribed)
        gateway.on_change(self._changed)

    async def answer(self, incoming: Incoming) -> Json:
        """Returns the result of a request. Raises MCPError."""
        return await self._methods[incoming.method](incoming)

    def _answers(self) -> Mapping[str, RequestFunction]:
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
        found = self._lists.of(await self._tools.list_tools(caller))
        if incoming.has_connection:  # a connection that can get notifications
            client = self._gateway.clients.of(caller.client_key)
            client.listener, client.list_digest = caller, found.digest
        return found.result

    def _forget_at_end(self, caller: Caller) -> None:
        """Drops the knowledge of a client when its session over HTTP ends."""
        incoming = caller.incoming
        if incoming.session_id and incoming.has_connection:
            client = self._gateway.clients.of(caller.client_key)
            if not client.is_watched:
                client.is_watched = True
                incoming.on_end(partial(self._ended, caller.client_key, caller.context))

    def _ended(self, client_key: str, context: Context) -> None:
        if (client := self._gateway.clients.forget(client_key)) is not None:
            self._subscriptions.end(client_key, client.subscriptions)
            self._gateway.tasks.start_soon(self._tools.release, client_key, client, context)

    async def _call_tool(self, incoming: Incoming) -> Json:
        caller = await self._caller(incoming)
        try:
            return await self._tools.call_tool(caller, incoming.params)
        except ToolrollError as error:
            _log.warning("a call failed: %s", error)
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}

    def _listed(self, kind: str) -> RequestFunction:
        async def answer(incoming: Incoming) -> Json:
            return {kind: await self._offers.listed(await self._caller(incoming), kind)}

        return answer

    def _passed_by(self, function: Callable[[Caller], Awaitable[Json]]) -> RequestFunction:
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
        """Notifies clients whose lists have changed."""
        await self.side.publish(kind)
        for key, client in self._gateway.clients:
            listener = client.listener
            if listener is None or (kind == "tools" and not await self._has_other_tools(client, listener)):
                continue
            try:
                await listener.incoming.notify_later(f"notifications/{kind}/list_changed")
            except Exception as error:  # the client has left
                _log.debug("client %r cannot be told of a change: %s", key, error)
                client.listener = None

    async def _has_other_tools(self, client: KnownClient, listener: Caller) -> bool:
        """Whether a client's list differs from its last one; also True if no list can be made now."""
        try:
            now = self._lists.of(await self._tools.list_tools(listener)).digest
        except Exception as error:  # a host that is too busy for a moment: the client asks again by itself
            _log.debug("a list for a client cannot be made: %s", error)
            return True
        is_other = now != client.list_digest
        client.list_digest = now
        return is_other
