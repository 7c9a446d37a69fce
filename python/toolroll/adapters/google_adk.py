"""Google's Agent Development Kit (`toolroll[google-adk]`): a plugin that selects, refuses and reports.

    from google.adk.runners import InMemoryRunner
    from toolroll.adapters.google_adk import ToolSelectionPlugin

    runner = InMemoryRunner(agent=agent, plugins=[ToolSelectionPlugin(max_tools=12)])

It serves all agents of the runner, each with a turn of its own. Tools that ADK itself adds, to hand a task to
another agent, are always sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import BaseTool

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import SelectionOptions, checked_context
from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, Role, failed_by_text
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.model.context import Context
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

_OF_ANOTHER_AGENT = "For context:"  # ADK's mark, in the user's name, of another agent's words
_RETRIES = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"  # an exception, as ADK's own plugin answers it
_BAD_ARGUMENTS = "mandatory input parameters are not present"
_OWN = ("transfer_to_agent", "set_model_response", "load_memory", "load_artifacts")  # of ADK itself


class ToolSelectionPlugin(BasePlugin):  # type: ignore[misc]
    """Sends the tools that a message needs, answers calls of others, and reports the outcomes of the calls.

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
            roll: applies rules, learns and keeps conversations; None for one in memory.
            context: the caller; None takes the user of ADK's session.
            name: of the plugin.
            options: max_tools, always_include and k; see `SelectionOptions`.
        """
        super().__init__(name=name)
        self._context = checked_context(context)
        self._waiting: WeakSet[AgentTurn] = WeakSet()
        options["always_include"] = (*options.get("always_include", ()), *_OWN)
        self.selector = ToolSelector(roll, read_tool=_describe, read_messages=read_messages, **options)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Removes the declarations of unselected tools from the request."""
        groups = [one for one in llm_request.config.tools or () if one.function_declarations]
        declarations = [declaration for one in groups for declaration in one.function_declarations]
        if not declarations:
            return
        known, by_name = llm_request.tools_dict, {one.name: one for one in declarations}
        turn = await self.selector.aturn(
            [known.get(name, one) for name, one in by_name.items()],
            llm_request.contents,
            conversation=_conversation(callback_context),
            run=callback_context.invocation_id,
            context=self._context_of(callback_context),
        )
        selected, first = [by_name[tool.name] for tool in turn.tools], True
        for group in groups:  # all in the first group, in the order of the selection
            group.function_declarations, first = (selected if first else None), False
        rest = [one for one in llm_request.config.tools if any(value is not None for _, value in one)]
        llm_request.config.tools = rest or None

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        """Answers the call of a tool that was not sent."""
        turn = await self._turn_of_call(tool, tool_context)
        # ADK makes a bare tool of an unknown name. Its own answer would list all tools.
        refusal = await turn.arefusal(tool.name, unknown=type(tool) is BaseTool)
        if refusal is not None:
            return {"error": refusal}
        turn.begin(tool_context.function_call_id)
        return None

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        """Reports a call that returned; a result with `error` or a status that says so has failed."""
        turn = await self._turn_of_call(tool, tool_context)
        if tool_context.function_call_id in turn.reported:
            return
        if _waits(tool, tool_context, result):
            self._waiting.add(turn)
            return
        self._waiting.discard(turn)
        answer = tool_context.tool_confirmation
        is_rejected = answer is not None and not answer.confirmed
        took = turn.took(tool_context.function_call_id)
        if not is_rejected and await turn.arefusal(tool.name) is None:
            await turn.areport(tool.name, _worked(result), took)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: BaseException
    ) -> None:
        """Reports a call that raised an exception."""
        turn = await self._turn_of_call(tool, tool_context)
        turn.reported.add(tool_context.function_call_id)  # a plugin may make a result of it
        took = turn.took(tool_context.function_call_id)
        await turn.areport(tool.name, False if isinstance(error, Exception) else None, took)

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Closes the turn, unless a call waits for a person."""
        if (turn := self._turn(callback_context)) is not None and turn not in self._waiting:
            await turn.aend()

    def _turn(self, context: Any) -> AgentTurn | None:
        return self.selector.find(conversation=_conversation(context), context=self._context_of(context))

    async def _turn_of_call(self, tool: Any, context: Any) -> AgentTurn:
        """The turn that the call belongs to. Another process may have begun it before an approval."""
        turn = self._turn(context)
        if turn is not None:
            return turn
        return await self.selector.aresume([tool], _conversation(context), context=self._context_of(context))

    def _context_of(self, context: Any) -> Context:
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
        if texts and texts[0].startswith(_OF_ANOTHER_AGENT):
            role = "assistant"
        if results and not texts:
            role = "tool"
        read.append(ReadMessage(role, "\n".join(texts), tuple(calls), tuple(results)))
    return read


def _waits(tool: Any, context: Any, result: Any) -> bool:
    """Whether the call waits for a person's answer, or for a result that comes later."""
    asked = context.actions.requested_tool_confirmations, context.actions.requested_auth_configs
    has_asked = any(context.function_call_id in (one or ()) for one in asked)
    return has_asked or (getattr(tool, "is_long_running", False) and not result)


def _worked(result: Any) -> bool | None:
    """Whether the tool worked, by its result; None if only the arguments were wrong."""
    if not isinstance(result, dict):
        return not failed_by_text(result)
    if result.get("response_type") == _RETRIES:
        return False
    error = result.get("error")
    return None if isinstance(error, str) and _BAD_ARGUMENTS in error else not failed_by_text(result)


def _conversation(context: Any) -> str:
    return f"{context.session.id}/{context.agent_name}"


def _describe(tool: Any) -> tuple[str, str, Any]:
    """Describes a tool of ADK, which stays the same object from request to request, or a bare declaration."""
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
