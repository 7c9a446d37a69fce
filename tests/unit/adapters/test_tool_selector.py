"""The neutral class under every adapter: turns, own objects, refusals, outcomes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from tests.adapters.scenario import run_page
from tests.table import each_row
from toolroll import Context, InvalidInput, Observer, Rule, StoreUnavailable, Toolroll
from toolroll.adapters import ToolSelector, agent_turn, tool_selector
from toolroll.adapters.messages import MadeCall, ReadMessage, read_messages

SCHEMA = {"type": "object", "properties": {"target": {"type": "string"}}}
FILLER = [(f"do_thing_{n}", f"Does the thing number {n}.") for n in range(40)]
TEXTS = dict(
    [
        *FILLER,
        ("create_refund", "Gives a customer the money of a payment back."),
        ("get_forecast", "The weather forecast of a city."),
        ("play_song", "Plays a song on the loudspeaker."),
    ]
)


class OwnTool:
    """A framework's tool, which toolroll reads by its attributes."""

    def __init__(self, name: str, description: str = "", schema: dict[str, Any] = SCHEMA) -> None:
        self.name, self.description, self.params_json_schema = name, description, schema


class Reports(Observer):
    def __init__(self) -> None:
        self.selected: list[str] = []
        self.reported: list[tuple[str, dict[str, str], bool]] = []
        self.durations_ms: list[dict[str, float]] = []

    def on_selection(self, selection):
        self.selected.append(selection.event_id)

    def on_report(self, report):
        self.reported.append((report.event_id, dict(report.outcomes), report.final))
        self.durations_ms.append(dict(report.durations_ms))


class Suspended(Exception):
    pass


