"""That learning from use is measured on what it did not learn from."""

from __future__ import annotations

import json

from toolroll import Tool
from toolroll.evaluation.growth import given, grow
from toolroll.evaluation.labelled import Labelled, read_messages

TOOLS = [Tool("ledger", "Posts an entry"), Tool("forecast", "Weather for a place")]
TOOLS += [Tool(f"other_{n}", f"Does thing number {n} to entries") for n in range(12)]
PLACES = ("Oslo", "Bergen", "Rome", "Paris", "Lima", "Quito", "Delhi", "Kyoto")
MESSAGES = [
    *(Labelled(f"post an entry, my dinner in {place} as expenses", ("ledger",), "train") for place in PLACES),
    *(Labelled(f"my dinner in {place} goes on expenses", ("ledger",), "test") for place in PLACES),
]


def test_recall_grows_with_the_messages_that_were_answered():
    start, end = grow(TOOLS, MESSAGES, k=1, every=2, parts=(0, 1))
    assert (start.streamed, start.examples, start.taught) == (0, 0, 0)
    assert (end.streamed, end.examples, end.taught) == (8, 8, 1 / 14)
    assert start.recall < 0.5 and end.recall == 1


def test_what_selection_misses_is_never_learnt():
    unseen = [Labelled("qwertz uiop asdf", ("other_3",), "train"), MESSAGES[-1]]
    (end,) = grow(TOOLS, unseen, k=1, parts=(1,))
    assert end.examples == 0


def test_messages_of_the_test_split_are_never_learnt():
    (end,) = grow(TOOLS, [message for message in MESSAGES if message.split == "test"], parts=(1,))
    assert end.examples == 0


def test_a_wrong_report_teaches_a_tool_that_was_selected_and_is_not_right():
    (end,) = grow(TOOLS, MESSAGES, k=5, parts=(1,), mistakes=1.0)
    assert end.recall < next(iter(grow(TOOLS, MESSAGES, k=5, parts=(1,)))).recall or end.examples > 0


def test_the_bound_to_compare_with_is_every_train_message_from_the_start():
    assert given(TOOLS, MESSAGES, 8, k=1) == 1
    assert given(TOOLS, MESSAGES, 0, k=1) < 0.5


def test_a_folder_gives_the_messages_that_some_tool_answers(tmp_path):
    lines = [
        {"id": "1", "text": "a", "gold": ["x"], "split": "train", "context": {"alt": {"x": ["y"]}}},
        {"id": "2", "text": "b", "gold": [], "split": "test"},
        {"id": "3", "text": "c", "gold": ["x", "z"]},
    ]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    first, second = read_messages(tmp_path)
    assert (first.text, first.split, first.recall(["y"])) == ("a", "train", 1)
    assert (second.split, second.recall(["z"])) == ("test", 0.5)
