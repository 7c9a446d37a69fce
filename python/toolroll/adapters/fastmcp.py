"""FastMCP (`toolroll[fastmcp]`): a search transform that finds by meaning, refuses, and learns.

    from toolroll.adapters.fastmcp import ToolSearchTransform

    server.add_transform(ToolSearchTransform(max_results=5))

Clients see `search_tools`, `call_tool` and the tools that are always visible. Connections of MCP's newest
version have no session, so all clients of one user share the found tools; policy decides for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from operator import attrgetter
from typing import Annotated, Any

from fastmcp.exceptions import NotFoundError, ToolError
from fastmcp.server.context import Context as RequestContext
from fastmcp.server.transforms.search.base import BaseSearchTransform
from fastmcp.tools.base import Tool, ToolResult

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import context_reader
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.meta_tools import MOST_FOUND
from toolroll.model.argument_checks import check_number
from toolroll.model.context import Context
from toolroll.roll import Toolroll

_is_proxied: ContextVar[bool] = ContextVar("toolroll_is_proxied", default=False)


class ToolSearchTransform(BaseSearchTransform):  # type: ignore[misc]
    """FastMCP's search transform over a `Toolroll`.

    Hidden tools run through `call_tool` only. A client that calls one by its name learns that there is no
    such tool; FastMCP's own transforms would run it.
    """

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        max_results: int = 5,
        always_visible: list[str] | None = None,
        context: Callable[[RequestContext], Context] | None = None,
        **options: Any,
    ) -> None:
        """Reads the server's tools with the first search.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            max_results: how many tools a search finds, at most 20.
            always_visible: names of tools that clients always see.
            context: makes the caller from FastMCP's context; None for an anonymous caller.
            options: of FastMCP's `BaseSearchTransform`.
        """
        check_number(max_results, "max_results", 1, MOST_FOUND)
        super().__init__(max_results=max_results, always_visible=always_visible, **options)
        self._context_of = context_reader(context, "FastMCP's context")
        self.selector = ToolSelector(roll, read_tool=attrgetter("name", "description", "parameters"))

    async def get_tool(self, name: str, call_next: Any, *, version: Any = None) -> Tool | None:
        """The tool, if a client may call it by this name."""
        is_ours = name in (self._search_tool_name, self._call_tool_name)
        if is_ours or name in self._always_visible or _is_proxied.get():
            return await super().get_tool(name, call_next, version=version)
        return None

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            query: Annotated[str, "What the tool should do, in plain words"], ctx: RequestContext = None
        ) -> str | list[dict[str, Any]]:
            """Finds tools by what they do. Call what it finds with call_tool."""
            tools = await self._get_visible_tools(ctx)
            turn = await self._turn(tools, ctx)
            names = [] if turn.session is None else await turn.session.asearch(query, k=self._max_results)
            by_name = {tool.name: tool for tool in tools}
            found = [by_name[one.name] for one in names if one.name in by_name]
            return await self._render_results(found)  # type: ignore[no-any-return]

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    def _make_call_tool(self) -> Tool:
        async def call_tool(
            name: Annotated[str, "Name of a tool that search_tools has found"],
            arguments: Annotated[dict[str, Any] | None, "Arguments of the tool"] = None,
            ctx: RequestContext = None,
        ) -> ToolResult:
            """Calls a tool by its name."""
            tools = {tool.name: tool for tool in await self.get_tool_catalog(ctx)}
            turn = await self._turn([tool for tool in tools.values() if self._is_searched(tool)], ctx)
            if name not in tools or not (name in self._always_visible or turn.roll.may(name, turn.context)):
                raise NotFoundError(f"Unknown tool: {name!r}")
            token = _is_proxied.set(True)
            try:
                async with turn.acall(name) as outcome:
                    result = await ctx.fastmcp.call_tool(name, arguments)
                    outcome.worked = not getattr(result, "is_error", False)
            finally:
                _is_proxied.reset(token)
            return result

        return Tool.from_function(fn=call_tool, name=self._call_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        raise ToolError("search_tools: is answered by this transform's own tool")

    def _is_searched(self, tool: Tool) -> bool:
        return tool.name not in self._always_visible

    async def _turn(self, tools: Sequence[Tool], ctx: RequestContext) -> AgentTurn:
        context = self._context_of(ctx) or Context()
        name = f"mcp/{context.user or getattr(ctx, 'client_id', None) or 'anyone'}"
        return await self.selector.aresume(tools, name, context=context)
