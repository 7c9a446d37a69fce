"""Tools with an error: refused in a person's own file, repaired or skipped in a server's list."""

from __future__ import annotations

import json
import logging

import pytest

from tests.table import each_row
from toolroll import Tool, Toolroll
from toolroll.formats.sources.dicts import read_tools
from toolroll.formats.sources.fields import MAX_TEXT
from toolroll.formats.sources.folder import read_folder
from toolroll.model.errors import InvalidDefinition, InvalidInput

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def mcp(name, description="does it", **more):
    return {"name": name, "description": description, "inputSchema": SCHEMA, **more}


def write(folder, name, value):
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, "utf-8")


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


def names(definitions):
    return [tool.name for tool in definitions.tools]


def test_spaces_at_the_ends_of_a_name_are_removed_everywhere(tmp_path, caplog):
    write(tmp_path, "tools.jsonl", lines({"name": " send\t", "server": "mail "}, {"name": "other"}))
    with caplog.at_level(logging.WARNING):
        found = read_folder(tmp_path)
    assert [(tool.name, tool.toolkit) for tool in found.tools] == [("send", "mail"), ("other", "")]
    assert "tools.jsonl:1: tool 'send': name ' send\\t': spaces at its ends removed" in caplog.text
    assert [each.line for each in found.repaired] == [1, 1]
    assert names(read_tools([{"name": "send ", "input_schema": {}}])) == ["send"]


def test_a_repaired_tool_is_given_back_as_it_is_known():
    roll = Toolroll.from_tools([mcp("send ")], embedder="none")
    assert [tool["name"] for tool in roll.select("send it").tools] == ["send"]


def test_a_bad_tool_of_a_server_is_skipped_and_named(caplog):
    with caplog.at_level(logging.WARNING):
        found = read_tools([mcp("a"), mcp(""), mcp("b"), mcp(7)])
    assert names(found) == ["a", "b"]
    assert [each.file for each in found.skipped] == ["tools[1]", "tools[3]"]
    assert "skipped: tools[1]: name is ''" in caplog.text


def test_a_bad_tool_of_ones_own_is_refused_unless_the_caller_wants_it_skipped(tmp_path):
    items = [{"name": "a"}, {"name": "b", "parameters": {"type": "object"}, "status": "retird"}]
    with pytest.raises(InvalidDefinition, match=r"tools\[1\]: tool 'b': status is 'retird'"):
        read_tools(items)
    assert names(read_tools(items, on_bad_tool="skip")) == ["a"]
    write(tmp_path, "tools.jsonl", lines(*items) + '{"name": "c", "name": "d"}\n')
    with pytest.raises(InvalidDefinition, match=r"tools.jsonl:2: tool 'b'"):
        read_folder(tmp_path)
    found = read_folder(tmp_path, on_bad_tool="skip")
    assert names(found) == ["a"]
    assert [(each.line, each.tool) for each in found.skipped] == [(2, "b"), (3, None)]


def test_a_bad_tool_of_a_server_is_refused_where_the_caller_wants_it():
    with pytest.raises(InvalidDefinition, match=r"tools\[0\]"):
        read_tools([mcp("")], on_bad_tool="refuse")
    with pytest.raises(InvalidInput, match="on_bad_tool: is 'warn', must be one of refuse, skip, or None"):
        read_tools([], on_bad_tool="warn")


