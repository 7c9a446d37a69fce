"""LiteLLM (`toolroll[litellm]`): a hook for its proxy, and a callback for its SDK.

In a module beside the proxy's `config.yaml`, which names it under `litellm_settings: callbacks:`:

    from toolroll.adapters.litellm import ToolSelectionHook

    select_tools = ToolSelectionHook(max_tools=12)

In a program that calls `litellm.acompletion`:

    litellm.callbacks = [ToolSelectionCallback(max_tools=12)]

Both select from the tools that come with a request. Who sends the request runs the tools: outcomes are read
from the results in the next request, and a call of a tool that was not sent cannot be refused here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from litellm.integrations.custom_logger import CustomLogger

from toolroll.adapters.selection_options import SelectionOptions
from toolroll.adapters.tool_choice import chosen_names
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.context import Context
from toolroll.roll import Toolroll

if TYPE_CHECKING:
    from typing_extensions import Unpack

HEADER = "x-toolroll"  # of a response: how many tools came, and how many were sent on
# Who asks, made of the key's record (None in the SDK) and the request.
ContextOf = Callable[[Any, Mapping[str, Any]], Context]


class _Selecting(CustomLogger):  # type: ignore[misc]
    """What the hook and the callback share."""

    def __init__(
        self,
        roll: Toolroll | None = None,
        *,
        context: ContextOf | None = None,
        **options: Unpack[SelectionOptions],
    ) -> None:
        """Reads the tools of each request.

        Args:
            roll: whose rules apply, which learns, and which keeps conversations; None for one in memory.
            context: who asks. None takes team and user of the proxy's key.
            options: max_tools, always_include and k; see `SelectionOptions`.
        """
        super().__init__()
        self._context_of = _key_context if context is None else context
        self.selector = ToolSelector(roll, **options)

    async def select(self, request: dict[str, Any], key: Any = None) -> dict[str, Any]:
        """The request with the selected tools; itself where it has no tools or no messages."""
        tools, messages = request.get("tools"), _messages(request)
        if not isinstance(tools, list) or not tools or messages is None:
            return request
        context, name = self._context_of(key, request), _conversation(request)
        # A session is the user's, or the key's if that has no user. Both may contain any character.
        owner = context.user or str(getattr(key, "token", None) or "")
        turn = await self.selector.aturn(
            tools,
            messages,
            conversation=None if name is None else json.dumps([owner, name]),
            context=context,
            always_include=chosen_names(request.get("tool_choice")),
        )
        await turn.areport_results(messages)
        sent = list(turn.tools)
        if not sent:  # policy allows none: a provider refuses an empty list, and a choice without one
            return {name: value for name, value in request.items() if name not in ("tools", "tool_choice")}
        return {**request, "tools": sent}


class ToolSelectionHook(_Selecting):
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
        """Says in a header what was selected."""
        said = (data.get("metadata") or {}).get("toolroll")
        return {} if said is None else {HEADER: str(said)}


class ToolSelectionCallback(_Selecting):
    """For LiteLLM's SDK: `acompletion`, `aresponses`, and a router's.

    LiteLLM has no such hook in its calls without an "a".
    """

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        """Selects, before the request goes to a model."""
        return await self.select(kwargs)


def _messages(request: Mapping[str, Any]) -> list[Any] | None:
    messages = request.get("messages")
    if messages is None:
        messages = request.get("input")  # of the Responses API
    if isinstance(messages, str):
        return [messages]
    return messages if isinstance(messages, list) else None


def _conversation(request: Mapping[str, Any]) -> str | None:
    """The session that the caller has named, as LiteLLM groups its logs by."""
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
