"""Prompts, resources, completions and subscriptions of the servers, passed through."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio
from mcp import MCPError

from toolroll.gateway.caller import Caller
from toolroll.gateway.clients import Resource
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.protocol import INVALID_PARAMS, Json
from toolroll.gateway.reasons import reason_of
from toolroll.gateway.reviewed_offers import ServerOffers, owners, without_texts
from toolroll.gateway.tool_names import ToolNames
from toolroll.gateway.upstream import Upstream
from toolroll.model.errors import ToolrollError


class Offers:
    """Prompts and resources of the servers. Prompts get the server's prefix, resources keep their URIs.

    A caller gets a server's prompts and resources only if it may have one of the server's tools.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._names = ToolNames(gateway.upstreams, gateway.options.separator)

    async def listed(self, caller: Caller, kind: str) -> list[Json]:
        """Returns this caller's "prompts", "resources" or "resourceTemplates", whichever is asked for.

        Omits a resource that belongs to another server, and marks a resource that several servers list.
        """
        await self._gateway.known()
        found: dict[str, Json] = {}
        seen = self._seen(caller)
        for server, offered in seen.items():
            if kind == "prompts":
                for name, own in self._names.of_server(server, offered.prompts).items():
                    found[name] = {**self._names.own_texts(server, offered.prompts[own]), "name": name}
                continue
            items = offered.resources if kind == "resources" else offered.templates
            for uri, item in items.items():
                if uri in found or uri in offered.later.uris:
                    having = owners(seen, uri)
                    if server not in having:
                        continue
                    if len(having) > 1:
                        item = {**without_texts(item), "description": f"It {_several(having)}"}
                found[uri] = self._names.own_texts(server, item)
        return list(found.values())

    async def passed(self, caller: Caller) -> Json:
        """Forwards a request to the server of its prompt or resource.

        Raises:
            MCPError: no server has the prompt or resource, or the server answered with an error.
            ServerDown, Overloaded, TimeoutError: as `Connection.request`.
        """
        method, params = caller.incoming.method, dict(caller.incoming.params)
        params.pop("_meta", None)
        if method == "prompts/get":
            upstream, params["name"] = self._prompt(caller, params.get("name"))
        elif method == "resources/read":
            upstream = self.server_of(caller, params.get("uri"))
        else:
            reference = dict(params.get("ref") or {})
            if reference.get("type") == "ref/prompt":
                upstream, reference["name"] = self._prompt(caller, reference.get("name"))
            else:
                upstream = self.server_of(caller, reference.get("uri"))
            params["ref"] = reference
        connection = await upstream.connection_of(self._gateway.user_of(caller.context))
        return await connection.request(method, params, asker=caller)

    def _seen(self, caller: Caller) -> dict[str, ServerOffers]:
        return {
            server: offered
            for server, offered in self._gateway.reviewed.offered.items()
            if self._gateway.sees(caller.context, server)
        }

    def _prompt(self, caller: Caller, name: object) -> tuple[Upstream, str]:
        for server, offered in self._seen(caller).items():
            names = self._names.of_server(server, offered.prompts)
            if isinstance(name, str) and name in names:
                return self._gateway.upstreams[server], names[name]
        raise MCPError(INVALID_PARAMS, f"no prompt is named {name!r:.100}")

    def server_of(self, caller: Caller, uri: object) -> Upstream:
        """Returns the server of a resource.

        Raises:
            MCPError: it belongs to none or to several, or this caller may not know of the server.
        """
        having = owners(self._seen(caller), uri) if isinstance(uri, str) else []
        if len(having) == 1:
            return self._gateway.upstreams[having[0]]
        if having:
            raise MCPError(INVALID_PARAMS, f"the resource {uri!r:.200} {_several(having)}")
        raise MCPError(INVALID_PARAMS, f"no server has the resource {uri!r:.200}")


def _several(servers: list[str]) -> str:
    named = ", ".join(map(repr, servers[:5]))
    return f"belongs to several servers, so none of them is asked: {named}"


_log = logging.getLogger("toolroll.gateway")

MOST = 1_000  # subscriptions of one client
_BETWEEN_S = 0.1  # notifications of faster changes are combined
_TELL_S = 5.0  # after which a client that takes no notification is taken for gone
_METHOD = "notifications/resources/updated"

Updated = Callable[[str], Awaitable[None]]


