"""Prompts, resources and completions of the servers, passed through."""

from __future__ import annotations

from mcp import MCPError

from toolroll.gateway.caller import Caller
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.protocol import INVALID_PARAMS, Json
from toolroll.gateway.reviewed_offers import Offered, owners, without_texts
from toolroll.gateway.tool_names import ToolNames
from toolroll.gateway.upstream import Upstream


class Offers:
    """What servers offer beside tools. Prompts get the server's prefix, resources keep their URIs.

    A caller who may have none of a server's tools does not get its prompts and resources either.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._names = ToolNames(gateway.upstreams, gateway.options.separator)

    async def listed(self, caller: Caller, kind: str) -> list[Json]:
        """All "prompts", "resources" or "resourceTemplates" of this caller.

        A resource is left out if it belongs to another server; one that several list says so.
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
        """Passes a request on to the server that it is about.

        Raises:
            MCPError: no server has what it is about, or as the server answered.
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

    def _seen(self, caller: Caller) -> dict[str, Offered]:
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
        """The server that a resource belongs to.

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
