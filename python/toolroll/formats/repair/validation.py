"""Whether a schema accepts a value, as far as a repair has to know.

The answer errs on one side: what is valid is always accepted, so a repair that starts only where a value
is not accepted never touches a valid one. Keywords that no repair can serve (`not`, `if`, `format`,
`pattern`, `uniqueItems`, ...) are passed over, and of `oneOf` one match is enough. Work is bounded by
MAX_STEPS and MAX_DEPTH, whatever the schema refers to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolroll.errors import InvalidInput
from toolroll.formats.schemas.references import resolve

MAX_STEPS = 100_000  # looks at one value through one schema, or at so many keys; some half a second
MAX_DEPTH = 200  # of schemas within schemas, followed references among them
MAX_PARTS = 100  # of one schema: itself, what it refers to, and its allOf

Schema = Mapping[str, Any]


class Validator:
    """One schema, its references, and what has been found out about it so far.

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
        """Counts pieces of work. Raises InvalidInput when there have been MAX_STEPS."""
        self._steps += pieces
        if self._steps > MAX_STEPS:
            raise InvalidInput(
                f"arguments: checking them takes more than {MAX_STEPS:,} steps; "
                "they are too large, or their schema is too intricate"
            )

    def accepts(self, value: Any, schema: Any) -> bool:
        """Whether `schema` accepts `value`; true for whatever is valid, and for some that is not."""
        if not isinstance(schema, Mapping):
            return schema is not False
        key = (id(schema), id(value))
        if (known := self._known.get(key)) is not None:
            return known
        self.step()
        if self._depth >= MAX_DEPTH:
            raise InvalidInput(f"arguments: they or their schema are nested deeper than {MAX_DEPTH} levels")
        self._alive += (schema, value)
        self._known[key] = True  # where a reference leads back here without a value in between
        self._depth += 1
        try:
            known = self._known[key] = self._holds(value, schema)
        finally:
            self._depth -= 1
        return known

    def parts(self, schema: Schema) -> list[Schema]:
        """The schemas that must all hold: itself, what it refers to, and what its allOf lists."""
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
        """What the schema's own reference points to, if it has one and it can be followed."""
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return None
        if reference not in self._targets:
            self._targets[reference] = resolve(self.root, reference)
        return self._targets[reference]

    def takes_text(self, schema: Any) -> bool:
        """Whether a schema allows text other than what it lists."""
        if not isinstance(schema, Mapping):
            return schema is not False
        parts = self.parts(schema)
        return all(enumeration(part) is None and is_kind("", part.get("type")) for part in parts)

    def members(self, schema: Schema, key: str) -> list[Any] | None:
        """The schemas for one key of an object; None where additionalProperties forbids it.

        A key that falls under a pattern which cannot be read is neither described nor forbidden.
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
        """Whether a key falls under a pattern; None where RE2 cannot read the pattern."""
        if not isinstance(pattern, str):
            return None
        if pattern not in self._patterns:
            self._patterns[pattern] = _compiled(pattern)
        compiled = self._patterns[pattern]
        try:
            return None if compiled is None else compiled.search(key) is not None
        except UnicodeError:  # half of a surrogate pair
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
    """JSON's name for the type of a value; "" for what JSON has no type for."""
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
    """Whether a value is of one of the types that `type` names; true where it names none that we know."""
    named = kinds_of(kinds)
    kind = kind_of(value)
    if named is None or not kind or kind in named:
        return True
    if kind == "integer":
        return "number" in named
    return kind == "number" and "integer" in named and float(value).is_integer()  # type: ignore[arg-type]


def kinds_of(kinds: object) -> frozenset[str] | None:
    """The names in `type`; None where it says nothing, or something that JSON Schema doesn't know."""
    named = frozenset(kind for kind in (kinds if _is_list(kinds) else [kinds]) if isinstance(kind, str))  # type: ignore[attr-defined]
    return named if named and named <= _NAMES else None


_NAMES = frozenset({"null", "boolean", "integer", "number", "string", "object", "array"})


def enumeration(schema: Schema) -> list[Any] | None:
    """The values that `enum` or `const` allows; None where neither is there."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return list(values) if _is_list(values) else None  # type: ignore[arg-type]


def same(left: object, right: object) -> bool:
    """Equality as JSON has it, where true is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def branches(schema: Schema, keyword: str) -> Sequence[Any]:
    """What `allOf`, `anyOf` or `oneOf` lists."""
    listed = schema.get(keyword)
    return listed if _is_list(listed) else ()  # type: ignore[return-value]


def mapping(schema: Schema, keyword: str) -> Mapping[str, Any]:
    """What `properties` or its like holds; empty where that is no object."""
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
    import re2  # only schemas with patterns pay for the import

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError):
        return None


class DeclaredProperties:
    """What one schema names, itself, by reference and in its alternatives.

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
        """Whether the key is named, falls under a pattern, or the schema is open to any."""
        if self._open or name in self.names:
            return True
        self._acceptance.step(len(self._patterns) // 3)
        return any(self._acceptance.matches(pattern, name) is not False for pattern in self._patterns)
