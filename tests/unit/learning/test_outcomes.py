"""What callers say of a turn is read strictly."""

from __future__ import annotations

import pytest

from tests.table import each_row
from toolroll.learning.outcomes import Entry, read_called, read_entries
from toolroll.model.errors import InvalidInput


def test_names_alone_succeeded():
    assert read_called(["a", "b"]) == (Entry("a", "succeeded"), Entry("b", "succeeded"))


def test_each_value_says_what_became_of_its_tool():
    read = read_called({"a": True, "b": False, "c": None}, {"d": True, "e": False, "f": None})
    assert [entry.kind for entry in read] == [
        "succeeded",
        "failed",
        "called",
        "wanted_succeeded",
        "wanted_failed",
        "wanted",
    ]


def test_success_can_be_said_for_each_call_and_the_last_known_result_counts():
    said = read_called([("a", False), ("a", True), ("b", True), ("b", False), ("c", True), ("c", None), "d"])
    assert {entry.name: entry.kind for entry in said} == {
        "a": "succeeded",
        "b": "failed",
        "c": "succeeded",
        "d": "succeeded",
    }
    with pytest.raises(InvalidInput, match="'a' is 1, must be True"):
        read_called([("a", 1)])


def test_a_mapping_in_place_of_the_flag_says_how_long_the_call_took():
    read = read_called(
        {"a": {"succeeded": True, "duration_ms": 84}, "b": {"succeeded": False}},
        wanted={"c": {"succeeded": None, "duration_ms": 0.5}},
    )
    assert read == (
        Entry("a", "succeeded", 84.0),
        Entry("b", "failed"),
        Entry("c", "wanted", 0.5),
    )


def test_the_duration_is_that_of_the_call_that_counts():
    calls = [
        ("a", {"succeeded": False, "duration_ms": 900.0}),
        ("a", {"succeeded": True, "duration_ms": 20.0}),
        ("a", {"succeeded": None, "duration_ms": 1.0}),
    ]
    assert read_called(calls) == (Entry("a", "succeeded", 20.0),)
    assert read_called({"a": calls[0][1]}, corrected=["a"]) == (Entry("a", "corrected", 900.0),)


@each_row("wrong", [-1, -1e-9, float("nan"), float("inf"), 86_400_001, True, "84", [84]])
def test_what_is_no_duration_is_refused_with_what_one_is(wrong):
    with pytest.raises(
        InvalidInput, match=r"duration_ms of 'a' is .*must be milliseconds from 0 to 86,400,000"
    ):
        read_called({"a": {"succeeded": True, "duration_ms": wrong}})


@pytest.mark.parametrize("wrong", [{}, {"duration_ms": 3}, {"succeeded": True, "duration": 3}])
def test_a_mapping_with_other_fields_is_refused(wrong):
    with pytest.raises(InvalidInput, match=r"'a' has .*must have succeeded, and may have duration_ms"):
        read_called({"a": wrong})


def test_a_correction_says_more_than_the_call():
    assert read_called({"a": True}, corrected={"a": "b"}) == (Entry("a", "corrected"), Entry("b", "meant"))
    assert read_called({"a": True}, corrected=["a"]) == (Entry("a", "corrected"),)


def test_the_right_tool_that_was_called_too_stays_called():
    assert read_called({"a": True, "b": True}, corrected={"a": "b"}) == (
        Entry("b", "succeeded"),
        Entry("a", "corrected"),
    )


@each_row(
    ("arguments", "problem"),
    [
        (({"a": 1},), "called: 'a' is 1, must be True, False or None"),
        (("abc",), "called: is 'abc', must map names"),
        ((7,), "called: is 7, must map names"),
        (([1],), "called: holds 1, must hold names"),
        (({"": True},), "called: names '', must name tools"),
        (({"a": True}, {"a": True}), "wanted: tool 'a' is also reported as 'succeeded'"),
        (((), (), "a"), "corrected: is 'a', must map the wrong tool"),
    ],
)
def test_anything_else_is_refused_by_name(arguments, problem):
    with pytest.raises(InvalidInput, match=problem.replace("(", r"\(")):
        read_called(*arguments)


def test_a_record_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown kind"):
        read_entries([["a", "loved"]], {})
