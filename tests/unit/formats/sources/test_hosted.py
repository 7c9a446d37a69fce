"""Tools that the provider runs: they are no functions, and are handed on as they came."""

from __future__ import annotations

import pytest

from tests.table import each_row
from toolroll import Toolroll
from toolroll.formats.sources import read_tools
from toolroll.formats.sources.hosted import is_hosted
from toolroll.model.errors import InvalidDefinition

FUNCTION = {
    "type": "function",
    "function": {"name": "send", "description": "Sends.", "parameters": {"type": "object", "properties": {}}},
}
HOSTED = [
    {"type": "web_search"},
    {"type": "web_search_preview", "search_context_size": "low"},
    {"type": "file_search", "vector_store_ids": ["vs_1"]},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "computer_use_preview", "display_width": 800, "display_height": 600, "environment": "browser"},
    {"type": "image_generation"},
    {"type": "local_shell"},
    {"type": "mcp", "server_label": "s", "server_url": "https://example.com/mcp"},
    {"type": "custom", "custom": {"name": "grammar", "description": "x"}},
    {"type": "custom", "name": "apply_patch", "description": "x"},
    {"type": "namespace", "name": "crm", "tools": [FUNCTION]},
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    {"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600},
    {"type": "code_execution_20250522", "name": "code_execution"},
    {"type": "mcp_toolset", "mcp_server_name": "s"},
    {"google_search": {}},
    {"googleSearch": {}},
    {"code_execution": {}},
    {"url_context": {}, "google_maps": {}},
]
FUNCTIONS = [
    FUNCTION,
    {"type": "function", "name": "send", "parameters": {}},
    {"name": "send", "input_schema": {}},
    {"type": "custom", "name": "send", "input_schema": {"type": "object"}},
    {"name": "send", "inputSchema": {}},
    {"name": "send"},
    {"name": "google_search"},
]


@each_row("item", HOSTED)
def test_a_tool_that_the_provider_runs_is_hosted(item):
    assert is_hosted(item)


@each_row("item", FUNCTIONS)
def test_a_function_is_not_hosted(item):
    assert not is_hosted(item)


@each_row("kind", ["functon", "Function", "functions", 3, ["function"]])
def test_a_misspelt_function_is_an_error_and_no_hosted_tool(kind):
    with pytest.raises(InvalidDefinition, match="no known shape"):
        read_tools([{"type": kind, "name": "send"}])


def test_hosted_tools_come_back_behind_whatever_is_selected():
    many = [{**FUNCTION, "function": {**FUNCTION["function"], "name": f"send_{i}"}} for i in range(20)]
    roll = Toolroll.from_tools([HOSTED[0], *many, HOSTED[3]])
    picked = roll.select("send it", k=2)
    assert len(roll) == 20 and len(picked) == 2
    assert picked.tools[-2:] == (HOSTED[0], HOSTED[3]) and len(picked.tools) == 4
    assert picked.tools[-1] is HOSTED[3]
    assert picked.schemas("openai")[2:] == [HOSTED[0], HOSTED[3]]
    assert picked.schemas("openai")[3] is not HOSTED[3]


def test_a_refreshed_catalog_has_the_hosted_tools_of_its_own_list():
    roll = Toolroll.from_tools([FUNCTION, HOSTED[0]])
    roll.refresh([FUNCTION])
    assert roll.select("send").tools == (FUNCTION,)


def test_a_result_of_mcps_tools_list_is_a_list_of_tools():
    result = {"tools": [{"name": "send", "inputSchema": {"type": "object"}}], "nextCursor": "2"}
    assert [tool.name for tool in read_tools(result).tools] == ["send"]
    assert [
        tool.name
        for tool in read_tools([FUNCTION | {"name": "x"}, result | {"tools": [{"name": "m"}]}]).tools
    ] == ["send", "m"]
    with pytest.raises(InvalidDefinition, match="tools is 3, must be a list"):
        read_tools([{"tools": 3}])
