"""Tells the tools that the provider runs itself from definitions of functions, in a list of tools.

A hosted tool (web search, code interpreter, computer use, a remote MCP server) has no text for retrieval,
and often no name. It is passed on unchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

# Gemini's tools that are no functions; its list has an object for each, with the settings under the name.
_GEMINI = frozenset(
    {
        "code_execution",
        "computer_use",
        "enterprise_web_search",
        "exa_ai_search",
        "file_search",
        "google_maps",
        "google_search",
        "google_search_retrieval",
        "mcp_servers",
        "parallel_ai_search",
        "retrieval",
        "url_context",
    }
)
_SCHEMAS = ("function", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")


def is_hosted(item: Mapping[str, Any]) -> bool:
    """Whether the provider itself runs this tool of its list.

    A tool of OpenAI or Anthropic is hosted if its `type` is another than "function". A type that resembles
    "function" is an error of its author.
    """
    kind = item.get("type")
    if kind is None:
        return "name" not in item and bool(item) and all(snake_case(key) in _GEMINI for key in item)
    if not isinstance(kind, str) or kind == "function" or any(key in item for key in _SCHEMAS):
        return False
    return not difflib.get_close_matches(kind, ("function",), cutoff=0.8)


def snake_case(key: object) -> str:
    """`googleSearch` as `google_search`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in str(key))
