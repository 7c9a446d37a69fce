"""What callers say of a turn is read strictly."""

from __future__ import annotations

import pytest

from toolroll.errors import InvalidInput
from toolroll.learning.outcomes import Entry, Report, read_called


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


def test_a_correction_says_more_than_the_call():
    assert read_called({"a": True}, corrected={"a": "b"}) == (Entry("a", "corrected"), Entry("b", "meant"))
    assert read_called({"a": True}, corrected=["a"]) == (Entry("a", "corrected"),)


def test_the_right_tool_that_was_called_too_stays_called():
    assert read_called({"a": True, "b": True}, corrected={"a": "b"}) == (
        Entry("b", "succeeded"),
        Entry("a", "corrected"),
    )


@pytest.mark.parametrize(
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


def test_a_report_survives_its_record():
    report = Report("e", (Entry("a", "succeeded"),), (), False)
    assert Report.from_record(report.to_record()) == report


def test_a_record_of_an_unknown_kind_is_refused():
    record = Report("e", (Entry("a", "succeeded"),)).to_record()
    record["entries"][0][1] = "loved"
    with pytest.raises(ValueError, match="unknown kind"):
        Report.from_record(record)
