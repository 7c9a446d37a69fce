from __future__ import annotations

import contextlib
import copy
import json
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.repair.worlds import arguments, is_valid, tool_schemas, values
from toolroll.formats.repair.arguments import Change, Injection, RepairResult, repair
from toolroll.formats.repair.validation import Validator
from toolroll.model.errors import InvalidInput, ToolrollError


def schema_of(required=(), /, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def repaired(value, described, **more):
    return repair({"x": value}, schema_of(x=described, **more)).arguments


@each_row(
    "value, described, after",
    [
        ("true", {"type": "boolean"}, True),
        (" False", {"type": "boolean"}, False),
        ("5", {"type": "integer"}, 5),
        ("5.0", {"type": "integer"}, 5),
        ("1e3", {"type": "integer"}, 1000),
        ("9007199254740993.0", {"type": "integer"}, 9007199254740993),
        ("12345678901234567890123", {"type": "integer"}, 12345678901234567890123),
        ("5.5", {"type": "number"}, 5.5),
        ("5", {"type": "number"}, 5),
        ("5", {"type": ["integer", "null"]}, 5),
        ("null", {"type": ["integer", "null"]}, None),
        ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
        ("null", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("null", {"oneOf": [{"type": "null"}, {"type": "object"}, {"type": "boolean"}]}, None),
        ("null", {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}, None),
        ("true", {"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, True),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ('["1"]', {"type": "array", "items": {"type": "integer"}}, [1]),
        ('{"y": "2"}', schema_of(y={"type": "integer"}), {"y": 2}),
        (7, {"type": "string"}, "7"),
        ("RED", {"enum": ["red", "green"]}, "red"),
        ("2", {"enum": [1, 2]}, 2),
        (2, {"enum": ["1", "2"]}, "2"),
        ("True", {"const": True}, True),
        ({"y": "true"}, schema_of(y={"type": "boolean"}), {"y": True}),
        ({"y": "5"}, {"type": "object", "additionalProperties": {"type": "integer"}}, {"y": 5}),
        ({"y1": "5"}, {"type": "object", "patternProperties": {"^y": {"type": "integer"}}}, {"y1": 5}),
        ({"y": None}, schema_of(y={"type": "string"}), {}),
        ({"y": 1, "z": 2}, {**schema_of(y={}), "additionalProperties": False}, {"y": 1}),
        (["1", "true"], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]}, [1, True]),
        ("5", {"allOf": [{"type": "number"}, {"type": "integer"}]}, 5),
    ],
)  # fmt: skip
def test_what_the_schema_demands_is_made_where_there_is_one_way(value, described, after):
    given_value = copy.deepcopy(value)
    made = repaired(value, described)
    assert made == {"x": after} and type(made["x"]) is type(after)
    assert value == given_value


@each_row(
    "value, described",
    [
        ("true", {"type": "string"}),
        ("true", {"type": ["boolean", "string"]}),
        ("5", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ("null", {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]}),
        ("yes", {"type": "boolean"}),
        (1, {"type": "boolean"}),
        (True, {"type": "integer"}),
        ("007", {"type": "integer"}),
        ("5.5", {"type": "integer"}),
        ("9007199254740993.5", {"type": "integer"}),
        ("NaN", {"type": "number"}),
        ("1e999", {"type": "number"}),
        ("9" * 5000, {"type": "integer"}),
        ("1,000", {"type": "integer"}),
        ("a, b", {"type": "array"}),
        ("[1, 2", {"type": "array"}),
        ('{"a": 1, "a": 2}', {"type": "object"}),
        (5.0, {"type": "integer"}),
        (5.5, {"type": "string"}),
        ("Red", {"enum": ["red", "RED"]}),
        (None, {"type": ["string", "null"]}),
        (None, {}),
        ({"deep": 1}, schema_of(y={})),
        ({"y": 1}, {"type": "object", "additionalProperties": False, "patternProperties": {"(?<!a)y": {}}}),
        ("5", {"type": "any"}),
        ("5", {"type": 5}),
    ],
)
def test_what_could_be_meant_in_two_ways_stays(value, described):
    assert repair({"x": value}, schema_of(x=described)).changes == ()


def test_every_change_says_where_and_what_it_was():
    schema = schema_of(("city",), city={"type": "string"}, days={"type": "integer"}, filters={"type": "array", "items": schema_of(**{"a/b": {"type": "boolean"}})}, unit={"enum": ["C", "F"]}, note={"type": "string"})  # fmt: skip
    made = repair(
        '{"city": "Oslo", "days": "3", "filters": [{"a/b": "true"}], "unit": "c", "note": null, "teamId": "t"}',
        schema,
    )
    assert made.arguments == {"city": "Oslo", "days": 3, "filters": [{"a/b": True}], "unit": "C"}
    assert made.changes == (
        Change("/teamId", "removed", "t", None),
        Change("/days", "number", "3", 3),
        Change("/filters/0/a~1b", "boolean", "true", True),
        Change("/unit", "spelling", "c", "C"),
        Change("/note", "removed", None, None),
    )


def test_null_stays_where_the_parameter_is_required():
    assert repair({"x": None}, schema_of(("x",), x={"type": "string"})).changes == ()
    outside = {"required": ["x"], "anyOf": [schema_of(x={"type": "string"})]}
    assert repair({"x": None}, outside).changes == ()


@each_row(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {}}, "patternProperties": {"^x": {}}},
        {"type": "object", "properties": {"a": {}}, "anyOf": [{"properties": {"x": {}}}, {"properties": {"y": {}}}]},
        {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"x": {}}}}},
    ],
)  # fmt: skip
def test_a_parameter_stays_where_the_schema_names_it_or_welcomes_others(schema):
    assert repair({"x": 1}, schema).arguments == {"x": 1}