def own_tools(texts: dict[str, str] = TEXTS) -> list[OwnTool]:
    return [OwnTool(name, text) for name, text in texts.items()]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def calls(*names: str) -> dict[str, Any]:
    made = [{"id": f"id-{name}", "function": {"name": name, "arguments": "{}"}} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(name: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"id-{name}", "content": text}


REFUND = [user("Please give the customer the money back.")]
FORECAST = [*REFUND, {"role": "assistant", "content": "Done."}, user("What's the weather forecast?")]


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def selector(reports) -> ToolSelector:
    roll = Toolroll.from_tools([], observers=[reports])
    return ToolSelector(roll, max_tools=4, suspending=(Suspended,))


@pytest.fixture(params=["c", None], ids=["a conversation", "messages alone"])
def conversation(request) -> str | None:
    return request.param


# What is sent.


def test_the_frameworks_own_objects_come_back_best_first(selector, conversation):
    tools = own_tools()
    turn = selector.turn(tools, REFUND, conversation=conversation)
    assert turn.names[0] == "create_refund" and len(turn.tools) == len(turn.names) <= 4
    assert [tool.name for tool in turn.tools] == list(turn.names)
    assert all(any(tool is own for own in tools) for tool in turn.tools)


def test_what_is_no_function_is_sent_in_front_whatever_is_selected(selector, conversation):
    hosted, odd, other = {"type": "web_search"}, object(), object()
    turn = selector.turn([*own_tools(), hosted, odd, other], REFUND, conversation=conversation)
    assert turn.tools[:3] == (hosted, odd, other) and len(turn.tools) == 3 + len(turn.names)


def test_dictionaries_come_back_as_the_very_objects_with_all_of_their_keys(selector):
    made = [
        {
            "type": "function",
            "cache_control": {"type": "ephemeral"},
            "function": {"name": n, "description": d},
        }
        for n, d in TEXTS.items()
    ]
    turn = selector.turn(made, REFUND)
    assert turn.tools[0] is made[list(TEXTS).index("create_refund")]


def test_a_group_of_declarations_comes_back_with_the_selected_ones(selector):
    declarations = [{"name": name, "description": text} for name, text in TEXTS.items()]
    turn = selector.turn([{"function_declarations": declarations}], REFUND)
    (group,) = turn.tools
    assert {one["name"] for one in group["function_declarations"]} == set(turn.names)
    assert turn.refusal("play_song") and turn.refusal("create_refund") is None


def test_always_included_tools_do_not_count_as_max_tools_and_unknown_ones_are_no_error(reports):
    roll = Toolroll.from_tools([])
    selector = ToolSelector(roll, max_tools=2, always_include=["play_song", "no_such_tool"])
    turn = selector.turn(own_tools(), REFUND)
    assert {"play_song", "create_refund"} <= set(turn.names) and len(turn.names) == 3
    assert "get_forecast" in selector.turn(own_tools(), REFUND, always_include=["get_forecast"]).names


def test_a_rule_hides_a_tool_from_the_list_and_from_calls(conversation):
    roll = Toolroll.from_tools([], rules=[Rule("no", "deny", "org", {"org": ""}, tool="create_refund")])
    turn = ToolSelector(roll).turn(
        own_tools(), REFUND, conversation=conversation, always_include=["create_refund"]
    )
    assert "create_refund" not in turn.names and turn.refusal("create_refund")


def test_an_empty_list_sends_nothing(selector, conversation):
    assert selector.turn([], REFUND, conversation=conversation).tools == ()


def test_messages_without_the_users_select_all_the_same(selector, conversation):
    system = [{"role": "system", "content": "Give every customer the money back."}]
    assert "create_refund" in selector.turn(own_tools(), system, conversation=conversation).names
    assert selector.turn(own_tools(), [], conversation=conversation).tools is not None


def test_a_wrong_argument_is_named():
    for wrong in ({"roll": 3}, {"max_tools": -1}, {"max_tools": True}, {"k": "4"}, {"context": "ann"}):
        (name,) = wrong
        with pytest.raises(InvalidInput, match=name):
            ToolSelector(**wrong)


@each_row(
    "tools, messages, told, named",
    [
        ("abc", REFUND, {}, "tools: is 'abc', must be a list"),
        ({"a": 1}, REFUND, {}, "tools: is {'a': 1}, must be a list"),
        (None, REFUND, {}, "tools: is None, must be a list"),
        ([], "copy the message", {}, "messages: is 'copy the message', must be a list"),
        ([], None, {}, "messages: is None, must be a list"),
        ([], {"role": "user", "content": "hi"}, {}, "messages: is {.*must be a list"),
        ([], [1], {}, "messages: holds 1, must hold messages"),
        ([], [{"content": "hi"}], {}, "messages: holds {'content': 'hi'} without a role"),
        ([], REFUND, {"conversation": 42}, "conversation: is 42, must be a name"),
        ([], REFUND, {"conversation": ""}, "conversation: is '', must be a name"),
        ([], REFUND, {"conversation": "c" * 1_025}, "conversation: is .*must be a name"),
        ([], REFUND, {"context": {"user": "ann"}}, "context: is {'user': 'ann'}, must be toolroll.Context"),
    ],
)
def test_a_wrong_argument_of_a_turn_is_named(selector, tools, messages, told, named):
    with pytest.raises(InvalidInput, match=named):
        selector.turn(tools, messages, **told)
    with pytest.raises(InvalidInput, match=named):
        asyncio.run(selector.aturn(tools, messages, **told))


def test_a_wrong_argument_of_find_and_resume_is_named(selector):
    with pytest.raises(InvalidInput, match="context: is 'ann'"):
        selector.find(conversation="c", context="ann")
    with pytest.raises(InvalidInput, match="messages: is 3"):
        selector.find(3)
    with pytest.raises(InvalidInput, match="conversation: is 42"):
        selector.resume(own_tools(), 42)
    with pytest.raises(InvalidInput, match="context: is {}"):
        selector.resume(own_tools(), "c", context={})


# The same turn, or the next.


def test_further_steps_of_a_turn_are_one_event_and_one_list(selector, reports, conversation):
    tools = own_tools()
    first = selector.turn(tools, REFUND, conversation=conversation)
    sent = first.tools
    messages = [*REFUND, calls("create_refund"), result("create_refund")]
    assert selector.turn(tools, messages, conversation=conversation) is first
    assert first.tools == sent and len(reports.selected) == 1


def test_the_next_message_is_another_turn(selector, reports, conversation):
    tools = own_tools()
    selector.turn(tools, REFUND, conversation=conversation)
    turn = selector.turn(tools, FORECAST, conversation=conversation)
    assert "get_forecast" in turn.names and len(set(reports.selected)) == 2


def test_another_run_is_another_turn_though_the_message_is_the_same(selector, reports):
    tools = own_tools()
    first = selector.turn(tools, REFUND, run=1)
    assert selector.turn(tools, [*REFUND, calls("create_refund")], run=1) is first
    assert selector.turn(tools, REFUND, run=2) is not first
    assert selector.find(run=1) is first


def test_shortened_messages_do_not_begin_another_turn_of_the_same_run(selector):
    first = selector.turn(own_tools(), FORECAST, run=1)
    assert selector.turn(own_tools(), FORECAST[-1:], run=1) is first


def test_two_conversations_with_the_same_words_do_not_refuse_each_others_calls(selector):
    tools = own_tools()
    one = selector.turn(tools, REFUND, conversation="a")
    selector.turn(tools, FORECAST, conversation="b")
    assert one.refusal("create_refund") is None


def test_a_conversation_is_that_of_an_organisation_and_user(reports):
    rules = [Rule("no", "deny", "org", {"org": "b"}, tool="create_refund")]
    selector = ToolSelector(Toolroll.from_tools([], rules=rules, observers=[reports]), max_tools=4)
    tools, a, b = own_tools(), Context(org="a", user="ann"), Context(org="b", user="bob")
    one = selector.turn(tools, REFUND, conversation="c", context=a)
    one.report("create_refund", True)
    other = selector.turn(tools, FORECAST, conversation="c", context=b)
    assert selector.find(conversation="c", context=a) is one
    assert selector.find(conversation="c", context=b) is other
    assert selector.find(conversation="c") is None
    assert one.refusal("create_refund") is None and other.refusal("create_refund")
    assert [final for _, _, final in reports.reported] == [False]  # the other one's turn ends none of hers
    messages = [*REFUND, calls("create_refund"), result("create_refund")]
    assert selector.turn(tools, messages, conversation="c", context=a) is one


def test_the_same_message_after_the_end_of_its_turn_is_another_turn(selector, reports, conversation):
    tools = own_tools()
    selector.turn(tools, REFUND, conversation=conversation).end()
    selector.turn(tools, REFUND, conversation=conversation)
    assert len(set(reports.selected)) == 2


def test_a_list_that_changed_within_a_turn_keeps_the_event_and_what_was_sent(selector, reports):
    tools = own_tools()
    selector.turn(tools, REFUND, conversation="c")
    later = OwnTool("refund_customer_money", "Gives a customer the money back, at once.")
    turn = selector.turn([*tools[1:], later], REFUND, conversation="c")
    assert turn.refusal("create_refund") is None and len(set(reports.selected)) == 1
    assert tools[0] not in turn.tools and "create_refund" in turn.names


def test_other_objects_that_say_the_same_are_no_change_and_come_back(selector, reports, conversation):
    selector.turn(own_tools(), REFUND, conversation=conversation)
    newer = own_tools()
    turn = selector.turn(newer, [*REFUND, calls("create_refund")], conversation=conversation)
    assert len(reports.selected) == 1
    assert all(any(tool is own for own in newer) for tool in turn.tools)


def test_a_tool_that_says_something_else_is_read_again(selector):
    texts = dict(TEXTS)
    selector.turn(own_tools(texts), REFUND)
    texts |= {
        "create_refund": "Paints a wall.",
        "do_thing_7": "Gives a customer the money of a payment back.",
    }
    assert selector.turn(own_tools(texts), REFUND).names[0] == "do_thing_7"


def test_a_long_conversation_is_read_from_its_end(reports, conversation):
    seen: list[object] = []

    def read(messages):
        seen.extend(messages)
        return read_messages(messages)

    selector = ToolSelector(max_tools=4, read_messages=read)
    long = [user("Hello"), {"role": "assistant", "content": "Hello."}] * 1_000
    turn = selector.turn(own_tools(), [*long, *REFUND], conversation=conversation)
    assert turn.names[0] == "create_refund" and len(seen) < 40
    seen.clear()
    steps = [message for _ in range(50) for message in (calls("create_refund"), result("create_refund"))]
    assert selector.turn(own_tools(), [*long, *REFUND, *steps], conversation=conversation) is turn
    assert len(seen) < 140


def test_the_same_words_again_are_the_next_turn_in_a_long_conversation_too(reports, conversation):
    selector = ToolSelector(Toolroll.from_tools([], observers=[reports]))
    tools, messages = own_tools(), [user("Hello"), {"role": "assistant", "content": "Hello."}] * 30
    for _ in range(3):
        messages = [*messages, *REFUND]
        selector.turn(tools, messages, conversation=conversation)
        messages.append({"role": "assistant", "content": "Done."})
    assert len(set(reports.selected)) == 3


def test_the_next_turn_closes_the_one_before(selector, reports):
    turn = selector.turn(own_tools(), REFUND, conversation="c")
    turn.report("create_refund", True)
    selector.turn(own_tools(), FORECAST, conversation="c")
    assert [final for _, _, final in reports.reported] == [False, True]


def test_tools_that_the_messages_call_stay_in_the_list(selector, conversation):
    called = [user("play"), calls("play_song"), result("play_song"), {"role": "assistant", "content": "ok"}]
    turn = selector.turn(own_tools(), [*called, *REFUND], conversation=conversation)
    assert {"play_song", "create_refund"} <= set(turn.names) and len(turn.names) <= 4


def test_a_conversation_keeps_the_tools_that_were_called_in_it(selector):
    tools = own_tools()
    turn = selector.turn(tools, REFUND, conversation="c")
    turn.report("create_refund", True)
    turn.end()
    assert "create_refund" in selector.turn(tools, FORECAST, conversation="c").names


# Calls and outcomes.


def test_a_tool_that_was_not_sent_is_refused_with_a_text_and_a_name_of_no_tool_is_not_ours(
    selector, conversation
):
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)
    assert turn.refusal("create_refund") is None
    hidden = next(name for name in TEXTS if name not in turn.names)
    assert "was not offered" in turn.refusal(hidden)
    assert turn.refusal("final_answer") is None and turn.refusal("") is None


