"""Lists that are made once: equal ones are shared, and no caller gets the list of another."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp")

from toolroll import Tool
from toolroll.formats.schemas import sent_tools
from toolroll.gateway import tool_lists
from toolroll.gateway.server_side import SharedResult
from toolroll.gateway.tool_lists import McpToolLists

TOOLS = tuple(Tool(f"t{number}", f"Does {number}", {"type": "object"}) for number in range(6))


def names(found):
    return [tool["name"] for tool in found.result["tools"]]


def test_equal_lists_are_made_once_and_others_are_others():
    lists = McpToolLists()
    first = lists.of(sent_tools(TOOLS[:3], "mcp"))
    assert lists.of(sent_tools(TOOLS[:3], "mcp")) is first
    for other in (TOOLS[:2], TOOLS[1:4], TOOLS[2::-1], ()):
        found = lists.of(sent_tools(other, "mcp"))
        assert names(found) == [tool.name for tool in other] and found.digest != first.digest
    assert names(lists.of(sent_tools(TOOLS[:3], "mcp"))) == ["t0", "t1", "t2"]


def test_a_tool_that_was_replaced_is_in_the_next_list():
    lists = McpToolLists()
    before = lists.of(sent_tools(TOOLS[:1], "mcp"))
    after = lists.of(sent_tools((Tool("t0", "Does more", {"type": "object"}),), "mcp"))
    assert after.result["tools"][0]["description"] == "Does more" and after.digest != before.digest


def test_the_lists_that_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(tool_lists, "_MOST_TOOLS", 4)
    lists = McpToolLists()
    first = lists.of(sent_tools(TOOLS[:3], "mcp"))
    lists.of(sent_tools(TOOLS[3:5], "mcp"))
    again = lists.of(sent_tools(TOOLS[:3], "mcp"))
    assert again is not first and again.digest == first.digest
    assert names(lists.of(sent_tools(TOOLS, "mcp"))) == [tool.name for tool in TOOLS]  # more than is kept


def test_each_version_of_the_protocol_gets_its_own_form_of_a_list():
    result = SharedResult({"tools": [{"name": "a", "inputSchema": {"type": "object"}, "_meta": {"x": 1}}]})
    old, new = (result.form("tools/list", version) for version in ("2025-11-25", "2026-07-28"))
    assert old["tools"] == new["tools"] == result["tools"]
    assert "ttlMs" not in old and new["ttlMs"] == 0 and new["cacheScope"] == "private"
    assert result.form("tools/list", "2025-11-25") is old
