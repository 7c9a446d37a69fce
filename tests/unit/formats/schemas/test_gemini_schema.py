from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.formats.providers.gemini_schema import MAX_NODES, gemini_schema

ALLOWED = set(  # the fields of Schema in the Gemini API reference
    [
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "propertyOrdering",
        "default",
        "items",
        "minimum",
        "maximum",
    ]
)


def translated(schema: Any, **root: Any) -> Any:
    return gemini_schema({"type": "object", "properties": {"x": schema}, **root})["properties"]["x"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": "STRING"}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        ({"const": 3}, {"type": "INTEGER", "description": "One of: 3."}),
        ({"type": "string", "enum": ["a", "", None]}, {"type": "STRING", "nullable": True, "enum": ["a"]}),
        ({"enum": [1, 2], "description": "How."}, {"type": "INTEGER", "description": "How. One of: 1, 2."}),
        ({"type": "string", "format": "uuid"}, {"type": "STRING"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
            {"type": "INTEGER", "minimum": 1, "maximum": 9},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "NUMBER"}),
        ({"type": "string", "maximum": 3, "minLength": 1}, {"type": "STRING", "minLength": 1}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        ({"items": {"type": "number"}}, {"type": "ARRAY", "items": {"type": "NUMBER"}}),
        (
            {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "minItems": 2},
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": 2},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "STRING", "nullable": True}),
        (
            {
                "oneOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}],
                "description": "Any.",
                "title": "T",
            },
            {
                "anyOf": [
                    {"type": "STRING", "description": "Any.", "nullable": True},
                    {"type": "NUMBER", "description": "Any.", "nullable": True},
                ]
            },
        ),
        (
            {
                "allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a", "b"]}],
                "type": "object",
            },
            {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]},
        ),
        (
            {"type": "object", "additionalProperties": False, "patternProperties": {}, "$comment": "x"},
            {"type": "OBJECT"},
        ),
        (True, {"type": "STRING"}),
        ({}, {"type": "STRING"}),
        (
            {"$ref": "http://127.0.0.1:9/x.json", "description": "Far."},
            {"type": "OBJECT", "description": "Far."},
        ),
        ({"$ref": "#/$defs/nowhere"}, {"type": "OBJECT"}),
    ],
    ids=str,
)
def test_a_keyword_is_translated_or_dropped(schema, expected):
    assert translated(schema) == expected


def test_a_reference_is_put_in_place():
    definitions = {"a/b": {"type": "string", "description": "There."}, "list": [{"type": "number"}]}
    assert translated({"$ref": "#/$defs/a~1b", "description": "Here."}, **{"$defs": definitions}) == {
        "type": "STRING",
        "description": "Here.",
    }
    assert translated({"$ref": "#/$defs/list/0"}, **{"$defs": definitions}) == {"type": "NUMBER"}


def test_a_schema_that_refers_to_itself_ends_where_it_comes_round():
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/node"}}}
    assert translated({"$ref": "#/$defs/node"}, **{"$defs": {"node": node}}) == {
        "type": "OBJECT",
        "properties": {"name": {"type": "STRING"}, "child": {"type": "OBJECT"}},
    }
    assert translated(
        {"allOf": [{"$ref": "#/$defs/a"}]}, **{"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}
    )


def test_a_schema_that_refers_to_its_own_root_ends():
    assert gemini_schema({"type": "object", "properties": {"me": {"$ref": "#"}}})["type"] == "OBJECT"


def count(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict) + sum(map(count, children))


def test_definitions_that_double_at_each_step_stay_within_the_limit():
    pair = lambda i: {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{i}"} for k in "ab"}}  # noqa: E731
    definitions = {f"d{i}": pair(i + 1) for i in range(30)}
    started = time.process_time()
    made = gemini_schema({**pair(0), "$defs": definitions})
    assert count(made) < 4 * MAX_NODES and time.process_time() - started < 5


def test_definitions_that_are_wide_and_used_often_stay_within_the_limit():
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3_000)}}
    properties = {f"x{i}": {"$ref": "#/$defs/wide"} for i in range(3_000)}
    made = gemini_schema({"type": "object", "properties": properties, "$defs": {"wide": wide}})
    assert count(made) < 2 * MAX_NODES


def test_a_python_object_that_holds_itself_ends():
    cycle: dict[str, Any] = {"type": "object"}
    cycle["properties"] = {"self": cycle}
    assert count(gemini_schema(cycle)) < 200


def test_alternatives_at_the_root_leave_an_object():
    assert gemini_schema({"anyOf": [{"type": "string"}, {"type": "number"}]}) == {
        "type": "OBJECT",
        "properties": {},
    }


def test_a_property_may_have_the_name_of_a_keyword():
    properties = {name: {"type": "string"} for name in ("$ref", "type", "anyOf", "const", "properties")}
    made = gemini_schema({"type": "object", "properties": properties, "required": ["$ref", "gone"]})
    assert made["properties"] == {name: {"type": "STRING"} for name in properties}
    assert made["required"] == ["$ref"]


KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "required", "format"]
    + [
        "description",
        "nullable",
        "prefixItems",
        "$defs",
        "default",
        "minimum",
        "exclusiveMinimum",
        "if",
        "not",
    ]
)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["object", "array", "null", "#", "#/$defs/a", "x"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(KEYWORDS, children, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYWORDS, JUNK, max_size=5))
def test_whatever_the_schema_only_fields_that_gemini_knows_come_out(schema):
    def check(made: Any) -> None:
        assert made.keys() <= ALLOWED
        assert ("type" in made) != ("anyOf" in made)
        assert made.get("type", "STRING") in ("OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN")
        assert ("items" in made) <= (made["type"] == "ARRAY") if "type" in made else True
        assert set(made.get("required", ())) <= set(made.get("properties", {}))
        assert all(isinstance(value, str) and value for value in made.get("enum", ()))
        for part in [*made.get("properties", {}).values(), *made.get("anyOf", ()), made.get("items")]:
            if part is not None:
                check(part)

    check(gemini_schema(schema))
