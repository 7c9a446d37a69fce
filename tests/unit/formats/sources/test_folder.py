from __future__ import annotations

import gc
import json
import logging
import os
import textwrap

import pytest

from tests.table import each_row
from toolroll.formats.schemas import convert
from toolroll.formats.sources import read_folder
from toolroll.model.errors import InvalidDefinition
from toolroll.model.rules import PageMapping
from toolroll.model.tools import Definitions, Route, Tool, Toolkit

WEATHER = {
    "name": "weather",
    "tier": "free",
    "description": "Weather and forecasts.",
    "keywords": ["날씨", "weather", {"keyword": "rain", "mode": "substring"}],
    "tasks": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Gets the weather.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
            "tags": ["sky"],
            "examples": ["Should I bring an umbrella?"],
        }
    ],
}


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
    path.write_text(text, encoding="utf-8")
    return path


def link(path, target):
    try:
        path.symlink_to(target)
    except OSError:  # Windows, without the privilege
        pytest.skip("this system does not let us make links")


def error_of(path):
    with pytest.raises(InvalidDefinition) as caught:
        read_folder(path)
    return str(caught.value).replace(str(path) + os.sep, "").replace(str(path), "PATH")


def error_in(folder, text, name="crm.json"):
    write(folder, name, textwrap.dedent(text).strip() + "\n")
    return error_of(folder)


def test_a_toolkit_file_gives_its_toolkit_tools_and_route(tmp_path):
    write(tmp_path, "weather.json", WEATHER)
    function = WEATHER["tasks"][0]["function"]
    assert read_folder(tmp_path) == Definitions(
        tools=(
            Tool(
                "get_weather",
                "Gets the weather.",
                function["parameters"],
                toolkit="weather",
                tags=("sky",),
                examples=("Should I bring an umbrella?",),
            ),
        ),
        toolkits=(Toolkit("weather", "Weather and forecasts.", tier="free"),),
        routes=(Route(("weather",), ("날씨", "weather", "rain"), modes=("", "", "substring")),),
    )


def test_every_extra_of_a_task_reaches_the_tool(tmp_path):
    extras = {
        "tags": ["a"],
        "examples": ["b"],
        "when_to_use": "c",
        "summary": "d",
        "limitations": "e",
        "pinned": True,
        "pin_weight": 3,
        "public": True,
        "status": "draft",
        "version": "2.1.0",
    }
    write(tmp_path, "a.json", {"tasks": [{"function": {"name": "x"}, **extras}, {"name": "y", **extras}]})
    for tool in read_folder(tmp_path).tools:
        assert {key: getattr(tool, key) for key in extras} == {**extras, "tags": ("a",), "examples": ("b",)}


MCP_KEYS = {
    "title": "Ping",
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "icons": [{"src": "a.png"}],
    "_meta": {"x": 1},
    "execution": {"taskSupport": "forbidden"},
}


def test_the_metadata_of_mcp_may_stand_in_any_file(tmp_path):
    task = {"type": "function", "function": {"name": "ping"}, **MCP_KEYS}
    (tmp_path / "net.json").write_text(json.dumps({"tasks": [task, {"name": "pong", **MCP_KEYS}]}), "utf-8")
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "tools.jsonl").write_text(json.dumps({"name": "peng", "inputSchema": {}, **MCP_KEYS}), "utf-8")
    for tool in (*read_folder(tmp_path).tools, *read_folder(lines).tools):
        assert (tool.display_name, tool.returns, tool.icons) == (
            "Ping",
            {"type": "object"},
            ({"src": "a.png"},),
        )
        assert (tool.annotations, tool.meta) == ({"readOnlyHint": True}, {"x": 1})
        assert tool.execution == {"taskSupport": "forbidden"}
        assert MCP_KEYS.items() <= convert(tool, "mcp").items()


