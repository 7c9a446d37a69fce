"""Reading labelled messages, and keeping what is asked from what is learnt."""

from __future__ import annotations

import json

import pytest

from tests.table import each_row
from tests.unit.lab.worlds import QUERIES, TOOLS, query, write
from toolroll.lab.evaluation.dataset import Query, divide, read_dataset, sample, with_examples
from toolroll.model.errors import InvalidDefinition, InvalidInput, NotFound


def test_a_folder_is_read_with_what_its_context_says(tmp_path):
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": None}]
    line = query(
        "x", "and now?", ["forecast"], alt={"forecast": ["read_mail"]}, candidates=["forecast"], history=said
    )
    dataset = read_dataset(write(tmp_path / "mine", queries=[line, {"id": "y", "text": "", "gold": []}]))
    first, second = dataset.queries
    assert dataset.name == "mine"
    assert first.alternatives == {"forecast": ("read_mail",)}
    assert first.candidates == ("forecast",)
    assert first.history == tuple(said)
    assert second == Query("y", "", (), "test")
    assert {tool.toolkit for tool in dataset.definitions.tools} == {"weather", "mail", "music"}


def test_toolkit_files_may_stand_in_place_of_tools_jsonl(tmp_path):
    (tmp_path / "weather.json").write_text(
        json.dumps({"name": "weather", "tasks": [{"function": {"name": "forecast"}}]})
    )
    (tmp_path / "queries.jsonl").write_text(json.dumps(query("x", "rain", ["forecast"])))
    assert [tool.name for tool in read_dataset(tmp_path).definitions.tools] == ["forecast"]


def test_names_of_queries_are_those_of_the_tools_without_spaces_at_their_ends(tmp_path):
    line = query(
        "x", "rain", ["forecast "], alt={"forecast ": [" other"]}, candidates=["forecast ", " other"]
    )
    tools = [{"name": "forecast "}, {"name": " other"}]
    dataset = read_dataset(write(tmp_path, tools=tools, queries=[line]))
    (only,) = dataset.queries
    assert (only.gold, only.candidates) == (("forecast",), ("forecast", "other"))
    assert only.alternatives == {"forecast": ("other",)}
    assert dataset.spellings == {"forecast": "forecast ", "other": " other"}


def test_queries_may_name_a_tool_that_was_left_out(tmp_path):
    folder = write(
        tmp_path, tools=[{"name": "a", "status": 1}, {"name": "b"}], queries=[query("x", "y", ["a"])]
    )
    with pytest.raises(InvalidDefinition, match="status is 1"):
        read_dataset(folder)
    assert read_dataset(folder, "skip").queries[0].gold == ("a",)


@each_row(
    ("line", "what"),
    [
        ("{", "is not JSON"),
        ("[]", "must be an object"),
        ('{"text": "x", "gold": []}', "id is missing"),
        ('{"id": "n", "gold": []}', "text is missing"),
        ('{"id": "n", "text": "x"}', "gold is missing"),
        ('{"id": 7, "text": "x", "gold": []}', "id is 7"),
        ('{"id": "", "text": "x", "gold": []}', "id is ''"),
        ('{"id": "n", "text": null, "gold": []}', "text is None"),
        ('{"id": "n", "text": "x", "gold": "forecast"}', "gold is 'forecast', must be a list of names"),
        ('{"id": "n", "text": "x", "gold": [1]}', "must be a list of names"),
        ('{"id": "n", "text": "x", "gold": ["forcast"]}', "'forcast', which is no tool"),
        ('{"id": "n", "text": "x", "gold": ["forecast", "forecast"]}', "a tool twice"),
        ('{"id": "a", "text": "x", "gold": []}', "id 'a' is there twice, first in line 1"),
        ('{"id": "n", "text": "x", "gold": [], "split": 3}', "split is 3"),
        ('{"id": "n", "text": "x", "gold": [], "context": []}', "context is"),
        ('{"id": "n", "text": "x", "gold": [], "context": {"alt": []}}', "context.alt is"),
        ('{"id": "n", "text": "x", "gold": [], "context": {"alt": {"a": "b"}}}', "alt is 'b'"),
        ('{"id": "n", "text": "x", "gold": [], "context": {"candidates": []}}', "candidates is empty"),
        ('{"id": "n", "text": "x", "gold": [], "context": {"candidates": "a"}}', "candidates is 'a'"),
        ('{"id": "n", "text": "x", "gold": [], "context": {"history": "hi"}}', "history holds"),
        ('{"id": "n", "text": "x", "gold": [], "context": {"history": ["hi"]}}', "history holds 'hi'"),
    ],
)
def test_a_malformed_query_is_named_with_file_and_line(tmp_path, line, what):
    with pytest.raises(InvalidDefinition) as wrong:
        read_dataset(write(tmp_path, queries=[QUERIES[0], "", line]))
    assert "queries.jsonl:3" in str(wrong.value)
    assert what in str(wrong.value)


