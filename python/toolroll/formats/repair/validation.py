"""Checks whether a schema accepts a value, as far as a repair needs it.

A valid value is always accepted, so a repair, which changes only rejected values, never changes a valid one.
Keywords that no repair can satisfy (`not`, `if`, `format`, `pattern`, `uniqueItems`, ...) are ignored, and
one match of `oneOf` is enough. MAX_STEPS and MAX_DEPTH bound the work, whatever the schema refers to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolroll.formats.providers.references import resolve
from toolroll.model.errors import InvalidInput

MAX_STEPS = 100_000  # checks of a value by a schema; about half a second
MAX_DEPTH = 200  # nested schemas, including followed references
MAX_PARTS = 100  # schemas that must hold together: one, the target of its reference, and its allOf

Schema = Mapping[str, Any]


class Validator:
    """A schema with its references and cached results.

    Attributes:
        root: the whole schema, into which references point.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._steps = 0
        self._depth = 0
        self._known: dict[tuple[int, int], bool] = {}
        self._alive: list[object] = []  # an id names an object only as long as that lives
        self._targets: dict[str, Schema | None] = {}
        self._patterns: dict[str, Any] = {}

    def step(self, pieces: int = 1) -> None:
        """Counts work. Raises InvalidInput after MAX_STEPS."""
        self._steps += pieces
        if self._steps > MAX_STEPS:
            raise InvalidInput(
                f"arguments: checking them takes more than {MAX_STEPS:,} steps; "
                "they are too large, or their schema is too complex"
            )

    def accepts(self, value: Any, schema: Any) -> bool:
        """Whether `schema` accepts `value`; true for every valid value, and for some invalid ones."""
        if not isinstance(schema, Mapping):
            return schema is not False
        key = (id(schema), id(value))
        if (known := self._known.get(key)) is not None:
            return known
        self.step()
        if self._depth >= MAX_DEPTH:
            raise InvalidInput(f"arguments: they or their schema are nested deeper than {MAX_DEPTH} levels")
        self._alive += (schema, value)
        self._known[key] = True  # the result for a circular reference
        self._depth += 1
        try:
            known = self._known[key] = self._holds(value, schema)
        finally:
            self._depth -= 1
        return known

    def parts(self, schema: Schema) -> list[Schema]:
        """The schemas that must all hold: itself, its reference's target, and its allOf."""
        found: list[Schema] = []
        waiting: list[Any] = [schema]
        seen: set[int] = set()
        while waiting and len(found) < MAX_PARTS:
            part = waiting.pop(0)
            if not isinstance(part, Mapping) or id(part) in seen:
                continue
            seen.add(id(part))
            self.step()
            found.append(part)
            waiting += [self.target(part), *branches(part, "allOf")]
        return found

    def target(self, schema: Schema) -> Schema | None:
        """The target of the schema's own reference; None without one."""
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return None
        if reference not in self._targets:
            self._targets[reference] = resolve(self.root, reference)
        return self._targets[reference]

    def takes_text(self, schema: Any) -> bool:
        """Whether a schema allows any text that it does not list."""
        if not isinstance(schema, Mapping):
            return schema is not False
        parts = self.parts(schema)
        return all(enumeration(part) is None and is_kind("", part.get("type")) for part in parts)

    def members(self, schema: Schema, key: str) -> list[Any] | None:
        """The schemas for one key of an object; None if additionalProperties forbids it.

        A key is allowed, without a schema, if it may match a pattern that RE2 cannot read.
        """
        found = []
        properties = mapping(schema, "properties")
        if key in properties:
            found.append(properties[key])
        covered = bool(found)
        patterns = mapping(schema, "patternProperties")
        self.step(len(patterns) // 3)
        for pattern, described in patterns.items():
            matches = self.matches(pattern, key)
            covered = covered or matches is not False
            if matches:
                found.append(described)
        if covered:
            return found
        additional = schema.get("additionalProperties")
        return None if additional is False else [additional] if isinstance(additional, Mapping) else []

    def matches(self, pattern: object, key: str) -> bool | None:
        """Whether a key matches a pattern; None if RE2 cannot read the pattern."""
        if not isinstance(pattern, str):
            return None
        if pattern not in self._patterns:
            self._patterns[pattern] = _compiled(pattern)
        compiled = self._patterns[pattern]
        try:
            return None if compiled is None else compiled.search(key) is not None
        except UnicodeError:  # a lone surrogate
            return None

    def items(self, schema: Schema) -> Iterator[Any]:
        """The schema of each item of an array, in order, without end."""
        listed: object = schema.get("prefixItems")
        rest = schema.get("items")
        if not _is_list(listed) and _is_list(rest):  # as drafts before 2020-12 wrote it
            listed, rest = rest, schema.get("additionalItems")
        if _is_list(listed):
            yield from listed  # type: ignore[misc]
        while True:
            yield rest

    def _holds(self, value: Any, schema: Schema) -> bool:
        if "type" in schema and not is_kind(value, schema["type"]):
            return False
        if (allowed := enumeration(schema)) is not None:
            self.step(len(allowed) // 16)  # a comparison is a sixteenth of a step, a pattern a third
            if not any(same(value, one) for one in allowed):
                return False
        if (target := self.target(schema)) is not None and not self.accepts(value, target):
            return False
        if not all(self.accepts(value, part) for part in branches(schema, "allOf")):
            return False
        for keyword in ("anyOf", "oneOf"):
            choices = branches(schema, keyword)
            if choices and not any(self.accepts(value, choice) for choice in choices):
                return False
        if isinstance(value, Mapping):
            return self._holds_object(value, schema)
        if isinstance(value, (list, tuple)):
            return _within(schema, len(value), "Items") and all(
                self.accepts(item, described)
                for item, described in zip(value, self.items(schema), strict=False)
            )
        if isinstance(value, str):
            return _within(schema, len(value), "Length")
        return not _is_number(value) or _in_range(schema, value)

    def _holds_object(self, value: Mapping[Any, Any], schema: Schema) -> bool:
        self.step(len(branches(schema, "required")) // 16)
        if not all(key in value for key in required(schema)):
            return False
        for key, item in value.items():
            described = self.members(schema, str(key))
            if described is None or not all(self.accepts(item, one) for one in described):
                return False
        return True


def kind_of(value: object) -> str:
    """JSON's name for the type of a value; "" if JSON has none."""
    if value is None:
        return "null"
    for kind, types in _KINDS:
        if isinstance(value, types):
            return kind
    return ""


_KINDS: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("boolean", bool),  # before int, which it is a kind of
    ("integer", int),
    ("number", float),
    ("string", str),
    ("object", Mapping),
    ("array", (list, tuple)),
)


def is_kind(value: object, kinds: object) -> bool:
    """Whether a value has one of the types in `type`; true if no known type is named."""
    named = kinds_of(kinds)
    kind = kind_of(value)
    if named is None or not kind or kind in named:
        return True
    if kind == "integer":
        return "number" in named
    return kind == "number" and "integer" in named and float(value).is_integer()  # type: ignore[arg-type]


def kinds_of(kinds: object) -> frozenset[str] | None:
    """The names in `type`; None if there are none, or one that JSON Schema does not have."""
    named = frozenset(kind for kind in (kinds if _is_list(kinds) else [kinds]) if isinstance(kind, str))  # type: ignore[attr-defined]
    return named if named and named <= _NAMES else None


_NAMES = frozenset({"null", "boolean", "integer", "number", "string", "object", "array"})


def enumeration(schema: Schema) -> list[Any] | None:
    """The values of `enum` or `const`; None without both."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return list(values) if _is_list(values) else None  # type: ignore[arg-type]


def same(left: object, right: object) -> bool:
    """Equality in JSON, where true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def branches(schema: Schema, keyword: str) -> Sequence[Any]:
    """The list under `allOf`, `anyOf` or `oneOf`."""
    listed = schema.get(keyword)
    return listed if _is_list(listed) else ()  # type: ignore[return-value]


def mapping(schema: Schema, keyword: str) -> Mapping[str, Any]:
    """The mapping under a keyword such as `properties`; empty if it is not an object."""
    held = schema.get(keyword)
    return held if isinstance(held, Mapping) else {}


def required(schema: Schema) -> list[str]:
    """The keys that `required` names."""
    return [key for key in branches(schema, "required") if isinstance(key, str)]


def _within(schema: Schema, count: int, noun: str) -> bool:
    low, high = _bound(schema, f"min{noun}"), _bound(schema, f"max{noun}")
    return not (low is not None and count < low) and not (high is not None and count > high)


def _in_range(schema: Schema, value: float) -> bool:
    low, high = _bound(schema, "minimum"), _bound(schema, "maximum")
    over, under = _bound(schema, "exclusiveMinimum"), _bound(schema, "exclusiveMaximum")
    return (
        not (low is not None and value < low)
        and not (high is not None and value > high)
        and not (over is not None and value <= over)
        and not (under is not None and value >= under)
    )


def _bound(schema: Schema, keyword: str) -> float | None:
    bound = schema.get(keyword)
    return bound if _is_number(bound) else None


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and not (isinstance(value, float) and math.isnan(value))
    )


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _compiled(pattern: str) -> Any:
    import re2  # imported on first use: it is slow to import

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError):
        return None


