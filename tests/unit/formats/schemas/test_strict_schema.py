from __future__ import annotations

import contextlib
import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.schemas.validator import is_valid
from toolroll.formats.providers.strict import MOST_LEVELS, NotStrictError, strict_schema
from toolroll.formats.repair.arguments import repair


def strict(schema: Any, required: bool = True, **root: Any) -> Any:
    parameters = {"type": "object", "properties": {"x": schema}, **root}
    if required:
        parameters["required"] = ["x"]
    return strict_schema(parameters)[0]["properties"]["x"]


def why_not(schema: Any, **root: Any) -> str:
    with pytest.raises(NotStrictError) as caught:
        strict_schema({"type": "object", "properties": {"x": schema}, **root})
    return str(caught.value)


def test_every_property_is_required_and_those_that_were_not_may_be_null():
    made, notes = strict_schema(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["a"],
        }
    )
    assert made == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert notes == []


@each_row(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"enum": ["a", "b"]}, {"type": ["string", "null"], "enum": ["a", "b", None]}),
        ({"type": "string", "const": "a"}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "D."},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "description": "D."},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "X"},
            {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "X"},
        ),
        (
            {"type": "array", "items": {"type": "number"}, "maxItems": 3},
            {"type": ["array", "null"], "items": {"type": "number"}, "maxItems": 3},
        ),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    ],
)
def test_what_may_be_absent_may_be_null(schema, expected):
    assert strict(schema, required=False) == expected


@each_row(
    ("schema", "expected", "dropped"),
    [
        ({"type": "string", "minLength": 1}, {"type": "string"}, "minLength is dropped"),
        ({"type": "string", "format": "uri"}, {"type": "string"}, "format 'uri' is dropped"),
        ({"type": "string", "default": "a"}, {"type": "string"}, "default is dropped"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True},
         {"type": "array", "items": {"type": "string"}}, "uniqueItems is dropped"),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]},
         {"anyOf": [{"type": "string"}, {"type": "number"}]}, "oneOf is sent as anyOf"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
         {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
         "a list with a schema for each place is sent with one for all"),
        ({"type": "string", "not": {"const": "a"}}, {"type": "string"}, "not is dropped"),
    ],
)  # fmt: skip
def test_a_keyword_that_is_refused_is_dropped_with_a_note(schema, expected, dropped):
    made, notes = strict_schema({"type": "object", "properties": {"x": schema}, "required": ["x"]})
    assert made["properties"]["x"] == expected
    assert notes == [("parameters.properties.x", f"{dropped} in strict mode")]


def test_what_strict_mode_takes_stays():
    schema = {"type": "string", "pattern": "^a", "format": "email", "description": "D.", "title": "T"}
    assert strict(schema) == schema
    number = {"type": "number", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2}
    assert strict(number) == number


def test_values_of_another_type_than_the_schemas_are_no_values():
    assert strict({"type": "string", "enum": ["a", 1, None]}) == {"type": "string", "enum": ["a"]}
    assert strict({"type": ["string", "null"], "enum": ["a"]}) == {"type": "string", "enum": ["a"]}
    assert "no value at all" in why_not({"type": "string", "enum": [1]})


def test_references_are_kept_as_definitions_and_recursion_with_them():
    node = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "next": {"$ref": "#/definitions/a~1b"}},
        "required": ["name"],
    }
    made, notes = strict_schema(
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/definitions/a~1b"}, "y": {"$ref": "#/definitions/a~1b", "description": "Y."}},
            "required": ["x", "y"],
            "definitions": {"a/b": node, "unused": {"type": "string", "format": "uri"}},
        }
    )  # fmt: skip
    there = {"$ref": "#/$defs/a_1b"}
    assert made["properties"] == {"x": there, "y": {"anyOf": [there], "description": "Y."}}
    assert made["$defs"] == {
        "a_1b": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"anyOf": [there, {"type": "null"}]}},
            "required": ["name", "next"],
            "additionalProperties": False,
        }
    }
    assert notes == []


def test_a_schema_may_refer_to_its_own_root():
    made, _ = strict_schema({"type": "object", "properties": {"child": {"$ref": "#"}}})
    assert made["properties"] == {"child": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}


def test_what_stands_beside_a_reference_holds_too():
    target = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["b"],
    }
    beside = {"$ref": "#/$defs/t", "properties": {"c": {"type": "string"}}, "required": ["a", "c"]}
    made = strict(beside, **{"$defs": {"t": target}})
    assert made["properties"].keys() == {"a", "b", "c"}
    assert all(part == {"type": "string"} for part in made["properties"].values())


