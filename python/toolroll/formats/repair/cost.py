"""Counts an agent's tokens in the last hour, and tells when to pause it.

A runaway loop spends within minutes: a limit for the hour bounds the damage, and a spike against the agent's
own past stops it sooner. The monitor counts, reports and notifies; the caller pauses the agent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from toolroll.model.argument_checks import check_callable
from toolroll.model.errors import InvalidInput, quoted

_log = logging.getLogger(__name__)

BUCKETS = 60  # buckets of one minute
_AHEAD = 24 * 60  # minutes by which the clocks of two machines may differ
MAX_COUNT = 10**15  # tokens of a call, and of a minute; higher sums stay there
MAX_LIMIT = 1e30


@dataclass(frozen=True, slots=True)
class CostLimits:
    """The limits at which to pause an agent.

    Attributes:
        hard_cap_tokens_per_hour: pause once the last hour has this many tokens.
        short_window_minutes: length of the window for spikes, with the current minute.
        spike_multiplier: pause when the window's rate is more than this many times the baseline.
        minimum_baseline_tokens: below this baseline (tokens a minute) there are no spikes, such as at a
            start.
        enabled: False never pauses; tokens are counted all the same.
    """

    hard_cap_tokens_per_hour: int = 250_000
    short_window_minutes: int = 5
    spike_multiplier: float = 3
    minimum_baseline_tokens: float = 1_000
    enabled: bool = True

    def __post_init__(self) -> None:
        for name in ("hard_cap_tokens_per_hour", "spike_multiplier", "minimum_baseline_tokens"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= MAX_LIMIT:
                raise InvalidInput(f"{name} is {quoted(value)}, must be a number from 0 to {MAX_LIMIT:g}")
        minutes = self.short_window_minutes
        if not isinstance(minutes, int) or isinstance(minutes, bool) or not 0 < minutes < BUCKETS:
            raise InvalidInput(f"short_window_minutes is {quoted(minutes)}, must be from 1 to {BUCKETS - 1}")
        if not isinstance(self.enabled, bool):
            raise InvalidInput(f"enabled is {quoted(self.enabled)}, must be True or False")


@dataclass(frozen=True, slots=True)
class Pause:
    """Why the agent should pause.

    Attributes:
        reason: "hard cap" or "spike".
        message: the numbers, for people.
        at: seconds of the monitor's clock.
    """

    reason: Literal["hard cap", "spike"]
    message: str
    at: float


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of the last hour.

    Attributes:
        prompt_tokens, completion_tokens, calls: sums.
        short_rate: tokens a minute in the short window.
        baseline_rate: tokens a minute in earlier minutes with calls; 0 if there are none.
    """

    prompt_tokens: int
    completion_tokens: int
    calls: int
    short_rate: float
    baseline_rate: float

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