def test_parameters_that_a_tool_does_not_declare_can_be_kept():
    assert repair({"x": 1}, schema_of(a={})).arguments == {}
    assert repair({"x": 1}, schema_of(a={}), undeclared="keep").arguments == {"x": 1}
    closed = {**schema_of(a={}), "additionalProperties": False}
    assert repair({"x": 1}, closed, undeclared="keep").arguments == {}


@pytest.mark.parametrize("given_arguments", [{"x": "1", "y": None}, '{"x": "1", "y": null}'])
def test_arguments_of_a_tool_whose_schema_is_not_known_stay(given_arguments):
    repaired = repair(given_arguments, None)
    assert repaired.arguments == {"x": "1", "y": None} and repaired.changes == ()


@each_row(
    "given_arguments",
    [{}, {"chat_id": None}, {"chat_id": 12345}, {"chat_id": ""}, {"chat_id": " "}, {"chat_id": "the chat that the user wrote in"}, {"chat_id": "12345"}],
)  # fmt: skip
def test_an_injected_value_replaces_what_cannot_be_one(given_arguments):
    schema = schema_of(("chat_id",), chat_id={"type": "string"})
    made = repair(given_arguments, schema, inject={"chat_id": Injection("12345", max_length=20)})
    assert made.arguments == {"chat_id": "12345"}
    assert [change.what for change in made.changes] == (
        [] if given_arguments == {"chat_id": "12345"} else ["injected"]
    )


def test_a_plausible_value_is_not_replaced_unless_it_must_be():
    schema = schema_of(chat_id={"type": "string"}, text={})
    inject = Injection("12345", max_length=20)
    assert repair({"chat_id": "678"}, schema, inject={"chat_id": inject}).changes == ()
    for injection in (Injection("12345", always=True), Injection("12345", when=str.isdigit)):
        assert (
            repair({"chat_id": "678"}, schema, inject={"chat_id": injection}).arguments["chat_id"] == "12345"
        )
    assert repair({}, schema_of(text={}), inject={"chat_id": inject}).arguments == {}