@each_row(
    ("schema", "reason"),
    [
        ({}, "parameters.properties.x: takes any value"),
        (True, "takes any value"),
        ({"description": "Anything."}, "takes any value"),
        ({"type": "object"}, "takes any object"),
        ({"type": "object", "additionalProperties": True}, "takes properties of any name"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "takes properties of any name"),
        (
            {"type": "object", "properties": {}, "patternProperties": {"a": {}}},
            "takes properties of any name",
        ),
        ({"type": "array"}, "parameters.properties.x.items: takes any value"),
        ({"enum": [{"a": 1}]}, "lists an object or a list"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "leads nowhere in this schema"),
        ({"$ref": "#/$defs/x", "type": "object"}, "leads nowhere, or back"),
    ],
)
def test_what_strict_mode_cannot_say_is_refused_with_its_place_and_reason(schema, reason):
    assert reason in why_not(schema)


def test_a_schema_beyond_the_limits_of_strict_mode_is_refused():
    deep: Any = {"type": "string"}
    for _ in range(MOST_LEVELS):
        deep = {"type": "object", "properties": {"x": deep}}
    assert "more than 10 objects within each other" in why_not(deep)
    assert "too large" in why_not({"type": "string", "enum": [f"v{i}" for i in range(1_001)]})
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5_001)}}
    assert "too large" in why_not(wide)


HOSTILE: dict[str, Any] = {
    "doubling": {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0", "minItems": 1}},
        "$defs": {
            f"d{i}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{i + 1}", "minItems": 1} for k in "ab"}}
            for i in range(40)
        },
    },
    "long chain": {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}},
        "$defs": {f"d{i}": {"type": "object", "properties": {"n": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(5_000)},
    },
    "reference to itself": {"type": "object", "properties": {"x": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"$ref": "#/$defs/d"}}},
    "allOf of itself": {"type": "object", "properties": {"x": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"allOf": [{"$ref": "#/$defs/d"}] * 50}}},
    "root is itself": {"$ref": "#"},
    "root in a circle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "wide alternatives": {"anyOf": [{"type": "object", "properties": {f"p{i}": {"enum": list(range(900))} for i in range(20)}}] * 500},
    "many values": {"oneOf": [{"properties": {"k": {"const": i}}} for i in range(5_000)]},
}  # fmt: skip


@each_row("name", HOSTILE)
def test_a_hostile_schema_ends_soon(name):
    started = time.process_time()
    with contextlib.suppress(NotStrictError):
        strict_schema(HOSTILE[name])
    assert time.process_time() - started < 2


def test_required_names_that_are_no_names_are_passed_over():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": [[], {}, 3, "a"]}
    made, _ = strict_schema({"allOf": [schema, schema], "required": [[]]})
    assert made["properties"] == {"a": {"type": "string"}}


def test_alternatives_of_which_only_the_required_names_differ_stay_alternatives():
    made = strict(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        }
    )
    assert [option["properties"]["a"]["type"] for option in made["anyOf"]] == ["string", ["string", "null"]]
    assert all(option["required"] == ["a", "b"] for option in made["anyOf"])


LEAVES = st.one_of(
    st.sampled_from(["string", "integer", "number", "boolean"]).map(lambda kind: {"type": kind}),
    st.just({"type": ["string", "null"]}),
    st.lists(st.sampled_from(["a", "b", 1, True, None]), min_size=1, max_size=3, unique_by=repr).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from(["a", 1, None]).map(lambda value: {"const": value}),
    st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-2, 2)),
    st.just({"$ref": "#/$defs/pair"}),
    st.just({"$ref": "#/$defs/pair", "description": "D."}),
)
NAMES = st.sampled_from(["a", "b", "$ref", "type"])


def objects(children: Any) -> Any:
    return st.builds(
        lambda properties, required: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            "additionalProperties": False,
        },
        st.dictionaries(NAMES, children, max_size=3),
        st.sets(NAMES),
    )


