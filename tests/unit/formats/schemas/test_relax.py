from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.repair.worlds import NAMES, arguments, is_valid, schemas, tool_schemas
from toolroll.formats.repair.arguments import repair
from toolroll.formats.schemas.relax import relax
from toolroll.model.errors import InvalidInput


def relaxed_property(described: Any, required: bool = False) -> Any:
    return relax({"properties": {"x": described}, "required": ["x"] if required else []})["properties"]["x"]


@each_row(
    "described, relaxed",
    [
        ({"type": "number"}, {"type": ["number", "string"]}),
        ({"type": "integer", "minimum": 1}, {"type": ["integer", "string"], "minimum": 1}),
        ({"type": "boolean"}, {"type": ["boolean", "string"]}),
        ({"type": ["integer", "null"]}, {"type": ["integer", "null", "string"]}),
        ({"type": "string"}, {"type": "string"}),
        ({"enum": [1, "a", True]}, {"enum": [1, "a", True, "1", "true"]}),
        ({"const": 5}, {"enum": [5, "5"]}),
        ({"type": "array", "items": {"type": "number"}}, {"type": "array", "items": {"type": ["number", "string"]}}),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, {"anyOf": [{"type": ["integer", "string"]}, {"type": "string"}]}),
        ({"not": {"type": "integer"}}, {"not": {"type": "integer"}}),
        (True, True),
    ],
)  # fmt: skip
def test_a_required_number_or_boolean_may_be_text(described, relaxed):
    assert relaxed_property(described, required=True) == relaxed


@each_row(
    "described, relaxed",
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": ["a", None]}, {"enum": ["a", None]}),
        ({"const": "a", "title": "T"}, {"title": "T", "anyOf": [{"const": "a"}, {"type": "null"}]}),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/a", "description": "D"}, {"description": "D", "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}),
        ({}, {}),
        (False, False),
    ],
)  # fmt: skip
def test_an_optional_property_may_be_null(described, relaxed):
    assert relaxed_property(described) == relaxed


def test_references_lead_to_what_is_relaxed_wherever_they_point():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "b": {"$ref": "#/properties/a"},
            "c": {"$ref": "#/$defs/flag"},
            "d": {"$ref": "#"},
        },
        "required": ["b", "c"],
        "$defs": {"flag": {"type": "boolean"}, "relaxed_0": {"type": "string"}},
    }
    relaxed = relax(schema)
    assert is_valid({"a": None, "b": {"n": "5"}, "c": "true", "d": {"b": {}, "c": "false"}}, relaxed)
    assert not is_valid({"b": {"n": []}, "c": "true"}, relaxed)
    assert relaxed["$defs"]["relaxed_0"] == {"type": "string"}


@given(tool_schemas, arguments)
@settings(max_examples=150)
def test_what_is_valid_stays_valid_and_the_schema_is_not_touched(schema, value):
    before = copy.deepcopy(schema)
    relaxed = relax(schema)
    assert schema == before
    assert not is_valid(value, schema) or is_valid(value, relaxed)


@given(st.builds(lambda part, condition: {"not": part, "if": condition, "then": False, "$defs": {"limit": {"type": "integer"}, "node": {"type": "boolean"}}}, schemas, schemas), arguments)  # fmt: skip
def test_a_condition_never_becomes_stricter(schema, value):
    for one in (value, *value.values()):
        assert not is_valid(one, schema) or is_valid(one, relax(schema))


def sloppy(value: Any, schema: dict[str, Any], drawn: Any) -> Any:
    """Valid arguments as models write them: some numbers and booleans as text, null for some that are absent."""
    if isinstance(value, bool):
        return str(value).lower() if drawn(st.booleans()) else value
    if isinstance(value, (int, float)):
        return str(value) if drawn(st.booleans()) else value
    if isinstance(value, list):
        return [sloppy(item, {}, drawn) for item in value]
    if isinstance(value, dict):
        made = {key: sloppy(item, {}, drawn) for key, item in value.items()}
        absent = [name for name in schema.get("properties", ()) if name not in made]
        return {**made, **{name: None for name in absent if drawn(st.booleans())}}
    return value


def overlapping(schema: Any) -> Any:
    """With anyOf in place of oneOf: alternatives that exclude each other in part are beyond repair."""
    if isinstance(schema, dict):
        return {"anyOf" if key == "oneOf" else key: overlapping(value) for key, value in schema.items()}
    return [overlapping(value) for value in schema] if isinstance(schema, list) else schema


@given(st.data(), tool_schemas)
@settings(max_examples=150)
def test_what_only_the_relaxed_schema_accepts_is_repaired_to_what_the_tool_accepts(data, schema):
    value = data.draw(arguments)
    assume(is_valid(value, schema))
    written = sloppy(value, schema, data.draw)
    assume(is_valid(written, relax(schema)))
    assert is_valid(repair(written, schema, undeclared="keep").arguments, overlapping(schema))


@pytest.mark.parametrize("name", NAMES)
def test_a_tools_arguments_come_back_exactly(name):
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "c": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
        },
        "additionalProperties": False,
    }
    meant = {"a": 5, "b": True, "c": [{"n": 0.5}, {}]}
    written = {"a": "5", "b": "true", "c": [{"n": "0.5"}, {"n": None}]}
    meant.pop(name), written.pop(name)
    if name != "b":  # which may be null itself
        written[name] = None
    assert is_valid(written, relax(schema)) and not is_valid(written, schema)
    assert repair(written, schema).arguments == meant


@each_row(
    "schema",
    [
        {"properties": 5, "required": 5, "enum": 5, "type": 5, "anyOf": 5, "oneOf": 5, "$defs": 5},
        {"type": [5, None, "integer"], "properties": {"x": 5, "y": [], "z": {"anyOf": 5, "oneOf": [5]}}},
        {"$ref": "#/properties/x", "properties": {"x": {"$ref": "#/properties/x"}}},
        {"properties": {str(i): {"$ref": f"#/properties/{i + 1}"} for i in range(5_000)}},
        {"oneOf": [{"oneOf": [{"type": "integer"}] * 100}] * 1_000},
        *({"oneOf": [{}], "anyOf": [{}], "allOf": wrong} for wrong in (True, 5, None, "a", {})),
    ],
)
def test_malformed_and_huge_schemas_end(schema):
    started = time.process_time()
    relax(schema)
    assert time.process_time() - started < 10


def test_a_deep_schema_is_relaxed_as_far_as_it_goes():
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    assert relax(schema)["items"]["type"] == "array"


@each_row("wrong", [None, True, False, [], "{}", 5])
def test_what_is_no_schema_object_is_refused(wrong):
    with pytest.raises(InvalidInput, match=r"schema is .*, must be a JSON Schema object"):
        relax(wrong)
