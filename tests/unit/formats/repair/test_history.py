from __future__ import annotations

import copy
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.repair.histories import FORMS, broken, faults, valid
from toolroll.formats.providers.history_form import EARLIER, MISSING
from toolroll.formats.repair.history import repair_history
from toolroll.formats.repair.trimming import truncate_results, window
from toolroll.model.errors import InvalidInput, ToolrollError


def user(content="hi"):
    return {"role": "user", "content": content}


def says(content="done"):
    return {"role": "assistant", "content": content}


def calling(*ids):
    function = {"name": "f", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": one, "type": "function", "function": function} for one in ids],
    }


def result(call_id, content="ok"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def using(*ids):
    return says([{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids])


def block(call_id, content="ok"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def text(words):
    return {"type": "text", "text": words}


def whats(history):
    return [change.what for change in history.changes]


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=100)
def test_a_history_in_order_is_not_changed(form, data):
    messages = data.draw(valid(form))
    assert faults(messages, form) == []
    repaired = repair_history(messages, form)
    assert repaired.messages == messages and repaired.changes == ()


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=300)
def test_whatever_was_broken_the_provider_takes_the_repaired_list_and_a_second_repair_changes_nothing(
    form, data
):
    messages = data.draw(broken(form))
    before = copy.deepcopy(messages)
    repaired = repair_history(messages, form)
    assert faults(repaired.messages, form) == []
    assert bool(repaired.changes) == (repaired.messages != before)
    again = repair_history(repaired.messages, form)
    assert again.messages == repaired.messages and again.changes == ()
    assert messages == before


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=100)
def test_what_was_said_and_the_results_of_calls_that_are_there_are_kept(form, data):
    messages = data.draw(broken(form))
    kept = str(repair_history(messages, form).messages)
    for message in messages:
        if isinstance(message.get("content"), str) and message["role"] in ("user", "assistant"):
            assert message["content"] in kept
        assert all(part["text"] in kept for part in message.get("parts", ()) if part.get("text", "").strip())


def test_a_result_without_a_call_and_a_second_result_are_removed():
    messages = [result("x"), user(), calling("a"), result("a"), result("a", "again"), says()]
    repaired = repair_history(messages)
    assert repaired.messages == [user(), calling("a"), result("a"), says()]
    assert [(change.index, change.what, change.call_id) for change in repaired.changes] == [
        (0, "result removed", "x"),
        (4, "result removed", "a"),
    ]


def test_a_call_without_a_result_gets_one_that_says_so():
    assert repair_history([user(), calling("a", "b"), result("b"), says()]).messages == [
        user(), calling("a", "b"), result("b"), result("a", MISSING), says(),
    ]  # fmt: skip
    repaired = repair_history([user(), using("a"), user("never mind")])
    assert repaired.messages[2]["content"] == [{**block("a", MISSING), "is_error": True}, text("never mind")]


def test_a_result_that_stands_elsewhere_moves_behind_its_call():
    repaired = repair_history([user(), calling("a"), user("wait"), result("a"), says()])
    assert repaired.messages == [user(), calling("a"), result("a"), user("wait"), says()]
    assert whats(repaired) == ["result moved"]
    early = repair_history([user(), result("a"), calling("a"), says()])
    assert early.messages == [user(), calling("a"), result("a"), says()]
    blocks = repair_history([user(), using("a"), user([text("here"), block("a")])])
    assert blocks.messages[2]["content"] == [block("a"), text("here")]


def test_an_id_that_comes_again_in_a_later_turn_is_another_call():
    messages = [user(), calling("a"), result("a", "1"), calling("a"), result("a", "2")]
    assert repair_history(messages).messages == messages
    lost = repair_history([user(), calling("a"), user(), calling("a"), result("a", "2")])
    assert lost.messages == [
        user(),
        calling("a"),
        result("a", MISSING),
        user(),
        calling("a"),
        result("a", "2"),
    ]