def test_every_field_of_a_toolkit_file_reaches_the_toolkit(tmp_path):
    write(tmp_path, "sales.json", {"name": "sales"})
    write(
        tmp_path,
        "crm.json",
        {
            "name": "crm",
            "parent": "sales",
            "base": True,
            "tier": "pro",
            "settings_keys": ["crm_token"],
            "patterns": [r"(?i)deal #\d+"],
            "members": ["send_mail", "notes_*"],
            "tools": [],
        },
    )
    definitions = read_folder(tmp_path)
    assert definitions.toolkits[0] == Toolkit(
        "crm", "", "sales", ("crm_token",), True, "pro", ("send_mail", "notes_*")
    )
    assert definitions.routes == (Route(("crm",), patterns=(r"(?i)deal #\d+",)),)


def test_a_toolkit_without_a_name_is_called_like_its_file(tmp_path):
    write(tmp_path, "mail.json", {"tools": [{"name": "send"}]})
    assert read_folder(tmp_path).tools == (Tool("send", toolkit="mail"),)


def test_files_are_read_in_the_order_of_their_names(tmp_path):
    for name in ("b", "a", "c"):
        write(tmp_path, f"{name}.json", {"tools": [{"name": f"{name}_tool"}]})
    assert [tool.name for tool in read_folder(tmp_path).tools] == ["a_tool", "b_tool", "c_tool"]


def test_lines_of_a_tools_file_give_tools_whose_server_is_the_toolkit(tmp_path):
    lines = [
        {
            "name": "send",
            "description": "Sends.",
            "parameters": {},
            "server": "mail",
            "examples": ["write to"],
        },
        {"name": "ls", "description": "", "parameters": {}, "server": "", "examples": []},
    ]
    write(tmp_path, "tools.jsonl", "\n\n".join(map(json.dumps, lines)) + "\r\n")
    write(tmp_path, "queries.json", "not ours")
    definitions = read_folder(tmp_path)
    assert definitions.tools == (
        Tool("send", "Sends.", {}, "mail", examples=("write to",)),
        Tool("ls", parameters={}),
    )
    assert definitions.toolkits == (Toolkit("mail"),)
    assert read_folder(tmp_path / "tools.jsonl") == definitions


def test_one_file_may_be_a_list_of_tools_of_any_shape(tmp_path):
    path = write(tmp_path, "tools.json", [{"name": "a", "input_schema": {}}, {"name": "b", "parameters": {}}])
    assert [tool.name for tool in read_folder(path).tools] == ["a", "b"]
    path.write_text('[{"name": "a", "parameters": {}},\n {"name": "b",\n  "description": 3}]')
    assert error_of(path) == "PATH:3: tool 'b': description is 3, must be a string"


def test_a_folder_without_a_file_to_read_is_an_error_that_names_the_files_looked_for(tmp_path):
    looked_for = "PATH: holds no file to read; must hold toolkit files (NAME.json), or tools.jsonl; "
    assert error_of(tmp_path) == f"{looked_for}it holds nothing"
    for name in ("a.yaml", ".hidden.json"):
        (tmp_path / name).touch()
    assert error_of(tmp_path) == f"{looked_for}it holds .hidden.json, a.yaml"
    write(tmp_path, "toolkits/a.json", {"tools": []})
    assert error_of(tmp_path).startswith(f"{looked_for}did you mean") and "toolkits" in error_of(tmp_path)


def test_an_empty_file_of_lines_has_no_definitions(tmp_path):
    write(tmp_path, "tools.jsonl", "")
    assert read_folder(tmp_path) == Definitions()


def test_a_schema_that_refers_to_itself_or_elsewhere_is_kept_as_it_is(tmp_path):
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}, "far": {"$ref": "http://127.0.0.1:9/schema.json"}},
        "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}},
    }
    write(tmp_path, "a.json", {"tools": [{"name": "x", "parameters": schema}]})
    assert read_folder(tmp_path).tools[0].parameters == schema