def test_an_unknown_name_is_refused_on_demand_with_the_names_that_were_sent(reports, conversation):
    rules = [Rule("no", "deny", "user", {"user": "ann"}, tool="create_refund")]
    roll = Toolroll.from_tools([], rules=rules, observers=[reports])
    hosted = {"type": "bash_20250124", "name": "bash"}
    ann = ToolSelector(roll, max_tools=4, context=Context(user="ann"))
    turn = ann.turn([*own_tools(), hosted], REFUND, conversation=conversation)
    for text in (
        turn.refusal("make_refund", unknown=True),
        asyncio.run(turn.arefusal("make_refund", unknown=True)),
        turn.refusal("", unknown=True),
    ):
        assert "was not offered" in text and turn.names[0] in text and "create_refund" not in text
    assert turn.refusal("bash", unknown=True) is None and turn.refusal(turn.names[0], unknown=True) is None


def test_each_call_is_reported_and_the_end_closes_the_turn(selector, reports, conversation):
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)
    with turn.call("create_refund"):
        pass
    with turn.call(turn.names[1]) as outcome:
        outcome.worked = None
    turn.end()
    turn.end()
    assert [one[1:] for one in reports.reported] == [
        ({"create_refund": "succeeded"}, False),
        ({turn.names[1]: "called"}, False),
        ({}, True),
    ]
    assert {one[0] for one in reports.reported} == set(reports.selected)


