"""Semantic Kernel (`toolroll[semantic-kernel]`): function choices that select and report.

from toolroll.adapters.semantic_kernel import ToolSelection

selection = ToolSelection(kernel, max_tools=12)
settings.function_choice_behavior = await selection.choice(history, conversation="c-42")
reply = await service.get_chat_message_content(history, settings, kernel=kernel)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_call_choice_configuration import FunctionCallChoiceConfiguration
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.function_choice_type import FunctionChoiceType
from semantic_kernel.filters import FilterTypes
from semantic_kernel.functions import FunctionResult

from toolroll.adapters.arguments import SelectionOptions
from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, failed_by_text, role_of
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.model.context import Context
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FAILED = (
    "An error occurred while invoking the function"  # how the kernel begins the answer after an exception
)


class SelectedFunctions(FunctionChoiceBehavior):  # type: ignore[misc]
    """The selected functions of a turn, in the order of the selection.

    Attributes:
        conversation: of the turn; None if it stands alone.
        run: of the turn.
        asked_by: the caller; None for the selection's.
    """

    conversation: str | None = None
    run: str = ""
    asked_by: Any = None

    @property
    def key(self) -> dict[str, Any]:
        """Arguments with which `ToolSelector.find` finds the turn."""
        return {"conversation": self.conversation, "run": self.run, "context": self.asked_by}

    def get_config(self, kernel: Kernel) -> Any:
        """The configuration for each request."""
        known = {one.fully_qualified_name: one for one in kernel.get_list_of_function_metadata(self.filters)}
        named = [known[name] for name in (self.filters or {})["included_functions"] if name in known]
        return FunctionCallChoiceConfiguration(available_functions=named)


class ToolSelection:
    """Chooses functions of a kernel for a message, and reports the outcomes of their calls.

    Semantic Kernel itself answers calls of functions that are not among the choice.
    """

    def __init__(
        self,
        kernel: Kernel,
        roll: Toolroll | None = None,
        *,
        context: Context | None = None,
        **options: Unpack[SelectionOptions],
    ) -> None:
        """Adds a filter to the kernel, which reports the calls.

        Args:
            kernel: has the functions to select from.
            roll: applies rules, learns and keeps conversations; None for one in memory.
            context: the caller.
            options: max_tools, always_include and k; see `SelectionOptions`. Names are full
                ("plugin-function").
        """
        self._kernel = kernel
        self.selector = ToolSelector(
            roll, context=context, read_tool=_describe, read_messages=read_messages, **options
        )
        kernel.add_filter(FilterTypes.AUTO_FUNCTION_INVOCATION, self._around_call)

    async def choice(
        self,
        messages: Any,
        *,
        conversation: str | None = None,
        context: Context | None = None,
        auto_invoke: bool = True,
    ) -> SelectedFunctions:
        """The functions for a message: call it for each message of the user.

        Args:
            messages: a chat history, or messages, with the user's last one; or its text.
            conversation: names it, so that its list stays stable from turn to turn. None: each turn stands
                alone, and functions called in the messages stay.
            context: the caller; None for the selection's.
            auto_invoke: whether the kernel calls functions by itself, as in `FunctionChoiceBehavior.Auto`.
        """
        said = [messages] if isinstance(messages, str) else list(getattr(messages, "messages", messages))
        run = uuid4().hex
        functions = self._kernel.get_full_list_of_function_metadata()
        turn = await self.selector.aturn(functions, said, conversation=conversation, run=run, context=context)
        # An empty list would include all functions. No function has an empty name.
        names = [one.fully_qualified_name for one in turn.tools] or [""]
        chosen = {} if auto_invoke else {"maximum_auto_invoke_attempts": 0}
        return SelectedFunctions(
            type_=FunctionChoiceType.AUTO,
            filters={"included_functions": names},
            conversation=conversation,
            run=run,
            asked_by=context,
            **chosen,
        )

    async def end(self, choice: SelectedFunctions) -> None:
        """Closes the turn of a choice. The next choice of a conversation does so too."""
        turn = self.selector.find(**choice.key)
        if turn is not None and turn.run == choice.run:
            await turn.aend()

    async def _around_call(self, context: Any, next: Callable[[Any], Awaitable[None]]) -> None:
        """A filter of the kernel: checks the call, runs it and reports it."""
        choice = getattr(context.execution_settings, "function_choice_behavior", None)
        turn = None
        if isinstance(choice, SelectedFunctions):
            turn = self.selector.find(**choice.key)
        name = context.function.fully_qualified_name
        if turn is None:
            await next(context)
        elif (refusal := await turn.arefusal(name)) is not None:  # policy has changed since
            context.function_result = FunctionResult(function=context.function.metadata, value=refusal)
        else:
            async with turn.acall(name) as outcome:
                await next(context)
                outcome.worked = not _failed(getattr(context.function_result, "value", None))


def read_messages(messages: Sequence[Any]) -> list[ReadMessage]:
    """Semantic Kernel's messages, as selection reads them."""
    read = []
    for message in messages:
        if isinstance(message, str):
            read.append(ReadMessage("user", message))
            continue
        calls = [
            MadeCall(one.id or "", one.name or "")
            for one in message.items
            if one.content_type == "function_call"
        ]
        results = [
            CallResult(one.id or "", one.name or "", not _failed(one.result))
            for one in message.items
            if one.content_type == "function_result"
        ]
        role = role_of(message.role) or "system"
        read.append(ReadMessage(role, message.content or "", tuple(calls), tuple(results)))
    return read


def _failed(result: Any) -> bool:
    return (isinstance(result, str) and result.startswith(_FAILED)) or failed_by_text(result)


def _describe(metadata: Any) -> tuple[str, str | None, Any]:
    sent = [one for one in metadata.parameters if one.include_in_function_choices]
    schema = {
        "type": "object",
        "properties": {one.name: one.schema_data or {} for one in sent},
        "required": [one.name for one in sent if one.is_required],
    }
    return metadata.fully_qualified_name, metadata.description, schema