@each_row(
    ("text", "message"),
    [
        (
            """
            {"name": "crm",
             "tasks": [
               {"type": "function",
                "function": {"name": "export", "description": "Exports."},
                "pin_weigth": 3}]}
            """,
            "crm.json:5: tool 'export': unknown key 'pin_weigth'; did you mean 'pin_weight'?",
        ),
        ('{\n"name": "crm",\n"keyword": []}', "crm.json:3: unknown key 'keyword'; did you mean 'keywords'?"),
        (
            '{"zzzz": 1}',
            "crm.json:1: unknown key 'zzzz'; known keys: base, description, keywords, members, name, parent, "
            "patterns, settings_keys, tasks, tier, tools",
        ),
        ('{"tools": [\n{"name": ""}]}', "crm.json:2: name is '', must be a string of 1 to 256 characters"),
        (
            '{"tools": [{"name": "a"},\n{"description": "x"}]}',
            "crm.json:2: name is missing",
        ),
        (
            '{"tools": [{\n"function": {"description": "x"}}]}',
            "crm.json:2: name is missing",
        ),
        (
            '{"tools": [{"name":\n"a", "tags": "x"}]}',
            "crm.json:2: tool 'a': tags is 'x', must be a list of strings",
        ),
        (
            '{"tools": [{"name": "a", "tags": ["x",\n 3]}]}',
            "crm.json:2: tool 'a': tags[1] is 3, must be a string",
        ),
        (
            '{"tools": [{"name": "a", "pinned": 1}]}',
            "crm.json:1: tool 'a': pinned is 1, must be true or false",
        ),
        (
            '{"tools": [{"name": "a", "pin_weight": true}]}',
            "crm.json:1: tool 'a': pin_weight is true, must be a whole number",
        ),
        (
            '{"tools": [{"name": "a", "status": "on"}]}',
            "crm.json:1: tool 'a': status is 'on', must be draft, active, deprecated or retired",
        ),
        (
            '{"tools": [{"name": "a", "parameters": []}]}',
            "crm.json:1: tool 'a': parameters is [], must be a JSON Schema object",
        ),
        (
            '{"tools": [{"name": "a", "parameters": {\n"properties": []}}]}',
            "crm.json:2: tool 'a': parameters.properties is [], must be an object",
        ),
        (
            '{"tools": [{"name": "a", "parameters": {}, "inputSchema": {}}]}',
            "crm.json:1: tool 'a': inputSchema and parameters say the same thing, must be one of them",
        ),
        ('{"tools": [3]}', "crm.json:1: a task is 3, must be an object"),
        ('{"tools": 3}', "crm.json:1: tools is 3, must be a list"),
        ('{"tools": [{"function": 3}]}', "crm.json:1: function is 3, must be an object"),
        (
            '{"tools": [{"type": "web", "name": "a"}]}',
            "crm.json:1: tool 'a': type is 'web', must be 'function'",
        ),
        (
            '{"keywords": ["a",\n""]}',
            "crm.json:2: keywords[1] is '', must be a non-empty string or an object with",
        ),
        (
            '{"keywords": [{"keyword": "a",\n"mode": "fuzzy"}]}',
            "crm.json:2: keywords[0].mode is 'fuzzy', must be substring, word or prefix",
        ),
        (
            '{"patterns": ["ok",\n"(a"]}',
            "crm.json:2: patterns[1] is '(a', must be an RE2 expression (missing ): (a)",
        ),
        (
            '{"patterns": ["(?=a)"]}',
            "crm.json:1: patterns[0] is '(?=a)', must be an RE2 expression (invalid perl",
        ),
        ('{"settings_keys": [1]}', "crm.json:1: settings_keys[0] is 1, must be a string"),
        ('{"members": "a_*"}', "crm.json:1: members is 'a_*', must be a list of strings"),
        (
            '{"members": ["a_*",\n""]}',
            "crm.json:2: members[1] is '', must be the name of a tool, or a pattern such as 'memory_*'",
        ),
        (
            f'{{"members": [{",".join(["1"] * 3)}]}}',
            "crm.json:1: members[0] is 1, must be a string",
        ),
        (
            f'{{"members": [{",".join([chr(34) + "a" + chr(34)] * 1_001)}]}}',
            "crm.json:1: members is ['a', 'a', 'a', 'a', 'a', 'a', ...], must be a list of at most 1000",
        ),
        ('{"base": null}', "crm.json:1: base is null, must be true or false"),
        (
            '{"parent":\n"salse"}',
            "crm.json:1: toolkit 'crm': parent 'salse' is no toolkit; known toolkits: crm",
        ),
        ('{"parent": "crm"}', "crm.json:1: toolkit 'crm': parent 'crm' leads back to itself"),
        ('"crm"', "crm.json:1: is 'crm', must be an object with name and tasks, or a list of tools"),
        ('{"name": "crm",\n "tools": [}', "crm.json:2:12: is not JSON: Expecting value"),
        ('{"name": "crm",\n "name": "x"}', "crm.json:2:2: key 'name' is given twice in one object"),
    ],
)
def test_what_is_wrong_in_a_toolkit_file_is_told_with_file_line_and_key(tmp_path, text, message):
    assert error_in(tmp_path, text).startswith(message)


