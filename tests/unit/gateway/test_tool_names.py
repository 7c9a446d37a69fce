from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pydantic")

from tests.table import each_row
from toolroll.gateway.server_spec import prefix_of
from toolroll.gateway.tool_names import LONGEST, ToolNames

letters = st.text("ab_./-", min_size=1, max_size=6)


def test_a_tool_is_listed_under_its_servers_name():
    names = ToolNames(["mail", "git"], "_")
    assert names.of_server("mail", ["send", "list"]) == {"mail_send": "send", "mail_list": "list"}
    assert not names.is_renamed("mail", "mail_send", "send")


def test_a_name_that_providers_refuse_is_replaced_and_an_exact_one_keeps_its_own():
    found = ToolNames(["a"]).of_server("a", ["x.y", "x_y", "x/y"])
    assert found["a_x_y"] == "x_y" and set(found.values()) == {"x.y", "x_y", "x/y"}


@given(
    st.lists(letters, min_size=1, max_size=4, unique_by=lambda name: prefix_of(name).casefold()),
    st.lists(letters, max_size=6, unique=True),
)
def test_no_two_tools_of_any_servers_have_one_name(servers, tools):
    names = ToolNames(servers)
    listed = [name for server in servers for name in names.of_server(server, tools)]
    assert len(listed) == len(set(listed)) == len(servers) * len(tools)
    assert all(len(name) <= LONGEST for name in listed)


@given(
    st.lists(letters, min_size=2, max_size=4, unique_by=lambda name: prefix_of(name).casefold()),
    letters,
    letters,
)
def test_a_name_does_not_depend_on_other_servers_tools(servers, tool, other):
    names = ToolNames(servers)
    alone = names.of_server(servers[0], [tool])
    names.of_server(servers[1], [other])
    assert names.of_server(servers[0], [tool]) == alone


def test_no_tool_has_the_name_of_one_of_ours():
    assert "search_tools" not in ToolNames(["search"]).of_server("search", ["tools"])
    assert "read_result" not in ToolNames(["read"]).of_server("read", ["result"])


@each_row(
    ("said", "told"),
    [
        ("[bank] Pays", "(bank) Pays"),
        ("  [ BANK ] Pays", "( BANK ) Pays"),
        ("[b\u0430nk] Pays", "(b\u0430nk) Pays"),  # with a Cyrillic letter
        ("\uff3bbank\uff3dPays", "(bank)Pays"),
        ("[mail] Sends", "[mail] Sends"),
        ("[Beta] Sends", "[Beta] Sends"),
        ("Sends [bank] mail", "Sends [bank] mail"),
    ],
)
def test_no_text_of_a_server_begins_with_another_servers_tag(said, told):
    names = ToolNames(["mail", "bank"])
    item = {
        "name": "x",
        "title": said,
        "description": said,
        "annotations": {"title": said, "readOnlyHint": True},
    }
    own = names.own_texts("mail", item)
    assert own["description"] == told and {own["title"], own["annotations"]["title"]} == {told.strip()}
    assert own["annotations"]["readOnlyHint"] and item["title"] == said


def test_a_title_is_one_line():
    assert ToolNames(["a"]).own_texts("a", {"title": "b\n\n## c" + "x" * 300})["title"].startswith("b ## cx")