def test_neighbours_of_one_role_are_merged_for_anthropic_only():
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    repaired = repair_history([user("a"), user([image]), says(), says("more")], "anthropic")
    assert repaired.messages == [user([text("a"), image]), says([text("done"), text("more")])]
    assert whats(repaired) == ["merged", "merged"]
    assert repair_history([user("a"), user("b")], "openai").changes == ()


def test_a_list_that_begins_with_the_assistant_begins_with_the_user_for_anthropic():
    assert repair_history([says(), user()], "anthropic").messages == [user(EARLIER), says(), user()]


@each_row("form", ["openai", "openai_responses", "anthropic"])
@each_row("nothing", ["", "  \n", None, [], [text("")]])
def test_messages_without_content_are_removed(form, nothing):
    repaired = repair_history([user(), says(nothing), user(nothing)], form)
    assert repaired.messages == [user()] and whats(repaired) == ["empty removed"] * 2


def test_what_has_something_else_to_say_is_not_empty():
    messages = [
        user(),
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "audio": {"id": "x"}},
    ]
    assert repair_history(messages, "openai").messages == messages


def test_calls_that_nothing_can_answer_are_removed():
    sound = calling("a")["tool_calls"][0]
    odd = [{**sound, "id": ""}, sound, {**sound, "id": 5}, "x", sound]
    repaired = repair_history([user(), {**calling(), "tool_calls": odd}, result("a")])
    assert repaired.messages == [user(), calling("a"), result("a")]
    assert repair_history([user(), {**calling(), "tool_calls": []}], "openai").messages == [user()]
    assert repair_history([user([block("a"), using("a")["content"][0], text("t")])]).messages == [
        user([text("t")])
    ]
    item = {"type": "function_call", "name": "f", "arguments": "{}"}
    assert whats(repair_history([item, {**item, "call_id": "a"}])) == ["call removed", "result added"]


def test_calls_that_the_provider_runs_itself_are_left_alone():
    own = says(
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        ]
    )
    assert repair_history([user(), own], "anthropic").changes == ()


def test_lists_of_two_forms_are_refused():
    with pytest.raises(InvalidInput, match=r"messages\[1\] is openai's, messages\[2\] is anthropic's"):
        repair_history([user(), calling("a"), using("b")])


@each_row("wrong", [5, None, "messages", {"role": "user"}, [user(), "hi"], [None]])
def test_what_is_no_list_of_messages_is_refused(wrong):
    for function in (repair_history, window, truncate_results):
        with pytest.raises(InvalidInput, match="must be"):
            function(wrong)
    with pytest.raises(InvalidInput, match="form is 'cohere'"):
        repair_history([], "cohere")


@each_row("first", [{"metadata": 1}, {"metadata": 1, "content": " "}, {"content": None, "x": 1}])
@each_row("second", [user(), user(""), user([text("t")]), {"role": "user", "metadata": 2}])
def test_a_message_without_text_is_merged_without_any(first, second):
    first = {"role": "user", **first}
    for messages in ([first, second], [second, first], [using("a"), first, user([block("a")])]):
        made = repair_history(messages, "anthropic").messages
        assert repair_history(made, "anthropic").changes == ()
        parts = [part for one in made if isinstance(one.get("content"), list) for part in one["content"]]
        assert all(part["text"].strip() for part in parts if part["type"] == "text")


def test_a_value_too_deep_to_be_shown_is_refused_all_the_same():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for function in (repair_history, window, truncate_results):
        with pytest.raises(InvalidInput, match="must be a message object"):
            function([deep])
    assert repair_history([user(), {"role": "assistant", "content": deep}]).changes == ()


# --- Responses: reasoning


def reasoning(item_id="rs_1"):
    return {"type": "reasoning", "id": item_id, "summary": []}


def item(call_id, item_id=None, kind="function_call"):
    found = {"type": kind, "call_id": call_id, "name": "f", "arguments": "{}"}
    return {**found, "id": item_id} if item_id else found


def output(call_id, content="ok"):
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def test_reasoning_stays_with_the_calls_behind_it():
    items = [user(), reasoning(), item("a", "fc_1"), item("b", "fc_2"), output("b"), says()]
    assert repair_history(items).messages == [*items[:4], output("a", MISSING), *items[4:]]
    for last in range(1, 6):
        seen = window(items, last)
        assert (reasoning() in seen) == (item("a", "fc_1") in seen) == (item("b", "fc_2") in seen)


