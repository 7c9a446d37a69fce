"""The names under which a tool from outside may be called."""

from __future__ import annotations

from tests.table import each_row
from toolroll.formats.sources.labels import alike, folded, labels_of, names_of_function, plain_name


@each_row(
    "name",
    [
        "Close_Deal",
        "CLOSE-DEAL",
        "close.deal",
        " close deal",
        "close_\u200bdeal",
        "ｃｌｏｓｅ_deal",
        "close__deal_",
        "ｃlose\ufe0f_deal",
    ],
)
def test_what_only_the_writing_tells_apart_is_one_name(name):
    assert folded(name) == folded("close_deal") == "close_deal"


@each_row("name", ["closedeal", "close_deals", "close_de", "claused", "deal_close"])
def test_other_words_are_another_name(name):
    assert folded(name) != "close_deal"


@each_row(
    ("name", "found"),
    [
        ("functions.close_deal", "close_deal"),
        ("Functions:close_deal", "close_deal"),
        ("mcp__crm__close_deal", "close_deal"),
        ("mcp__crm__eu__close_deal", "close_deal"),
        ("mcp__claude_ai__Close-Deal", "close_deal"),
    ],
)
def test_the_prefix_of_a_client_hides_no_name(name, found):
    assert found in alike(name)


def test_a_name_without_a_prefix_has_one_folded_form():
    assert alike("close_deal") == ("close_deal",)
    assert alike("\u200b") == ()


def test_a_hosted_tool_has_the_name_of_its_type_with_and_without_its_version():
    for kind in ("web_search_20250305", "web_search_preview", "web_search_preview_2025_03_11"):
        found = labels_of({"type": kind})
        assert found.own == kind and {kind, "web_search"} <= {*found.others}
    assert labels_of({"googleSearch": {}}).own == "google_search"
    assert labels_of({"type": "custom", "custom": {"name": "x"}}).own == "x"


@each_row(
    ("item", "is_unseen"),
    [
        ({"type": "mcp", "server_url": "u"}, True),
        ({"type": "MCP", "server_url": "u", "allowed_tools": "x"}, True),
        ({"type": "x", "connector_id": "c"}, True),
        ({"type": "mcp", "server_url": "u", "allowed_tools": {"read_only": True}}, True),
        ({"type": "mcp", "server_url": "u", "allowed_tools": ["a"]}, False),
        ({"type": "mcp", "server_url": "u", "allowed_tools": {"tool_names": ["a"]}}, False),
        ({"type": "url", "url": "u", "tool_configuration": {"allowed_tools": ["a"]}}, False),
        ({"type": "mcp_toolset", "mcp_server_name": "s"}, True),
        ({"type": "mcp_toolset", "default_config": {"enabled": False}, "configs": {"a": {}}}, False),
        ({"type": "web_search"}, False),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, False),
        ({"type": "x", "y": [[{}] * 3_000]}, True),
    ],
)
def test_a_server_that_does_not_list_its_tools_is_told(item, is_unseen):
    assert labels_of(item).is_unseen is is_unseen


def test_every_text_of_what_is_no_function_may_be_a_name():
    item = {
        "type": "mcp",
        "allowed_tools": ["a"],
        "require_approval": {"never": {"tool_names": ["b"]}},
        "configs": {"c": 1},
    }
    assert {"a", "b", "c"} <= {*labels_of(item).others}


def test_a_function_has_every_name_that_some_reader_takes():
    chat = {
        "type": "function",
        "function": {"name": "a", "description": "b", "parameters": {"properties": {"name": {}}}},
    }
    assert names_of_function(chat, "a") == ("a",)
    assert {
        *names_of_function({**chat, "name": "c", "Custom": {"NAME": "d"}, "tools": [{"name": "e"}]}, "a")
    } >= {*"acde"}


def test_long_texts_are_no_names():
    assert all(
        len(one) <= 256
        for one in names_of_function({"name": "x" * 10**6, "function": {"name": "y" * 10**6}}, "x")
    )
    assert len(labels_of({"type": "t" * 10**6}).own) == 256


def test_members_are_compared_as_readers_do_that_take_no_notice_of_case():
    assert {plain_name(key) for key in ("Tools", "TOOLS", "tool_s", "tool\u017f")} == {"tools"}
