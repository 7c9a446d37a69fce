"""Repairs a model's arguments by the tool's own schema.

Models write "5" for 5, "true" for true, null for absent values, and parameters that the tool does not have. A
value is changed only if the schema rejects it and exactly one reading fits. Every change is reported.
Everything else is left for the tool to reject.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolroll.formats.repair.coercion import coerce, respell
from toolroll.formats.repair.validation import (
    DeclaredProperties,
    Schema,
    Validator,
    branches,
    enumeration,
    kind_of,
    required,
)
from toolroll.formats.schemas.relax import json_schema
from toolroll.formats.strict_json import NotJson, read
from toolroll.model.errors import InvalidInput, quoted

MAX_PASSES = 8  # two are usually enough: one that changes, one that finds nothing to change

What = Literal["boolean", "number", "null", "text", "object", "array", "spelling", "removed", "injected"]


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        path: the place, as a JSON Pointer: ``/filters/0/limit``.
        what: the new type ("boolean", "number", "null", "object", "array" from text, "text" from a number),
            "spelling" of a value that the schema lists, "removed" or "injected".
        before: the old value; None if there was none.
        after: the new value; None if it was removed.
    """

    path: str
    what: What
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The repaired arguments of a tool call, and the changes.

    Attributes:
        arguments: a new dictionary; values that needed no change are the caller's own objects.
        changes: in order; empty if the arguments were valid.
    """

    arguments: dict[str, Any]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Injection:
    """A value that the caller knows better than the model, such as the id of the current chat.

    It replaces an argument that is missing, null, blank text, or of another JSON type than `value`.

    Attributes:
        value: the value to insert.
        max_length: also replaces text longer than this.
        when: also replaces a value for which this is true.
        always: replaces every value.
    """

    value: Any
    max_length: int | None = None
    when: Callable[[Any], bool] | None = None
    always: bool = False

    def replaces(self, value: Any) -> bool:
        """Whether the present `value` has to be replaced."""
        return (
            self.always
            or kind_of(value) != kind_of(self.value)
            or (isinstance(value, str) and not value.strip())
            or (self.max_length is not None and isinstance(value, str) and len(value) > self.max_length)
            or (self.when is not None and self.when(value))
        )


def repair(
    arguments: Mapping[str, Any] | str | None,
    schema: Schema | None,
    inject: Mapping[str, Injection] | None = None,
    undeclared: Literal["remove", "keep"] = "remove",
) -> RepairResult:
    """Makes arguments fit the tool's schema wherever there is one way to do so.

    - Text becomes a boolean, a number, null, or a JSON object or array if the schema wants that and no text;
      a whole number becomes text if the schema wants text only.
    - Null is removed if it is not allowed and the parameter is optional.
    - A value becomes the listed value that differs from it only in case or surrounding space.
    - A parameter that the tool does not declare is removed, unless the schema explicitly allows more. Inside
      a parameter's value, only properties that `additionalProperties` forbids are removed: a tool's
      parameters are a closed list even if few schemas say so, while values are data.

    Other arguments that the schema accepts are not changed, and a second repair changes nothing.

    Args:
        arguments: an object, or its JSON text as OpenAI sends it; None, blank text and the text ``null``
            mean no arguments.
        schema: the tool's `parameters`; references in it are followed. None if unknown: text is then parsed
            and its values stay unchanged.
        inject: values by parameter; values for undeclared parameters are ignored.
        undeclared: "keep" keeps parameters that the schema neither names nor forbids.

    Raises:
        InvalidInput: the text is not one JSON object (the message is fit for the model), or arguments and
            schema are too deep or too large to be checked.
    """
    schema = {} if schema is None else json_schema(schema)
    if not isinstance(undeclared, str) or undeclared not in ("remove", "keep"):
        raise InvalidInput(f"undeclared is {quoted(undeclared)}, must be 'remove' or 'keep'")
    changes: list[Change] = []
    parsed = _object(arguments, changes)
    try:
        return _Repair(schema).run(parsed, _injections(inject), undeclared == "remove", changes)
    except RecursionError:
        raise InvalidInput("arguments: they or their schema are nested too deeply to be checked") from None


def _object(arguments: object, changes: list[Change]) -> dict[str, Any]:
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    value: object = arguments
    for attempt in range(2):  # once more for an object whose JSON was written as a JSON string
        if not isinstance(value, str):
            break
        text = value
        try:
            value = read(text)
        except NotJson as error:
            raise InvalidInput(_not_json(text, error)) from None
        if attempt:
            changes.append(Change("", "object", text, value))
    if value is None:  # the JSON text null, which some models write where there are no arguments
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"arguments are {_shown(value)}, must be one JSON object of parameters")
    return {key if isinstance(key, str) else str(key): item for key, item in value.items()}


def _not_json(text: str, error: NotJson) -> str:
    if error.position >= len(text.rstrip()) or str(error).startswith("Unterminated string"):
        return f"arguments are cut off after {len(text)} characters, must be one whole JSON object"
    return (
        f"arguments are not JSON: {error} at character {error.position}: "
        f"{text[max(0, error.position - 10) : error.position + 20]!r}; must be one JSON object"
    )


def _shown(value: object) -> str:
    """A value in JSON, with its type."""
    kind = kind_of(value)
    try:
        text = json.dumps(value, ensure_ascii=False)[:80].encode("utf-8", "backslashreplace").decode()
        return f"the JSON {kind} {text}" if kind else quoted(value)
    except (TypeError, ValueError, RecursionError):
        return quoted(value)


def _injections(inject: object) -> Mapping[str, Injection]:
    if inject is None:
        return {}
    if not isinstance(inject, Mapping) or not all(isinstance(one, Injection) for one in inject.values()):
        raise InvalidInput(f"inject is {quoted(inject)}, must map parameters to Injection objects")
    return inject


class _Repair:
    """One repair: the schema, and the changes so far."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.validator = Validator(schema)
        self.changes: list[Change] = []
        self._cache: dict[tuple[int, int, str, frozenset[str]], tuple[Any, list[Change]]] = {}

    def run(
        self, parsed: dict[str, Any], inject: Mapping[str, Injection], closed: bool, changes: list[Change]
    ) -> RepairResult:
        declared = DeclaredProperties(self.validator, self.schema)
        arguments = dict(parsed)
        for name, injection in inject.items():
            present = name in arguments and arguments[name] is not None
            if name in declared.names and (not present or injection.replaces(arguments[name])):
                before = arguments.get(name)
                if not present or (before is not injection.value and before != injection.value):
                    changes.append(Change(_below("", name), "injected", before, injection.value))
                arguments[name] = injection.value
        if closed:
            for name in [name for name in arguments if not declared.has(name)]:
                changes.append(Change(_below("", name), "removed", arguments.pop(name), None))
        value: Any = arguments
        for _ in range(MAX_PASSES):
            made = len(self.changes)
            value = self.repair_value(value, self.schema, "", frozenset())
            if len(self.changes) == made:
                return RepairResult(dict(value), (*changes, *self.changes))
        return RepairResult(arguments, tuple(changes))  # the schema contradicts itself: no pass is the last

    def repair_value(self, value: Any, schema: Any, path: str, kept: frozenset[str]) -> Any:
        """The value, repaired by `schema` as far as possible. kept: keys that outer schemas require."""
        self.validator.step()
        if not isinstance(schema, Mapping) or self.validator.accepts(value, schema):
            return value
        # Once for each schema and place: nested alternatives would double the work at every level. The
        # validator keeps schema and value alive, so that no other object gets their ids.
        key = (id(schema), id(value), path, kept)
        if (known := self._cache.get(key)) is None:
            self._cache[key] = value, []  # the result for a circular reference
            made = len(self.changes)
            after = self._repair_parts(value, schema, path, kept)
            self._cache[key] = after, self.changes[made:]
            return after
        self.changes += known[1]
        return known[0]

    def _repair_parts(self, value: Any, schema: Schema, path: str, kept: frozenset[str]) -> Any:
        parts = self.validator.parts(schema)
        value = self._coerce(value, parts, path)
        kept |= {key for part in parts for key in required(part)}
        for part in parts:
            for keyword in ("anyOf", "oneOf"):
                if choices := branches(part, keyword):
                    value = self._choose(value, choices, path, kept)
        if isinstance(value, Mapping):
            return self._members(value, schema, parts, path, kept)
        if isinstance(value, (list, tuple)):
            return self._items(value, parts, path)
        return value

    def _coerce(self, value: Any, parts: list[Schema], path: str) -> Any:
        self.validator.step(sum(len(enumeration(part) or ()) + len(required(part)) for part in parts) // 4)
        for what, after in (coerce(value, parts), respell(value, parts)):
            if what is not None:
                self.changes.append(Change(path, what, value, after))
                return after
        return value

    def _choose(self, value: Any, choices: Any, path: str, kept: frozenset[str]) -> Any:
        """Repairs by the branch with the fewest changes; if several have the fewest, by the first, null last.

        If no branch accepts the value after repair, it stays, unless there is only one real branch: then it
        is repaired in part. "null" becomes null if no branch takes text.
        """
        if any(self.validator.accepts(value, choice) for choice in choices):
            return value
        real = [choice for choice in choices if not _is_null(choice)]
        nulls = [choice for choice in choices if _is_null(choice)]
        if nulls and isinstance(value, str) and any(self.validator.takes_text(choice) for choice in real):
            nulls = []
        best: tuple[tuple[bool, int], Any, list[Change]] | None = None
        made = len(self.changes)
        for choice in (*real, *nulls):
            tried = self.repair_value(value, choice, path, kept)
            changes = self.changes[made:]
            del self.changes[made:]
            fits = self.validator.accepts(tried, choice)
            rank = (not fits, len(changes))
            if (fits or [choice] == real) and (best is None or rank < best[0]):
                best = rank, tried, changes
        if best is None:
            return value
        self.changes += best[2]
        return best[1]

    def _members(
        self, value: Mapping[Any, Any], schema: Schema, parts: list[Schema], path: str, kept: frozenset[str]
    ) -> Any:
        members: dict[Any, Any] = {}
        changed = False
        closed = any(part.get("unevaluatedProperties") is False for part in parts)
        declared = DeclaredProperties(self.validator, schema) if closed else None
        for key, item in value.items():
            name, below = str(key), _below(path, str(key))
            described = [self.validator.members(part, name) for part in parts]
            forbidden = any(one is None for one in described) and not any(described)
            if forbidden or (declared is not None and not declared.has(name)):
                self.changes.append(Change(below, "removed", item, None))
                changed = True
                continue
            schemas = [schema for one in described if one for schema in one]
            refused = any(not self.validator.accepts(item, schema) for schema in schemas)
            if item is None and refused and name not in kept:
                self.changes.append(Change(below, "removed", None, None))
                changed = True
                continue
            after = item
            for one in schemas:
                after = self.repair_value(after, one, below, frozenset())
            changed = changed or after is not item
            members[key] = after
        return members if changed else value

    def _items(self, value: Any, parts: list[Schema], path: str) -> Any:
        items = list(value)
        for part in parts:
            for place, (item, schema) in enumerate(zip(items, self.validator.items(part), strict=False)):
                items[place] = self.repair_value(item, schema, f"{path}/{place}", frozenset())
        changed = any(after is not item for after, item in zip(items, value, strict=True))
        return items if changed else value


def _is_null(schema: object) -> bool:
    return isinstance(schema, Mapping) and (schema.get("type") == "null" or schema.get("enum") == [None])


def _below(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
