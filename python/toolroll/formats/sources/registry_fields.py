"""Reads a tool for a registry: every key is understood or refused, so no value is lost.

It reads the names in toolkit files, in the registry's answers (`GET /tools/…` can be sent back) and in
catalogs in SQL, such as `parameters_schema`. A field that is null has its default.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from toolroll.formats.providers.gemini import from_gemini, is_gemini
from toolroll.formats.sources import fields
from toolroll.formats.sources.fields import IGNORED, Field, FieldError, InvalidValue
from toolroll.model.tools import Tool

_EMPTY = Tool("x")
_NONE = type(None)


class RefusedKeys(FieldError):
    """Unknown keys. Such a tool is neither repaired nor left out."""


def _object(value: Any) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidValue("an object or null", value)
    return fields.mcp_object(value)


def _meta(value: Any) -> Mapping[str, Any] | None:
    return None if _object(value) is None else fields.mcp_meta(value)


def _icons(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(icon, Mapping) for icon in value):
        raise InvalidValue("a list of objects", value)
    return fields.mcp_icons(value)


def _version(value: Any) -> Any:
    return IGNORED if type(value) is int else fields.text(value)  # a number is the registry's count


def _of(*types: type) -> Callable[[Any], Any]:
    """The reader of a field that the registry fills. A value of its type is ignored."""

    def read(value: Any) -> Any:
        if type(value) not in types:
            names = {str: "text", int: "a whole number", list: "a list", dict: "an object", _NONE: "null"}
            raise InvalidValue(f"{' or '.join(names[one] for one in types)}, as the registry gives it", value)
        return IGNORED

    return read


# What `ToolRecord.to_dict` has beside the tool's own fields: accepted, and without effect.
READ_ONLY: dict[str, Field] = {
    **dict.fromkeys(("tool_id", "org", "plugin", "content_hash", "review"), ("", _of(str))),
    **dict.fromkeys(("updated_by", "created_at", "updated_at", "damage"), ("", _of(str))),
    **dict.fromkeys(("source_hash", "rejected_hash", "deleted_at"), ("", _of(str, _NONE))),
    **dict.fromkeys(("approved_version", "served_version"), ("", _of(int, _NONE))),
    "revision": ("", _of(int)),
    "flags": ("", _of(list)),
    "source_values": ("", _of(dict)),
}

_EXECUTION: dict[str, Field] = {
    "execution_type": ("execution_type", fields.text_or_null),
    "execution_config": ("execution_config", _object),
}
_STRICT: dict[
    str, Callable[[Any], Any]
] = {  # readers of MCP's fields that raise where other readers see a missing value
    "returns": fields.schema,
    "annotations": _object,
    "icons": _icons,
    "meta": _meta,
    "execution": _object,
}


def _reader(attribute: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    read = _STRICT.get(attribute, read)
    if attribute in ("name", "version"):
        return read
    return lambda value: getattr(_EMPTY, attribute) if value is None else read(value)


def _named(attribute: str, *names: str) -> dict[str, Field]:
    read = next(read for one, read in {**fields.PLAIN, **_EXECUTION}.values() if one == attribute)
    return dict.fromkeys(names, (attribute, read))


# Further names: the registry's own, and names in catalogs in SQL.
ALIASES: dict[str, Field] = {
    **_EXECUTION,
    **_named("display_name", "display_name"),
    **_named("returns", "returns", "return_schema"),
    **_named("meta", "meta"),
    **_named("parameters", "parameters_schema"),
    **_named("toolkit", "category"),
    **_named("examples", "example_queries"),
    **_named("summary", "function_summary"),
    **_named("pinned", "is_always_pinned"),
    "semantic_version": ("version", fields.text),
    "schema_version": ("version", fields.text),
}
FIELDS: dict[str, Field] = {
    **{
        key: (attribute, _reader(attribute, read))
        for key, (attribute, read) in {**fields.PLAIN, **ALIASES}.items()
    },
    "version": ("version", _version),
    **READ_ONLY,
}

# What providers' forms have beside these.
_PROVIDERS: dict[str, Field] = {
    **dict.fromkeys(("parametersJsonSchema", "parameters_json_schema"), FIELDS["parameters"]),
    **dict.fromkeys(("responseJsonSchema", "response_json_schema", "response"), FIELDS["returns"]),
    **dict.fromkeys(
        ("type", "strict", "cache_control", "defer_loading", "allowed_callers", "input_examples", "behavior"),
        ("", lambda value: IGNORED),
    ),
}
_ANY = {**FIELDS, **_PROVIDERS}
_FUNCTION = {**{key: _ANY[key] for key in ("name", "description", "parameters", "output_schema", "strict")}}
_CHAT = {key: field for key, field in _ANY.items() if field[0] not in ("name", "description", "parameters")}
_MCP_KEYS = (
    "name",
    "description",
    "inputSchema",
    *(key for key in fields.METADATA if key != "output_schema"),
)
_MCP_SAYS = frozenset({*(_ANY[key][0] for key in _MCP_KEYS), "summary"})


def read_for_registry(item: Mapping[str, Any], read_mcp: Callable[[Mapping[str, Any]], Tool]) -> Tool:
    """The tool of a mapping in any form, with the keys that it has. read_mcp: reads an MCP server's tool.

    Raises:
        RefusedKeys: it has unknown keys; the message names all of them.
        FieldError: it has another error.
    """
    if "inputSchema" in item:
        _check_mcp(item)
        tool = read_mcp(item)
        return replace(tool, keys=_MCP_SAYS)  # a field of MCP that it omits is one that it has no more
    return read_own(item)


def read_own(item: Mapping[str, Any]) -> Tool:
    """`read_for_registry` for a line of a person's own file, in which the schema's key does not matter."""
    if isinstance(function := item.get("function"), Mapping):
        _check_keys(function, _FUNCTION)
        rest = {key: value for key, value in item.items() if key != "function"}
        _check_keys(rest, _CHAT)
        try:
            values = fields.read_fields(function, _FUNCTION)
        except FieldError as error:
            raise error.under("function") from None
        values |= fields.read_fields(rest, _CHAT)
    else:
        _check_keys(item, _ANY)
        values = fields.read_fields(item, _ANY)
        for attribute, key in (("parameters", "parameters"), ("returns", "response")):
            if key in item and is_gemini(values.get(attribute)):
                values[attribute] = from_gemini(values[attribute])
    if "name" not in values:
        raise FieldError("name is missing")
    if "inputSchema" in item and values.get("display_name"):  # MCP has no summary, so its title is used
        values.setdefault("summary", values["display_name"])
    return Tool(**values, original=item, keys=keys_of(tuple(values)))


@functools.lru_cache(maxsize=4096)  # the tools of a file have the same few
def keys_of(names: tuple[str, ...]) -> frozenset[str]:
    """The names as a set. Equal names give the same object."""
    return frozenset(names)


def _check_keys(item: Mapping[str, Any], table: Mapping[str, Field]) -> None:
    if unknown := [key for key in item if key not in table]:
        raise RefusedKeys("; ".join(unknown_field(key, table) for key in unknown), (unknown[0],))


def _check_mcp(item: Mapping[str, Any]) -> None:
    """Refuses our own keys in MCP's form: a server must not set them. MCP allows other keys."""
    if ours := [key for key in item if key in FIELDS and key not in _MCP_KEYS]:
        raise RefusedKeys(
            f"{', '.join(map(repr, ours))} cannot stand beside 'inputSchema', the form of MCP's servers; "
            "name the schema 'parameters'",
            (ours[0],),
        )


def unknown_field(key: object, table: Mapping[str, Field]) -> str:
    """A sentence with the most similar field, by its usual name, or with all fields if none is similar."""
    names = {name: attribute for name, (attribute, _) in table.items() if attribute}
    near = difflib.get_close_matches(str(key), names, n=1)
    known = ", ".join(dict.fromkeys(names.values()))
    hint = f"did you mean {names[near[0]]!r}?" if near else f"known fields: {known}"
    return f"unknown field {key!r:.80}; {hint}"