def test_a_call_is_reported_with_how_long_it_took(selector, reports, conversation, monkeypatch):
    clock = iter(range(1_000))
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)
    monkeypatch.setattr(agent_turn.time, "perf_counter", lambda: next(clock) * 0.25)
    with turn.call("create_refund"):
        pass
    with pytest.raises(ValueError), turn.call(turn.names[1]):
        raise ValueError

    async def later() -> None:
        async with turn.acall(turn.names[2]):
            pass

    asyncio.run(later())
    turn.begin("id")
    assert turn.took("unknown") is None
    turn.report(turn.names[3], True, turn.took("id"))
    monkeypatch.undo()
    turn.report(turn.names[0], None)
    assert reports.durations_ms[:4] == [{name: 250.0} for name in turn.names]
    assert reports.durations_ms[4:] == [{}]


def test_a_turn_without_calls_reports_nothing(selector, reports, conversation):
    selector.turn(own_tools(), REFUND, conversation=conversation).end()
    assert reports.reported == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("x"), "failed"), (asyncio.CancelledError(), "called"), (Suspended(), None)],
)
def test_an_exception_is_a_failure_unless_it_cancels_or_suspends_the_call(
    selector, reports, conversation, error, kind
):
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)
    with pytest.raises(type(error)), turn.call("create_refund"):
        raise error
    assert [one[1] for one in reports.reported] == ([] if kind is None else [{"create_refund": kind}])

    async def later() -> None:
        async with turn.acall("create_refund"):
            raise error

    reports.reported.clear()
    with pytest.raises(type(error)):
        asyncio.run(later())
    assert [one[1] for one in reports.reported] == ([] if kind is None else [{"create_refund": kind}])


