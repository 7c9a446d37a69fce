"""Hooks: run before and after each call of a server's tool."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from mcp import MCPError

from toolroll.formats.foreign_text import line_text, name_text
from toolroll.formats.visible_text import one_line
from toolroll.gateway.caller import Caller
from toolroll.gateway.protocol import INTERNAL_ERROR, Json
from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.tools import Tool

_log = logging.getLogger("toolroll.gateway")

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


class HookBefore(Protocol):
    """A hook with the method `before` alone; see `CallHook`."""

    async def before(self, call: PlannedCall, /) -> PlannedCall:
        """See `CallHook.before`."""
        ...


class HookAfter(Protocol):
    """A hook with the method `after` alone; see `CallHook`."""

    async def after(self, call: PlannedCall, result: Json, /) -> Json:
        """See `CallHook.after`."""
        ...


class CallHook(Protocol):
    """Inspects calls of servers' tools. A subclass overrides what it needs; no hook has to be one.

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


Hook: TypeAlias = HookBefore | HookAfter


async def run_before(hook: Hook, call: PlannedCall) -> PlannedCall:
    """The call after the hook's `before`; the same call if it has none.

    Raises:
        Refused: by the hook.
        MCPError: the hook fails or returns something else; names the hook.
    """
    before = getattr(hook, "before", None)
    if before is None:
        return call
    with _named(hook, "before"):
        changed = await before(call)
        if not isinstance(changed, PlannedCall):
            raise TypeError(f"returned {type(changed).__name__}, must return the PlannedCall")
    return changed


async def run_after(hook: Hook, call: PlannedCall, result: Json) -> Json:
    """The result after the hook's `after`; the same result if it has none.

    Raises:
        Refused: by the hook.
        MCPError: the hook fails or returns something else; names the hook.
    """
    after = getattr(hook, "after", None)
    if after is None:
        return result
    with _named(hook, "after"):
        changed: Json = await after(call, result)
        if not isinstance(changed, dict):
            raise TypeError(f"returned {type(changed).__name__}, must return the result, a dictionary")
    return changed


@contextmanager
def _named(hook: Hook, method: str) -> Iterator[None]:
    try:
        yield
    except (Refused, MCPError):
        raise
    except Exception as error:
        name = f"hook {type(hook).__module__}:{type(hook).__qualname__}: {method}"
        _log.exception("%s failed", name)
        raise MCPError(INTERNAL_ERROR, one_line(f"{name}: {type(error).__name__}: {error}", 1_000)) from error


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
