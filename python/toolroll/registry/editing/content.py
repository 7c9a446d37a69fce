"""The stored content of a tool or toolkit: one dictionary, one canonical text, one hash.

The hash of a tool covers everything from its author that a model, a ranker or a caller reads. Both databases
must hold the same values, so `storable` refuses values that one of them could not store.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from toolroll.formats.sources.fields import InvalidValue
from toolroll.formats.sources.registry_fields import FIELDS as REGISTRY_NAMES
from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.model.identity import canonical_json
from toolroll.model.tools import Mode, Route, Tool, Toolkit

LONGEST = 256 * 1024  # bytes of a definition's canonical JSON
LONGEST_NAME = 128  # characters

# Content: the fields that a tool's author writes, in the order of diffs.
FIELDS = (
    "name",
    "display_name",
    "description",
    "parameters",
    "returns",
    "annotations",
    "icons",
    "meta",
    "execution",
    "toolkit",
    "summary",
    "when_to_use",
    "limitations",
    "tags",
    "examples",
    "execution_type",
    "execution_config",
    "version",
)
# Governance: the fields that only trusted people decide. Not hashed.
GOVERNED = ("status", "public", "pinned", "pin_weight", "interchangeable")

# Field → column. A row's `version` counts its changes; the author's own version of a tool is its semantic
# version.
COLUMNS = {name: "semantic_version" if name == "version" else name for name in (*FIELDS, *GOVERNED)}
_ATTRIBUTES = {column: name for name, column in COLUMNS.items()}

_EMPTY: Mapping[str, object] = {name: getattr(Tool("x"), name) for name in (*FIELDS, *GOVERNED)}


def content_of(tool: Tool) -> dict[str, Any]:
    """The tool's fields, content and governance, as JSON holds them: lists instead of tuples."""
    return {
        name: list(value) if type(value := getattr(tool, name)) is tuple else value
        for name in (*FIELDS, *GOVERNED)
    }


def tool_of(content: Mapping[str, Any], tool_id: str = "") -> Tool:
    """The tool with this content; missing keys have their defaults.

    Raises InvalidDefinition if a key is unknown, or a value has the wrong type.
    """
    unknown = sorted(content.keys() - _EMPTY.keys())
    if unknown:
        raise InvalidDefinition(
            f"has no field {unknown[0]!r}; known are {', '.join(_EMPTY)}", tool=str(content.get("name"))
        )
    return Tool(tool_id=tool_id, **{"name": "", **content})


def attributes_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes, with names that a sync reads (`registry_fields`) replaced by attributes of Tool.

    Omits fields that the registry fills, so that a caller can send its answer back.

    Raises InvalidInput if a field is unknown, or two names of one field have a value.
    """
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"changes is {type(changes).__name__}, must map fields to values")
    found: dict[str, Any] = {}
    for name, value in changes.items():
        if name == "version" and type(value) is not int:
            raise InvalidInput(
                "version is counted by the registry; the author's own version of a tool is its "
                "semantic_version"
            )
        if name not in REGISTRY_NAMES:
            near = difflib.get_close_matches(str(name), _ATTRIBUTES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InvalidInput(f"a tool has no field {name!r:.80}{hint} Known are {', '.join(_ATTRIBUTES)}")
        attribute, read = REGISTRY_NAMES[name]
        if not attribute or name == "version":
            try:
                read(value)
            except InvalidValue as error:
                raise InvalidInput(f"{name} is {value!r:.80}, must be {error.allowed}") from None
            continue
        if attribute in found:
            raise InvalidInput(f"{name}: another name of this field, {attribute!r}, has a value, too")
        found[attribute] = value
    return found


def content_hash(tool: Tool) -> str:
    """SHA-256, as hex, of the canonical JSON of the tool's content. Raises the errors of `storable`."""
    content = {name: value for name in FIELDS if (value := getattr(tool, name)) != _EMPTY[name]}
    try:
        data = storable(content, tool.name)
    except InvalidDefinition as error:
        raise InvalidDefinition(error.problem, field=error.field, tool=tool.name[:80]) from error
    return hashlib.sha256(data).hexdigest()


def storable(value: Any, name: str = "") -> bytes:
    """The canonical JSON of a value that both databases can store.

    Raises InvalidDefinition if the value or its name is too long, holds NUL or half of a surrogate pair, or
    is not JSON.
    """
    data = canonical_json(value).encode()
    if len(data) > LONGEST:
        raise InvalidDefinition(f"takes {len(data):,} bytes as JSON, must be at most {LONGEST:,}")
    if len(name) > LONGEST_NAME:
        raise InvalidDefinition(
            f"name has {len(name)} characters, must have at most {LONGEST_NAME}", field="name"
        )
    if b"\\u0000" in data and _has_nul(value):
        raise InvalidDefinition("holds a NUL character, which no database stores")
    return data


def differences(before: Tool, after: Tool) -> Iterator[tuple[str, Any, Any]]:
    """The fields, content and governance, in which two tools differ, with both values, by column."""
    for name, column in COLUMNS.items():
        old, new = getattr(before, name), getattr(after, name)
        if not is_same(old, new):
            yield column, old, new


def changed_fields(before: Tool, after: Tool) -> tuple[str, ...]:
    """Names of the fields, content and governance, in which the two tools differ."""
    return tuple(column for column, _, _ in differences(before, after))


def is_same(one: Any, other: Any) -> bool:
    """Whether two values of a field are equal as JSON, where 1, 1.0 and true are three values."""
    if one != other:
        return False
    return not isinstance(one, (Mapping, tuple)) or canonical_json(one) == canonical_json(other)


def toolkit_content(
    toolkit: Toolkit, keywords: Iterable[tuple[str, str]] = (), patterns: Iterable[str] = ()
) -> dict[str, Any]:
    """The columns of a toolkit. keywords: each with its mode, or with "" for `default_mode`."""
    return {
        "description": toolkit.description,
        "parent": toolkit.parent,
        "settings_keys": [*toolkit.settings_keys],
        "base": toolkit.base,
        "tier": toolkit.tier,
        "keywords": [{"keyword": keyword, "mode": mode} for keyword, mode in keywords],
        "patterns": [*patterns],
        "members": [*toolkit.members],
    }


TOOLKIT_FIELDS = tuple(toolkit_content(Toolkit("x")))


def toolkit_in(row: Mapping[str, Any]) -> Toolkit:
    """The toolkit in a row of `toolkits`."""
    return Toolkit(
        row["name"],
        row["description"],
        row["parent"],
        tuple(row["settings_keys"]),
        row["base"],
        row["tier"],
        tuple(row["members"]),
    )


def keywords_in(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The keywords in a row of `toolkits`, each with its mode."""
    return tuple((keyword["keyword"], keyword.get("mode", "")) for keyword in row["keywords"])


def route_to(name: str, keywords: Iterable[tuple[str, str]], patterns: Iterable[str]) -> Route | None:
    """The route that switches on a toolkit; None if it has neither keywords nor patterns."""
    pairs, patterns = tuple(keywords), tuple(patterns)
    if not pairs and not patterns:
        return None
    modes = cast("tuple[Mode, ...]", tuple(mode for _, mode in pairs))
    return Route((name,), tuple(keyword for keyword, _ in pairs), patterns, modes if any(modes) else ())


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    return isinstance(value, (list, tuple)) and any(map(_has_nul, value))
