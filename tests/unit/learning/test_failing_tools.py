"""A tool that fails is out of the way within eight calls, and back when it works again.

The draws of these tests are those of a fixed sequence of seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.table import each_row
from toolroll import Context, Tool, Toolroll
from toolroll.selection.profiles import Profile

MESSAGE = "What's on my calendar tomorrow?"
VICTIM = "list_events"  # the tool for it


@dataclass
class Use:
    """People who ask the same in turn, and whose model calls the victim whenever it is shown."""

    users: int
    k: int = 7
    roll: Toolroll = field(default_factory=Toolroll.demo)
    turns: int = 0

    def __post_init__(self) -> None:
        seeds, times = iter(range(10**6)), iter(range(1_800_000_000, 1_900_000_000, 10))
        self.roll._home.engine._draw = lambda: next(seeds)
        self.roll._home.engine._clock = lambda: next(times)

    def ask(self, works: bool, user: str = "") -> bool:
        """Whether the victim was shown, and so called."""
        self.turns += 1
        picked = self.roll.select(MESSAGE, Context(user=user or f"user-{self.turns % self.users}"), k=self.k)
        self.roll.record(picked, {VICTIM: works} if VICTIM in picked else {})
        return VICTIM in picked

    def calls_until_out(self, most: int = 60) -> int:
        """How many failures it takes until the victim is not shown; `most` + 1 if it always is."""
        for calls in range(most):
            if not self.ask(works=False):
                return calls
        return most + 1

    def share_shown(self, turns: int = 200) -> float:
        """How often the victim is shown if nobody reports."""
        asked = (self.roll.select(MESSAGE, Context(user="somebody"), k=self.k).names for _ in range(turns))
        return sum(VICTIM in names for names in asked) / turns


@each_row("k", [5, 7])
@each_row(("users", "successes"), [(10, 0), (5, 0), (10, 1), (5, 5), (5, 15), (5, 20), (10, 20)])
def test_a_failing_tool_is_out_of_the_way_within_eight_calls(users: int, successes: int, k: int) -> None:
    use = Use(users, k)
    for _ in range(successes):
        assert use.ask(works=True)
    calls = use.calls_until_out()
    while use.share_shown(20) == 1:  # it was out by the draw of one selection
        calls += 1 + use.calls_until_out()
    assert calls <= 8
    assert use.share_shown() <= 0.2  # probes


@pytest.mark.parametrize("successes", [0, 20])
def test_a_tool_that_works_again_is_shown_again(successes: int) -> None:
    use = Use(5)
    for _ in range(successes):
        use.ask(works=True)
    for _ in range(30):
        use.ask(works=False)
    assert use.share_shown() <= 0.2
    waited = 0
    while not use.ask(works=True):
        waited += 1
        assert waited <= 80
    assert use.share_shown() == 1


def test_one_user_who_reports_a_thousand_failures_removes_no_tool_that_works_for_others() -> None:
    use = Use(10)
    shown = 0
    for turn in range(1_000):
        shown += use.ask(works=False, user="liar")
        if turn % 3 == 0:
            shown += use.ask(works=True)
    assert shown == 1_000 + 334


def test_two_users_who_report_failures_remove_no_tool_that_works_for_others() -> None:
    use = Use(10)
    for _ in range(20):
        use.ask(works=True)
    shown = 0
    for turn in range(300):
        shown += use.ask(works=False, user=f"liar-{turn % 2}")
        shown += use.ask(works=True)
    assert shown == 600


def test_a_broken_tool_stays_last_where_no_other_tool_takes_its_place() -> None:
    tools = [Tool("send_mail", "Sends a message"), Tool("post_message", "Posts a message to a channel")]
    roll = Toolroll.from_tools(tools, profile=Profile(pass_through_tools=0))
    for number in range(8):
        picked = roll.select("send a message", Context(user=f"user-{number}"))
        roll.record(picked, {"send_mail": False})
    for _ in range(20):
        picked = roll.select("send a message")
        assert set(picked.names) == {"send_mail", "post_message"}
        assert "broken: seldom shown until it works again" in picked.explain("send_mail")
        assert "broken" not in picked.explain("post_message")