def test_an_exception_that_is_no_fault_of_the_tools_is_said_to_be_one(selector, reports, conversation):
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)
    with pytest.raises(ValueError), turn.call("create_refund") as outcome:
        outcome.worked = None
        raise ValueError
    assert [one[1] for one in reports.reported] == [{"create_refund": "called"}]


def test_a_tool_that_was_not_offered_counts_for_nothing(selector, reports, conversation):
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)
    hidden = next(name for name in TEXTS if name not in turn.names)
    assert not turn.report(hidden, True) and not turn.report("final_answer", True)
    assert reports.reported == []


def test_results_in_messages_are_reported_once_and_only_those_of_this_turn(selector, reports, conversation):
    tools, before = (
        own_tools(),
        [calls("create_refund"), result("create_refund"), {"role": "assistant", "content": "ok"}],
    )
    messages = [*REFUND, *before, user("And the weather forecast?")]
    selector.turn(tools, messages, conversation=conversation)
    messages += [calls("get_forecast"), result("get_forecast", '{"error": "no such city"}')]
    turn = selector.turn(tools, messages, conversation=conversation)
    assert turn.report_results(messages) == ("get_forecast",)
    messages += [calls("play_song"), result("play_song")]
    again = selector.turn(tools, messages, conversation=conversation)
    again.report_results(messages)
    assert [one[1] for one in reports.reported if "get_forecast" in one[1]] == [{"get_forecast": "failed"}]
    assert not any("create_refund" in one[1] for one in reports.reported)


def test_a_selector_that_does_not_learn_checks_calls_and_records_nothing(reports, conversation):
    selector = ToolSelector(Toolroll.from_tools([], observers=[reports]), max_tools=2, learns=False)
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)
    assert not turn.report("create_refund", True) and reports.reported == []
    assert turn.refusal("play_song") and turn.refusal("create_refund") is None


def test_a_store_that_is_away_stops_no_agent(selector, monkeypatch, caplog, conversation):
    turn = selector.turn(own_tools(), REFUND, conversation=conversation)

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no database")

    for name in ("record", "record_turn"):
        monkeypatch.setattr(selector.roll._home, name, away)
    assert not turn.report("create_refund", True)
    assert "no database" in caplog.text


# Other processes, other threads.


def test_a_process_that_has_not_selected_goes_on_with_the_conversation(selector, reports):
    tools = own_tools()
    selector.turn(tools, REFUND, conversation="c")
    elsewhere = ToolSelector(selector.roll)  # the same store, another memory of turns
    assert elsewhere.find(conversation="c") is None
    turn = elsewhere.resume([next(tool for tool in tools if tool.name == "create_refund")], "c")
    assert turn.refusal("create_refund") is None and turn.report("create_refund", False)
    assert reports.reported == [(reports.selected[0], {"create_refund": "failed"}, False)]
    hidden = elsewhere.resume(tools, "c")
    assert hidden.refusal(next(name for name in TEXTS if name not in hidden.names))


def test_where_no_process_knows_the_turn_policy_decides(selector):
    denied = Toolroll.from_tools([], rules=[Rule("no", "deny", "org", {"org": ""}, tool="play_song")])
    turn = ToolSelector(denied).resume(own_tools(), "never-seen")
    assert turn.refusal("create_refund") is None and turn.refusal("play_song")


