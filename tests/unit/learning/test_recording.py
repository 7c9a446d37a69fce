"""What is reported of a selection: checked, counted once, kept apart, and of use to the next ones."""

from __future__ import annotations

import threading

import pytest

from toolroll import Context, Profile, Tool, Toolroll
from toolroll._core import Learned
from toolroll.model.errors import InvalidInput, NotFound

TOOLS = [
    Tool("get_forecast", "Weather forecast for a city"),
    Tool("send_mail", "Sends a message to a person"),
    Tool("post_message", "Sends a message to a channel"),
    Tool("list_events", "Lists what is on the calendar"),
    Tool("create_event", "Puts an appointment on the calendar"),
    Tool("play_music", "Plays a song"),
    *(Tool(f"tool_{i}", f"Does the thing number {i} with widgets") for i in range(20)),
]
MESSAGE = "tell the team about lunch"


def made(**parameters):
    return Toolroll.from_tools(TOOLS, profile=Profile(**parameters))


def user(number, **context):
    return Context(user=f"user-{number}", **context)


def teach(roll, name, message=MESSAGE, users=range(8), **context):
    for number in users:
        picked = roll.select(message, user(number, **context), k=10)
        if name in picked:
            roll.record(picked, [name])
        else:
            roll.record(picked, wanted=[name])


def drawn(picked):
    return picked.candidates.reranked.draw


def places(roll, message=MESSAGE, context=None, k=10):
    return roll.select(message, context, k=k).names


def test_nothing_recorded_nothing_changes():
    for message in (MESSAGE, "will it rain", "thing number 7"):
        assert made().select(message, k=5).names == made(learning=None).select(message, k=5).names


def test_what_worked_comes_first_for_messages_like_it():
    roll = made()
    before = places(roll, "inform the team of lunch")
    teach(roll, "post_message")
    after = places(roll, "inform the team of lunch")
    assert after.index("post_message") == 0
    assert before.index("post_message") > 0


def test_what_was_learnt_says_so_in_an_explanation():
    roll = made()
    teach(roll, "post_message")
    assert "outcomes 0." in roll.select(MESSAGE, k=5).explain("post_message")


def test_a_tool_that_fails_goes_behind_one_that_works():
    roll = made()
    for number in range(5):  # with a few more failures the tool would be hidden
        for name, works in (("send_mail", False), ("post_message", True)):
            picked = roll.select("send a message", user(number), k=10)
            assert {"send_mail", "post_message"} <= set(picked.names)
            roll.record(picked, {name: works})
    names = places(roll, "send a message")
    assert names.index("post_message") < names.index("send_mail") if "send_mail" in names else True


def test_one_organisation_learns_nothing_from_another():
    roll = made()
    teach(roll, "post_message", org="acme")
    untouched = made()
    for context in (Context(), Context(org="other")):
        picked, expected = roll.select(MESSAGE, context, k=10), untouched.select(MESSAGE, context, k=10)
        assert picked.names == expected.names
        assert picked.candidates.scores.tolist() == expected.candidates.scores.tolist()


def test_reporting_again_counts_nothing():
    roll = made()
    picked = roll.select(MESSAGE, user(1), k=5)
    name = picked.names[0]
    assert roll.record(picked, [name]).counted == 1
    before = roll._home.learned("").to_bytes()
    assert roll.record(picked, [name]).counted == 0
    assert roll._home.learned("").to_bytes() == before


def test_an_event_is_known_by_its_id():
    roll = made()
    picked = roll.select(MESSAGE, user(1), k=5)
    assert roll.record(picked.event_id, [picked.names[0]]).counted == 1


def test_an_unknown_event_changes_nothing():
    roll = made()
    with pytest.raises(NotFound, match="event 'nothing': is not among the last 128"):
        roll.record("nothing", ["send_mail"])
    assert roll._home.learned("") is None


def test_another_toolrolls_event_changes_nothing():
    roll, other = made(), made()
    with pytest.raises(NotFound, match="another Toolroll"):
        roll.record(other.select(MESSAGE, k=5), ["send_mail"])
    assert roll._home.learned("") is None


def test_a_tool_that_was_not_shown_changes_nothing():
    roll = made()
    picked = roll.select(MESSAGE, k=3)
    hidden = next(tool.name for tool in TOOLS if tool.name not in picked)
    with pytest.raises(InvalidInput, match=f"tool '{hidden}' was not shown"):
        roll.record(picked, {picked.names[0]: True, hidden: True})
    assert roll._home.learned("") is None


def test_a_tool_that_the_caller_may_not_see_cannot_be_wanted():
    roll = made()
    picked = roll.select(MESSAGE, Context(exclude=("play_music",)), k=3)
    with pytest.raises(InvalidInput, match="was not shown"):
        roll.record(picked, wanted=["play_music"])


def test_a_tool_may_be_named_as_it_was_sent():
    roll = Toolroll.from_tools([Tool("send mail!", "Sends a message"), *TOOLS[:3]])
    picked = roll.select("send a message", k=4)
    sent = next(name for name, own in picked.sent_names("openai").items() if own == "send mail!")
    assert sent != "send mail!"
    assert roll.record(picked, [sent]).counted == 1


@pytest.mark.parametrize("reporter", [7, "x" * 5_000, None.__class__])
def test_a_reporter_is_a_short_text(reporter):
    roll = made()
    with pytest.raises(InvalidInput, match="reporter: is"):
        roll.record(roll.select(MESSAGE, k=3), reporter=reporter)


def test_one_source_alone_teaches_nothing():
    roll = made()
    for _ in range(40):
        picked = roll.select(MESSAGE, user(1), k=10)
        roll.record(
            picked,
            ["play_music"] if "play_music" in picked else (),
            wanted=() if "play_music" in picked else ["play_music"],
        )
    draw = drawn(roll.select(MESSAGE, k=5))
    assert draw.mean.tolist() == made().select(MESSAGE, k=5).candidates.before.scores.tolist()


def test_recording_from_many_threads_loses_nothing():
    roll = made()
    events = [roll.select(MESSAGE, user(number), k=5) for number in range(160)]

    def report(mine):
        for picked in mine:
            for _ in range(2):
                roll.record(picked, [picked.names[0]])

    threads = [threading.Thread(target=report, args=(events[i::8],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = made()
    for number in range(160):
        picked = alone.select(MESSAGE, user(number), k=5)
        alone.record(picked, [events[number].names[0]])
    cells, _ = roll._home.learned("").rows(Learned())
    assert sum(first for kind, _, _, first, *_ in cells if kind == 2) == 160


def test_a_sessions_draw_stays_the_same():
    roll = made(exploration_scale=1.0)
    teach(roll, "post_message", users=range(3))
    shown = {roll.select(MESSAGE, Context(session="s"), k=8).names for _ in range(10)}
    assert len(shown) == 1
