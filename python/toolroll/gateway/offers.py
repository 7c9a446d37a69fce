"""Prompts, resources and completions of the servers, passed through."""

from __future__ import annotations

from toolroll.gateway import mcp_versions
from toolroll.gateway.caller import Caller
from toolroll.gateway.gateway import Gateway
from toolroll.gateway.listing import Listing
from toolroll.gateway.mcp_versions import INVALID_PARAMS, Json
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
        """All "prompts", "resources" or "resourceTemplates" of this caller; of two with one URI the first."""
        await self._gateway.known()
        found: dict[str, Json] = {}
        for upstream in self._seen(caller):
            listing = upstream.listing
            assert listing is not None
            if kind == "prompts":
                for name, own in self._names.of_server(upstream.spec.name, listing.prompts).items():
                    found[name] = {
                        **self._names.own_texts(upstream.spec.name, listing.prompts[own]),
                        "name": name,
                    }
            else:
                items = listing.resources if kind == "resources" else listing.templates
                for uri, item in items.items():
                    found.setdefault(uri, self._names.own_texts(upstream.spec.name, item))
        return list(found.values())

    async def passed(self, caller: Caller) -> Json:
        """Passes a request on to the server that it is about.

        Raises:
            ProtocolError: no server has what it is about, or as the server answered.
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

    def _seen(self, caller: Caller) -> list[Upstream]:
        return [
            upstream
            for name, upstream in self._gateway.upstreams.items()
            if upstream.listing is not None and self._gateway.sees(caller.context, name)
        ]

    def _prompt(self, caller: Caller, name: object) -> tuple[Upstream, str]:
        for upstream in self._seen(caller):
            assert upstream.listing is not None
            names = self._names.of_server(upstream.spec.name, upstream.listing.prompts)
            if isinstance(name, str) and name in names:
                return upstream, names[name]
        mcp_versions.fail(INVALID_PARAMS, f"no prompt is named {name!r:.100}")

    def server_of(self, caller: Caller, uri: object) -> Upstream:
        """The server that lists the URI; else the one with the longest template that begins alike.

        Raises:
            ProtocolError: none has it, or this caller may not know of it.
        """
        seen = [(upstream, upstream.listing) for upstream in self._seen(caller) if upstream.listing]
        if isinstance(uri, str):
            for upstream, listing in seen:
                if uri in listing.resources or uri in listing.templates:
                    return upstream
            fitting = [(_longest_start(listing, uri), upstream) for upstream, listing in seen]
            longest = max(fitting, key=lambda pair: pair[0], default=(0, None))
            if longest[0] and longest[1] is not None:
                return longest[1]
        mcp_versions.fail(INVALID_PARAMS, f"no server has the resource {uri!r:.200}")


def _longest_start(listing: Listing, uri: str) -> int:
    """How many characters of a template's fixed beginning the URI shares; 0 where none fits."""
    starts = [template.partition("{")[0] for template in listing.templates]
    return max((len(start) for start in starts if start and uri.startswith(start)), default=0)