@each_row(
    ("text", "message"),
    [
        ('{"name": "a"}\n{"name": "b"', "tools.jsonl:2:13: is not JSON: Expecting ',' delimiter"),
        ('{"name": "a"}\n\n3', "tools.jsonl:3: is 3, must be an object with the fields of a tool"),
        ('{"name": "a"}\n{"description": ""}', "tools.jsonl:2: name is missing"),
        (
            '{"name": "a", "exmples": []}',
            "tools.jsonl:1: tool 'a': unknown key 'exmples'; did you mean 'examples'?",
        ),
        ('{"name": "a", "name": "b"}', "tools.jsonl:1:15: key 'name' is given twice in one object"),
        (
            '{"name": "a", "server": 3}',
            "tools.jsonl:1: tool 'a': server is 3, must be a string of 1 to",
        ),
        ('{"name": "a"}\n{"name": "b"}\n{"name": "a"}', "tools.jsonl:3: tool 'a': name is already taken at"),
    ],
)
def test_what_is_wrong_in_a_file_of_lines_is_told_with_file_and_line(tmp_path, text, message):
    assert error_in(tmp_path, text, "tools.jsonl").startswith(message)


def test_of_a_name_given_in_two_files_both_places_are_named(tmp_path):
    write(tmp_path, "a.json", '{"tools": [\n{"name": "x"},\n{"name": "send"}]}')
    write(tmp_path, "b.json", '{"tasks": [\n\n\n{"function": {"name": "send"}}]}')
    assert error_of(tmp_path) == "b.json:4: tool 'send': name is already taken at a.json:3"


def test_two_toolkits_of_one_name_are_refused(tmp_path):
    write(tmp_path, "a.json", {"name": "crm"})
    write(tmp_path, "b.json", '{\n"name": "crm"}')
    assert error_of(tmp_path) == "b.json:2: toolkit 'crm': name is already taken at a.json"


def test_parents_that_go_round_in_a_circle_are_refused(tmp_path):
    write(tmp_path, "a.json", {"name": "a", "parent": "b"})
    write(tmp_path, "b.json", {"name": "b", "parent": "a"})
    assert error_of(tmp_path) == "a.json:3: toolkit 'a': parent 'b' leads back to itself"


@pytest.mark.parametrize("depth", [70, 5_000, 100_000])
def test_a_schema_that_is_nested_too_deeply_is_a_clear_error(tmp_path, depth):
    schema = '{"items":' * depth + "{}" + "}" * depth
    write(tmp_path, "tools.jsonl", f'{{"name": "a", "parameters": {schema}}}')
    assert any(text in error_of(tmp_path) for text in ("at most 64 levels", "nested deeper than 128 levels"))


def test_a_schema_of_64_levels_is_read(tmp_path):
    schema = '{"items":' * 63 + "{}" + "}" * 63
    write(tmp_path, "tools.jsonl", f'{{"name": "a", "parameters": {schema}}}')
    assert len(read_folder(tmp_path).tools) == 1


