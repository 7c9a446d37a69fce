from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.formats.repair.cost import CostLimits, CostMonitor
from toolroll.model.errors import InvalidInput

LIMITS = CostLimits(
    hard_cap_tokens_per_hour=5_000, short_window_minutes=5, spike_multiplier=3, minimum_baseline_tokens=100
)


def naive(events, limits, now):
    """Sums and rates from the list of all events; each is (minute, prompt, completion)."""
    recent = [event for event in events if now - 60 < event[0] <= now]
    short = sum(p + c for minute, p, c in recent if minute > now - limits.short_window_minutes)
    before = [(minute, p + c) for minute, p, c in recent if minute <= now - limits.short_window_minutes]
    active = {minute for minute, _ in before}
    baseline = sum(tokens for _, tokens in before) / len(active) if active else 0
    return (
        sum(p for _, p, _ in recent),
        sum(c for _, _, c in recent),
        len(recent),
        short / limits.short_window_minutes,
        baseline,
    )


@given(
    st.lists(
        st.tuples(st.integers(-70, 200) | st.integers(0, 8), st.integers(0, 400), st.integers(0, 400)),
        max_size=40,
    )
)
def test_every_figure_and_pause_is_that_of_a_list_of_all_events(steps):
    monitor = CostMonitor(LIMITS, clock=lambda: 0.0)
    events, minute, latest = [], 1_000, 1_000
    for ahead, prompt, completion in steps:
        minute += ahead
        latest = (
            max(latest, minute) if events else minute
        )  # a clock that goes back counts into the latest minute
        events.append((latest, prompt, completion))
        pause = monitor.record(prompt, completion, at=minute * 60 + 59.9)
        usage = monitor.usage(at=minute * 60)
        figures = naive(events, LIMITS, latest)
        assert (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.calls,
            usage.short_rate,
            usage.baseline_rate,
        ) == figures
        total, short, baseline = figures[0] + figures[1], *figures[3:]
        capped = total >= LIMITS.hard_cap_tokens_per_hour
        spiked = baseline >= LIMITS.minimum_baseline_tokens and short > baseline * LIMITS.spike_multiplier
        assert (pause.reason if pause else None) == ("hard cap" if capped else "spike" if spiked else None)
        assert monitor.paused == pause
        monitor.resume()


def test_the_cap_is_reached_with_its_last_token():
    monitor = CostMonitor(clock=lambda: 0.0)
    assert monitor.record(200_000, 49_999) is None
    pause = monitor.record(1, 0)
    assert pause.reason == "hard cap" and "250,000 tokens in the last hour" in pause.message


def test_a_minute_leaves_after_an_hour():
    monitor = CostMonitor()
    monitor.record(100, 0, at=0)
    assert monitor.usage(at=59 * 60 + 59).tokens == 100
    assert monitor.usage(at=60 * 60).tokens == 0
    assert monitor.usage(at=10**9).tokens == 0


def test_a_spike_is_more_than_three_times_what_active_minutes_had():
    monitor = CostMonitor()
    for minute in (0, 20):
        monitor.record(1_000, 0, at=minute * 60)  # empty minutes between are no part of the baseline
    assert monitor.record(15_000, 0, at=30 * 60) is None  # 3,000 a minute, just three times
    pause = monitor.record(1, 0, at=30 * 60)
    assert pause.reason == "spike" and "3,000 tokens a minute" in pause.message


def test_there_is_no_spike_while_the_baseline_is_small():
    monitor = CostMonitor()
    monitor.record(999, 0, at=0)
    assert monitor.record(100_000, 0, at=30 * 60) is None
    assert CostMonitor(CostLimits(minimum_baseline_tokens=0)).record(100_000, 0, at=0) is None


def test_a_pause_stays_until_it_is_ended():
    monitor = CostMonitor(CostLimits(hard_cap_tokens_per_hour=100))
    first = monitor.record(100, 0, at=0)
    assert monitor.record(0, 0, at=10**6) is first and monitor.paused is first
    monitor.resume()
    assert monitor.paused is None and monitor.record(0, 0, at=10**6) is None


def test_each_pause_is_notified_once_when_it_begins():
    notified = []
    monitor = CostMonitor(LIMITS, clock=lambda: 0.0, on_pause=notified.append)
    assert monitor.record(4_999, 0) is None and notified == []
    pause = monitor.record(1, 0)
    monitor.record(1, 0)
    assert notified == [pause] and pause.reason == "hard cap"
    later = CostMonitor.from_record(monitor.to_record(), LIMITS, lambda: 0.0, notified.append)
    later.record(1, 0)
    assert notified == [pause]
    later.resume()
    assert notified == [pause, later.record(1, 0)]


def test_a_notification_may_use_the_monitor_and_may_fail(caplog):
    def resume(pause):
        monitor.resume(reset_window=True)
        raise RuntimeError("no network")

    monitor = CostMonitor(LIMITS, clock=lambda: 0.0, on_pause=resume)
    assert monitor.record(5_000, 0) is None
    assert monitor.paused is None and monitor.usage().tokens == 0
    assert "no network" in caplog.text and "the cap is 5,000" in caplog.text


