from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.schemas.validator import is_valid
from toolroll.catalog.tokens import estimate_tokens
from toolroll.formats.meta_tools import (
    CALL_TOOL,
    MANAGE_TOOLS,
    META_TOOLS,
    SEARCH_TOOLS,
    meta_schemas,
    read_call,
    read_manage,
    read_search,
)
from toolroll.formats.providers import PROVIDERS
from toolroll.formats.schemas import Form, losses
from toolroll.model.errors import InvalidInput, ToolrollError

READERS = (read_manage, read_search, read_call)


@each_row(
    ("arguments", "expected"),
    [
        ({"mode": "load", "tools": ["send_email", "get_forecast"]}, ("load", ("send_email", "get_forecast"))),
        ({"mode": "load", "tools": "send_email, get_forecast"}, ("load", ("send_email", "get_forecast"))),
        (
            {"mode": "unload", "tools": " 'send_email';`get_forecast`\n"},
            ("unload", ("send_email", "get_forecast")),
        ),
        ({"mode": " LOAD ", "tools": '["a", "b"]'}, ("load", ("a", "b"))),
        ({"mode": "load", "tools": "[a, b]"}, ("load", ("a", "b"))),
        ({"mode": "load", "tools": ["a", "a", " ", ""]}, ("load", ("a",))),
        ({"mode": "load", "tools": ["날씨 조회", "x, y"]}, ("load", ("날씨 조회", "x, y"))),
        ({"mode": "fallback"}, ("fallback", ())),
        ({"mode": "fallback", "tools": None}, ("fallback", ())),
        ({"mode": "load", "names": ["a"]}, ("load", ("a",))),
        ({"mode": "load", "query": "email_tool"}, ("load", ("email_tool",))),
        ({"mode": "load", "query": "calendar_tool, email_tool"}, ("load", ("calendar_tool", "email_tool"))),
        ({"mode": "load", "tools": "", "query": "a"}, ("load", ("a",))),
        ({"mode": "unload", "tool": "a"}, ("unload", ("a",))),
        ({"mode": "load", "queries": ["a", "b"]}, ("load", ("a", "b"))),
        ({"mode": "load", "name": "a"}, ("load", ("a",))),
        ({"mode": "load", "tools": ["a"], "query": "b"}, ("load", ("a",))),
        ('{"mode": "load", "tools": "a"}', ("load", ("a",))),
        (b'{"mode": "load", "tools": "a"}', ("load", ("a",))),
        ('"{\\"mode\\": \\"load\\", \\"tools\\": \\"a\\"}"', ("load", ("a",))),
        ({"mode": "load", "tools": "a", "reason": "because"}, ("load", ("a",))),
    ],
)
def test_what_a_model_writes_to_manage_tools_is_read(arguments, expected):
    assert read_manage(arguments) == expected


@each_row(
    ("arguments", "message"),
    [
        (None, "manage_tools: mode is missing, must be load, unload or fallback"),
        ("", "manage_tools: mode is missing, must be load, unload or fallback"),
        ({"mode": "laod", "tools": "a"}, "manage_tools: mode is 'laod', must be load, unload or fallback"),
        ({"mode": 3}, "manage_tools: mode is a number, must be load, unload or fallback"),
        ({"mode": "load"}, "manage_tools: tools is empty, must name the tools to load, such as ['send_email']"),
        ({"mode": "unload", "tools": [" "]}, "manage_tools: tools is empty, must name the tools to unload, such"),
        ({"mode": "load", "tools": 7}, "manage_tools: tools is a number, must be a list of texts"),
        ({"mode": "load", "tools": ["a", 7]}, "manage_tools: tools holds a number, must hold texts"),
        ({"mode": "load", "tools": {"a": 1}}, "manage_tools: tools is an object, must be a list of texts"),
        ({"mode": "load", "tools": [str(i) for i in range(101)]}, "manage_tools: tools has 101 names, must have at most 100"),
        ([1], "manage_tools: what you sent is a list, must be an object with its arguments by name"),
        ("{'mode': 'load'}", "manage_tools: what you sent is not JSON (Expecting property name enclosed in double"),
        ('{"mode": "load", "tools": ["a"', "manage_tools: what you sent is not JSON"),
        ('{"mode": NaN}', "manage_tools: what you sent is not JSON (NaN is not a number in JSON)"),
    ],
)  # fmt: skip
def test_what_manage_tools_cannot_do_is_said_so_that_a_model_can_mend_it(arguments, message):
    with pytest.raises(InvalidInput) as caught:
        read_manage(arguments)
    assert str(caught.value).startswith(message)


