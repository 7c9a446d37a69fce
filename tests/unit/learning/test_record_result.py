"""The answer to a report says what counted, and why an estimate has not moved yet."""

from __future__ import annotations

from toolroll import Context, Tool, Toolroll

TOOLS = [
    Tool("send_mail", "Sends a message to a person"),
    Tool("post_message", "Sends a message to a channel"),
    *(Tool(f"tool_{i}", f"Does the thing number {i}") for i in range(20)),
]


def roll_of() -> Toolroll:
    return Toolroll.from_tools(TOOLS, embedder="none")


def record(roll, user, outcome=True):
    return roll.record(roll.select("send a message", Context(user=user)), {"send_mail": outcome})


def test_the_first_report_of_one_user_waits_for_a_second_reporter():
    roll = roll_of()
    first = record(roll, "ann")
    assert first.counted == 1 and first.pending == {"send_mail": "reporters"}
    assert str(first) == "1 new outcome; send_mail: counted, waits for more reporters"
    second = record(roll, "bob")
    assert second.pending == {} and str(second) == "1 new outcome"
    assert record(roll, "ann").pending == {}


def test_the_application_itself_waits_for_nobody():
    assert record(roll_of(), "").pending == {}


def test_the_fourth_report_of_a_user_on_one_day_is_beyond_the_quota():
    roll = roll_of()
    record(roll, "bob")
    said = [record(roll, "ann", False) for _ in range(4)]
    waits = {"send_mail": "reporters"}  # failures of four people sink a tool
    assert [one.pending for one in said] == [waits, waits, waits, {"send_mail": "quota"}]
    assert str(said[3]) == (
        "1 new outcome; send_mail: kept, but changes no estimate: this reporter has used up today's three "
        "for the tool"
    )


def test_a_report_that_says_the_same_again_is_a_repetition():
    roll = roll_of()
    picked = roll.select("send a message", Context(user="ann"))
    roll.record(picked, {"send_mail": True})
    again = roll.record(picked, {"send_mail": True})
    assert (again.counted, again.pending) == (0, {"send_mail": "repeated"})
    assert str(again) == "0 new outcomes; send_mail: adds nothing: the same was reported before"
    revised = roll.record(picked, {"send_mail": False})
    assert (revised.counted, revised.pending) == (1, {"send_mail": "reporters"})


def test_a_call_whose_success_is_unknown_waits_for_nothing():
    assert record(roll_of(), "ann", None).pending == {}