def test_the_twins_for_event_loops_do_the_same(selector, reports, conversation):
    async def turns() -> None:
        tools = own_tools()
        turn = await selector.aturn(tools, REFUND, conversation=conversation)
        assert turn.names[0] == "create_refund"
        assert (
            await selector.aturn(tools, [*REFUND, calls("create_refund")], conversation=conversation) is turn
        )
        assert await turn.arefusal("create_refund") is None
        assert await turn.arefusal(next(name for name in TEXTS if name not in turn.names))
        async with turn.acall("create_refund") as outcome:
            outcome.worked = False
        messages = [*REFUND, calls("create_refund"), result("create_refund")]
        assert await turn.areport_results(messages) == ("create_refund",)
        await turn.aend()
        await turn.aend()

    asyncio.run(turns())
    kinds = [one[1].get("create_refund") for one in reports.reported]
    assert kinds == ["failed", "succeeded", None]
    if conversation:
        assert asyncio.run(selector.aresume(own_tools(), "c")).refusal("create_refund") is None


def test_old_turns_and_lists_are_let_go_of(monkeypatch, selector):
    monkeypatch.setattr(tool_selector, "MOST_TURNS", 2)
    monkeypatch.setattr(tool_selector, "MOST_LISTS", 2)
    for run in range(5):
        selector.turn([OwnTool(f"b{run}", "Another tool.")], REFUND, run=run)
    assert selector.find(run=0) is None and selector.find(run=4) is not None
    assert len(selector._turns) == 2 and len(selector._lists) == 2


@pytest.mark.parametrize("is_ended", [True, False])
def test_the_objects_of_old_turns_are_let_go_of(monkeypatch, selector, conversation, is_ended):
    monkeypatch.setattr(tool_selector, "MOST_LISTS", 3)
    alive: weakref.WeakSet[OwnTool] = weakref.WeakSet()
    for n in range(20):
        tools = own_tools()
        alive.update(tools)
        name = None if conversation is None else f"c{n}"
        turn = selector.turn(tools, [user(f"Refund payment {n}")], conversation=name)
        assert len(turn.tools) == len(turn.names)
        if is_ended:
            turn.end()
    del tools, turn
    gc.collect()
    assert len(selector._turns) == 20
    assert len(alive) <= 4 * len(TEXTS)  # the three last lists, and the first of all


def test_an_old_turn_has_tools_that_say_the_same_with_those_loaded_since(monkeypatch):
    monkeypatch.setattr(tool_selector, "MOST_LISTS", 1)
    selector = ToolSelector(k=3)
    first, own = own_tools(), own_tools()
    selector.turn(first, REFUND, conversation="first")
    turn = selector.turn(own, REFUND, conversation="c")
    assert all(any(tool is one for one in own) for tool in turn.tools)
    for n in range(3):
        selector.turn(own_tools(), REFUND, conversation=f"later {n}")
    assert "play_song" not in turn.names
    turn.session.load("play_song")
    assert "play_song" in turn.names and [tool.name for tool in turn.tools] == list(turn.names)
    assert all(any(tool is one for one in first) for tool in turn.tools)
    assert turn.refusal("play_song") is None and turn.refusal("do_thing_1")
    messages = [*REFUND, calls("play_song"), result("play_song")]
    newer = own_tools()
    assert selector.turn(newer, messages, conversation="c") is turn
    assert all(any(tool is one for one in newer) for tool in turn.tools)


def test_different_lists_are_kept_up_to_a_number_of_bytes_and_turns_with_them(monkeypatch, selector):
    most = 8 * selector.turn(own_tools(), REFUND).memory_bytes
    monkeypatch.setattr(tool_selector, "MOST_BYTES", most)
    for n in range(40):
        tools = own_tools({**TEXTS, f"only_in_{n}": "One more."})
        selector.turn(tools, REFUND, run=n)
    assert selector.find(run=39) is not None and selector.find(run=30) is None
    assert len(selector._turns) <= 8 and selector._list_bytes <= most
    texts = dict(TEXTS)
    for n in range(40):  # the same names, which say something else each time
        texts["play_song"] = f"Plays song {n}."
        selector.turn(own_tools(texts), REFUND, run=f"s{n}")
    assert selector.find(run="s39") is not None and selector.find(run="s30") is None
    kept = [first for alike in selector._firsts.values() for first in alike]
    assert selector._list_bytes == sum(first.memory_bytes for first in kept)
    assert {turn.listed.first for turn in selector._turns.values()} <= set(kept)


def test_a_list_larger_than_all_that_is_kept_is_selected_from(monkeypatch, selector):
    monkeypatch.setattr(tool_selector, "MOST_BYTES", 10)
    tools = own_tools()
    turn = selector.turn(tools, REFUND, conversation="c")
    again = selector.turn(tools, [*REFUND, calls("create_refund")], conversation="c")
    assert again.tools == turn.tools and "create_refund" in again.names
    assert not selector._turns and not selector._lists