def test_reasoning_whose_item_is_lost_is_removed_with_the_result_of_its_call():
    lost = repair_history([user(), reasoning(), output("a"), user("again"), says()])
    assert lost.messages == [user(), user("again"), says()]
    assert whats(lost) == ["reasoning removed", "result removed"]
    assert repair_history([user(), reasoning(), reasoning("rs_2")]).messages == [user()]
    dropped = repair_history([user(), reasoning(), item(""), user("again")])
    assert dropped.messages == [user(), user("again")]


def test_an_item_that_is_separated_from_its_reasoning_loses_its_id():
    torn = repair_history([user(), reasoning(), user("wait"), item("a", "fc_1"), output("a")])
    assert torn.messages == [user(), user("wait"), item("a"), output("a")]
    assert whats(torn) == ["reasoning removed", "id removed"]
    own = [user(), reasoning(), user("wait"), reasoning("rs_2"), item("a", "fc_1"), output("a")]
    assert repair_history(own).messages == [user(), user("wait"), *own[3:]]


def test_a_call_whose_output_can_be_no_text_is_removed_if_it_has_none():
    call = {"type": "computer_call", "call_id": "a", "id": "cu_1", "action": {"type": "screenshot"}}
    answer = {"type": "computer_call_output", "call_id": "a", "output": {"type": "computer_screenshot"}}
    whole = [user(), reasoning(), call, answer, says()]
    assert repair_history(whole).messages == whole
    assert repair_history([user(), reasoning(), call, says()]).messages == [user(), reasoning(), says()]
    assert repair_history([user(), answer, says()], "openai_responses").messages == [user(), says()]


def test_two_calls_of_one_id_in_a_row_are_one():
    made = repair_history([user(), item("a"), item("a"), output("a")])
    assert made.messages == [user(), item("a"), output("a")] and whats(made) == ["call removed"]


def test_items_of_tools_that_the_provider_runs_are_left_alone():
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    items = [user(), reasoning(), search, says(), {"type": "item_reference", "id": "msg_1"}]
    assert repair_history(items).changes == ()


# --- Gemini


def said(*parts):
    return {"role": "user", "parts": list(parts)}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def fn(name="f", **more):
    return {"functionCall": {"name": name, "args": {}, **more}}


def answered(name="f", content="ok", **more):
    return {"functionResponse": {"name": name, "response": {"output": content}, **more}}


HI = {"text": "hi"}


def missing(name="f", **more):
    return {"functionResponse": {**more, "name": name, "response": {"error": MISSING}}}


def test_a_gemini_call_without_a_response_gets_one_of_its_name_id_and_case():
    lost = repair_history([said(HI), model(fn(id="c1"), fn("g")), said(answered("g")), model(HI)])
    assert lost.messages[2] == said(missing(id="c1"), answered("g"))
    snake = [
        said(HI),
        model({"function_call": {"name": "f", "args": {}}, "thought_signature": "x"}),
        said(HI),
    ]
    made = repair_history(snake).messages
    assert made[1] is snake[1] and made[3] is snake[2]
    assert made[2] == said({"function_response": {"name": "f", "response": {"error": MISSING}}})


def test_gemini_calls_of_one_name_are_answered_in_their_order_or_by_their_ids():
    by_order = [said(HI), model(fn(), fn()), said(answered(content="1"), answered(content="2"))]
    assert repair_history(by_order).messages == by_order
    one = repair_history([said(HI), model(fn(id="a"), fn(id="b")), said(answered(id="b"))])
    assert one.messages[2] == said(missing(id="a"), answered(id="b"))


def test_gemini_responses_that_stand_elsewhere_move_behind_their_call():
    late = repair_history([said(HI), model(fn()), said(HI), said(answered()), model(HI)])
    assert late.messages == [said(HI), model(fn()), said(answered()), said(HI), model(HI)]
    assert whats(late) == ["result moved", "empty removed"]
    apart = repair_history([said(HI), model(fn(), fn("g")), said(answered("g")), said(answered("f"))])
    assert apart.messages == [said(HI), model(fn(), fn("g")), said(answered("f"), answered("g"))]


