from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.errors import InvalidDefinition
from toolroll.formats.sources import as_tool, read_tools
from toolroll.tools import Tool, Toolkit

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
        "annotations": {"readOnlyHint": True},
    },
    "mcp object": SimpleNamespace(name="send", description="Sends.", inputSchema=SCHEMA, title=None),
    "mcp 2 object": SimpleNamespace(name="send", description="Sends.", input_schema=SCHEMA),
    "plain": {"name": "send", "description": "Sends.", "parameters": SCHEMA},
    "tool": Tool("send", "Sends.", SCHEMA),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_tool(shape):
    assert as_tool(SHAPES[shape]) == Tool("send", "Sends.", SCHEMA)


@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"tool", "gemini list"}))
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


@pytest.mark.parametrize(
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
        read_tools([{"name": "first"}, item])
    assert str(caught.value).replace("tool 'x\\u202e': ", "").startswith(message)


def test_an_error_names_the_field():
    with pytest.raises(InvalidDefinition) as caught:
        as_tool({"name": "x", "parameters": {"properties": 3}})
    assert (caught.value.tool, caught.value.field) == ("x", "properties")
    assert str(caught.value) == "tool 'x': parameters.properties is 3, must be an object"


def test_one_tool_cannot_be_several_declarations():
    with pytest.raises(InvalidDefinition, match="holds 2 declarations, must be one; read_dicts takes all"):
        as_tool({"function_declarations": [{"name": "a"}, {"name": "b"}]})


@pytest.mark.parametrize("items", [{"name": "a"}, "tools", 3, None])
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