def test_a_turn_goes_on_with_new_objects_after_many_lists_of_others(monkeypatch, selector, reports):
    monkeypatch.setattr(tool_selector, "MOST_LISTS", 2)
    first = selector.turn(own_tools(), REFUND, run="one")
    for n in range(6):
        selector.turn(own_tools(), REFUND, run=n)
    assert selector.turn(own_tools(), [*REFUND, calls("create_refund")], run="one") is first
    assert len(set(reports.selected)) == 7


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_reader_of_tools_may_return_any_sequence_and_none(kind):
    def read(tool):
        return None if tool == "hosted" else kind((tool, TEXTS[tool], SCHEMA))

    selector = ToolSelector(max_tools=2, read_tool=read)
    turn = selector.turn(["hosted", *TEXTS], [user("Play a song")], conversation="c")
    assert turn.tools[0] == "hosted" and "play_song" in turn.tools and len(turn.tools) <= 3


def test_a_tool_that_cannot_be_read_keeps_its_name_among_others(selector):
    class Broken(OwnTool):
        @property
        def params_json_schema(self):
            raise RuntimeError("no schema")

        @params_json_schema.setter
        def params_json_schema(self, schema):
            pass

    tools = [*own_tools(), Broken("close_account", "Closes the account of a customer.")]
    turn = selector.turn(tools, [user("Close the account of this customer")])
    assert tools[-1] in turn.tools and turn.refusal("close_account") is None


def test_an_adapter_may_read_tools_and_messages_itself(reports):
    selector = ToolSelector(
        max_tools=1,
        read_tool=lambda tool: None if tool == 0 else (f"tool_{tool}", TEXTS.get(f"do_thing_{tool}"), None),
        read_messages=lambda messages: [
            ReadMessage("user", "the thing number 7"),
            ReadMessage("assistant", "", (MadeCall("1", "tool_3"),)),
        ],
    )
    turn = selector.turn(range(10), ["whatever"], context=Context(user="ann"))
    assert 0 in turn.tools and len(turn.tools) == 2


def test_the_page_runs():
    page = run_page("your-own")
    hooks = (page["before_the_model"], page["around_a_call"], page["after_the_answer"])
    before_the_model, around_a_call, after_the_answer = hooks
    sent = [tool.name for tool in before_the_model("c", REFUND, own_tools())]
    assert sent[0] == "create_refund" and len(sent) <= 12
    assert around_a_call("c", "create_refund", lambda: "done", own_tools()) == "done"
    hidden = next(name for name in TEXTS if name not in sent)
    assert "was not offered" in around_a_call("c", hidden, lambda: "done", own_tools())
    after_the_answer("c", own_tools())


def test_the_page_goes_on_with_a_turn_that_another_process_has_begun(selector, reports):
    elsewhere = run_page("your-own")
    elsewhere["selector"] = ToolSelector(selector.roll)
    ToolSelector(selector.roll).turn(own_tools(), REFUND, conversation="c")
    assert elsewhere["around_a_call"]("c", "create_refund", lambda: "done", own_tools()) == "done"
    elsewhere["after_the_answer"]("c", own_tools())
    assert reports.reported[0][1] == {"create_refund": "succeeded"}
    assert reports.reported[-1][-1]


def test_annotated_functions_are_selected_from(reports):
    def create_refund(order: str, amount: float) -> str:
        """Give a customer the money of an order back."""

    def odd(thing: NoSuchType) -> str:  # noqa: F821
        """Something whose parameters cannot be read."""

    others = [_function(number) for number in range(30)]
    roll = Toolroll.from_tools([], observers=[reports])
    turn = ToolSelector(roll, max_tools=5).turn([create_refund, odd, *others], REFUND)
    assert create_refund in turn.tools and len(turn.tools) <= 5
    hidden = next(one for one in others if one not in turn.tools)
    assert turn.refusal(hidden.__name__) and turn.refusal("create_refund") is None
    assert turn.report("create_refund", True)


def _function(number):
    def paint(colour: str) -> None:
        """Paint the fence."""

    paint.__name__ = f"paint_{number}"
    return paint