def test_switched_off_limits_count_and_never_pause():
    monitor = CostMonitor(CostLimits(hard_cap_tokens_per_hour=10, enabled=False), clock=lambda: 0.0)
    assert monitor.record(100, 0) is None and monitor.paused is None
    assert monitor.usage().tokens == 100
    paused = CostMonitor(CostLimits(hard_cap_tokens_per_hour=10), clock=lambda: 0.0)
    assert paused.record(100, 0) is not None
    paused.limits = CostLimits(hard_cap_tokens_per_hour=10, enabled=False)
    assert paused.paused is None and paused.record(1, 0) is None


def test_ending_a_pause_can_empty_the_window():
    monitor = CostMonitor(CostLimits(hard_cap_tokens_per_hour=100))
    monitor.record(100, 0, at=0)
    monitor.resume()
    assert monitor.record(1, 0, at=0).reason == "hard cap"
    monitor.resume(reset_window=True)
    assert monitor.record(1, 0, at=0) is None and monitor.usage(at=0).tokens == 1


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 2_000)), max_size=20))
def test_a_monitor_comes_back_from_its_record(steps):
    monitor, minute = CostMonitor(LIMITS), -30
    for ahead, tokens in steps:
        minute += ahead
        monitor.record(tokens, 1, at=minute * 60)
    record = json.loads(json.dumps(monitor.to_record()))
    again = CostMonitor.from_record(record, LIMITS)
    assert again.paused == monitor.paused and again.to_record() == record
    for later in (0, 3, 58, 61):
        assert again.usage(at=(minute + later) * 60) == monitor.usage(at=(minute + later) * 60)


@each_row(
    "record",
    [
        None,
        {},
        {"minute": 1, "buckets": [], "pause": None},
        {"minute": None, "buckets": [[0, 0, 0]] * 60, "pause": None},
        {"minute": 1.5, "buckets": [[0, 0, 0]] * 60, "pause": None},
        {"minute": 1, "buckets": [[0, 0, 0]] * 59, "pause": None},
        {"minute": 1, "buckets": [[0, 0, -1]] * 60, "pause": None},
        {"minute": 1, "buckets": [[0, 0, 10**400]] * 60, "pause": None},
        {"minute": 10**12, "buckets": [[0, 0, 0]] * 60, "pause": None},
        {"minute": -(10**400), "buckets": [[0, 0, 0]] * 60, "pause": None},
        {"minute": True, "buckets": [[0, 0, 0]] * 60, "pause": None},
        {"minute": 10**5_000, "buckets": [], "pause": None},
        {"minute": 1, "buckets": [5] * 60, "pause": None},
        {"minute": None, "buckets": [], "pause": {"reason": "tired", "message": "", "at": 0}},
        {"minute": None, "buckets": [], "pause": {"why": 5}},
    ],
)
def test_a_record_that_was_not_written_by_a_monitor_is_refused(record):
    with pytest.raises(InvalidInput, match="record of a cost monitor"):
        CostMonitor.from_record(record)


def test_a_record_from_a_day_ahead_of_the_clock_is_refused_since_it_would_not_expire():
    monitor = CostMonitor(clock=lambda: 86_400.0)
    monitor.record(5, 0)
    assert CostMonitor.from_record(monitor.to_record(), clock=lambda: 0.0).usage().tokens == 5
    monitor.record(5, 0, at=86_460)
    with pytest.raises(InvalidInput, match="record of a cost monitor"):
        CostMonitor.from_record(monitor.to_record(), clock=lambda: 0.0)


def test_a_minute_that_overflows_still_pauses_and_comes_back():
    monitor = CostMonitor(clock=lambda: 0.0)
    for _ in range(3):
        assert monitor.record(10**15, 10**15).reason == "hard cap"
    assert CostMonitor.from_record(monitor.to_record()).usage(at=0) == monitor.usage(at=0)


def test_threads_lose_no_token():
    monitor = CostMonitor(CostLimits(hard_cap_tokens_per_hour=10**9), clock=lambda: 0.0)

    def spend():
        for _ in range(2_000):
            monitor.record(1, 2)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    usage = monitor.usage()
    assert (usage.prompt_tokens, usage.completion_tokens, usage.calls) == (16_000, 32_000, 16_000)


@each_row("count", [-1, 1.5, "5", None, True, float("nan"), 10**16, 10**400, 10**5_000])
def test_counts_and_times_must_be_some(count):
    monitor = CostMonitor(clock=lambda: 0.0)
    with pytest.raises(InvalidInput, match="prompt_tokens is"):
        monitor.record(count, 0)
    with pytest.raises(InvalidInput, match="completion_tokens is"):
        monitor.record(0, count)
    for time in ("5", float("nan"), float("inf"), True):
        with pytest.raises(InvalidInput, match="time is"):
            monitor.record(0, 0, at=time)
    assert monitor.to_record() == CostMonitor().to_record()


@each_row(
    "wrong",
    [
        {"enabled": 1},
        {"hard_cap_tokens_per_hour": -1},
        {"hard_cap_tokens_per_hour": float("nan")},
        {"spike_multiplier": "3"},
        {"spike_multiplier": 10**400},
        {"hard_cap_tokens_per_hour": 10**5_000},
        {"minimum_baseline_tokens": None},
        {"short_window_minutes": 0},
        {"short_window_minutes": 60},
        {"short_window_minutes": 2.5},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        CostLimits(**wrong)
