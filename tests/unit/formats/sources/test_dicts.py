from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.formats.schemas import convert
from toolroll.formats.sources import as_tool, read_tools
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Tool, Toolkit

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
GEMINI_SCHEMA = {"type": "OBJECT", "properties": {"to": {"type": "STRING"}}, "required": ["to"]}

SHAPES: dict[str, Any] = {
    "openai chat": {
        "type": "function",
        "function": {"name": "send", "description": "Sends.", "parameters": SCHEMA, "strict": True},
    },
    "openai responses": {
        "type": "function",
        "name": "send",
        "description": "Sends.",
        "parameters": SCHEMA,
        "strict": False,
    },
    "anthropic": {
        "name": "send",
        "description": "Sends.",
        "input_schema": SCHEMA,
        "cache_control": {"type": "ephemeral"},
    },
    "gemini": {"name": "send", "description": "Sends.", "parameters": GEMINI_SCHEMA, "behavior": "BLOCKING"},
    "gemini json schema": {"name": "send", "description": "Sends.", "parametersJsonSchema": SCHEMA},
    "gemini list": {
        "function_declarations": [{"name": "send", "description": "Sends.", "parameters": GEMINI_SCHEMA}]
    },
    "mcp": {
        "name": "send",
        "description": "Sends.",
        "inputSchema": SCHEMA,
        "a key of tomorrow": {"readOnlyHint": True},
    },
    "mcp object": SimpleNamespace(name="send", description="Sends.", inputSchema=SCHEMA, title=None),
    "mcp 2 object": SimpleNamespace(name="send", description="Sends.", input_schema=SCHEMA),
    "plain": {"name": "send", "description": "Sends.", "parameters": SCHEMA},
    "tool": Tool("send", "Sends.", SCHEMA),
}


@each_row("shape", SHAPES)
def test_every_shape_gives_the_same_tool(shape):
    assert as_tool(SHAPES[shape]) == Tool("send", "Sends.", SCHEMA)


@each_row("shape", sorted(SHAPES.keys() - {"tool", "gemini list"}))
def test_the_callers_own_object_is_kept(shape):
    assert as_tool(SHAPES[shape]).original is SHAPES[shape]


def test_a_tool_is_handed_on_as_it_is():
    tool = SHAPES["tool"]
    assert as_tool(tool) is tool and read_tools([tool]).tools[0] is tool


def test_all_shapes_may_stand_in_one_list():
    def greet(name: str) -> str:
        """Greets."""
        return name

    shapes = [
        {"function_declarations": [{"name": "g1"}, {"name": "g2"}]},
        {"name": "a", "input_schema": {}},
        greet,
        {"name": "m", "inputSchema": {}},
        Tool("t", toolkit="misc"),
        {"name": "p", "server": "mail"},
    ]
    definitions = read_tools(shapes)
    assert [tool.name for tool in definitions.tools] == ["g1", "g2", "a", "greet", "m", "t", "p"]
    assert definitions.toolkits == (Toolkit("misc"), Toolkit("mail"))


def test_the_toolkit_is_the_items_own_or_else_the_callers():
    assert as_tool({"name": "a", "toolkit": "mail"}, toolkit="other").toolkit == "mail"
    assert as_tool({"name": "a", "input_schema": {}}, toolkit="other").toolkit == "other"
    assert as_tool(Tool("a"), toolkit="other").toolkit == "other"


def test_a_plain_dictionary_carries_all_that_a_tool_has():
    item = {"name": "a", "parameters": None, "server": "s", "tags": ("x",), "examples": ["y"], "pinned": True}
    assert as_tool(item) == Tool("a", toolkit="s", tags=("x",), examples=("y",), pinned=True)


def test_extras_beside_a_function_are_read():
    item = {"type": "function", "function": {"name": "a"}, "examples": ["do it"], "toolkit": "s"}
    assert as_tool(item) == Tool("a", toolkit="s", examples=("do it",))


def test_a_remote_server_cannot_pin_its_tools_or_make_them_public():
    item = {"name": "a", "inputSchema": {}, "pinned": True, "public": True, "_meta": {"pinned": True}}
    tool = as_tool(item)
    assert not tool.pinned and not tool.public


def test_the_title_of_an_mcp_tool_is_its_summary():
    assert as_tool({"name": "a", "title": "Send a mail", "inputSchema": {}}).summary == "Send a mail"


