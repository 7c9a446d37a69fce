"""Who reports: the application, a user, or an unnamed caller."""

from __future__ import annotations

import pytest

from tests.table import each_row
from toolroll import Context, InvalidInput, Tool, Toolroll
from toolroll.learning.reporters import UnnamedCaller, reporter_keys, stored_reporter, user_of
from toolroll.model.identity import NONE


@each_row("user", ["", "ann", "~", "~ key 1", "~~ key 1", "key 1"])
def test_no_user_has_the_name_of_an_unnamed_caller(user):
    stored = stored_reporter(user)
    assert stored != stored_reporter(UnnamedCaller("key 1"))
    assert user_of(stored) == user
    keys = reporter_keys(stored, 0)
    assert keys.reliability == keys.intent == reporter_keys(stored, 86_400).intent
    assert (keys.intent == NONE) is (user == "")


def test_an_unnamed_caller_is_one_reporter_an_hour():
    stored = stored_reporter(UnnamedCaller("key 1"))
    hours = [reporter_keys(stored, at).reliability for at in (0, 3_599, 3_600, 7_200)]
    assert hours[0] == hours[1] and len(set(hours)) == 3 and NONE not in hours
    assert reporter_keys(stored, 0).intent == NONE
    other = stored_reporter(UnnamedCaller("key 2"))
    assert reporter_keys(other, 0).reliability not in hours


def test_a_reporter_is_a_text_or_an_unnamed_caller():
    roll = Toolroll.from_tools([Tool("send", "Sends a message")])
    picked = roll.select("send", Context(user="ann"))
    for wrong in (7, "x" * 5_000, UnnamedCaller("x" * 5_000)):
        with pytest.raises(InvalidInput, match="reporter: is"):
            roll.record(picked, ["send"], reporter=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="reporter: is"):
            roll.session("talk", reporter=wrong)  # type: ignore[arg-type]
    assert roll.record(picked, ["send"], reporter=UnnamedCaller("site")).counted == 1


def test_an_unnamed_caller_teaches_at_once_what_a_tool_is_wanted_for():
    roll = Toolroll.from_tools([Tool(f"wall_{number}", f"Paints wall {number}") for number in range(30)])
    clock = iter(range(1_800_000_000, 1_900_000_000, 20))
    roll._home.engine._clock = lambda: float(next(clock))  # type: ignore[attr-defined]
    message = "give the hedge a new colour"
    assert "wall_7" not in roll.select(message, k=3)
    picked = roll.select(message, k=3)
    roll.record(picked, wanted=["wall_7"], reporter=UnnamedCaller("site"))
    assert "wall_7" in roll.select(message, k=3)
