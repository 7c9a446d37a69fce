"""Schemas of tools and arguments that nearly fit them, drawn by Hypothesis; jsonschema says what is valid."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import strategies as st

NAMES = ("a", "b", "c")


def is_valid(value: Any, schema: Any) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([0.5, 5.0, -1.25]),
    st.sampled_from(
        ["", "a", "A", "5", "5.0", "0.5", "true", "False", "null", "red", "Red ", "[1]", '{"a": "1"}']
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)


def _leaves() -> st.SearchStrategy[Any]:
    kinds = ["string", "integer", "number", "boolean", "null", "array", "object"]
    kind = st.sampled_from(kinds) | st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique=True)
    return st.one_of(
        kind.map(lambda one: {"type": one}),
        st.integers(0, 6).map(lambda low: {"type": "integer", "minimum": low}),
        st.lists(scalars, min_size=1, max_size=3).map(lambda listed: {"enum": listed}),
        scalars.map(lambda one: {"const": one}),
        st.just({"type": "string", "enum": ["red", "green"]}),
        st.just({"$ref": "#/$defs/limit"}),
        st.just({"$ref": "#/$defs/node"}),
        st.just({"not": {"type": "string"}}),
        st.just({}),
        st.booleans(),
    )


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        objects(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda choices: {"anyOf": choices}),
        st.lists(inner, min_size=1, max_size=3).map(lambda choices: {"oneOf": choices}),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"allOf": parts}),
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda items: {"type": "array", "prefixItems": [items], "maxItems": 2}),
    )


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(properties: dict[str, Any], required: list[str], rest: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": required, **rest}

    rests = st.one_of(
        st.just({}),
        st.just({"additionalProperties": False}),
        st.just({"unevaluatedProperties": False}),
        inner.map(lambda schema: {"additionalProperties": schema}),
        inner.map(lambda schema: {"patternProperties": {"^[bc]$": schema}, "additionalProperties": False}),
    )
    names = st.sampled_from(NAMES)
    return st.builds(
        made, st.dictionaries(names, inner, max_size=3), st.lists(names, max_size=2, unique=True), rests
    )


_DEFINITIONS = {
    "limit": {"type": "integer", "minimum": 1},
    "node": {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "integer"}}},
}

schemas = st.recursive(_leaves(), _nested, max_leaves=6)
tool_schemas = objects(schemas).map(lambda schema: {**schema, "$defs": _DEFINITIONS})
arguments = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