def test_a_file_that_is_not_utf_8_is_a_clear_error(tmp_path):
    (tmp_path / "a.json").write_bytes(b'{"name":\n"\xe9t\xe9"}')
    assert error_of(tmp_path) == "a.json:2: is not UTF-8: byte 0xe9 at offset 10"


@each_row("name", ["a\x1b[31mb", "a\u202eb", "a\u200bb", "a\ufe0fb", "a\U000e0041b", "a\nb"])
def test_a_name_with_what_nobody_can_see_is_refused(tmp_path, name):
    write(tmp_path, "a.json", {"tools": [{"name": name}]})
    assert "must be a name without" in error_of(tmp_path)


def test_a_path_that_is_not_there_is_a_clear_error(tmp_path):
    assert error_of(tmp_path / "nowhere") == "PATH: cannot be read: No such file or directory"
    with pytest.raises(InvalidDefinition, match="cannot be read: .*embedded null"):
        read_folder("a\0b")


def test_a_link_out_of_the_folder_is_skipped_with_a_warning(tmp_path, caplog):
    outside = write(tmp_path, "outside.json", {"tools": [{"name": "secret"}]})
    write(tmp_path, "in/a.json", {"tools": [{"name": "a"}]})
    link(tmp_path / "in/b.json", outside)
    with caplog.at_level(logging.WARNING):
        assert [tool.name for tool in read_folder(tmp_path / "in").tools] == ["a"]
    assert caplog.messages == [f"{tmp_path / 'in' / 'b.json'}: skipped, a symbolic link out of the folder"]