def test_gemini_responses_without_a_call_and_calls_that_nothing_can_answer_are_removed():
    made = repair_history([said(HI), said(answered()), model(HI, fn("")), said(fn(), HI)])
    assert made.messages == [said(HI), model(HI), said(HI)]


def test_ids_that_differ_in_the_message_behind_the_calls_do_not_matter_to_gemini():
    messages = [said(HI), model(fn(id="a")), said(answered(id="other")), model(HI)]
    assert repair_history(messages).changes == ()


def test_a_gemini_message_with_calls_follows_the_user():
    joined = repair_history([said(HI), model(HI), model(fn()), said(answered())])
    assert joined.messages == [said(HI), model(HI, fn()), said(answered())]
    assert repair_history([model(fn()), said(answered())]).messages[0] == said({"text": EARLIER})


@each_row("nothing", [None, [], [{"text": " "}], [{}]])
def test_gemini_messages_without_content_are_removed(nothing):
    made = repair_history([said(HI), {"role": "model", "parts": nothing}], "gemini")
    assert made.messages == [said(HI)] and whats(made) == ["empty removed"]


def test_old_gemini_responses_become_one_line():
    messages = [said(HI), model(fn()), said(answered(content="x" * 900)), model(HI)]
    line = "[f: truncated, was 900 chars]"
    assert truncate_results(messages, 0)[2] == said(answered(content=line))
    snake = {"function_response": {"name": "f", "response": {"rows": ["x" * 900]}, "id": "a"}}
    made = truncate_results([model({"function_call": {"name": "f"}}), said(snake)], 0)[1]["parts"][0]
    assert made["function_response"] == {
        "name": "f",
        "id": "a",
        "response": {"output": "[f: truncated, was 914 chars]"},
    }
    assert truncate_results(truncate_results(messages, 0), 0) == truncate_results(messages, 0)


# --- the window


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=100)
def test_a_window_of_a_history_in_order_needs_no_repair_but_the_users_first_message(form, data):
    messages = data.draw(valid(form))
    last = data.draw(st.integers(0, len(messages) + 1))
    seen = window(messages, last, form)
    assert [message for message in seen if message.get("role") == "system"] == [
        message for message in messages if message.get("role") == "system"
    ]
    others = [message for message in seen if message.get("role") != "system"]
    assert others == messages[len(messages) - len(others) :]
    assert set(faults(seen, form)) <= {"the user is not first"}
    if last and any(message.get("role") != "system" for message in messages):
        assert others


def test_a_window_does_not_begin_between_a_call_and_its_result():
    messages = [user("1"), calling("a", "b"), result("a"), result("b"), says("x")]
    assert window(messages, 2) == [says("x")]
    assert window(messages, 4) == messages[1:]
    assert window([{"role": "system", "content": "s"}, *messages], 1) == [
        {"role": "system", "content": "s"},
        says("x"),
    ]


def test_a_window_that_one_exchange_overflows_holds_the_whole_exchange():
    messages = [user("1"), calling("a", "b"), result("a"), result("b")]
    assert window(messages, 1) == messages[1:]


def test_the_window_is_fifty_messages():
    messages = [user(str(i)) for i in range(80)]
    assert window(messages) == messages[30:]
    assert window(messages[:50]) == messages[:50]


# --- old results


def test_results_of_all_but_the_last_two_exchanges_become_one_line():
    long = "x" * 5_000
    messages = [
        user(),
        calling("a", "b"),
        result("a", long),
        result("b", "short"),
        calling("c"),
        result("c", long),
        calling("d"),
        result("d", long),
    ]
    made = truncate_results(messages)
    assert made == [*messages[:2], result("a", "[f: truncated, was 5000 chars]"), *messages[3:]]
    assert truncate_results(made) == made
    assert messages[2]["content"] == long