def test_what_is_wrong_with_the_tools_is_named_with_file_and_line(tmp_path):
    with pytest.raises(InvalidDefinition, match=r"tools\.jsonl:2"):
        read_dataset(write(tmp_path / "a", tools=[TOOLS[0], TOOLS[0]]))
    with pytest.raises(InvalidDefinition, match=r"tools\.jsonl:1"):
        read_dataset(write(tmp_path / "b", tools=['{"name": 7}']))
    with pytest.raises(InvalidDefinition, match="holds no tools"):
        read_dataset(write(tmp_path / "c", tools=[], queries=[]))


def test_a_folder_that_is_none_is_said(tmp_path):
    with pytest.raises(NotFound, match="no such folder"):
        read_dataset(tmp_path / "nowhere")
    with pytest.raises(NotFound, match=r"has no queries\.jsonl"):
        read_dataset(tmp_path)


def queries() -> list[Query]:
    return [Query(str(at), f"text {at}", ("a",), "train" if at % 3 else "test") for at in range(12)]


@each_row("split", ["test", "train", "all"])
@each_row("examples", ["train", "given", "none"])
def test_no_query_is_both_asked_and_an_example(split, examples):
    if (split, examples) == ("all", "train"):
        with pytest.raises(InvalidInput, match="cannot be an example"):
            divide(queries(), split, examples)
        return
    asked, teachers = divide(queries(), split, examples)
    assert asked
    assert not set(asked) & set(teachers)
    assert {query.split for query in teachers} <= {"train"}
    assert bool(teachers) == (examples == "train")


def test_a_divided_train_split_keeps_dialogs_together_and_loses_nothing():
    train = [Query(str(at), "x", ("a",), "train", context={"dialog": f"d{at // 3}"}) for at in range(12)]
    asked, teachers = divide(train, "train", "train")
    assert {query.context["dialog"] for query in teachers} == {"d0", "d2"}
    assert {query.context["dialog"] for query in asked} == {"d1", "d3"}
    assert len(asked) + len(teachers) == len(train)


def test_a_sample_is_the_same_twice_in_order_and_holds_the_smaller_one():
    all_ = queries()
    large, small = sample(all_, 8, 1), sample(all_, 3, 1)
    assert large == sample(all_, 8, 1) != sample(all_, 8, 2)
    assert set(small) <= set(large)
    assert list(large) == sorted(large, key=all_.index)
    assert sample(all_, None, 1) == sample(all_, 99, 1) == tuple(all_)


def test_a_text_is_an_example_of_each_of_its_gold_tools_behind_their_own(tmp_path):
    dataset = read_dataset(write(tmp_path))
    _, teachers = divide(dataset.queries, "test", "train")

    def of(**how) -> dict[str, tuple[str, ...]]:
        return {
            tool.name: tool.examples for tool in with_examples(dataset.definitions, teachers, **how).tools
        }

    assert of() == {
        "forecast": ("do I need an umbrella",),
        "send_mail": ("write to Bob", "read my post and answer it"),
        "read_mail": ("read my post and answer it",),
        "play_song": ("put on some jazz",),
    }
    assert of(keep=False)["send_mail"] == ("read my post and answer it",)
    assert of(most=1)["send_mail"] == ("write to Bob",)
