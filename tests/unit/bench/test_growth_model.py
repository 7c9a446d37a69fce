"""That learning from use is measured on what it did not learn from."""

from __future__ import annotations

from dataclasses import replace

from bench.quality.growth_model import given, grow

from toolroll import Tool
from toolroll.evaluation.dataset import Query

TOOLS = [Tool("ledger", "Posts an entry"), Tool("forecast", "Weather for a place")]
TOOLS += [Tool(f"other_{n}", f"Does thing number {n} to entries") for n in range(12)]
PLACES = ("Oslo", "Bergen", "Rome", "Paris", "Lima", "Quito", "Delhi", "Kyoto")


def query(text: str, *gold: str, split: str = "test") -> Query:
    return Query(text, text, gold, split)


MESSAGES = [
    *(query(f"post an entry, my dinner in {place} as expenses", "ledger", split="train") for place in PLACES),
    *(query(f"my dinner in {place} goes on expenses", "ledger") for place in PLACES),
]


def test_recall_grows_with_the_messages_that_were_answered():
    start, end = grow(TOOLS, MESSAGES, k=1, every=2, parts=(0, 1))
    assert (start.streamed, start.examples, start.taught) == (0, 0, 0)
    assert (end.streamed, end.examples, end.taught) == (8, 8, 1 / 14)
    assert start.recall < 0.5 and end.recall == 1


def test_what_selection_misses_is_never_learnt():
    unseen = [query("qwertz uiop asdf", "other_3", split="train"), MESSAGES[-1]]
    (end,) = grow(TOOLS, unseen, k=1, parts=(1,))
    assert end.examples == 0


def test_messages_of_the_test_split_are_never_learnt():
    (end,) = grow(TOOLS, [message for message in MESSAGES if message.split == "test"], parts=(1,))
    assert end.examples == 0


def test_a_wrong_report_teaches_tools_that_were_selected_and_are_not_right():
    start, right = grow(TOOLS, MESSAGES, k=3, every=2, parts=(0, 1))
    _, wrong = grow(TOOLS, MESSAGES, k=3, every=2, parts=(0, 1), mistakes=1.0)
    assert (start.recall, right.recall) == (1, 1)
    assert wrong.examples == 8 and wrong.recall == 0  # others were taught, and took its places


def test_the_bound_to_compare_with_is_every_train_message_from_the_start():
    assert given(TOOLS, MESSAGES, 8, k=1) == 1
    assert given(TOOLS, MESSAGES, 0, k=1) < 0.5


def test_a_message_that_no_tool_serves_is_neither_learnt_nor_asked():
    nobodys = [query("post an entry, please", split="train"), query("who wrote Hamlet")]
    assert list(grow(TOOLS, [*MESSAGES, *nobodys], k=1)) == list(grow(TOOLS, MESSAGES, k=1))
    assert given(TOOLS, [*MESSAGES, *nobodys], 8, k=1) == 1


def test_a_tool_that_is_just_as_right_learns_and_counts():
    alternatives = {"other_3": ("ledger",)}
    messages = [replace(message, gold=("other_3",), alternatives=alternatives) for message in MESSAGES]
    _, end = grow(TOOLS, messages, k=1, every=2, parts=(0, 1))
    assert (end.examples, end.recall) == (8, 1)