class DeclaredProperties:
    """The properties that a schema declares, directly, by reference and in its alternatives.

    Attributes:
        names: the keys of all its `properties`.
    """

    def __init__(self, validator: Validator, schema: Schema) -> None:
        self.names: set[str] = set()
        self._acceptance = validator
        self._patterns: list[object] = []
        self._open = True  # until a list of properties is found
        welcoming = False
        waiting: list[Any] = [schema]
        seen: set[int] = set()
        while waiting:
            part = waiting.pop()
            if not isinstance(part, Mapping) or id(part) in seen:
                continue
            seen.add(id(part))
            validator.step()
            self._open = self._open and not isinstance(part.get("properties"), Mapping)
            self.names.update(mapping(part, "properties"))
            self._patterns += mapping(part, "patternProperties")
            for keyword in ("additionalProperties", "unevaluatedProperties"):
                welcoming = welcoming or part.get(keyword, False) is not False
            waiting += [validator.target(part), *mapping(part, "dependentSchemas").values()]
            waiting += [part.get(keyword) for keyword in ("if", "then", "else")]
            for keyword in ("allOf", "anyOf", "oneOf"):
                waiting += branches(part, keyword)
        self._open = self._open or welcoming

    def has(self, name: str) -> bool:
        """Whether the key is declared, matches a pattern, or the schema allows any key."""
        if self._open or name in self.names:
            return True
        self._acceptance.step(len(self._patterns) // 3)
        return any(self._acceptance.matches(pattern, name) is not False for pattern in self._patterns)