@each_row(
    ("bad", "expected"),
    [
        (mcp("a\u200bb\n c"), {"name": "ab c"}),
        (mcp("a", ["no", "text"]), {"description": ""}),
        (mcp("a", "x" * (MAX_TEXT + 1)), {"description": "x" * MAX_TEXT}),
        (mcp("a", title=7), {"display_name": ""}),
        (mcp("a", annotations={"x": "y" * 9_000}), {"annotations": None}),
        ({"name": "a", "inputSchema": "none"}, {"parameters": None}),
        (
            {"name": "a", "inputSchema": {"properties": {"city": {}}, "required": "city"}},
            {"parameters": {"properties": {"city": {}}}},
        ),
        (
            {"name": "a", "inputSchema": {"type": "object", "properties": ["city"]}},
            {"parameters": {"type": "object"}},
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_repaired(bad, expected):
    found = read_tools([bad])
    assert {key: getattr(found.tools[0], key) for key in expected} == expected
    assert found.repaired and not found.skipped


def test_a_schema_that_is_too_large_keeps_its_properties():
    deep: dict[str, object] = {"type": "string", "description": "the last"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"inner": deep}}
    wide = {"type": "object", "properties": {f"p{i}": {"enum": [[i]]} for i in range(9_000)}}
    for schema in (deep, wide, {"type": "object", "properties": {"one": deep, "two": {"type": "string"}}}):
        (tool,) = read_tools([{"name": "a", "inputSchema": schema}]).tools
        assert tool.parameters["type"] == "object"
        assert set(tool.parameters["properties"]) <= set(schema["properties"])
        assert tool.parameters["properties"]


def test_a_tool_that_is_there_twice_is_one_and_another_of_its_name_is_skipped():
    found = read_tools([mcp("a"), mcp("a"), mcp("a", "another")])
    assert names(found) == ["a"] and found.tools[0].description == "does it"
    assert [each.file for each in found.repaired] == ["tools[1]"]
    assert [each.file for each in found.skipped] == ["tools[2]"]


def test_an_answer_to_tools_list_is_a_file_of_a_folder(tmp_path):
    write(tmp_path, "mail.json", {"tools": [mcp("send", pinned=True), mcp("")], "nextCursor": "x"})
    write(tmp_path, "sms.json", {"jsonrpc": "2.0", "id": 1, "result": {"tools": [mcp("send"), mcp("count")]}})
    write(tmp_path, "own.json", {"name": "own", "tools": [{"name": "wipe", "inputSchema": SCHEMA}]})
    found = read_folder(tmp_path)
    assert names(found) == ["mail_send", "wipe", "sms_send", "count"]
    assert [tool.toolkit for tool in found.tools] == ["mail", "own", "sms", "sms"]
    assert not any(tool.pinned for tool in found.tools)  # a server says nothing about that
    assert len(found.skipped) == 1 and str(found.skipped[0]).startswith(str(tmp_path / "mail.json"))
    with pytest.raises(InvalidDefinition, match=r"mail.json"):
        read_folder(tmp_path, on_bad_tool="refuse")


@pytest.mark.parametrize(
    "more", [{}, {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "_meta": {}}]
)
def test_an_answer_may_have_every_key_of_the_protocol(tmp_path, more):
    write(tmp_path, "mail.json", {**more, "tools": [mcp("send")]})
    assert [(tool.toolkit, tool.name) for tool in read_folder(tmp_path).tools] == [("mail", "send")]


@pytest.mark.parametrize("result", [{"tools": []}, {"tools": [{"name": "send"}], "x-server": "1"}])
def test_an_answer_in_its_envelope_is_read_whatever_else_it_says(tmp_path, result):
    write(tmp_path, "mail.json", {"jsonrpc": "2.0", "id": 1, "result": result})
    write(tmp_path, "sms.json", {"tools": [mcp("count")]})
    assert names(read_folder(tmp_path)) == [tool["name"] for tool in result["tools"]] + ["count"]


def test_whatever_a_list_of_a_server_holds_its_other_tools_are_read(tmp_path):
    write(tmp_path, "mail.json", {"tools": [7, None, [], {}, {"name": 5}, {"description": "d"}, mcp("send")]})
    found = read_folder(tmp_path)
    assert names(found) == ["send"] and len(found.skipped) == 6
    with pytest.raises(InvalidDefinition, match=r"mail.json:1: is 7"):
        read_folder(tmp_path, on_bad_tool="refuse")


def test_a_name_with_the_prefix_that_is_taken_is_skipped(tmp_path):
    for name in ("mail", "sms"):
        write(tmp_path, f"{name}.json", {"tools": [mcp("send"), mcp("mail_send")]})
    found = read_folder(tmp_path)
    assert len(set(names(found))) == len(found.tools)
    assert set(names(found)) >= {"send", "sms_send"}


def test_dictionaries_of_every_provider_are_lines(tmp_path):
    write(
        tmp_path,
        "tools.jsonl",
        lines(
            {"type": "function", "function": {"name": "chat", "description": "d", "parameters": SCHEMA}},
            {"type": "function", "name": "responses", "parameters": SCHEMA, "server": "kit"},
            {"name": "anthropic", "input_schema": SCHEMA},
            {"function_declarations": [{"name": "one"}, {"name": "two", "parametersJsonSchema": SCHEMA}]},
            {"name": "gemini", "parameters": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}},
            mcp("mcp", title="The title"),
            {"tools": [mcp("listed")]},
            {"type": "web_search"},
            {"name": "plain", "parameters": SCHEMA, "type": "api", "examples": ["do it"]},
        ),
    )
    found = read_folder(tmp_path)
    every = ["chat", "responses", "anthropic", "one", "two", "gemini", "mcp", "listed", "plain"]
    assert names(found) == every
    tools = {tool.name: tool for tool in found.tools}
    assert tools["gemini"].parameters == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert tools["mcp"].summary == "The title" and tools["responses"].toolkit == "kit"
    assert tools["plain"].examples == ("do it",)
    assert found.hosted == ({"type": "web_search"},)


def test_an_error_in_a_providers_line_names_line_and_key(tmp_path):
    bad = {"type": "function", "function": {"name": "b", "parameters": 7}}
    write(tmp_path, "tools.jsonl", lines({"name": "a"}, bad))
    with pytest.raises(InvalidDefinition) as caught:
        read_folder(tmp_path)
    assert (caught.value.line, caught.value.field, caught.value.tool) == (2, "parameters", "b")


def test_many_bad_tools_are_counted_and_the_first_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        found = read_tools([mcp("") for _ in range(100)] + [mcp("good")])
    assert names(found) == ["good"] and len(found.skipped) == 100
    assert len(caplog.records) == 6 and "95 more tools" in caplog.text


def test_objects_of_an_mcp_library_are_repaired_too():
    class Listed:
        name, description, inputSchema = "send ", None, SCHEMA

    assert names(read_tools([Listed(), Tool("other")])) == ["send", "other"]