def test_the_line_names_the_tool_in_every_form():
    line = "[f: truncated, was 900 chars]"
    blocks = truncate_results([user(), using("a"), user([block("a", [text("x" * 900)]), text("t")])], 0)
    assert blocks[2]["content"] == [block("a", line), text("t")]
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "x" * 900}
    assert truncate_results([call, output], 0)[1]["output"] == line
    assert (
        truncate_results([{**result("a", "x" * 900), "name": "g"}], 0)[0]["content"]
        == "[g: truncated, was 900 chars]"
    )
    assert truncate_results([result("a", "x" * 900)], 0)[0]["content"] == "[tool: truncated, was 900 chars]"


def test_calls_of_one_turn_are_one_exchange():
    calls = [{"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"} for one in "ab"]
    outputs = [{"type": "function_call_output", "call_id": one, "output": "x" * 900} for one in "ab"]
    assert truncate_results([*calls, *outputs], 1) == [*calls, *outputs]
    chat = [calling("a", "b"), result("a", "x" * 900), result("b", "x" * 900)]
    assert truncate_results(chat, 1) == chat


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=100)
def test_truncation_keeps_a_history_in_order_and_touches_results_only(form, data):
    messages = data.draw(valid(form))
    before = copy.deepcopy(messages)
    made = truncate_results(messages, data.draw(st.integers(0, 3)), form)
    assert faults(made, form) == [] and messages == before
    assert truncate_results(made, 0, form) == truncate_results(messages, 0, form)


@each_row("count", [-1, 1.5, None, True, "5"])
def test_counts_must_be_counts(count):
    with pytest.raises(InvalidInput, match="last is"):
        window([], count)
    with pytest.raises(InvalidInput, match="keep_last is"):
        truncate_results([], count)


# --- whatever comes

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "user", "assistant", "tool", "tool_use", "tool_result", "function_call", "function_call_output", "reasoning", "model", "text", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "id", "call_id", "type", "tool_use_id", "name", "function", "text", "output", "parts", "functionCall", "function_response", "response"]), inner, max_size=5),
    max_leaves=15,
)  # fmt: skip


@given(st.lists(junk, max_size=5) | junk, st.sampled_from([None, *FORMS]))
@settings(max_examples=150)
@example([{"type": []}], "openai_responses")
@example([{"role": {}, "content": [{"type": []}], "tool_calls": [{"id": [], "function": []}]}], "openai")
@example([{"role": "assistant", "content": [{"type": "tool_use", "id": {}}, {"type": []}, []]}], "anthropic")
def test_malformed_histories_never_crash_and_settle(messages, form):
    before = copy.deepcopy(messages)
    try:
        once = repair_history(messages, form).messages
        window(messages, 1, form), truncate_results(messages, 0, form)
        assert repair_history(once, form).messages == once
    except ToolrollError:
        pass
    assert messages == before


@pytest.mark.slow
@each_row(
    "messages",
    [
        [calling("a")] * 20_000,
        [result("a")] * 20_000,
        [user(), using(*map(str, range(20_000))), user([block(str(i)) for i in range(20_000)])],
        [user([block(str(i))]) for i in range(20_000)],
        [using("a")] * 20_000,
        [user()] * 20_000,
        [calling(*map(str, range(20_000)))],
        [said(HI), *[model(HI)] * 20_000, model(*[fn()] * 20_000), said(*[answered()] * 20_000)],
        [model(fn())] * 20_000,
        [said(answered())] * 20_000,
        [reasoning()] * 20_000,
        [item(str(i)) for i in range(20_000)],
        [reasoning(), user()] * 10_000,
    ],
)
def test_long_histories_take_time_in_proportion(messages):
    if "parts" in messages[0] or "role" not in messages[0]:
        form = "gemini" if "parts" in messages[0] else "openai_responses"
    else:
        form = "anthropic" if "tool_calls" not in messages[0] and messages[0]["role"] != "tool" else "openai"
    started = time.process_time()
    repair_history(messages, form), window(messages, 50, form), truncate_results(messages, 2, form)
    assert time.process_time() - started < 10