@each_row(
    "text, says",
    [
        ('{"city": "Os', "cut off after 12"),
        ('{"city": ', "cut off"),
        ("{'city': 'Oslo'}", "not JSON.*character 1"),
        ('{"a": 1} {"b": 2}', "character 8"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 1, "a": 2}', "given twice"),
        ("[" * 100_000, "not JSON|cut off"),
        ("[1]", "one JSON object"),
        ("5", "one JSON object"),
        ('"\\"5\\""', "one JSON object"),
    ],
)
def test_text_that_is_no_object_is_refused_in_words_for_a_model(text, says):
    with pytest.raises(InvalidInput, match=says):
        repair(text, schema_of(city={}))


@each_row("nothing", [None, "", "  \n", "{}", {}])
def test_no_arguments_are_an_empty_object(nothing):
    assert repair(nothing, schema_of(a={})).arguments == {}


def test_an_object_that_was_written_as_a_json_string_is_unwrapped():
    made = repair(json.dumps(json.dumps({"a": 1})), schema_of(a={}))
    assert made.arguments == {"a": 1}
    assert [change.what for change in made.changes] == ["object"]


@each_row("wrong", [[], 5, b"{}", {"x"}])
def test_arguments_of_another_type_are_refused(wrong):
    with pytest.raises(InvalidInput):
        repair(wrong, schema_of(a={}))


def test_wrong_use_is_refused():
    for wrong in (True, False, [], "{}"):
        with pytest.raises(InvalidInput, match=r"schema is .*, must be a JSON Schema object"):
            repair({"x": 1}, wrong)
    with pytest.raises(InvalidInput, match="Injection objects"):
        repair({}, {}, inject={"a": 5})
    with pytest.raises(InvalidInput, match="'remove' or 'keep'"):
        repair({}, {}, undeclared="drop")


def test_a_value_too_deep_to_be_shown_is_refused_all_the_same():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for wrong in ((deep, {}), ({}, deep), ({}, {}, deep), ({}, {}, {"a": deep}), ({}, {}, None, deep)):
        with pytest.raises(InvalidInput, match="must "):
            repair(*wrong)


@given(tool_schemas, arguments)
@settings(max_examples=150)
def test_valid_arguments_are_never_changed(schema, given_arguments):
    assume(is_valid(given_arguments, schema))
    made = repair(given_arguments, schema, undeclared="keep")
    assert made.arguments == given_arguments and made.changes == ()
    stripped = repair(given_arguments, schema)  # but for what is not declared
    assert all(
        made.what == "removed" and made.path[1:] not in schema["properties"] for made in stripped.changes
    )


@given(tool_schemas, values)
def test_whatever_is_valid_is_accepted(schema, value):
    for described in schema["properties"].values():
        if is_valid(value, {"allOf": [described], "$defs": schema["$defs"]}):
            assert Validator(schema).accepts(value, described)


@given(tool_schemas, arguments, st.sampled_from(["remove", "keep"]))
@settings(max_examples=150)
def test_a_second_repair_changes_nothing_and_the_input_stays(schema, given_arguments, undeclared):
    before = copy.deepcopy((schema, given_arguments))
    once = repair(given_arguments, schema, undeclared=undeclared)
    twice = repair(once.arguments, schema, undeclared=undeclared)
    assert twice.arguments == once.arguments and twice.changes == ()
    assert (schema, given_arguments) == before


@given(tool_schemas, arguments)
@settings(max_examples=150)
def test_a_repair_never_makes_anything_invalid(schema, given_arguments):
    made = repair(given_arguments, schema)
    if not made.changes:
        assert made.arguments == given_arguments
    if is_valid(given_arguments, schema):
        assert is_valid(made.arguments, schema) or "additionalProperties" not in schema


junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3) | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "required",
                    "items",
                    "anyOf",
                    "allOf",
                    "oneOf",
                    "$ref",
                    "enum",
                    "const",
                    "minimum",
                    "maxLength",
                    "additionalProperties",
                    "patternProperties",
                    "prefixItems",
                    "unevaluatedProperties",
                    "#",
                    "a",
                ]
            ),
            inner
            | st.sampled_from(["#", "#/a", "#/properties/a", "object", "string", "integer", "(", "\ud800"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "$ref", "a"]), junk, max_size=4), junk)
