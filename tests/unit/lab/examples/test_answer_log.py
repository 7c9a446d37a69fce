"""Answers that were paid for are on disk, and found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.table import each_row
from toolroll.lab.examples.answer_log import AnswerLog
from toolroll.lab.examples.prompt import Wanted
from toolroll.lab.examples.reply import Answer
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool

ONE = Wanted(Tool("one", "First.", examples=("x",)), 12, 4)
TWO = Wanted(Tool("two", "Second."), 12, 4)
ANSWER = Answer(("hello \ud800 \x1b 날씨\n",), ("no",))


def log(path: Path, **asked: object) -> AnswerLog:
    return AnswerLog(path, **{"model": "m", "language": "English", "seed": 0, **asked})  # type: ignore[arg-type]


def test_an_answer_is_found_again_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "answers.jsonl"
    log(path).add(ONE, ANSWER)
    log(path).add(TWO, Answer(("b",)))
    again = log(path)
    assert again.get(ONE) == ANSWER and again.get(TWO) == Answer(("b",))
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
