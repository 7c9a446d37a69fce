"""A conversation whose provider searches with us: what was found is called under the name that was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolroll import Profile, Tool, Toolroll
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.formats.schemas import own_name_of, provider_name
from toolroll.model.errors import Denied
from toolroll.selection.delivery import answer_search

TOOLS = [
    Tool("send_mail", "Sends mail."),
    Tool("get.forecast", "Weather forecast for a place."),
    Tool("play_song", "Plays music."),
    Tool("ask_user", "Asks the user.", pinned=True),
    *(Tool(f"count_{thing}", f"Counts {thing}.") for thing in ("sheep", "stars", "coins", "bricks", "trees")),
]


def test_a_found_tool_is_callable_under_the_name_that_the_provider_was_sent():
    session = Toolroll.from_tools(TOOLS, profile=Profile(pass_through_tools=0)).session("c-1")
    sent = provider_name("get.forecast", "anthropic")
    picked = session.select("count the sheep", k=1)
    delivery = picked.deliver("anthropic", "defer", meta_tools=META_TOOLS)
    assert "get.forecast" not in picked
    with pytest.raises(Denied):
        session.check(sent)

    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "search_tools",
        "input": '{"queries": ["weather forecast"]}',
    }
    assert delivery.check(call["name"]).name == "search_tools"
    answer = session.answer(call["name"], call["input"])
    block = answer_search("anthropic", call, answer.tools)
    assert block["content"][0] == {"type": "tool_reference", "tool_name": sent}
    assert session.check(sent).name == delivery.own_name(sent) == "get.forecast"
    assert session.answer("manage_tools", {"mode": "load", "tools": sent}).tools[0].name == "get.forecast"


def test_the_list_stays_the_same_over_a_conversations_turns():
    session = Toolroll.from_tools(TOOLS, profile=Profile(pass_through_tools=0)).session("c-2")
    seen = set()
    for message in ("send mail to Bob", "play music", "weather forecast"):
        picked = session.select(message, k=1)
        seen.add(str(picked.deliver("anthropic", "defer", meta_tools=META_TOOLS).request))
        session.load("play_song")
        session.end_turn()
    assert len(seen) == 1


def test_a_conversation_gives_a_tool_no_calls_of_one_whose_sent_name_it_has():
    sent = provider_name("math.add", "openai")
    squatter = Tool(sent, "Adds numbers.")
    roll = Toolroll.from_tools([Tool("math.add", "Adds numbers."), squatter, *TOOLS])
    session = roll.session("c-3")
    session.select("add numbers", k=2)
    assert session.search("add numbers")
    assert session.check(sent).name == "math.add"
    assert session.answer("call_tool", {"name": sent, "arguments": {}}).tools[0].name == "math.add"
    assert session.used([sent]) == () and session.conversation.called[0][1] == ("math.add",)

    session.context = replace(session.context, exclude=("math.add",))  # the squatter alone is left
    session.select("add numbers", k=2)
    assert sent in [tool.name for tool in session.search("add numbers")]
    with pytest.raises(Denied):
        session.check(sent)
    assert session.answer("call_tool", {"name": sent, "arguments": {}}).unknown == (sent,)
    assert session.load(sent).unknown == session.used([sent]) == (sent,)


def test_a_tool_that_is_called_like_a_replaced_name_is_told_of_and_called_by_the_name_it_is_sent_under():
    own = provider_name("math.add", "openai")  # of another toolroll, behind which this one stands
    sent = provider_name(own, "openai")
    session = Toolroll.from_tools([Tool(own, "Adds numbers."), *TOOLS]).session("c-4")
    session.select("hello", k=0)
    told = session.answer("search_tools", {"queries": ["add numbers"]}).text
    assert sent in told and own not in told
    assert sent in session.hints() and own not in session.hints()
    assert session.answer("call_tool", {"name": sent, "arguments": {}}).tools[0].name == own
    assert sent in session.load(sent).text and session.loaded == (own,)
    assert session.check(sent).name == own and session.used({sent: True}) == ()


def test_a_sent_name_is_told_from_an_own_one():
    sent = provider_name("get.forecast", "openai")
    assert own_name_of(sent, ["send_mail", "get.forecast"]) == "get.forecast"
    assert own_name_of(sent, ["send_mail"]) is None
    assert own_name_of("send_mail", ["send_mail"]) is None
    assert own_name_of("send_mail__0123456789abcdef", ["send_mail"]) is None
