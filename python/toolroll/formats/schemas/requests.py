"""The fields of a request beside its tools, and answers to a model's search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolroll.formats.providers import find_provider, names_with, provider_of
from toolroll.formats.providers.form import Form, tools_of
from toolroll.formats.schemas.conversion import plain_copy
from toolroll.formats.schemas.names import provider_name
from toolroll.formats.schemas.sent import convert_all
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Tool


def required(provider: str) -> dict[str, Any]:
    """The fields that make the model call a tool.

    Raises:
        InvalidInput: the provider is unknown, or has no such fields.
    """
    target = find_provider(provider)
    if target is None or target.require is None:
        can = names_with(lambda one: one.require is not None)
        raise InvalidInput(f"provider is {quoted(provider)}, must be one of {', '.join(can)}")
    fields: dict[str, Any] = plain_copy(target.require)
    return fields


def answer_search(provider: str, call: Any, found: Iterable[Tool], *, strict: bool = False) -> dict[str, Any]:
    """The answer to a model's search under "defer": references to the found tools, or the tools themselves.

    call: the model's own block, as the library's object or as a dictionary: Anthropic's ``tool_use`` of
        `search_tools` (the answer is a ``tool_result``, for the next user message), OpenAI's
        ``tool_search_call`` (the answer is a ``tool_search_output``, for the next input).
    found: best first; tools that this caller may see, such as a selection's in the same context.
    strict: OpenAI's tools in strict mode, as in `Selection.schemas`.

    Raises:
        InvalidInput: the provider has no search of this kind, the call has no id, or `found` holds something
            other than tools.
    """
    search = provider_of(provider).search
    if search is None:
        can = " or ".join(names_with(lambda one: one.search is not None))
        raise InvalidInput(f"provider is {provider!r}, must be {can} to search for tools")
    key = search.id_key
    call_id = call.get(key) if isinstance(call, Mapping) else getattr(call, key, None)
    if not isinstance(call_id, str) or not call_id:
        raise InvalidInput(f"call: has no {key}, must be the block with which the model searched")
    tools = list({tool.name: tool for tool in tools_of(found, "found")}.values())
    if search.sends_all:
        return search.answer(call_id, [provider_name(tool.name, provider) for tool in tools], ())
    loaded, names = convert_all(tools, provider, Form(strict), [tool.name for tool in tools])
    return search.answer(call_id, list(names), loaded)