class Subscriptions:
    """Subscriptions of clients to resources. A server gets one for each URI, however many clients have it.

    A client is notified only of changes that its own user's connection reports. Its subscriptions end with
    its session, or when a notification cannot be delivered.
    """

    def __init__(self, gateway: Gateway, offers: Offers) -> None:
        self._gateway, self._offers, self._clients = gateway, offers, gateway.clients
        self._subscribers: dict[Resource, dict[str, Updated]] = {}  # → client → its listener
        self._telling: set[Resource] = set()  # their notifications run, or ended a moment ago
        self._again: set[Resource] = set()  # changed meanwhile
        gateway.on_update = self._updated

    async def subscribe(self, caller: Caller) -> Json:
        """Answers `resources/subscribe`.

        Raises:
            MCPError: no server has the resource, or the server does not offer subscriptions.
            ServerDown, Overloaded, TimeoutError: as `Connection.request`.
        """
        uri, client = str(caller.incoming.params.get("uri")), self._clients.of(caller.client_key)
        if len(client.subscriptions) >= MOST:
            raise MCPError(INVALID_PARAMS, f"this client has {MOST:,} subscriptions already")
        resource = await self._add(caller, uri, partial(_notify, caller), caller.client_key)
        client.subscriptions.add(resource)
        return {}

    async def unsubscribe(self, caller: Caller) -> Json:
        """Answers `resources/unsubscribe`."""
        uri = str(caller.incoming.params.get("uri"))
        await self._remove(self._key(caller, self._offers.server_of(caller, uri), uri), caller.client_key)
        return {}

    @asynccontextmanager
    async def subscribed(self, caller: Caller, uris: Sequence[str], updated: Updated) -> AsyncIterator[None]:
        """Subscribes to these resources while the context is open, as far as servers allow it."""
        listener = f"{caller.client_key}/{id(updated)}"
        keys = []
        try:
            for uri in uris[:MOST]:
                try:
                    keys.append(await self._add(caller, uri, updated, listener))
                except (MCPError, ToolrollError, TimeoutError) as error:
                    _log.info("resource %.200s cannot be subscribed to: %s", uri, reason_of(error))
            yield
        finally:
            with anyio.move_on_after(_TELL_S, shield=True):  # a client that leaves cancels its request
                for key in keys:
                    await self._remove(key, listener)

    def end(self, client: str, resources: Iterable[Resource]) -> None:
        """Ends the subscriptions of a disconnected client."""
        for resource in list(resources):
            self._gateway.tasks.start_soon(self._remove, resource, client)

    def _key(self, caller: Caller, upstream: Upstream, uri: str) -> Resource:
        user = upstream.process_user(self._gateway.user_of(caller.context))
        return upstream.spec.name, user, uri

    async def _add(self, caller: Caller, uri: str, updated: Updated, client: str) -> Resource:
        key = self._key(caller, self._offers.server_of(caller, uri), uri)
        is_first = key not in self._subscribers
        self._subscribers.setdefault(key, {})[client] = updated
        if is_first:
            server, user, _ = key
            try:
                await self._gateway.upstreams[server].subscribe(user, uri)
            except BaseException:
                self._subscribers.pop(key, None)
                raise
        return key

    async def _remove(self, key: Resource, client: str) -> None:
        if (known := self._clients.get(client)) is not None:
            known.subscriptions.discard(key)
        clients = self._subscribers.get(key, {})
        clients.pop(client, None)
        if clients or key not in self._subscribers:
            return
        del self._subscribers[key]
        server, user, uri = key
        try:
            await self._gateway.upstreams[server].unsubscribe(user, uri)
        except (MCPError, ToolrollError, TimeoutError) as error:  # the server may be away
            _log.debug("server %r: %s: %s", server, uri, reason_of(error))

    async def _updated(self, upstream: Upstream, user: str, params: Json) -> None:
        uri = str(params.get("uri"))
        key = upstream.spec.name, user, uri
        if key in self._telling:
            self._again.add(key)
            return
        self._telling.add(key)
        try:
            await self._tell(key, uri)
            await anyio.sleep(_BETWEEN_S)
            while key in self._again:
                self._again.remove(key)
                await self._tell(key, uri)
                await anyio.sleep(_BETWEEN_S)
        finally:
            self._telling.remove(key)

    async def _tell(self, key: Resource, uri: str) -> None:
        for client, updated in list(self._subscribers.get(key, {}).items()):
            try:
                with anyio.fail_after(_TELL_S):
                    await updated(uri)
            except Exception as error:  # the client has left
                _log.debug("client %r cannot be told of a change: %s", client, error)
                await self._remove(key, client)


async def _notify(caller: Caller, uri: str) -> None:
    await caller.incoming.notify_later(_METHOD, {"uri": uri})
