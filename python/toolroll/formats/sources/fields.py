"""The keys of a tool in a file or a plain dictionary, and the check of each value.

All sources share one table. A `FieldError` has the problem and its path below the value being read; the
source knows the file, line or position and turns it into an InvalidDefinition.
"""

from __future__ import annotations

import difflib
import functools
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from toolroll.formats.visible_text import is_visible
from toolroll.model.argument_checks import is_unicode
from toolroll.model.errors import InvalidDefinition, quoted
from toolroll.model.tools import MAX_NAME, MAX_TEXT, STATUSES

MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_NODES = 10_000  # objects and lists; bounds the work on shared parts
MAX_ANNOTATIONS = 8_192  # characters of a tool's annotations, about as JSON
MAX_METADATA = 65_536  # ... of its icons, and of its _meta


class FieldError(Exception):
    """An error in a definition, before its file is known.

    Attributes:
        problem: the error and the allowed values.
        path: keys and positions from the value being read to the error.
    """

    def __init__(self, problem: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def under(self, *parents: str | int) -> FieldError:
        """The error with a longer path."""
        self.path = (*parents, *self.path)
        return self

    def invalid(self, **place: Any) -> InvalidDefinition:
        """The error for the caller; `place`: keyword arguments of InvalidDefinition."""
        keys = [part for part in self.path if isinstance(part, str)]
        return InvalidDefinition(self.problem, field=keys[-1] if keys else None, **place)


class InvalidValue(Exception):
    """A value of the wrong type or range; the caller adds the key."""

    def __init__(self, allowed: str, value: Any, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.value = value
        self.path = path


Field = tuple[str, Callable[[Any], Any]]  # attribute, and the reader of its value
IGNORED = object()  # a reader returns it for a valid value without effect
Unknown: TypeAlias = Literal["refused", "misspelt", "ignored"]


def read_fields(
    item: Mapping[str, Any], fields: Mapping[str, Field], *, unknown: Unknown = "refused"
) -> dict[str, Any]:
    """Reads an object by a table of its keys. O(keys); raises FieldError for the first invalid one.

    unknown: whether an unknown key is an error ("refused"), an error if it resembles a known key
    ("misspelt"), or no error ("ignored").
    """
    values: dict[str, Any] = {}
    for key, value in item.items():
        if (field := fields.get(key)) is None:
            if unknown == "ignored" or (
                unknown == "misspelt" and not _is_misspelt(str(key), frozenset(fields))
            ):
                continue
            raise FieldError(unknown_key(key, fields), (key,))
        attribute, read = field
        try:
            found = read(value)
        except InvalidValue as error:
            place = key + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
            raise FieldError(
                f"{place} is {shown(error.value)}, must be {error.allowed}", (key, *error.path)
            ) from None
        if found is IGNORED:
            continue
        if attribute in values:
            others = [other for other in item if other != key and fields.get(other, "")[:1] == (attribute,)]
            raise FieldError(f"{key} and {others[0]} say the same thing, must be one of them", (key,))
        values[attribute] = found
    return values


def name_of(items: Any, path: tuple[str | int, ...]) -> str | None:
    """The name of the tool at an error's path in a list of tools; None if it has none."""
    value: Any = items
    for part in (*path, None):
        for holder in (value, value.get("function") if isinstance(value, Mapping) else None):
            found = holder.get("name") if isinstance(holder, Mapping) else getattr(holder, "name", None)
            if isinstance(found, str) and 0 < len(found) <= MAX_NAME:
                return found
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
    return None


@functools.lru_cache(maxsize=1024)  # foreign keys repeat on every line of a file
def _is_misspelt(key: str, known: frozenset[str]) -> bool:
    return bool(difflib.get_close_matches(key, known, n=1, cutoff=0.8))


def unknown_key(key: object, known: Iterable[str]) -> str:
    """A message with the most similar known key, or with all known keys if none is similar."""
    names = sorted(known)
    near = difflib.get_close_matches(str(key), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(names)}"
    return f"unknown key {key!r}; {hint}"


def shown(value: object) -> str:
    """A short form of an invalid value, with JSON's names of its constants."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return reprlib.repr(value)
    except ValueError:  # a number of too many digits
        return quoted(value)


def name(value: Any) -> str:
    if type(value) is not str or not value or len(value) > MAX_NAME:
        raise InvalidValue(f"a string of 1 to {MAX_NAME} characters", value)
    if not is_visible(value) or value[0] == " " or value[-1] == " ":
        raise InvalidValue(
            "a name without control or invisible characters or spaces at its ends", ascii(value)
        )
    return value


def text(value: Any) -> str:
    if type(value) is not str:
        raise InvalidValue("a string", value)
    if len(value) > MAX_TEXT:
        raise InvalidValue(f"at most {MAX_TEXT} characters long ({len(value)} given)", value)
    if not is_unicode(value):
        raise InvalidValue("valid Unicode, without a lone surrogate", ascii(value))
    return value


def text_or_null(value: Any) -> str:
    return "" if value is None else text(value)


def name_or_null(value: Any) -> str | None:
    return None if value is None else name(value)


def toolkit(value: Any) -> str:
    return "" if value is None or value == "" else name(value)


def texts(value: Any) -> tuple[str, ...]:
    if type(value) is not list and type(value) is not tuple:
        raise InvalidValue("a list of strings", value)
    for i, item in enumerate(value):
        try:
            text(item)
        except InvalidValue as error:
            raise InvalidValue(error.allowed, error.value, (i,)) from None
    return tuple(value)


def flag(value: Any) -> bool:
    if type(value) is not bool:
        raise InvalidValue("true or false", value)
    return value


def whole(value: Any) -> int:
    if type(value) is not int:
        raise InvalidValue("a whole number", value)
    return value


def items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise InvalidValue("a list", value)
    return value


def status(value: Any) -> str:
    if type(value) is not str or value not in STATUSES:
        raise InvalidValue("draft, active, deprecated or retired", value)
    return value


def schema(value: Any) -> Mapping[str, Any] | None:
    """Checks that a schema is a bounded tree of objects with valid `properties` and `required`.

    References stay unchanged: nothing is resolved, expanded or fetched here.
    """
    if (checked := shallow_schema(value)) is None:
        return None
    nodes = 0
    few: list[Any] = [checked]  # nearly every schema is small, and no deeper than it has nodes
    for node in few:
        for child in node if type(node) is list else node.values():
            if type(child) is dict or type(child) is list:
                few.append(child)
        if len(few) > MAX_SCHEMA_DEPTH:
            break
    else:
        return checked
    level: list[Any] = [checked]
    for _ in range(MAX_SCHEMA_DEPTH):
        level = [
            child
            for node in level
            for child in (node if type(node) is list else node.values())
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return checked
        nodes += len(level)
        if nodes > MAX_SCHEMA_NODES:
            raise InvalidValue(f"a schema of at most {MAX_SCHEMA_NODES} objects and lists", value)
    raise InvalidValue(f"a schema of at most {MAX_SCHEMA_DEPTH} levels", value)


def shallow_schema(value: Any) -> Mapping[str, Any] | None:
    """Checks a schema like `schema`, but without limits: its text is small."""
    if value is None:
        return None
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InvalidValue("a JSON Schema object", value)
    properties = value.get("properties")
    if type(properties) is not dict and "properties" in value and not isinstance(properties, Mapping):
        raise InvalidValue("an object", properties, ("properties",))
    required = value.get("required")
    if type(required) is not list and "required" in value and not isinstance(required, (list, tuple)):
        raise InvalidValue("a list of property names", required, ("required",))
    return value


def answers(value: Any) -> Mapping[str, Any] | None:
    """The schema of a tool's result; None for an invalid one, since no call depends on it."""
    try:
        return schema(value)
    except InvalidValue:
        return None


def mcp_object(value: Any) -> Mapping[str, Any] | None:
    """An object of MCP for clients, such as a tool's annotations; None for a value that is no object.

    If a server writes [] for {}, the tool is not lost: rules treat a missing hint as unknown. An object
    that is too large, or no JSON, is an error.
    """
    if not isinstance(value, Mapping):
        return None
    _check_json(value, MAX_ANNOTATIONS)
    return value


def mcp_meta(value: Any) -> Mapping[str, Any] | None:
    """`mcp_object` with the limit of `_meta`."""
    if not isinstance(value, Mapping):
        return None
    _check_json(value, MAX_METADATA)
    return value


def mcp_icons(value: Any) -> tuple[Mapping[str, Any], ...]:
    """MCP's icons. A value that is no list has no icons, and an icon that is no object is left out."""
    if not isinstance(value, (list, tuple)):
        return ()
    found = tuple(icon for icon in value if isinstance(icon, Mapping))
    _check_json(found, MAX_METADATA)
    return found


def _check_json(value: Any, longest: int) -> None:
    """Checks that a value is JSON of a limited depth and length. Stops at the first excess."""
    level, length = [value], 0
    for _ in range(MAX_SCHEMA_DEPTH):
        below: list[Any] = []
        for part in level:
            if isinstance(part, Mapping):
                if not all(type(key) is str for key in part):
                    raise InvalidValue("JSON, whose keys are strings", value)
                length += sum(len(key) + 4 for key in part)
                below += part.values()
            elif isinstance(part, (list, tuple)):
                below += part
            elif type(part) is str:
                length += len(part)
            elif not (part is None or type(part) in (bool, int) or _is_finite(part)):
                raise InvalidValue("JSON", value)
            length += 2
            if length > longest or len(below) > longest:
                raise InvalidValue(f"at most {longest:,} characters as JSON", value)
        if not below:
            return
        level = below
    raise InvalidValue(f"JSON of at most {MAX_SCHEMA_DEPTH} levels", value)


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


# What a definition of MCP has beside its texts and parameters. Both spellings of the schema are in use.
METADATA: dict[str, Field] = {
    "title": ("display_name", text_or_null),
    "outputSchema": ("returns", answers),
    "output_schema": ("returns", answers),
    "annotations": ("annotations", mcp_object),
    "icons": ("icons", mcp_icons),
    "_meta": ("meta", mcp_meta),
    "execution": ("execution", mcp_object),
}

EXTRAS: dict[str, Field] = {
    "tags": ("tags", texts),
    "examples": ("examples", texts),
    "when_to_use": ("when_to_use", text_or_null),
    "summary": ("summary", text_or_null),
    "limitations": ("limitations", text_or_null),
    "pinned": ("pinned", flag),
    "pin_weight": ("pin_weight", whole),
    "interchangeable": ("interchangeable", text_or_null),
    "public": ("public", flag),
    "status": ("status", status),
    "version": ("version", text),
    **METADATA,
}

FUNCTION: dict[str, Field] = {
    "name": ("name", name),
    "description": ("description", text_or_null),
    "parameters": ("parameters", schema),
    "inputSchema": ("parameters", schema),
    "input_schema": ("parameters", schema),
}

PLAIN: dict[str, Field] = {
    **FUNCTION,
    **EXTRAS,
    "server": ("toolkit", toolkit),
    "toolkit": ("toolkit", toolkit),
}

PLAIN_SMALL: dict[str, Field] = {
    key: (attribute, shallow_schema if read is schema else read) for key, (attribute, read) in PLAIN.items()
}
