"""The caller of a request, determined for each request, so nothing of one caller affects the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from mcp import MCPError

from toolroll.gateway.options import CallerOptions
from toolroll.gateway.protocol import METHOD_NOT_FOUND, Json
from toolroll.gateway.server_side import Incoming
from toolroll.model.context import Context

_CAPABILITIES = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of one request.

    Attributes:
        client_key: names the conversation: the same for all requests of one client.
    """

    context: Context
    client_key: str
    incoming: Incoming

    def can_answer(self, method: str) -> bool:
        """Whether the client declares that it answers such questions, and can be asked now."""
        return _CAPABILITIES[method] in self.incoming.capabilities and self.incoming.can_ask

    async def asked(self, method: str, params: Json) -> Json:
        """Asks the client. Raises MCPError if it cannot answer."""
        if method not in _CAPABILITIES or not self.can_answer(method):
            raise MCPError(METHOD_NOT_FOUND, f"{method}: the client of this call does not answer it")
        return await self.incoming.ask(method, params)


# Returns a request's caller.
FindCaller = Callable[[Incoming], Awaitable[Caller]]


def configured_caller(options: CallerOptions, process: str) -> FindCaller:
    """Takes the caller from the configuration, and the page from the path of the request.

    process: names the conversation of a client without a session, as over stdio.
    """
    context = Context(
        org=options.org,
        user=options.user,
        roles=options.roles,
        tier=options.tier,
        page=options.page,
        provider="mcp",
    )

    async def caller_of(incoming: Incoming) -> Caller:
        page = page_of(incoming.path)
        mine = replace(context, page=page) if page else context
        key = incoming.session_id or f"{process}/{mine.user}/{mine.page}"
        return Caller(mine, key[:256], incoming)

    return caller_of


def page_of(path: str) -> str:
    """Returns the page in a path such as `/mcp/billing`; "" if there is none."""
    return path.strip("/").partition("/")[2]