FULL: dict[str, Any] = {
    "name": "drop_db",
    "title": "Drop a database",
    "description": "Drops.",
    "inputSchema": {"type": "object", "properties": {}},
    "outputSchema": {"type": "object", "properties": {}},
    "annotations": {"title": "Drop", "readOnlyHint": False, "destructiveHint": True, "x-costs": "much"},
    "icons": [{"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["48x48"]}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"ui": {"visibility": ["app"]}, "n": 1.5},
}


def test_all_that_mcp_says_of_a_tool_is_read_and_written_as_it_came():
    tool = as_tool(FULL)
    assert (tool.display_name, tool.returns) == ("Drop a database", FULL["outputSchema"])
    assert (tool.annotations, tool.meta) == (FULL["annotations"], FULL["_meta"])
    assert (tool.icons, tool.execution) == (tuple(FULL["icons"]), FULL["execution"])
    assert convert(tool, "mcp") is FULL
    assert convert(replace(tool, original=None), "mcp") == FULL


class Model(SimpleNamespace):
    """Stands for a pydantic model of the mcp package, whose `_meta` is `meta` in Python."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        written = {"_meta" if key == "meta" else key: value for key, value in vars(self).items()}
        return {
            key: [one.model_dump() if isinstance(one, Model) else one for one in value]
            if isinstance(value, list)
            else value.model_dump()
            if isinstance(value, Model)
            else value
            for key, value in written.items()
        }


def test_an_object_of_an_mcp_library_is_read_like_its_dictionary():
    listed = Model(**{key: value for key, value in FULL.items() if key != "_meta"}, meta=FULL["_meta"])
    listed.annotations, listed.execution = Model(**FULL["annotations"]), Model(**FULL["execution"])
    listed.icons = [Model(**icon) for icon in FULL["icons"]]
    tool = as_tool(listed)
    assert replace(tool, original=None) == replace(as_tool(FULL), original=None)
    assert convert(tool, "mcp") == FULL == convert(replace(tool, original=None), "mcp")


@each_row("key", ["annotations", "icons", "_meta", "execution"])
@each_row("wrong", ["", "text", 7, True, [], ["x"]])
def test_metadata_of_the_wrong_type_counts_as_none_and_does_not_cost_the_tool(key, wrong):
    expected = {name: value for name, value in FULL.items() if name != key}
    assert convert(as_tool({**FULL, key: wrong}), "mcp") == expected


LOOP: dict[str, Any] = {}
LOOP["x"] = [LOOP]
SHARED: dict[str, Any] = {"a" * 1_000: "b" * 1_000}
for _ in range(60):
    SHARED = {"x": SHARED, "y": SHARED}


@each_row(
    ("value", "says"),
    [
        ({"x": "y" * 70_000}, "must be at most 65,536 characters as JSON"),
        ({"x": [1] * 70_000}, "must be at most 65,536 characters as JSON"),
        (SHARED, "must be at most 65,536 characters as JSON"),
        ({"x": {1, 2}}, "must be JSON"),
        ({"x": float("nan")}, "must be JSON"),
        ({1: "x"}, "must be JSON, whose keys are strings"),
        (LOOP, "must be JSON of at most 64 levels"),
    ],
)
def test_metadata_that_is_too_large_or_no_json_is_refused(value, says):
    with pytest.raises(InvalidDefinition, match=says) as refused:
        read_tools([{**FULL, "_meta": value}], on_bad_tool="refuse")
    assert refused.value.field == "_meta" and refused.value.tool == "drop_db"
    with pytest.raises(InvalidDefinition, match="annotations is .*must be at most 8,192 characters as JSON"):
        as_tool({**FULL, "annotations": {"title": "t" * 9_000}})


def test_a_toolkit_for_all_is_used_where_a_tool_names_none():
    read = read_tools([FULL, {"name": "a", "toolkit": "own"}], toolkit="db")
    assert [tool.toolkit for tool in read.tools] == ["db", "own"]
    assert read.toolkits == (Toolkit("db"), Toolkit("own"))


def test_geminis_dialect_becomes_json_schema():
    item = {
        "name": "a",
        "parameters": {
            "type": "OBJECT",
            "properties": {
                "n": {"type": "INTEGER", "nullable": True},
                "l": {"type": "ARRAY", "items": {"type": "STRING"}, "min_items": "2"},
                "type": {"any_of": [{"type": "STRING"}, {"type": "NUMBER"}]},
            },
            "property_ordering": ["n", "l"],
        },
    }
    assert as_tool(item).parameters == {
        "type": "object",
        "properties": {
            "n": {"type": ["integer", "null"]},
            "l": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "type": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        },
    }


CYCLE: dict[str, Any] = {"type": "object"}
CYCLE["properties"] = {"self": CYCLE}

BOMB: dict[str, Any] = {}
for _ in range(60):
    BOMB = {"anyOf": [BOMB, BOMB]}


@each_row(
    ("item", "message"),
    [
        (3, "tools[1]: is 3, a int; known shapes: OpenAI chat"),
        (None, "tools[1]: is null, a NoneType; known shapes: OpenAI chat"),
        ({}, "tools[1]: is of no known shape (its keys: none); known shapes: OpenAI chat"),
        (
            {"type": "functon"},
            "tools[1]: is of no known shape (its keys: type); known shapes: OpenAI chat",
        ),
        ({"name": "x", "tag": []}, "tools[1]: tool 'x': unknown key 'tag'; did you mean 'tags'?"),
        ({"name": 3, "input_schema": {}}, "tools[1]: name is 3, must be a string of 1 to 256 characters"),
        ({"input_schema": {}}, "tools[1]: name is missing"),
        ({"type": "function", "function": []}, "tools[1]: function is [], must be an object"),
        (
            {"type": "function", "function": {"name": "x", "description": 3}},
            "tools[1]: tool 'x': description is 3, must be a string",
        ),
        ({"function_declarations": {}}, "tools[1]: function_declarations is {}, must be a list"),
        ({"function_declarations": [{}]}, "tools[1]: name is missing"),
        ({"function_declarations": [3]}, "tools[1]: is 3, must be an object"),
        (
            {"function_declarations": [{"name": "x", "parameters": 3}]},
            "tools[1]: tool 'x': parameters is 3, must be a JSON Schema object",
        ),
        (
            {"name": "x", "inputSchema": "{}"},
            "tools[1]: tool 'x': inputSchema is '{}', must be a JSON Schema object",
        ),
        (
            {"name": "x", "server": "a", "toolkit": "b"},
            "tools[1]: tool 'x': toolkit and server say the same thing",
        ),
        ({"name": "first"}, "tools[1]: tool 'first': name is already taken by tools[0]"),
        ({"name": "x", "parameters": CYCLE}, "tools[1]: tool 'x': parameters is {"),
        ({"name": "x", "parameters": BOMB}, "tools[1]: tool 'x': parameters is {"),
        ({"name": "x", "description": "a" * 70_000}, "tools[1]: tool 'x': description is 'aaa"),
        ({"name": "x\u202e"}, "tools[1]: name is "),
    ],
)
def test_what_is_wrong_is_told_with_its_position(item, message):
    with pytest.raises(InvalidDefinition) as caught:
        read_tools([{"name": "first"}, item], on_bad_tool="refuse")
    assert str(caught.value).replace("tool 'x\\u202e': ", "").startswith(message)


def test_an_error_names_the_field():
    with pytest.raises(InvalidDefinition) as caught:
        as_tool({"name": "x", "parameters": {"properties": 3}})
    assert (caught.value.tool, caught.value.field) == ("x", "properties")
    assert str(caught.value) == "tool 'x': parameters.properties is 3, must be an object"


def test_one_tool_cannot_be_several_declarations():
    with pytest.raises(InvalidDefinition, match="holds 2 declarations, must be one; read_tools takes all"):
        as_tool({"function_declarations": [{"name": "a"}, {"name": "b"}]})


@each_row("items", [{"name": "a"}, "tools", 3, None])
def test_what_is_no_list_is_refused(items):
    with pytest.raises(InvalidDefinition, match="must be a list of tools"):
        read_tools(items)


KEYS = st.sampled_from(
    ["name", "description", "parameters", "function", "type", "inputSchema", "input_schema", "tags", "server"]
    + ["function_declarations", "parametersJsonSchema", "properties", "required", "pinned", "x"]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["function", "a", "OBJECT"]) | st.floats(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(KEYS, children, max_size=4),
    max_leaves=10,
)


@given(st.lists(JUNK, max_size=3))
def test_nothing_does_anything_but_give_tools_or_raise_an_invalid_definition(items):
    try:
        definitions = read_tools(items)
    except InvalidDefinition as error:
        assert str(error).startswith("tools[")
    else:
        assert all(isinstance(tool, Tool) for tool in definitions.tools)


def test_keys_of_the_callers_own_are_passed_over_and_come_back() -> None:
    item = {"name": "a", "description": "alpha", "returns": {"type": "string"}, "owner": 7}
    tool = as_tool(item)
    assert (tool.name, tool.description) == ("a", "alpha")
    assert tool.original is item