class CostMonitor:
    """Token counts of the last 60 minutes, a bucket each; one monitor for each agent.

    Safe to use from any thread, with constant time and memory for each call. If the clock goes back, calls
    count into the latest minute seen: nothing is lost or counted twice.
    """

    def __init__(
        self,
        limits: CostLimits | None = None,
        clock: Callable[[], float] = time.time,  # noqa: TID251
        on_pause: Callable[[Pause], object] | None = None,
    ) -> None:
        """Starts with no counts.

        Args:
            limits: when to pause.
            clock: seconds since the epoch.
            on_pause: called once for each pause that begins, in the thread that recorded the call, to notify
                people. Its exceptions are only logged.
        """
        if limits is not None and not isinstance(limits, CostLimits):
            raise InvalidInput(f"limits is {quoted(limits)}, must be CostLimits or None")
        check_callable(clock, "clock", "no arguments", optional=False)
        check_callable(on_pause, "on_pause", "(pause)")
        self.limits = CostLimits() if limits is None else limits
        self._clock, self._on_pause = clock, on_pause
        self._lock = threading.Lock()
        self._minute: int | None = None  # the latest one seen
        self._buckets = [[0, 0, 0] for _ in range(BUCKETS)]  # prompt, completion, calls; by minute modulo 60
        self._pause: Pause | None = None

    @property
    def paused(self) -> Pause | None:
        """Why the agent is paused; None if it is not, or if the limits are switched off."""
        return self._pause if self.limits.enabled else None

    def record(self, prompt_tokens: int, completion_tokens: int, at: float | None = None) -> Pause | None:
        """Counts one call of a model; returns the current pause, if any.

        A pause lasts until `resume`, even if the window becomes empty.

        Args:
            prompt_tokens: of this call, as the provider reports them.
            completion_tokens: of this call.
            at: seconds; None reads the clock.

        Raises:
            InvalidInput: a count is not a whole number from 0 to MAX_COUNT, or the time is not a number;
                nothing is counted.
        """
        for name, count in (("prompt_tokens", prompt_tokens), ("completion_tokens", completion_tokens)):
            if not _is_count(count):
                raise InvalidInput(
                    f"{name} is {quoted(count)}, must be a whole number from 0 to {MAX_COUNT:,}"
                )
        now = self._now(at)
        with self._lock:
            bucket = self._buckets[self._advance(now) % BUCKETS]
            for place, count in enumerate((prompt_tokens, completion_tokens, 1)):
                bucket[place] = min(bucket[place] + count, MAX_COUNT)
            before = self._pause
            pause = self._pause = before or self._judged(now)
        if pause is not None and pause is not before:
            self._notify(pause)
        return self.paused

    def resume(self, reset_window: bool = False) -> None:
        """Ends a pause. Without `reset_window` the next call may cause it again."""
        with self._lock:
            self._pause = None
            if reset_window:
                self._buckets = [[0, 0, 0] for _ in range(BUCKETS)]

    def usage(self, at: float | None = None) -> Usage:
        """The sums of the last hour. Raises InvalidInput for a time that is not a number."""
        now = self._now(at)
        with self._lock:
            self._advance(now)
            return self._usage()

    def to_record(self) -> dict[str, Any]:
        """The state as plain JSON values."""
        with self._lock:
            minute = self._minute
            buckets = [] if minute is None else self._in_order(minute)
            return {
                "minute": minute,
                "buckets": [list(bucket) for bucket in buckets],
                "pause": None if self._pause is None else asdict(self._pause),
            }

    @classmethod
    def from_record(
        cls,
        record: Mapping[str, Any],
        limits: CostLimits | None = None,
        clock: Callable[[], float] = time.time,  # noqa: TID251
        on_pause: Callable[[Pause], object] | None = None,
    ) -> CostMonitor:
        """The monitor from a record of `to_record`. `on_pause` is not called again for a pause in the record.

        Raises InvalidInput for any other record, and for one dated later than tomorrow: counts so far ahead
        would never leave the window.
        """
        monitor = cls(limits, clock, on_pause)
        try:
            minute, buckets, pause = record["minute"], record["buckets"], record["pause"]
            sound = isinstance(buckets, (list, tuple)) and (
                minute is None
                if not buckets
                else len(buckets) == BUCKETS
                and isinstance(minute, int)
                and not isinstance(minute, bool)
                and -MAX_COUNT < minute <= monitor._now(None) // 60 + _AHEAD
                and all(len(bucket) == 3 and all(map(_is_count, bucket)) for bucket in buckets)
            )
            monitor._pause = None if pause is None else Pause(**pause)
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise InvalidInput(f"record of a cost monitor is {quoted(record)}: {quoted(error)}") from error
        if not sound or not (monitor._pause is None or _is_pause(monitor._pause)):
            raise InvalidInput(f"record of a cost monitor is {quoted(record)}, must be one of to_record()")
        monitor._minute = minute
        for place, bucket in enumerate(buckets):
            monitor._buckets[(minute - BUCKETS + 1 + place) % BUCKETS] = list(bucket)
        return monitor

    def _notify(self, pause: Pause) -> None:
        if self._on_pause is None:
            return
        try:
            self._on_pause(pause)
        except Exception:
            _log.exception("the notification of a pause has failed: %s", pause.message)

    def _now(self, at: float | None) -> float:
        now = self._clock() if at is None else at
        if not _is_number(now) or not abs(now) < 1e15:
            raise InvalidInput(f"time is {quoted(now)}, must be seconds as a number")
        return now

    def _advance(self, now: float) -> int:
        """Moves to the current minute, and empties the buckets since the last one. Returns the minute."""
        minute = int(now // 60)
        latest = self._minute
        if latest is None:
            self._minute = minute
        elif minute > latest:
            for passed in range(max(latest + 1, minute - BUCKETS + 1), minute + 1):
                self._buckets[passed % BUCKETS] = [0, 0, 0]
            self._minute = minute
        else:
            minute = latest
        return minute

    def _in_order(self, minute: int) -> list[list[int]]:
        """The buckets, oldest first."""
        return [self._buckets[(minute + 1 + place) % BUCKETS] for place in range(BUCKETS)]

    def _usage(self) -> Usage:
        assert self._minute is not None
        buckets = self._in_order(self._minute)
        short = self.limits.short_window_minutes
        active = [bucket for bucket in buckets[:-short] if bucket[2]]
        baseline = sum(prompt + completion for prompt, completion, _ in active)
        return Usage(
            prompt_tokens=sum(prompt for prompt, _, _ in buckets),
            completion_tokens=sum(completion for _, completion, _ in buckets),
            calls=sum(calls for _, _, calls in buckets),
            short_rate=sum(prompt + completion for prompt, completion, _ in buckets[-short:]) / short,
            baseline_rate=baseline / len(active) if active else 0.0,
        )

    def _judged(self, now: float) -> Pause | None:
        usage, limits = self._usage(), self.limits
        if not limits.enabled:
            return None
        if usage.tokens >= limits.hard_cap_tokens_per_hour:
            return Pause(
                "hard cap",
                f"{usage.tokens:,} tokens in the last hour, the cap is {limits.hard_cap_tokens_per_hour:,}",
                now,
            )
        if usage.baseline_rate == 0 or usage.baseline_rate < limits.minimum_baseline_tokens:
            return None
        if usage.short_rate > usage.baseline_rate * limits.spike_multiplier:
            return Pause(
                "spike",
                f"{usage.short_rate:,.0f} tokens a minute in the last {limits.short_window_minutes} minutes, "
                f"more than {limits.spike_multiplier:g} times the {usage.baseline_rate:,.0f} before",
                now,
            )
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _is_pause(pause: Pause) -> bool:
    return pause.reason in ("hard cap", "spike") and isinstance(pause.message, str) and _is_number(pause.at)
