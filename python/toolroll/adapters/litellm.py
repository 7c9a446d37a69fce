"""LiteLLM (`toolroll[litellm]`): a hook for its proxy, and a callback for its SDK.

In a module beside the proxy's `config.yaml`, which names it under `litellm_settings: callbacks:`:

    from toolroll.adapters.litellm import ToolSelectionHook

    select_tools = ToolSelectionHook(max_tools=12)

In a program that calls `litellm.acompletion`:

    litellm.callbacks = [ToolSelectionCallback(max_tools=12)]

Both select from the tools in a request. The client runs the tools, so outcomes are read from the results in
    its next request. If the model calls a tool that was not sent, the client does not see the call: LiteLLM
    asks the model again, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.types.integrations.custom_logger import AgenticLoopPlan, AgenticLoopRequestPatch

from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.arguments import SelectionOptions, context_reader
from toolroll.adapters.messages import MadeCall, read_messages
from toolroll.adapters.provider_requests.other_tools import check_beside, tools_beside
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.formats.providers import PROVIDERS
from toolroll.formats.providers.request_form import chosen_names
from toolroll.model.context import Context
from toolroll.model.conversation import field_of
from toolroll.model.errors import InvalidInput
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

HEADER = "x-toolroll"  # of a response: how many tools came, and how many were sent on
# Makes the caller from the key's record (None in the SDK) and the request.
ContextOf = Callable[[Any, Mapping[str, Any]], Context]

# What LiteLLM passes on that may hold tools, beside `tools`; other members of its requests are its own.
_BESIDE = (
    *("functions", "extra_body", "mcp_servers", "plugins", "web_search_options", "messages", "input"),
    *("cached_content", "cachedContent"),
)
_FORM = replace(PROVIDERS["openai"].requests[0], messages=("messages", "input"), tools=("tools",))
_SURFACE = "_agentic_loop_api_surface"  # LiteLLM's name for the called API
_MOST_REFUSALS = 2  # after which the model is not asked again; LiteLLM allows three, and then fails
_turn: ContextVar[AgentTurn | None] = ContextVar("toolroll_turn", default=None)  # of the request under way
_asks_again: ContextVar[bool] = ContextVar("toolroll_asks_again", default=False)


class _RequestHook(CustomLogger):  # type: ignore[misc]
    """The common part of the hook and the callback."""

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        context: ContextOf | None = None,
        **options: Unpack[SelectionOptions],
    ) -> None:
        """Reads the tools of each request.

        Args:
            roll: applies rules, learns and keeps conversations; None for one in memory.
            context: the caller. None takes team and user of the proxy's key.
            options: max_tools, always_include and k; see `SelectionOptions`.
        """
        super().__init__()
        own = context_reader(context, "the proxy's key and the request")
        self._context_of = _key_context if context is None else own
        self.selector = ToolSelector(roll, read_messages=read_messages, **options)

    async def select(self, request: dict[str, Any], key: Any = None) -> dict[str, Any]:
        """The request with the selected tools; unchanged if it has no tools.

        Raises:
            Denied: it has tools outside its list that rules hide, or that cannot be checked.
            InvalidInput: its tools are not a list, and rules apply to the caller.
        """
        _turn.set(None)
        _asks_again.set(False)
        tools, messages = request.get("tools"), _messages(request)
        context, name = self._context_of(key, request) or Context(), _conversation(request)
        if self.selector.roll.has_rules(context):
            await self._check(request, context)
        if not isinstance(tools, list) or not tools:
            return request
        if messages is None:  # there is nothing to select by
            over = await self.selector.roll.awith_tools(tools)
            return _with_tools(request, list(over.visible(context).tools))
        # A session is the user's, or the key's if that has no user. Both may contain any character.
        owner = context.user or str(getattr(key, "token", None) or "")
        turn = await self.selector.aturn(
            tools,
            messages,
            conversation=None if name is None else json.dumps([owner, name]),
            context=context,
            always_include=chosen_names(request.get("tool_choice")),
        )
        _turn.set(turn)
        await turn.areport_results(messages)
        return _with_tools(request, list(turn.tools))

    async def _check(self, request: Mapping[str, Any], context: Context) -> None:
        """Checks tools outside the list, as the drop-in proxy does."""
        if not isinstance(request.get("tools"), (list, type(None))):
            raise InvalidInput("the tools of the request are no list, so rules cannot be applied")
        try:
            found = tools_beside(_FORM, {name: request[name] for name in _BESIDE if name in request}, ())
        except ValueError as error:
            raise InvalidInput(f"the request cannot be read, so rules cannot be applied: {error}") from error
        if found:
            check_beside(await self.selector.roll.awith_tools(found), found, context)

    async def async_should_run_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[Any],
        tools: list[Any] | None,
        stream: bool,
        custom_llm_provider: str,
        kwargs: dict[str, Any],
    ) -> tuple[bool, dict[str, Any]]:
        """Whether to ask the model again: it called only tools that were not sent.

        If it also called sent tools, or fails for the third time, the response loses the wrong calls instead.
        """
        turn = _turn.get()
        if turn is None or stream:
            return False, {}
        refused: dict[str, str] = {}
        calls = _calls(response)
        for call in calls:
            if (text := await turn.arefusal(call.name)) is not None:
                refused[call.call_id] = text
        times, most = _number(kwargs.get("_agentic_loop_depth"), 0), kwargs.get("max_agentic_loops")
        can_ask = times < min(_MOST_REFUSALS, _number(most, _MOST_REFUSALS))
        if refused and can_ask and len(refused) == len(calls) and kwargs.get(_SURFACE) != "responses":
            return True, {"refused": refused, "times": times}  # of the same content only once
        if refused:
            _take_out(response, refused)
        return False, {}

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[Any], response: Any, kwargs: dict[str, Any], **_: Any
    ) -> AgenticLoopPlan:
        """The request with the model's calls, each with the reason why it did not run."""
        refused: Mapping[str, str] = tools["refused"]
        if kwargs.get(_SURFACE) == "chat_completions":
            said = response.choices[0].message.model_dump(exclude_none=True)
            answers: list[dict[str, Any]] = [
                {"role": "tool", "tool_call_id": call_id, "content": text}
                for call_id, text in refused.items()
            ]
        else:
            said = {"role": "assistant", "content": field_of(response, "content")}
            results = [
                {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": True}
                for call_id, text in refused.items()
            ]
            answers = [{"role": "user", "content": results}]
        _asks_again.set(True)
        patch = AgenticLoopRequestPatch(messages=[*messages, said, *answers])
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)


