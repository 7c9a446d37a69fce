"""What is read of a turn: the message, its clauses, and what was said before."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slow_message_text import LEAST_WORDS, LONGEST_CLAUSED, MOST_CLAUSES, TERMS
from tests.table import each_row
from toolroll._core import clauses_of
from toolroll.catalog.message_text import LONGEST, LONGEST_EARLIER, Reader
from toolroll.model.errors import InvalidInput

READER = Reader(None, clauses=True)
SHORT = "yes"


def earlier(history, message=SHORT):
    return tuple((text, weight) for text, _, _, weight in READER.read(message, history).earlier)


def said(history, message=SHORT):
    return [text for text, _ in earlier(history, message)]


@each_row(
    ("message", "pieces"),
    [
        ("Check the weather and book a table", ("Check the weather", "book a table")),
        ("book me a table, then tell Ann about it", ("book me a table", "tell Ann about it")),
        ("Lights off please! Lock the front door.", ("Lights off please!", "Lock the front door.")),
        ("add the milk\nturn on heating\n\nplay some jazz", ("add the milk", "turn on heating", "play some jazz")),
        ("내일 서울 날씨 알려줘. 그리고 7시에 알람 맞춰줘", ("내일 서울 날씨 알려줘.", "그리고 7시에 알람 맞춰줘")),
        ("帮我查明天北京的天气，然后订一张去上海的火车票。", ("帮我查明天北京的天气", "然后订一张去上海的火车票。")),
        ("明日の天気を教えて。アラームを設定して", ("明日の天気を教えて。", "アラームを設定して")),
    ],
)  # fmt: skip
def test_a_message_that_asks_for_several_things_falls_into_clauses(message, pieces):
    assert clauses_of(message) == pieces


@each_row(
    "message",
    ["", "rain", "will it rain in Oslo tomorrow", "what is 3.5 % of 1,000 euros",
     "yes, at 8", "bread, butter, milk", "苹果、香蕉、橙子", "네, 그래요. 좋아요", "Andrea's sandals and hats"],
)  # fmt: skip
def test_a_message_that_asks_for_one_thing_has_no_clauses_of(message):
    assert clauses_of(message) == ()


def test_a_document_has_no_clauses():
    sentence = "This is the first sentence. This is the second one. "
    assert clauses_of(sentence)
    assert clauses_of(sentence * (LONGEST_CLAUSED // len(sentence) + 1)) == ()


def test_of_many_clauses_the_first_four_are_read():
    pieces = clauses_of(". ".join(f"please do the thing number {i}" for i in range(9)))
    assert len(pieces) == MOST_CLAUSES
    assert pieces[0].endswith("0.") and pieces[-1].endswith("3.")


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["go", ",", ".", " ", "\n", "and", "天气", "、"])).map("".join)
)
def test_clauses_are_pieces_of_their_message_in_its_order(message):
    found, at = clauses_of(message), 0
    assert len(found) != 1
    for piece in found:
        at = message.index(piece, at) + len(piece)


@pytest.mark.timeout(5)
@each_row("piece", [" ", "\t", "\n", ", ", " ,", ".\n ", "and ", " and", " as well", "、", "。", "a b "])
def test_no_message_takes_long_to_split(piece):
    """A thousand times: a pattern that is quadratic in a run of spaces takes 80 s, this one 0.1."""
    message = (piece * LONGEST_CLAUSED)[:LONGEST_CLAUSED]
    for _ in range(1_000):
        clauses_of(message)


@pytest.mark.timeout(5)
def test_a_megabyte_is_read_as_its_beginning_and_its_end():
    message = f"first {'x' * 1_000_000} last"
    text = READER.read(message, [message] * 50).text
    assert text.startswith("first") and text.endswith("last")
    assert len(text) <= LONGEST + 1


def test_clauses_are_read_where_the_profile_asks_for_them_only():
    message = "check the weather and book a table"
    assert len(READER.read(message, ()).clauses) == 2
    assert Reader(None, clauses=False).read(message, ()).clauses == ()


def test_lone_surrogates_are_read_as_question_marks_everywhere():
    assert READER.read("rain \ud800").text == "rain ?"
    assert said([{"role": "user", "content": "rain \ud800"}]) == ["rain ?"]


def test_the_users_last_two_turns_and_the_assistants_answer_are_read():
    history = [
        {"role": "user", "content": "play some jazz"},
        {"role": "assistant", "content": "Here you are."},
        {"role": "user", "content": "book a table"},
        {"role": "assistant", "content": "For how many?"},
        {"role": "user", "content": "for four"},
        {"role": "assistant", "content": "When?"},
    ]
    assert said(history) == ["for four", "book a table", "When?"]


def test_an_answer_before_the_users_last_turn_is_not_read():
    history = [{"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "book a table"}]
    assert said(history) == ["book a table"]


@each_row(
    "content",
    [
        "book a table",
        [{"type": "text", "text": "book a table"}],
        ({"type": "input_text", "text": "book a table"},),
        [
            {"type": "image_url", "image_url": {"url": "data:…"}},
            {"type": "text", "text": "book a table"},
            {"type": "tool_result", "tool_use_id": "1", "content": "rain"},
            "no block",
        ],
    ],
)
def test_content_may_be_text_or_blocks_of_either_provider(content):
    assert said([{"role": "user", "content": content}]) == ["book a table"]


def test_a_plain_str_is_what_the_user_said():
    assert earlier(["book a table"]) == earlier([{"role": "user", "content": "book a table"}])


@each_row(
    "message",
    [
        {"role": "system", "content": "You are helpful"},
        {"role": "developer", "content": "Be brief"},
        {"role": "tool", "tool_call_id": "1", "content": "12 degrees"},
        {"role": "user", "content": [{"type": "tool_result", "content": "12 degrees"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "forecast", "input": {}}]},
        {"role": "user"},
        {"role": "user", "content": " \n"},
        {"role": "user", "content": 7},
        {"role": "user", "content": [{"type": "text", "text": 7}, 7]},
    ],
)
def test_what_neither_user_nor_assistant_wrote_is_passed_over(message):
    assert earlier([message]) == ()
    assert said(["book a table", message]) == ["book a table"]


def test_what_was_said_counts_the_less_the_more_the_message_says_itself():
    history = ["play some jazz", "book a table", {"role": "assistant", "content": "When?"}]
    weights = []
    for terms in range(1, 12):
        found = earlier(history, " ".join(f"w{i}" for i in range(terms)))
        weights.append([weight for _, weight in found])
    assert weights[0] == [1.0, 0.5, 1.0]
    assert weights[3] == pytest.approx([math.exp(-3 / TERMS) * full for full in weights[0]])
    firsts = [found[0] if found else 0.0 for found in weights]
    assert firsts == sorted(firsts, reverse=True)
    assert weights[-1] == []


def test_words_said_twice_are_one_term():
    assert earlier(["book a table"], "no no no no no") == earlier(["book a table"], "no")


def test_of_a_long_turn_the_users_beginning_and_the_assistants_end_are_read():
    words = " ".join(f"word{i}" for i in range(10_000))
    user, assistant = said([words, {"role": "assistant", "content": words}])
    assert user == words[:LONGEST_EARLIER]
    assert assistant == words[-LONGEST_EARLIER:]


@pytest.mark.timeout(5)
def test_hostile_histories_are_read_in_bounded_time_and_size():
    block = {"type": "text", "text": "é" * 100_000}
    history = (
        [{"role": "user", "content": [block] * 20}] * 20
        + ["ü"] * 100_000
        + [{"role": "user", "content": ["x"] * 100_000}]
    )
    assert said(history) == ["ü", "ü"]


@each_row(
    ("history", "what"),
    [
        ("book a table", r"history: is 'book a table', must be a sequence"),
        (b"book", r"history: is b'book'"),
        ({"role": "user", "content": "x"}, r"history: is \{'role'"),
        (7, r"history: is 7"),
        (iter(["x"]), r"history: is <list_iterator"),
        ([None], r"history\[0\]: is None, must be a str or a message with role and content"),
        (["x", 7], r"history\[1\]: is 7"),
        (["x", {"content": "y"}], r"history\[1\]: is \{'content'"),
        ([{"role": 7, "content": "y"}], r"history\[0\]: is \{'role': 7"),
        ([b"x"], r"history\[0\]: is b'x'"),
    ],
)
def test_what_is_no_history_is_refused_by_its_place(history, what):
    with pytest.raises(InvalidInput, match=what):
        READER.read(SHORT, history)


def test_a_wrong_history_is_refused_even_where_it_would_not_count():
    with pytest.raises(InvalidInput, match=r"history\[0\]"):
        READER.read(" ".join(f"w{i}" for i in range(50)), [None])


def test_a_clause_has_words():
    assert LEAST_WORDS == 3
    assert clauses_of("go on. and then. play some jazz music") == ()
