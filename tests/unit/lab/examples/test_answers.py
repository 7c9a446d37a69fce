"""A model's answers: read from any reply, and kept in a file."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.lab.examples.answers import LONGEST_READ, MOST_TEXTS, AnswerLog, ModelAnswer, read_reply
from toolroll.lab.examples.prompt import ToolRequest
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool

ONE = ToolRequest(Tool("one", "First.", examples=("x",)), 12, 4)
TWO = ToolRequest(Tool("two", "Second."), 12, 4)
ANSWER = ModelAnswer(("hello \ud800 \x1b 날씨\n",), ("no",))


def log(path: Path, **asked: object) -> AnswerLog:
    return AnswerLog(path, **{"model": "m", "language": "English", "seed": 0, **asked})  # type: ignore[arg-type]


def test_an_answer_is_found_again_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "answers.jsonl"
    log(path).add(ONE, ANSWER)
    log(path).add(TWO, ModelAnswer(("b",)))
    again = log(path)
    assert again.get(ONE) == ANSWER and again.get(TWO) == ModelAnswer(("b",))
    assert path.stat().st_mode & 0o077 == 0


def test_an_answer_to_something_else_is_none(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    log(path).add(ONE, ANSWER)
    for asked in ({"model": "n"}, {"language": "Korean"}, {"seed": 1}):
        assert log(path, **asked).get(ONE) is None
    assert log(path).get(replace(ONE, tool=replace(ONE.tool, description="Other."))) is None
    assert log(path).get(replace(ONE, messages=13)) is None


def test_fewer_messages_and_other_examples_ask_for_nothing_new(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    log(path).add(ONE, ANSWER)
    assert log(path).get(replace(ONE, messages=3, tool=replace(ONE.tool, examples=("x", "y")))) == ANSWER


def test_a_torn_line_is_missing_and_damages_no_other(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    log(path).add(ONE, ANSWER)
    whole = path.read_bytes()
    for end in (*range(0, len(whole) - 1, 23), len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        torn = log(path)
        found = torn.get(ONE)
        assert found == (ANSWER if end == len(whole) - 1 else None)
        torn.add(TWO, ANSWER)
        assert log(path).get(TWO) == ANSWER


@each_row("line", ["null", "[]", '{"key": 1}', "\xff", '{"key": "a", "asked": "x", "messages": ["a"]}'])
def test_lines_that_are_no_answer_are_ignored(tmp_path: Path, line: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(line.encode("latin-1") + b"\n")
    assert log(path).get(ONE) is None


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="answers.jsonl"):
        log(tmp_path / "file" / "answers.jsonl").add(ONE, ANSWER)


NAMES = {"a", "b"}


def reply(*tools: Any) -> str:
    return json.dumps({"tools": list(tools)})


def test_messages_and_near_misses_of_the_asked_tools_are_read() -> None:
    text = reply(
        {"name": "a", "messages": ["one", "two"], "near_misses": ["three"]}, {"name": "b", "messages": ["x"]}
    )
    assert read_reply(text, NAMES) == {"a": ModelAnswer(("one", "two"), ("three",)), "b": ModelAnswer(("x",))}


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
        assert read_reply(text, NAMES) == {"a": ModelAnswer(("x",))}, text


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
