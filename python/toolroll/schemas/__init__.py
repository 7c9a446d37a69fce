"""Tool <-> provider dictionary.

Each `to_*` gives one dictionary, ready to send, its keys always in the same order. The caller's own
object comes back untouched where it already is in that provider's form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolroll.errors import InvalidInput
from toolroll.schemas.anthropic import to_anthropic
from toolroll.schemas.canonical import canonical_json, content_hash, object_schema, schema_text
from toolroll.schemas.gemini import to_gemini
from toolroll.schemas.mcp import to_mcp
from toolroll.schemas.names import provider_name, provider_names
from toolroll.schemas.openai import to_openai, to_openai_responses
from toolroll.tools import Tool

__all__ = [
    "PROVIDERS",
    "canonical_json",
    "content_hash",
    "convert",
    "convert_all",
    "object_schema",
    "provider_name",
    "provider_names",
    "schema_text",
    "to_anthropic",
    "to_gemini",
    "to_mcp",
    "to_openai",
    "to_openai_responses",
]

_CONVERTERS: dict[str, Callable[[Tool, str | None], dict[str, Any]]] = {
    "openai": to_openai,
    "openai_responses": to_openai_responses,
    "anthropic": to_anthropic,
    "gemini": to_gemini,
    "mcp": to_mcp,
}
PROVIDERS = tuple(_CONVERTERS)


def convert(tool: Tool, provider: str) -> dict[str, Any]:
    """One tool in the form of `provider`; for Gemini one function declaration."""
    return _converter(provider)(tool, None)


def convert_all(tools: Iterable[Tool], provider: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The list to send as `tools`, and the way back from the names in it to the tools' own.

    Gemini's declarations are wrapped in the one ``{"function_declarations": [...]}`` that it expects. Raises
    InvalidInput for an unknown provider and for two tools of one name.
    """
    to_provider = _converter(provider)
    tools = list(tools)
    back = provider_names((tool.name for tool in tools), provider.partition("_")[0])
    schemas = [to_provider(tool, name) for tool, name in zip(tools, back, strict=True)]
    if provider == "gemini" and schemas:
        return [{"function_declarations": schemas}], back
    return schemas, back


def _converter(provider: str) -> Callable[[Tool, str | None], dict[str, Any]]:
    try:
        return _CONVERTERS[provider]
    except KeyError:
        raise InvalidInput(f"provider is {provider!r}, must be one of {', '.join(PROVIDERS)}") from None
