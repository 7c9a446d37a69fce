"""A model's answer is read without belief."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.lab.examples.reply import LONGEST_READ, MOST_TEXTS, Answer, read_reply

NAMES = {"a", "b"}


def reply(*tools: Any) -> str:
    return json.dumps({"tools": list(tools)})


def test_messages_and_near_misses_of_the_asked_tools_are_read() -> None:
    text = reply(
        {"name": "a", "messages": ["one", "two"], "near_misses": ["three"]}, {"name": "b", "messages": ["x"]}
    )
    assert read_reply(text, NAMES) == {"a": Answer(("one", "two"), ("three",)), "b": Answer(("x",))}


def test_tools_that_were_not_asked_for_and_tools_without_a_message_are_no_answer() -> None:
    text = reply(
        {"name": "c", "messages": ["x"]}, {"name": "a", "messages": []}, {"name": "b", "messages": "x"}
    )
    assert read_reply(text, NAMES) == {}


def test_text_around_the_object_is_ignored() -> None:
    inside = reply({"name": "a", "messages": ["x"]})
    thought = reply({"name": "a", "messages": ["a thought"]})
    for text in (
        f"Sure!\n```json\n{inside}\n```",
        f"<think>{thought}</think>{inside}",
        f"{{no}} {{}} {inside} {thought}",
    ):
        assert read_reply(text, NAMES) == {"a": Answer(("x",))}, text


def test_an_answer_is_bounded() -> None:
    text = reply({"name": "a", "messages": ["y" * 10_000, *map(str, range(1_000))]})
    messages = read_reply(text, NAMES)["a"].messages
    assert len(messages) == MOST_TEXTS
    assert max(map(len, messages)) == LONGEST_READ


@each_row("text", ["{" * 1_000_000, '{"tools":' * 100_000, "[" * 1_000_000, '{"a":"' + "\\" * 500_000])
def test_a_reply_made_to_be_slow_is_read_in_time(text: str) -> None:
    start = time.process_time()
    assert read_reply(text, NAMES) == {}
    assert time.process_time() - start < 2


@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["tools", "name", "messages", "near_misses", "x"]), inner)
        ),
    ).map(json.dumps)
)
def test_any_text_is_read(text: str) -> None:
    for name, answer in read_reply(text, NAMES).items():
        assert name in NAMES
        assert answer.messages
