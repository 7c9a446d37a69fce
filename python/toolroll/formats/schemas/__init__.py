"""Tool <-> provider dictionary.

Each `to_*` gives one dictionary, ready to send, its keys always in the same order. The caller's own
object comes back untouched where it already is in that provider's form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolroll.errors import InvalidInput
from toolroll.formats.providers import PROVIDERS as _PROVIDERS
from toolroll.formats.providers import provider_of
from toolroll.formats.schemas.anthropic import to_anthropic
from toolroll.formats.schemas.form import PLAIN, Form, Loss, names_of
from toolroll.formats.schemas.gemini import to_gemini
from toolroll.formats.schemas.losses import check_form, losses_of
from toolroll.formats.schemas.mcp import to_mcp
from toolroll.formats.schemas.names import own_name_of, provider_name, provider_names
from toolroll.formats.schemas.openai import to_openai, to_openai_responses
from toolroll.identity import canonical_json, content_hash, object_schema, schema_text
from toolroll.tools import Tool

__all__ = [
    "PLAIN",
    "PROVIDERS",
    "Form",
    "Loss",
    "canonical_json",
    "content_hash",
    "convert",
    "convert_all",
    "losses",
    "object_schema",
    "own_name_of",
    "provider_name",
    "provider_names",
    "schema_text",
    "to_anthropic",
    "to_gemini",
    "to_mcp",
    "to_openai",
    "to_openai_responses",
]

_CONVERTERS: dict[str, Callable[[Tool, str | None, Form], dict[str, Any]]] = {
    "openai": to_openai,
    "openai_responses": to_openai_responses,
    "anthropic": to_anthropic,
    "gemini": to_gemini,
    "mcp": to_mcp,
}
PROVIDERS = tuple(_PROVIDERS)
_DEFERRING = ("openai_responses", "anthropic")
LEAVES = frozenset({str, int, float, bool, type(None)})
_MOST_LEVELS = 140  # of dictionaries and lists: 64 objects within objects, and some


def convert(tool: Tool, provider: str, form: Form = PLAIN) -> dict[str, Any]:
    """One tool in the form of `provider`; for Gemini one function declaration.

    A tool whose schema cannot be converted, is nested too deeply or would take too long goes out as one that
    takes any object, so that it costs no other tool its place; `losses` names it.
    """
    provider_of(provider)
    check_form(provider, form)
    return _converted(tool, provider, None, form)[0]


def convert_all(
    tools: Iterable[Tool], provider: str, form: Form = PLAIN, deferred: Collection[str] = ()
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The list to send as `tools`, and the way back from the names in it to the tools' own.

    Gemini's declarations are wrapped in the one ``{"function_declarations": [...]}`` that it expects.

    deferred: names of tools whose definition stays out of the prompt until a search finds them; of the
        others none does, whatever its own dictionary says.

    Raises:
        InvalidInput: the provider is unknown, or has no such form or no deferred tools; two tools have one
            name; all of Anthropic's tools are deferred, which it refuses.
    """
    provider_of(provider)
    check_form(provider, form)
    if deferred != ():
        deferred = names_of(deferred, "deferred")
    tools = list(tools)
    back = provider_names((tool.name for tool in tools), provider)
    schemas = [_converted(tool, provider, name, form)[0] for tool, name in zip(tools, back, strict=True)]
    if provider in _DEFERRING:
        schemas = _deferring(schemas, [tool.name in deferred for tool in tools], provider)
    elif deferred:
        raise InvalidInput(f"{provider} cannot defer tools; {' and '.join(_DEFERRING)} can")
    if provider == "gemini" and schemas:
        return [{"function_declarations": schemas}], back
    return schemas, back


def losses(tools: Iterable[Tool], provider: str, form: Form = PLAIN) -> tuple[Loss, ...]:
    """What the provider is not told of these tools: keywords, annotations and marks without a place there.

    Nothing is lost of a tool that goes out as the very object it came as. O(size of the schemas): for a
    look before the first request, not for each turn. Raises InvalidInput for an unknown provider or form.
    """
    check_form(provider_of(provider).name, form)
    lost: list[Loss] = []
    for tool in tools:
        made, is_described = _converted(tool, provider, None, form)
        if not is_described:
            lost.append(Loss(tool.name, "parameters", "cannot be sent: described as any object"))
        elif tool.original is None or made is not tool.original:
            lost += losses_of(tool, provider, form)
    return tuple(lost)


def _converted(tool: Tool, provider: str, name: str | None, form: Form) -> tuple[dict[str, Any], bool]:
    """The tool as it is sent, and whether its parameters are described."""
    try:
        made = _CONVERTERS[provider](tool, name, form)
        if not _is_deeper(made, _MOST_LEVELS):
            return made, True
    except Exception:  # whatever a schema from outside holds, the other tools of the turn go out
        pass
    bare = replace(tool, parameters={"type": "object"}, returns=None, original=None)
    return _CONVERTERS[provider](bare, name, PLAIN), False


def _is_deeper(value: Any, most: int) -> bool:
    """Whether dictionaries and lists lie within each other more often than that.

    Level by level, so that one object in many places is looked at once for each level.
    """
    level = [value]
    for _ in range(most + 1):
        below: dict[int, Any] = {}
        for holder in level:
            for part in holder if isinstance(holder, (list, tuple)) else holder.values():
                kind = type(part)
                if kind is dict or (kind not in LEAVES and isinstance(part, (list, tuple, Mapping))):
                    below[id(part)] = part
        if not below:
            return False
        level = list(below.values())
    return True


def _deferring(schemas: list[dict[str, Any]], deferred: list[bool], provider: str) -> list[dict[str, Any]]:
    """Marks the deferred tools and no others.

    A deferred tool cannot carry Anthropic's mark for the cache; the last tool that is loaded gets it, so
    that what stands before it is still cached.
    """
    if schemas and all(deferred) and provider == "anthropic":
        raise InvalidInput(
            f"all {len(schemas)} tools are deferred, which Anthropic refuses: leave one loaded, such as the "
            "tool that searches; deliver(how='defer') adds that"
        )
    marked: list[dict[str, Any]] = []
    mark = None
    for schema, is_deferred in zip(schemas, deferred, strict=True):
        if is_deferred:
            mark = schema.get("cache_control") or mark
            schema = {key: value for key, value in schema.items() if key != "cache_control"}
            schema["defer_loading"] = True
        elif "defer_loading" in schema:
            schema = {key: value for key, value in schema.items() if key != "defer_loading"}
        marked.append(schema)
    if mark is not None and not any("cache_control" in schema for schema in marked):
        last = len(deferred) - 1 - deferred[::-1].index(False)
        marked[last] = {**marked[last], "cache_control": mark}
    return marked