@each_row(
    ("arguments", "expected"),
    [
        ({"queries": ["send mail", "find a file"]}, (("send mail", "find a file"), 5)),
        ({"queries": "send mail, with a file"}, (("send mail, with a file",), 5)),
        ({"query": "send mail"}, (("send mail",), 5)),
        ({"queries": '["a", "b"]', "limit": "3"}, (("a", "b"), 3)),
        ({"queries": ['say "hi"', 'say "hi" ']}, (('say "hi"',), 5)),
        ({"queries": ["a"], "limit": 99}, (("a",), 20)),
        ({"queries": ["a"], "limit": 0}, (("a",), 1)),
        ({"queries": ["a"], "limit": 2.0}, (("a",), 2)),
        ({"queries": ["a"], "limit": None}, (("a",), 5)),
        ({"queries": ["a"], "limit": "1e400"}, (("a",), 20)),
        ('{"queries": ["a"], "limit": 3}', (("a",), 3)),
    ],
)
def test_what_a_model_writes_to_search_tools_is_read(arguments, expected):
    assert read_search(arguments) == expected


@each_row(
    ("arguments", "message"),
    [
        ({}, "search_tools: queries has 0, must have 1 to 5 texts"),
        ({"queries": list("abcdef")}, "search_tools: queries has 6, must have 1 to 5 texts"),
        ({"queries": ["a"], "limit": "many"}, "search_tools: limit is 'many', must be a whole number from 1 to 20"),
        ({"queries": ["a"], "limit": True}, "search_tools: limit is true, must be a whole number from 1 to 20"),
        ({"queries": ["a"], "limit": [3]}, "search_tools: limit is a list, must be a whole number from 1 to 20"),
        ({"queries": ["a" * 3_000]}, "search_tools: queries holds a text of 3000 characters, must be at most 2000"),
    ],
)  # fmt: skip
def test_what_search_tools_cannot_do_is_said_so_that_a_model_can_mend_it(arguments, message):
    with pytest.raises(InvalidInput) as caught:
        read_search(arguments)
    assert str(caught.value) == message


@each_row(
    ("arguments", "expected"),
    [
        ({"name": "send_email", "arguments": {"to": "Bob"}}, ("send_email", {"to": "Bob"})),
        ({"name": " `send_email` "}, ("send_email", {})),
        ({"name": "send_email", "arguments": None}, ("send_email", {})),
        ({"name": "send_email", "to": "Bob"}, ("send_email", {"to": "Bob"})),
        ('{"name": "send_email", "to": "Bob", "arguments": null}', ("send_email", {"to": "Bob"})),
        ({"name": "send_email", "arguments": {}, "reason": "because"}, ("send_email", {})),
        ({"name": "send_email", "arguments": '{"to": "Bob"}'}, ("send_email", {"to": "Bob"})),
        ('{"name": "send_email", "arguments": "{\\"to\\": \\"Bob\\"}"}', ("send_email", {"to": "Bob"})),
    ],
)
def test_what_a_model_writes_to_call_tool_is_read(arguments, expected):
    assert read_call(arguments) == expected


