"""Google's Agent Development Kit (`toolroll[google-adk]`): a plugin that selects, refuses and reports.

    from google.adk.runners import InMemoryRunner
    from toolroll.adapters.google_adk import ToolSelectionPlugin

    runner = InMemoryRunner(agent=agent, plugins=[ToolSelectionPlugin(max_tools=12)])

It is for all agents of the runner: each has a turn of its own. Tools that ADK itself adds, to hand a task to
another agent, are always sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import BaseTool

from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, Role, failed_by_text
from toolroll.adapters.selection_options import SelectionOptions
from toolroll.adapters.tool_selector import AgentTurn, ToolSelector
from toolroll.context import Context
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

_OWN = ("transfer_to_agent", "set_model_response", "load_memory", "load_artifacts")  # of ADK itself


class ToolSelectionPlugin(BasePlugin):  # type: ignore[misc]
    """Sends the tools that a message needs, answers calls of others, and reports what came of the calls.

    The conversation is ADK's session, for each agent by itself.
    """

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        context: Context | None = None,
        name: str = "toolroll",
        **options: Unpack[SelectionOptions],
    ) -> None:
        """Reads the tools with the first message.

        Args:
            roll: whose rules apply, which learns, and which keeps conversations; None for one in memory.
            context: who asks; None takes the user of ADK's session.
            name: of the plugin.
            options: max_tools, always_include and k; see `SelectionOptions`.
        """
        super().__init__(name=name)
        self._context = context
        options["always_include"] = (*options.get("always_include", ()), *_OWN)
        self.selector = ToolSelector(roll, read_tool=_described, read_messages=read_messages, **options)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Leaves the selected declarations in the request."""
        groups = [one for one in llm_request.config.tools or () if one.function_declarations]
        declarations = [declaration for one in groups for declaration in one.function_declarations]
        if not declarations:
            return
        known = llm_request.tools_dict
        turn = await self.selector.aturn(
            [known.get(one.name, one) for one in declarations],
            llm_request.contents,
            conversation=_conversation(callback_context),
            run=callback_context.invocation_id,
            context=self._asks(callback_context),
        )
        by_name = {one.name: one for one in declarations}
        selected, first = [by_name[tool.name] for tool in turn.tools], True
        for group in groups:  # all in the first group, in the order of the selection
            group.function_declarations, first = (selected if first else None), False
        rest = [one for one in llm_request.config.tools if any(value is not None for _, value in one)]
        llm_request.config.tools = rest or None

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        """Answers the call of a tool that was not sent."""
        turn = self._turn(tool_context)
        refusal = None if turn is None else await turn.arefusal(tool.name)
        return None if refusal is None else {"error": refusal}

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        """Reports a call that returned; a result with `error` or a status that says so has failed."""
        turn = self._turn(tool_context)
        waits = getattr(tool, "is_long_running", False) and not result
        if turn is not None and not waits and await turn.arefusal(tool.name) is None:
            await turn.areport(tool.name, not failed_by_text(result))

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: BaseException
    ) -> None:
        """Reports a call that raised an exception."""
        if (turn := self._turn(tool_context)) is not None:
            await turn.areport(tool.name, False if isinstance(error, Exception) else None)

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """The agent is through with the message, and the turn with it."""
        if (turn := self._turn(callback_context)) is not None:
            await turn.aend()

    def _turn(self, context: Any) -> AgentTurn | None:
        return self.selector.find(conversation=_conversation(context), context=self._asks(context))

    def _asks(self, context: Any) -> Context:
        return self._context or Context(user=context.user_id or "")


def read_messages(contents: Sequence[Any]) -> list[ReadMessage]:
    """Contents of a request in the form that a selection reads."""
    read: list[ReadMessage] = []
    for content in contents:
        texts, calls, results = [], [], []
        for part in content.parts or ():
            if (call := part.function_call) is not None:
                calls.append(MadeCall(call.id or "", call.name or ""))
            elif (result := part.function_response) is not None:
                worked = not failed_by_text(result.response)
                results.append(CallResult(result.id or "", result.name or "", worked))
            elif part.text and not part.thought:
                texts.append(part.text)
        role: Role = "assistant" if content.role == "model" else "user"
        if results and not texts:
            role = "tool"
        read.append(ReadMessage(role, "\n".join(texts), tuple(calls), tuple(results)))
    return read


def _conversation(context: Any) -> str:
    return f"{context.session.id}/{context.agent_name}"


def _described(tool: Any) -> tuple[str, str, Any]:
    """Of a tool of ADK, which stays the same object from request to request, or of a bare declaration."""
    declaration = tool._get_declaration() if isinstance(tool, BaseTool) else tool
    if declaration is None:
        return tool.name, tool.description, None
    schema = declaration.parameters_json_schema
    if schema is None and declaration.parameters is not None:  # Gemini's own form of a schema
        found = declaration.parameters.properties or {}
        schema = {
            "type": "object",
            "properties": {name: {"description": one.description or ""} for name, one in found.items()},
        }
    return tool.name, declaration.description, schema
