from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.formats.repair import acompact, compact, repair_history
from toolroll.model.errors import InvalidInput

SYSTEM = {"role": "system", "content": "Be brief."}


def said(count: int) -> list[dict]:
    return [{"role": ("user", "assistant")[at % 2], "content": f"m{at}"} for at in range(count)]


def exchange(at: int) -> list[dict]:
    call = {"id": f"c{at}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"q{at}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{at}", "content": "r"},
    ]


def names(messages, before):
    return "+".join([before, *(str(message["content"]) for message in messages)]).strip("+")


def refuse(*_):
    raise AssertionError("must not be called")


def test_a_short_history_is_not_summarised():
    messages = [SYSTEM, *said(50)]
    compaction = compact(messages, refuse, "before")
    assert (compaction.messages, compaction.summary, compaction.summarised) == (messages, "before", 0)


def test_a_long_history_keeps_its_last_messages_and_a_summary_of_the_others():
    compaction = compact([SYSTEM, *said(9)], names, "s", most=8, keep_last=3)
    assert compaction.messages == [SYSTEM, *said(9)[6:]]
    assert compaction.summary == "s+m0+m1+m2+m3+m4+m5" and compaction.summarised == 6


def test_an_exchange_is_summarised_whole_or_kept_whole():
    messages = [message for at in range(4) for message in exchange(at)]
    for keep_last in range(1, 12):
        asked: list[dict] = []
        kept = compact(
            messages, lambda old, before, asked=asked: asked.extend(old) or "s", most=11, keep_last=keep_last
        ).messages
        assert asked + kept == messages
        assert not repair_history(kept).changes and not repair_history(asked).changes


@given(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12))
def test_no_message_is_lost_over_many_turns(count, most, keep_last):
    messages, summary = [SYSTEM], ""
    for message in said(count):
        messages.append(message)
        done = compact(messages, names, summary, most=max(most, keep_last), keep_last=keep_last)
        messages, summary = done.messages, done.summary
        assert len(messages) <= max(most, keep_last) + 1
    whole = [part for part in summary.split("+") if part] + [message["content"] for message in messages[1:]]
    assert whole == [f"m{at}" for at in range(count)]


def test_the_function_may_be_awaited():
    async def summarise(messages, before):
        await asyncio.sleep(0)
        return names(messages, before)

    compaction = asyncio.run(acompact(said(4), summarise, most=3, keep_last=1))
    assert (compaction.messages, compaction.summary) == (said(4)[3:], "m0+m1+m2")
    assert asyncio.run(acompact(said(3), refuse, most=3, keep_last=1)).summarised == 0


def test_what_the_function_raises_is_raised():
    def fails(messages, before):
        raise TimeoutError("no model")

    with pytest.raises(TimeoutError):
        compact(said(4), fails, most=3, keep_last=1)


@each_row("summary", ["", " \n", None, 3])
def test_a_summary_that_says_nothing_is_refused(summary):
    with pytest.raises(InvalidInput, match="summary"):
        compact(said(4), lambda messages, before: summary, most=3, keep_last=1)


@each_row("wrong", [{"most": -1}, {"keep_last": 1.5}, {"most": 2, "keep_last": 3}, {"summary": None}])
def test_counts_and_summaries_must_be_some(wrong):
    with pytest.raises(InvalidInput):
        compact(said(4), refuse, **wrong)