def test_a_link_within_the_folder_is_read_and_never_twice(tmp_path):
    write(tmp_path, "..data/crm.json", {"tools": [{"name": "a"}]})  # as Kubernetes mounts a ConfigMap
    link(tmp_path / "crm.json", tmp_path / "..data/crm.json")
    link(tmp_path / "same.json", "crm.json")
    assert [tool.name for tool in read_folder(tmp_path).tools] == ["a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_a_fifo_or_a_folder_is_skipped_with_a_warning_and_never_opened(tmp_path, caplog):
    os.mkfifo(tmp_path / "a.json")  # opening it would wait for a writer
    (tmp_path / "b.json").mkdir()
    (tmp_path / "c.json").symlink_to(tmp_path / "gone.json")
    with caplog.at_level(logging.WARNING):
        assert "holds no file to read" in error_of(tmp_path)
    assert [message.partition(": ")[2] for message in caplog.messages] == ["skipped, not a regular file"] * 3
    assert error_of(tmp_path / "a.json") == "PATH: is neither a folder nor a regular file"


def test_the_openai_form_is_kept_where_only_it_can_say_strict(tmp_path):
    function = {"name": "a", "parameters": {"type": "object", "properties": {}}, "strict": True}
    write(tmp_path, "a.json", {"tools": [{"type": "function", "function": function, "tags": ["t"]}]})
    assert read_folder(tmp_path).tools[0].original == {"type": "function", "function": function}


def test_the_garbage_collector_is_left_as_it_was(tmp_path):
    write(tmp_path, "a.json", "{")
    error_of(tmp_path)
    assert gc.isenabled()


def test_a_thousand_files_are_a_thousand_toolkits(tmp_path):
    for i in range(1_000):
        write(tmp_path, f"kit_{i}.json", f'{{"tools": [{{"name": "tool_{i}"}}]}}')
    assert len(read_folder(tmp_path).toolkits) == 1_000


def test_a_hundred_thousand_tools_in_one_file_are_read(tmp_path):
    line = '{"name": "tool_%d", "description": "Does it.", "parameters": {}, "server": "s%d", "examples": []}'
    write(tmp_path, "tools.jsonl", "\n".join(line % (i, i % 50) for i in range(100_000)))
    definitions = read_folder(tmp_path)
    assert len(definitions.tools) == 100_000 and len(definitions.toolkits) == 50


# catalog.json: what is about all toolkits of a folder.

PAGES = {"tiers": ["free", "pro"], "pages": [{"pattern": "sky*", "toolkits": ["weather"], "priority": 2}]}


def test_the_catalog_file_of_a_folder_gives_tiers_and_page_mappings(tmp_path):
    write(tmp_path, "weather.json", WEATHER)
    write(tmp_path, "catalog.json", PAGES)
    found = read_folder(tmp_path)
    assert found.tiers == ("free", "pro") and found.pages == (PageMapping("sky*", ("weather",), 2),)
    assert [toolkit.name for toolkit in found.toolkits] == ["weather"]
    assert read_folder(tmp_path, ("zero", "free")).tiers == ("zero", "free")


def test_the_catalog_file_is_read_beside_a_file_of_lines_and_a_toolkit_may_have_its_name(tmp_path):
    write(tmp_path, "tools.jsonl", '{"name": "a", "description": "A."}\n')
    write(tmp_path, "catalog.json", {"tiers": ["free"]})
    assert read_folder(tmp_path).tiers == ("free",)
    write(tmp_path / "other", "catalog.json", {"tasks": [{"name": "b"}]})
    assert [toolkit.name for toolkit in read_folder(tmp_path / "other").toolkits] == ["catalog"]


@each_row(
    ("text", "message"),
    [
        ('{"tiers": ["free",\n "free"]}', "catalog.json:2: tiers[1] is 'free', must be different names"),
        (
            '{"pages": [\n {"pattern": "a*b", "toolkits": ["x"]}]}',
            "catalog.json:2: pattern is 'a*b', may have",
        ),
        ('{"pages": [\n {"pattern": "a",\n  "toolkits": []}]}', "catalog.json:3: toolkits"),
        ('{"pages": [\n {"toolkits": ["x"]}]}', "catalog.json:2: pattern is missing"),
        ('{"pages": [\n {"pattern": "a", "toolkits": ["x"], "priority": "1"}]}', "catalog.json:2: priority"),
        ('{"pages": [\n 3]}', "catalog.json:2: a page mapping is 3"),
        ('{"tiers": [],\n "page": []}', "did you mean 'pages'?"),
    ],
)
def test_what_is_wrong_in_a_catalog_file_is_told_with_file_line_and_key(tmp_path, text, message):
    assert message in error_in(tmp_path, text, "catalog.json")


def test_a_tier_that_nobody_configured_is_told_with_file_line_and_advice(tmp_path):
    write(tmp_path, "weather.json", WEATHER)
    write(tmp_path, "wind.json", {"tier": "pro", "tools": []})
    for tiers, known in (((), "but there are no tiers"), (("pro",), "must be one of 'pro'")):
        with pytest.raises(InvalidDefinition) as caught:
            read_folder(tmp_path, tiers)
        said = str(caught.value)
        assert f"weather.json:3: toolkit 'weather': tier is 'free', {known}" in said
        assert 'catalog.json ({"tiers": ["free", "pro"]})' in said and "--tiers" in said
    assert read_folder(tmp_path).toolkits[0].tier == "free"  # a registry has its own tiers
    write(tmp_path, "catalog.json", {"tiers": ["gold"]})
    assert "weather.json:3" in error_of(tmp_path)


def test_one_tier_alone_needs_no_order_and_is_warned_of(tmp_path, caplog):
    write(tmp_path, "weather.json", WEATHER)
    write(tmp_path, "wind.json", {"tools": []})
    assert read_folder(tmp_path, ()).tiers == ("free",)
    assert "no tiers are configured, so 'free' is the only one" in caplog.text
    assert read_folder(tmp_path, ("free", "pro")).tiers == ("free", "pro")
    assert read_folder(tmp_path).tiers == ()  # a registry has its own tiers
    assert len(caplog.records) == 1


def test_a_page_mapping_to_a_toolkit_of_no_file_is_a_warning_with_its_line(tmp_path, caplog):
    write(tmp_path, "weather.json", WEATHER)
    write(tmp_path, "catalog.json", {"tiers": ["free"], "pages": [{"pattern": "a", "toolkits": ["wether"]}]})
    assert read_folder(tmp_path).pages
    assert "names toolkit 'wether', which no file declares" in caplog.text and "catalog.json:" in caplog.text