@each_row(
    ("arguments", "message"),
    [
        ({}, "call_tool: name is missing, must be the name of a tool"),
        ({"name": ""}, "call_tool: name is '', must be the name of a tool"),
        ({"name": "a" * 3_000}, "call_tool: name has 3000 characters, must have at most 2000"),
        ({"name": "a", "arguments": [1]}, "call_tool: arguments is a list, must be an object with its arguments by name"),
        ({"name": "a", "arguments": "to Bob"}, "call_tool: arguments is not JSON (Expecting value: line 1 column 1 (char 0)), must be an object with its arguments by name"),
    ],
)  # fmt: skip
def test_what_call_tool_cannot_do_is_said_so_that_a_model_can_mend_it(arguments, message):
    with pytest.raises(InvalidInput) as caught:
        read_call(arguments)
    assert str(caught.value) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.sampled_from(["mode", "tools", "queries", "limit", "name", "arguments"]) | st.text(max_size=3),
            children,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | JSON.map(json.dumps) | st.binary(max_size=30) | st.text(max_size=30))
def test_whatever_a_model_writes_is_read_or_refused(arguments):
    for read in READERS:
        try:
            made = read(arguments)
        except InvalidInput as error:
            str(error).encode()  # the model gets to read it: no half characters
        else:
            assert len(made) == 2


@each_row(
    "text",
    [
        "[" * 1_000_000,
        '{"a":' * 200_000,
        '{"mode": "load", "tools": "' + "a," * 500_000 + '"}',
        '{"queries": "' + "[" * 1_000_000 + '"}',
        '{"queries": ["a"], "limit": ' + "9" * 1_000_000 + "}",
        '{"queries": ["a"], "limit": "' + "9" * 1_000_000 + '"}',
        '{"name": "' + " " * 1_000_000 + '"}',
        "\ud800" * 300_000,
    ],
)
def test_a_megabyte_of_junk_is_refused_soon(text):
    started = time.process_time()
    for read in READERS:
        try:
            read(text)
        except ToolrollError as error:
            assert len(str(error)) < 500
    assert time.process_time() - started < 2


def test_the_input_is_not_changed():
    arguments = {"name": "a", "arguments": {"to": ["Bob"]}}
    before = json.dumps(arguments)
    read_call(arguments).arguments["to"] = "Eve"
    assert json.dumps(arguments) == before


@each_row("provider", PROVIDERS)
def test_every_provider_takes_the_meta_tools_under_their_own_names(provider):
    schemas = meta_schemas(provider)
    declared = schemas[0]["function_declarations"] if provider == "gemini" else schemas
    assert [schema.get("function", schema)["name"] for schema in declared] == [
        "manage_tools",
        "search_tools",
        "call_tool",
    ]
    assert all(PROVIDERS[provider].sent_name(tool.name) == tool.name for tool in META_TOOLS)


def test_the_schemas_are_the_callers_to_change():
    meta_schemas("anthropic")[0]["input_schema"]["properties"].clear()
    assert meta_schemas("anthropic")[0]["input_schema"]["properties"]
    assert MANAGE_TOOLS.parameters["properties"]


def test_strict_mode_takes_all_but_the_tool_whose_arguments_are_open():
    said = [schema["strict"] for schema in meta_schemas("openai_responses", form=Form(strict=True))]
    assert said == [True, True, False]
    assert all(
        loss.tool != "call_tool" or "any name" in loss.what
        for loss in losses(META_TOOLS, "openai", Form(strict=True))
    )


def test_what_the_schemas_ask_for_is_what_the_readers_take():
    asked: dict[str, Any] = {
        "manage_tools": (
            {"mode": "load", "tools": ["a"]},
            {"mode": "load", "tools": "a, b"},
            {"mode": "fallback"},
        ),
        "search_tools": ({"queries": ["a"]}, {"queries": ["a", "b"], "limit": 20}),
        "call_tool": ({"name": "a"}, {"name": "a", "arguments": {"x": 1}}),
    }
    for tool, read in zip((MANAGE_TOOLS, SEARCH_TOOLS, CALL_TOOL), READERS, strict=True):
        for arguments in asked[tool.name]:
            assert is_valid(arguments, tool.parameters)
            read(arguments)


def test_the_meta_tools_are_cheap():
    assert estimate_tokens(json.dumps(meta_schemas("openai"), separators=(",", ":"))) < 420