@settings(max_examples=150)
def test_malformed_schemas_and_values_never_crash(schema, value):
    for given_arguments in (value, {"a": value}, "\ud800", '{"a": "\\ud800"}'):
        with contextlib.suppress(ToolrollError):
            repair(given_arguments, schema)


@each_row(
    "schema, value",
    [
        ({"$ref": "#"}, "5"),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "5"),
        ({"allOf": [{"$ref": "#"}] * 50}, "5"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, 5),
        ({"type": "array", "items": {"type": "integer"}}, ["5"] * 200_000),
        ({"type": "integer"}, [[[["5"]]]] * 100_000),
        ({"enum": [f"value {i}" for i in range(50_000)]}, "VALUE 49999"),
        (
            {"type": "array", "items": {"enum": [str(i) for i in range(4_000)]}},
            [f"w{i}" for i in range(4_000)],
        ),
        ({"enum": ["".join("aA"[i >> k & 1] for k in range(13)) for i in range(8_191)]}, "A" * 13),
        (
            {"type": "array", "items": {"required": [str(i) for i in range(20_000)]}},
            [{}] * 9 + [{} for _ in range(20_000)],
        ),
        (
            {"patternProperties": {f"^p{i}": {"type": "integer"} for i in range(1_500)}},
            {f"k{i}": "5" for i in range(1_500)},
        ),
        ({"patternProperties": {"(a+)+$": {"type": "integer"}}}, {"a" * 50_000 + "!": "5"}),
    ],
)
def test_schema_bombs_end(schema, value):
    started = time.process_time()
    try:
        repair({"x": value}, schema_of(x=schema))
        repair({"x": value}, schema)
    except InvalidInput:
        pass
    assert time.process_time() - started < 10


@pytest.mark.parametrize("inside, levels", [(lambda one: one, 0), (lambda one: schema_of(y=one), 40)])
def test_doubling_alternatives_are_looked_at_once(inside, levels):
    definitions = {f"d{i}": inside({"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2}) for i in range(40)}
    definitions["d40"] = {"type": "integer"}
    schema = {**schema_of(x={"$ref": "#/$defs/d0"}), "$defs": definitions}
    deep, at = "5", "/x"
    for _ in range(levels):
        deep, at = {"y": deep}, f"{at}/y"
    started = time.process_time()
    assert repair({"x": "a"}, schema).changes == ()
    assert [(change.path, change.what) for change in repair({"x": deep}, schema).changes] == [(at, "number")]
    assert time.process_time() - started < 1


def test_what_takes_too_many_steps_is_refused_within_a_second_or_so():
    items = {"type": "array", "items": {"type": "integer"}}
    started = time.process_time()
    with pytest.raises(InvalidInput, match="100,000 steps"):
        repair({"x": [str(i) for i in range(200_000)]}, schema_of(x=items))
    assert time.process_time() - started < 5


def test_a_deep_value_is_refused_and_a_cyclic_one_ends():
    nested = {
        **schema_of(x={"$ref": "#/$defs/n"}),
        "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
    }
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested"):
        repair({"x": deep}, nested)
    loop: list = ["5"]
    loop.append(loop)
    with pytest.raises(InvalidInput, match="nested"):
        repair({"x": loop}, nested)


@each_row("nothing", [None, "", "  ", "null", " null\n"])
@each_row("schema", [None, {"type": "object", "properties": {"city": {"type": "string"}}}])
def test_no_arguments_however_they_are_written_are_an_empty_object(nothing, schema):
    assert repair(nothing, schema) == RepairResult({}, ())


@each_row(
    ("arguments", "message"),
    [
        ("[1, null]", "arguments are the JSON array [1, null], must be one JSON object of parameters"),
        ("true", "arguments are the JSON boolean true, must be one JSON object of parameters"),
        ("5", "arguments are the JSON integer 5, must be one JSON object of parameters"),
        (["Oslo"], 'arguments are the JSON array ["Oslo"], must be one JSON object of parameters'),
    ],
)
def test_a_message_about_arguments_shows_json_because_a_model_reads_it(arguments, message):
    with pytest.raises(InvalidInput) as raised:
        repair(arguments, None)
    assert str(raised.value) == message