class ToolSelectionHook(_RequestHook):
    """For LiteLLM's proxy: chat completions, responses and Anthropic's messages."""

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Selects, before the request goes to a model."""
        came = data.get("tools")
        request = await self.select(data, user_api_key_dict)
        if isinstance(came, list) and came:
            metadata = request.setdefault("metadata", {})
            if isinstance(metadata, dict):
                metadata["toolroll"] = f"{len(came)}->{len(request.get('tools', ()))}"
        return request

    async def async_post_call_response_headers_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any, **_: Any
    ) -> dict[str, str]:
        """Adds a header that names the selected tools."""
        said = (data.get("metadata") or {}).get("toolroll")
        return {} if said is None else {HEADER: str(said)}


class ToolSelectionCallback(_RequestHook):
    """For LiteLLM's SDK: `acompletion`, `aresponses`, and a router's.

    LiteLLM calls no such hook in its synchronous functions.
    """

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        """Selects, before the request goes to a model."""
        if _asks_again.get():  # with the tools that were selected
            _asks_again.set(False)
            return kwargs
        return await self.select(kwargs)


def _with_tools(request: dict[str, Any], tools: list[Any]) -> dict[str, Any]:
    if not tools:  # policy allows none: providers refuse an empty list, and a choice without a list
        return {name: value for name, value in request.items() if name not in ("tools", "tool_choice")}
    return {**request, "tools": tools}


def _messages(request: Mapping[str, Any]) -> list[Any] | None:
    messages = request.get("messages")
    if messages is None:
        messages = request.get("input")  # of the Responses API
    if isinstance(messages, str):
        return [messages]
    return messages if isinstance(messages, list) else None


def _calls(response: Any) -> list[MadeCall]:
    """The calls in a response of chat completions, of responses, or of Anthropic's messages."""
    choices, output = field_of(response, "choices"), field_of(response, "output")
    said = [choice.message for choice in choices] if choices else output or [response]
    return [call for one in read_messages(said) for call in one.calls]


def _take_out(response: Any, refused: Mapping[str, str]) -> None:
    """Removes these calls. If nothing else is left, the reasons become the response's text."""
    for choice in field_of(response, "choices") or ():
        message = choice.message
        message.tool_calls = [
            one for one in message.tool_calls or () if (one.id or "") not in refused
        ] or None
        if message.tool_calls is None:
            choice.finish_reason = "stop"
            message.content = message.content or "\n".join(refused.values())
    for name in ("content", "output"):
        if isinstance(blocks := field_of(response, name), list):
            blocks[:] = [one for one in blocks if refused.keys().isdisjoint(_ids(one))]
    if field_of(response, "stop_reason") == "tool_use" and not _calls(response):
        response["content"] += [{"type": "text", "text": text} for text in refused.values()]
        response["stop_reason"] = "end_turn"


def _number(value: Any, otherwise: int) -> int:
    """A number from LiteLLM, which a client may have sent."""
    return value if isinstance(value, int) else otherwise


def _ids(block: Any) -> list[str]:
    return [
        call.call_id
        for one in read_messages([{"role": "assistant", "content": [block]}])
        for call in one.calls
    ]


def _conversation(request: Mapping[str, Any]) -> str | None:
    """The session that the caller names, by which LiteLLM groups its logs."""
    places: list[Any] = [request, request.get("litellm_metadata"), request.get("metadata")]
    for place in places:
        if isinstance(place, Mapping):
            for name in ("litellm_session_id", "session_id"):
                if isinstance(found := place.get(name), str) and found:
                    return found
    return None


def _key_context(key: Any, request: Mapping[str, Any]) -> Context:
    team, user = getattr(key, "team_id", None), getattr(key, "user_id", None)
    return Context(org=team or "", user=user or "")
