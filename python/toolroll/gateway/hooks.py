"""Hooks: run before and after each call of a server's tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mcp import MCPError

from toolroll.formats.foreign_text import line_text, name_text
from toolroll.gateway.caller import Caller
from toolroll.gateway.protocol import Json
from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.tools import Tool

_LONGEST_ARGUMENTS = 1_000  # characters that the user is shown


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that policy allows.

    Attributes:
        tool: as the catalog has it.
        server: which has the tool.
    """

    caller: Caller
    tool: Tool
    server: ServerSpec
    arguments: Mapping[str, Any]


class Refused(Exception):
    """A hook refuses a call; its text is for the model."""


class CallHook(Protocol):
    """Inspects calls of servers' tools. A subclass overrides the methods that it needs.

    `before` runs in the order of the hooks, `after` in reverse order. An error in a hook fails its call.
    """

    async def before(self, call: PlannedCall) -> PlannedCall:
        """Returns the call to make, perhaps with other arguments.

        Raises:
            Refused: the call is not made, and the model reads why.
        """
        return call

    async def after(self, call: PlannedCall, result: Json) -> Json:
        """Returns the result to send: a `CallToolResult` of MCP as JSON."""
        return result


class AskFirst(CallHook):
    """Asks the user before each call of a tool that may destroy something.

    A tool may, unless it declares otherwise: the protocol defines `destructiveHint` so.
    """

    async def before(self, call: PlannedCall) -> PlannedCall:
        """Asks by elicitation; without a client that can ask, the call is refused."""
        if not is_destructive(call.tool):
            return call
        caller, name = call.caller, call.tool.name
        if not caller.can_answer("elicitation/create"):
            raise Refused(
                f"{name}: may destroy something, so the user has to agree, and this client cannot ask "
                "the user. Tell the user what you wanted to do."
            )
        arguments = ", ".join(f"{name_text(key)}={value!r}" for key, value in call.arguments.items())
        if len(arguments) > _LONGEST_ARGUMENTS:
            arguments = (
                f"{arguments[:_LONGEST_ARGUMENTS]}… ({len(arguments) - _LONGEST_ARGUMENTS:,} characters more)"
            )
        question = {
            "message": f"May {name} be called with {line_text(arguments) or 'no arguments'}?",
            "requestedSchema": {
                "type": "object",
                "properties": {"allow": {"type": "boolean", "title": "Allow this call"}},
                "required": ["allow"],
            },
        }
        try:
            answer = await caller.asked("elicitation/create", question)
        except MCPError as error:
            raise Refused(f"{name}: the user could not be asked: {error.message}") from error
        if answer.get("action") != "accept" or (answer.get("content") or {}).get("allow") is not True:
            raise Refused(f"{name}: the user does not allow this call. Do not try it again in another way.")
        return call


def is_destructive(tool: Tool) -> bool:
    """Whether the tool may destroy something: it does not declare that it only reads or adds."""
    hints = tool.hints
    return hints.get("destructiveHint") is not False and hints.get("readOnlyHint") is not True