SCHEMAS = st.recursive(
    LEAVES,
    lambda children: st.one_of(
        objects(children),
        children.map(lambda items: {"type": "array", "items": items, "maxItems": 2}),
        st.lists(children, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
    ),
    max_leaves=6,
)
PAIR = {
    "type": "object",
    "properties": {"left": {"type": "string"}, "right": {"$ref": "#/$defs/pair"}},
    "required": ["left"],
    "additionalProperties": False,
}
PARAMETERS = objects(SCHEMAS).map(lambda schema: {**schema, "$defs": {"pair": PAIR}})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", ""]),
    lambda children: (
        st.lists(children, max_size=2)
        | st.dictionaries(NAMES | st.sampled_from(["left", "right"]), children, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def cases(draw):
    """A schema, and arguments that are likelier to fit it than any would be."""
    schema = draw(PARAMETERS)

    def fitting(part: Any, depth: int = 3) -> Any:
        if depth == 0 or draw(st.integers(0, 9)) == 0:
            return draw(VALUES)
        if "$ref" in part:
            return fitting(PAIR, depth - 1)
        if "anyOf" in part:
            return fitting(draw(st.sampled_from(part["anyOf"])), depth)
        if "enum" in part or "const" in part:
            return draw(st.sampled_from(part.get("enum", [part.get("const")])))
        if part["type"] == "object":
            return {
                name: fitting(value, depth - 1)
                for name, value in part["properties"].items()
                if name in part["required"] or draw(st.booleans())
            }
        if part["type"] == "array":
            return [fitting(part["items"], depth - 1) for _ in range(draw(st.integers(0, 2)))]
        kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
        likely = {"string": "a", "integer": 2, "number": 1.5, "boolean": True, "null": None}
        return likely[draw(st.sampled_from(kinds))]

    return schema, fitting(schema)


def filled(value: Any, schema: Any, root: Any) -> list[Any]:
    """The ways in which a value can be written with null for each property that is absent."""
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part]
        return filled(value, target, root)
    if "anyOf" in schema:
        return [made for option in schema["anyOf"] for made in filled(value, option, root)]
    kinds = schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")]
    if "object" in kinds and isinstance(value, dict) and value.keys() <= schema["properties"].keys():
        ways: list[Any] = [{}]
        for name, part in schema["properties"].items():
            options = filled(value[name], part, root)[:40] if name in value else [None]
            ways = [{**way, name: option} for way in ways for option in options][:50]
        return ways
    if "array" in kinds and isinstance(value, list):
        ways = [[]]
        for one in value:
            ways = [[*way, made] for way in ways for made in filled(one, schema["items"], root)[:40]][:50]
        return ways
    return [value]


@given(cases())
def test_what_the_tool_takes_can_be_written_in_strict_mode(case):
    schema, arguments = case
    before = copy.deepcopy(schema)
    try:
        made, notes = strict_schema(schema)
    except NotStrictError:
        made = None
    assert schema == before
    if made is not None and is_valid(arguments, schema):
        assert notes == []
        assert any(is_valid(way, made) for way in filled(arguments, made, made))


def without_absent(value: Any, schema: Any, root: Any) -> list[Any]:
    """The ways in which nulls can be read: as null, or as absent where the tool does not require the property."""
    if "$ref" in schema:
        return without_absent(value, PAIR, root)
    if "anyOf" in schema:
        return [made for option in schema["anyOf"] for made in without_absent(value, option, root)]
    if schema.get("type") == "object" and isinstance(value, dict):
        ways: list[Any] = [{}]
        for name, part in value.items():
            kept = [
                {name: made} for made in without_absent(part, schema["properties"].get(name, {}), root)[:40]
            ]
            if part is None and name not in schema.get("required", ()):
                kept.insert(0, {})
            ways = [{**way, **one} for way in ways for one in kept][:60]
        return ways
    if schema.get("type") == "array" and isinstance(value, list):
        ways = [[]]
        for one in value:
            ways = [[*way, made] for way in ways for made in without_absent(one, schema["items"], root)[:40]][
                :60
            ]
        return ways
    return [value]


@given(cases())
def test_what_strict_mode_takes_is_what_the_tool_takes(case):
    schema, arguments = case
    try:
        made, _ = strict_schema(schema)
    except NotStrictError:
        return
    for way in filled(arguments, made, made)[:5]:
        if is_valid(way, made):
            assert any(is_valid(read, schema) for read in without_absent(way, schema, schema))


@given(PARAMETERS)
def test_a_schema_in_strict_form_comes_out_as_it_is(schema):
    try:
        made, _ = strict_schema(schema)
    except NotStrictError:
        return
    again, notes = strict_schema(made)
    assert json.dumps(again) == json.dumps(made)
    assert notes == []


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "array", "#", "#/$defs/a", "x"]),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "oneOf",
                    "allOf",
                    "$ref",
                    "enum",
                    "const",
                    "required",
                ]
                + [
                    "format",
                    "description",
                    "nullable",
                    "prefixItems",
                    "$defs",
                    "default",
                    "minimum",
                    "not",
                    "a",
                ]
            ),
            children,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(
    st.dictionaries(
        st.sampled_from(["properties", "anyOf", "allOf", "$ref", "$defs", "type", "required"]), JUNK
    )
)
def test_junk_is_refused_or_becomes_what_strict_mode_takes(schema):
    try:
        made, _ = strict_schema(schema)
    except NotStrictError:
        return

    def check(part: Any) -> None:
        assert "$ref" not in part or part.keys() == {"$ref"}
        if part.get("type") == "object":
            assert part["required"] == list(part["properties"]) and part["additionalProperties"] is False
        for inner in [
            *part.get("properties", {}).values(),
            *part.get("anyOf", ()),
            *part.get("$defs", {}).values(),
        ]:
            check(inner)
        if "items" in part:
            check(part["items"])

    assert made["type"] == "object" and "anyOf" not in made
    check(made)


@given(cases())
def test_arguments_of_strict_mode_are_the_tools_once_they_are_repaired(case):
    schema, arguments = case
    try:
        made, _ = strict_schema(schema)
    except NotStrictError:
        return
    for way in filled(arguments, made, made)[:5]:
        if isinstance(way, dict) and is_valid(way, made):
            assert is_valid(repair(way, schema).arguments, schema)
