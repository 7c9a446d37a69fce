"""Tools with an error in their definition: refuses them, or repairs or skips them and reports it.

A person's own file is refused, because its author can correct it. A server's list has other authors, and one
bad tool is no reason to lose the others. So a tool in MCP's form is repaired if that is safe, and otherwise
skipped; the caller can choose either treatment for all tools. Spaces at the ends of a name are always
removed. Every repair and every skipped tool is in the `Definitions` and in the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeVar, get_args

from toolroll.formats.sources import fields
from toolroll.formats.sources.fields import FieldError
from toolroll.formats.sources.registry_fields import RefusedKeys
from toolroll.formats.visible_text import is_visible
from toolroll.model.errors import InvalidDefinition, InvalidInput, quoted
from toolroll.model.identity import canonical_json
from toolroll.model.tools import MAX_TEXT, Tool

log = logging.getLogger("toolroll")
T = TypeVar("T")

OnBadTool = Literal["refuse", "skip"]

_MOST_REPAIRS = 12  # repairs of one tool
_MOST_LOGGED = 5
_MOST_LINES = 20  # errors whose line is looked up: each reads the file again
_MOST_PROPERTIES = 500
_DEPTHS = (8, 4, 2)  # to which a schema that is too large is cut
_SPACES = re.compile(r"\s+")


def checked(on_bad_tool: object) -> OnBadTool | None:
    """The caller's choice; None for the default by each tool's origin."""
    if on_bad_tool is not None and (
        not isinstance(on_bad_tool, str) or on_bad_tool not in get_args(OnBadTool)
    ):
        raise InvalidInput(
            f"on_bad_tool: is {quoted(on_bad_tool)}, must be one of {', '.join(get_args(OnBadTool))}, or None"
        )
    return on_bad_tool  # type: ignore[return-value]


@dataclass(slots=True)
class BadTools:
    """Decides what happens to the bad tools of one source, and collects them.

    Attributes:
        on_bad_tool: None for the default by each tool's origin.
        place: makes arguments of InvalidDefinition from an error's path in the source.
        skipped, repaired: the errors so far.
        for_registry: whether every key must be understood (`registry_fields`). Then `refused` collects
            errors, too.
        refused: the errors of tools that may not be skipped.
    """

    on_bad_tool: OnBadTool | None
    place: Callable[[Sequence[str | int]], dict[str, Any]]
    skipped: list[InvalidDefinition] = field(default_factory=list)
    repaired: list[InvalidDefinition] = field(default_factory=list)
    for_registry: bool = False
    refused: list[InvalidDefinition] = field(default_factory=list)

    def read(self, item: Any, read: Callable[[Any], T], *path: str | int) -> T | None:
        """The result of `read` for the item or a repaired copy of it; None for a skipped item.

        Raises:
            FieldError: the item is refused; its path begins with `path`.
        """
        try:
            return self._writable(read(item), item)
        except RefusedKeys as refused:
            self.refuse(refused.under(*path), fields.name_of([item], (0,)))
            return None
        except FieldError as caught:
            first = caught
        skips = self.skips(item)
        fixed, error, notes = item, first, list[FieldError]()
        while isinstance(fixed, Mapping) and len(notes) < _MOST_REPAIRS:
            repaired = _repaired(fixed, error.path, is_safe_only=not skips)
            if repaired is None:
                break
            fixed, what = repaired
            notes.append(FieldError(what, error.path))
            try:
                result = self._writable(read(fixed), fixed)
            except FieldError as caught:
                error = caught
                continue
            for note in notes:
                self.repair(note.under(*path), fields.name_of([fixed], (0,)))
            return result
        if not skips and self.for_registry:
            self.refuse(first.under(*path), fields.name_of([item], (0,)))
            return None
        if not skips:
            raise first.under(*path) from first.__cause__
        self.skip(first.under(*path), fields.name_of([item], (0,)))
        return None

    def skips(self, item: Any) -> bool:
        """Whether this item may be skipped."""
        if self.on_bad_tool is not None:
            return self.on_bad_tool == "skip"
        return isinstance(item, Mapping) and "inputSchema" in item

    def _writable(self, result: T, item: Any) -> T:
        """The result. The schema of a tool that may be skipped is checked: it must be JSON.

        Other tools are checked when the catalog is built; there an error refuses the list.

        Raises:
            FieldError: the schema holds a value that has no form in JSON.
        """
        if isinstance(result, Tool) and result.parameters and self.skips(item):
            try:
                canonical_json(result.parameters)
            except InvalidDefinition as error:
                key = next((key for key in _SCHEMAS if isinstance(item, Mapping) and key in item), "")
                raise FieldError(f"{key or 'the schema'} {error.problem}", (key,) if key else ()) from error
        return result

    def skip(self, error: FieldError, name: str | None) -> None:
        """Records a skipped tool."""
        self.skipped.append(self._placed(error, name))

    def refuse(self, error: FieldError, name: str | None) -> None:
        """Records a tool for which a registry refuses the whole list."""
        self.refused.append(self._placed(error, name))

    def repair(self, error: FieldError, name: str | None) -> None:
        """Records a repaired tool."""
        self.repaired.append(self._placed(error, name))

    def _placed(self, error: FieldError, name: str | None) -> InvalidDefinition:
        place = self.place(error.path)
        if "line" in place and len(self.skipped) + len(self.repaired) >= _MOST_LINES:
            place.pop("line")
        return error.invalid(**place, tool=name)


def report(what: str, skipped: Sequence[InvalidDefinition], repaired: Sequence[InvalidDefinition]) -> None:
    """Logs the first skipped or repaired tools, and the number of the others."""
    for kind, found in (("skipped", skipped), ("repaired", repaired)):
        for each in found[:_MOST_LOGGED]:
            log.warning("%s: %s", kind, each)
        if len(found) > _MOST_LOGGED:
            log.warning("%s: %d more tools of %s", kind, len(found) - _MOST_LOGGED, what)


def clean_name(name: str) -> str:
    """The name without control and invisible characters, and without spaces at its ends."""
    spaced = _SPACES.sub(" ", name)
    return "".join(each for each in spaced if is_visible(each)).strip()


_Repair = Callable[[Any], Any]


def _repaired(
    item: Mapping[str, Any], path: Sequence[str | int], is_safe_only: bool
) -> tuple[dict[str, Any], str] | None:
    """A copy with a usable value at the path of an error, and a text on the change; None without one."""
    if path[:1] == ("function",) and isinstance(item.get("function"), Mapping):
        inner = _repaired(item["function"], path[1:], is_safe_only)
        return None if inner is None else ({**item, "function": inner[0]}, inner[1])
    key = path[0] if path else ""
    if not isinstance(key, str) or key not in item:
        return None
    value = item[key]
    stripped = value.strip() if key in _NAMES and isinstance(value, str) else value
    if stripped != value:
        return {**item, key: stripped}, f"{key} {quoted(value)}: spaces at its ends removed"
    repair = None if is_safe_only else _REPAIRS.get(key)
    if repair is None:
        return None
    usable = repair(value)
    if usable is not None:
        return None if usable == value else ({**item, key: usable}, f"{key}: {_WHAT[key]}")
    rest = {other: kept for other, kept in item.items() if other != key}
    return None if key in _NAMES else (rest, f"{key} {fields.shown(value)}: removed")


def _name(value: Any) -> str | None:
    return (clean_name(value) or None) if isinstance(value, str) else None


def _text(value: Any) -> str | None:
    """The text, cut to the longest allowed, with a question mark for each lone surrogate."""
    if not isinstance(value, str):
        return None
    return value[:MAX_TEXT].encode("utf-8", "replace").decode()


def _texts(value: Any) -> list[str] | None:
    if not isinstance(value, (list, tuple)):
        return None
    return [text for each in value if (text := _text(each)) is not None]


def _nothing(value: Any) -> None:
    return None


def _schema(value: Any) -> dict[str, Any] | None:
    """A JSON Schema with the same properties, without invalid, too deep and too large parts."""
    if not isinstance(value, Mapping):
        return None
    found = {str(key): part for key, part in value.items() if key not in ("properties", "required")}
    properties, required = value.get("properties"), value.get("required")
    if isinstance(properties, Mapping):
        found["properties"] = {str(key): part for key, part in properties.items()}
    if isinstance(required, (list, tuple)):
        found["required"] = list(required)
    for depth in _DEPTHS:
        try:
            fields.schema(found)
            return found
        except fields.InvalidValue:
            found = _cut(value if depth == _DEPTHS[0] else found, depth)
    return found


def _cut(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """A schema with `depth` levels of properties; below them only types and descriptions."""
    found = {
        key: part
        for key, part in schema.items()
        if key in ("type", "description", "title", "enum", "format", "default")
        and not isinstance(part, Mapping)
    }
    properties, required = schema.get("properties"), schema.get("required")
    if depth and isinstance(properties, Mapping):
        found["properties"] = {
            str(key): _cut(part, depth - 1) if isinstance(part, Mapping) else {}
            for key, part in islice(properties.items(), _MOST_PROPERTIES)
        }
        if isinstance(required, (list, tuple)):
            found["required"] = [key for key in required if key in found["properties"]]
    if depth and isinstance(schema.get("items"), Mapping):
        found["items"] = _cut(schema["items"], depth - 1)
    return found


_NAMES = ("name", "server", "toolkit")
_SCHEMAS = ("parameters", "inputSchema", "input_schema", "parametersJsonSchema", "parameters_json_schema")
_TEXTS = ("description", "title", "summary", "when_to_use", "limitations")
_REPAIRS: Mapping[str, _Repair] = {
    **dict.fromkeys(_NAMES, _name),
    **dict.fromkeys(_SCHEMAS, _schema),
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(("examples", "tags"), _texts),
    # No call depends on these. A missing hint is unknown, so rules treat the tool with more care, not less.
    **dict.fromkeys(
        ("annotations", "icons", "_meta", "execution", "outputSchema", "output_schema"), _nothing
    ),
}
_WHAT: Mapping[str, str] = {
    **dict.fromkeys(_NAMES, "control and invisible characters removed"),
    **dict.fromkeys(_SCHEMAS, "invalid or too large parts removed"),
    **dict.fromkeys(_TEXTS, f"lone surrogates replaced, and cut after {MAX_TEXT:,} characters"),
    **dict.fromkeys(("examples", "tags"), "what is no string removed, and lone surrogates replaced"),
}
