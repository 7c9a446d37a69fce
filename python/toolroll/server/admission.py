"""Limits of requests: what one caller or one organisation may ask of a process that others share.

`RequestLimits` counts the requests of each caller: in a time, and at a time. `OrgAdmission` has three limits
of an organisation. Rate: requests in a time. Slots: an organisation may have as many requests at a time as
slots are free, so one alone gets half of them, and a newcomer always finds some. Share: if requests wait for
the event loop, the organisations are refused whose requests cost the most time and bytes in the last second.
The share does not count for an organisation that is alone or sends one request at a time, nor while the
service does little: then the host is busy.

Source of the rule for slots: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
switches", 1998.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Callable

from limits import RateLimitItem, parse_many
from limits.aio.storage import MemoryStorage  # the other one starts a thread every 10 ms, and waits for it
from limits.aio.strategies import FixedWindowRateLimiter

from toolroll.model.errors import InvalidInput, Unavailable, quoted

BUSY_RETRY_S = 1
_BEAT_S = 0.01
_IDLE_BEATS = 200  # without a request, until the beat stops
_SMOOTHING = 0.3  # of the lag: one long step is no overload
_WAITING_S = 0.02  # lag of the event loop above which requests count as waiting
_UPDATE_S = 0.1  # from one update of the use of organisations to the next
_HALF_LIFE_S = 1.0  # of the use of an organisation
_USED_NOTHING = 1e-4  # seconds
_BUSY_S = 0.3  # of about the last second: with less use in all, the service is not the reason of a lag
_NOTED_S = 0.001  # of a request, until they are noted
_S_PER_BYTE = 10e-9  # the cost of a byte of a body, beside the time to read it


class OrgRefused(Unavailable):
    """An organisation has too many requests now. The request was not begun.

    Attributes:
        limit: the limit: "slots" or "share".
    """

    def __init__(self, message: str, limit: str, retry_after_s: float = BUSY_RETRY_S) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.limit = limit


class OrgRateExceeded(OrgRefused):
    """An organisation has used up its requests of a time."""


class LoopLag:
    """How late the event loop begins a step that is due. Measures while it is called, and rests otherwise."""

    def __init__(self) -> None:
        self._lag_s, self._idle, self._is_beating = 0.0, 0, False

    def __call__(self) -> float:
        """The smoothed lag in seconds. Must be called in the event loop."""
        self._idle = 0
        if not self._is_beating:
            self._is_beating = True
            self._beat_later(asyncio.get_running_loop())
        return self._lag_s

    def _beat_later(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(_BEAT_S, self._beat, loop, loop.time() + _BEAT_S)

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._lag_s += _SMOOTHING * (max(0.0, loop.time() - due) - self._lag_s)
        self._idle += 1
        if self._idle > _IDLE_BEATS:
            self._lag_s, self._is_beating = 0.0, False
        else:
            self._beat_later(loop)


class OrgAdmission:
    """The requests of organisations in one process, from its event loop and from threads of its routes."""

    def __init__(
        self,
        rate: str,
        slots: int,
        refused: Callable[[str], object] | None = None,
        *,
        lag: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """rate: requests of an organisation in a time. slots: requests of all organisations at a time.

        refused: called with the limit of each refusal. lag: seconds for which requests wait for the event
        loop; None measures it.

        Raises:
            InvalidInput: the rate cannot be read.
        """
        item = read_rate(rate, "org_rate")
        self._amount, self._window_s = item.amount, item.get_expiry()
        self._slots, self._refused, self._lag, self._clock = slots, refused, lag or LoopLag(), clock
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()  # organisation → requests in this window
        self._window = 0
        self._used: dict[str, float] = {}  # organisation → seconds of about the last second
        self._used_at, self._level = clock(), math.inf  # see `share_level`
        self._lag_s = 0.0  # as of the latest request
        # organisation → requests in this round of the event loop, which is one for a client of one at a time
        self._in_round: Counter[str] = Counter()
        self._has_round = False

    def ticket(self) -> Ticket:
        """Makes the ticket of one request. Must be called in the event loop."""
        if not self._has_round:
            self._has_round = True
            with self._lock:
                self._in_round.clear()  # a thread may have entered since the last round
            asyncio.get_running_loop().call_soon(self._end_round)
        self._lag_s = self._lag()
        now = self._clock()
        if now - self._used_at >= _UPDATE_S:
            with self._lock:
                decay = 0.5 ** ((now - self._used_at) / _HALF_LIFE_S)
                used = {org: used * decay for org, used in self._used.items()}
                self._used = {org: left for org, left in used.items() if left > _USED_NOTHING}
                self._used_at, self._level = now, share_level(list(self._used.values()))
        return Ticket(self)

    def count(self, org: str, own: int = 0) -> None:
        """Counts a request, or one of a batch.

        own: slots of the organisation that the request has already.

        Raises:
            OrgRateExceeded: the organisation has used up its requests.
            OrgRefused: requests wait, and the organisation has used more than its share.
        """
        with self._lock:
            now = self._clock()
            window = int(now // self._window_s)
            if window != self._window:
                self._window = window
                self._counts.clear()
            if self._counts[org] >= self._amount:
                wait_s = (window + 1) * self._window_s - now
                self._note("rate")
                raise OrgRateExceeded(f"organisation {quoted(org)}: has used up its requests", "rate", wait_s)
            is_over = self._lag_s > _WAITING_S and self._used.get(org, 0.0) > self._level
            if is_over and (self._in_round[org] or self._in_flight[org]) > own:
                self._note("share")
                raise OrgRefused(
                    f"organisation {quoted(org)}: has used more than its share, and requests wait", "share"
                )
            self._counts[org] += 1
            self._in_round[org] += 1

    def spend(self, org: str, seconds: float) -> None:
        """Adds to the cost of an organisation's requests."""
        with self._lock:
            self._used[org] = self._used.get(org, 0.0) + seconds

    def begin(self, org: str) -> None:
        """Takes a slot; `end` must follow.

        Raises:
            OrgRefused: the organisation has as many requests at a time as there are free slots.
        """
        with self._lock:
            if self._in_flight[org] >= self._slots - self._in_flight.total():
                self._note("slots")
                raise OrgRefused(f"organisation {quoted(org)}: has too many requests at a time", "slots")
            self._in_flight[org] += 1

    def end(self, org: str) -> None:
        """Frees the slot."""
        with self._lock:
            self._in_flight[org] -= 1
            if not self._in_flight[org]:
                del self._in_flight[org]

    def _end_round(self) -> None:
        self._has_round = False

    def _note(self, limit: str) -> None:
        if self._refused is not None:
            self._refused(limit)


def share_level(used: list[float]) -> float:
    """The use above which an organisation is refused while requests wait; inf if nobody is.

    Caps at the level would halve all use. The level is at least the mean: of equals, not all are refused.
    """
    total, below = sum(used), 0.0
    if len(used) < 2 or total < _BUSY_S:
        return math.inf
    used.sort()
    for at, one in enumerate(used):
        if below + one * (len(used) - at) >= total / 2:
            return max((total / 2 - below) / (len(used) - at), total / len(used))
        below += one
    return math.inf


class Ticket:
    """The organisations for which one request is admitted; `leave` must follow."""

    __slots__ = ("_admission", "_has_left", "_orgs", "_spent_s")

    def __init__(self, admission: OrgAdmission) -> None:
        self._admission = admission
        self._orgs: list[str] = []
        self._has_left = False
        self._spent_s = 0.0  # not yet divided between the organisations

    def enter(self, org: str) -> None:
        """Admits the request for an organisation; the platform ("") always is. Raises OrgRefused."""
        if not org:
            return
        self._admission.count(org, int(org in self._orgs))
        if org not in self._orgs:
            self._admission.begin(org)
            self._orgs.append(org)

    def spend(self, seconds: float) -> None:
        """Adds to the cost of the request."""
        self._spent_s += seconds
        if self._has_left or self._spent_s > _NOTED_S:
            self._divide()

    def received(self, size: int) -> None:
        """Adds the cost of bytes of its body."""
        self.spend(size * _S_PER_BYTE)

    def _divide(self) -> None:
        if not self._orgs:
            return
        spent_s, self._spent_s = self._spent_s, 0.0
        for org in self._orgs:
            self._admission.spend(org, spent_s / len(self._orgs))

    def leave(self) -> None:
        """Frees its slots. Later costs still count. May be called again."""
        if self._has_left:
            return
        self._has_left = True
        self._divide()
        for org in self._orgs:
            self._admission.end(org)


class RequestLimits:
    """The limits of callers in one process. Each worker counts for itself.

    Attributes:
        in_flight: caller → requests that are being answered.
    """

    def __init__(self, rate: str, concurrency: int, of_all: int | None = None) -> None:
        """rate: requests in a time, such as "500/second". concurrency: requests at a time.

        of_all: requests at a time of a caller for all organisations; None means the same number.

        Raises:
            InvalidInput: the rate is wrong; `read_rate` says why.
        """
        self._rate, self._concurrency = read_rate(rate), concurrency
        self._of_all = concurrency if of_all is None else max(concurrency, of_all)
        self._windows = FixedWindowRateLimiter(MemoryStorage())
        self.in_flight: Counter[str] = Counter()

    async def overdrawn_s(self, caller: str) -> int | None:
        """The seconds after which the caller may come again; None if it may now. Counts a request."""
        if await self._windows.hit(self._rate, caller):
            return None
        window = await self._windows.get_window_stats(self._rate, caller)
        resets_at: float = window.reset_time
        return max(1, math.ceil(resets_at - time.time()))

    def begin(self, caller: str, is_of_all: bool = False) -> bool:
        """Whether the caller may have one more request at a time. If so, `end` must follow.

        is_of_all: whether the caller acts for all organisations.
        """
        if self.in_flight[caller] >= (self._of_all if is_of_all else self._concurrency):
            return False
        self.in_flight[caller] += 1
        return True

    def end(self, caller: str) -> None:
        """Ends a request."""
        self.in_flight[caller] -= 1
        if not self.in_flight[caller]:
            del self.in_flight[caller]


def read_rate(text: str, setting: str = "key_rate") -> RateLimitItem:
    """The one rate in a text. Raises InvalidInput: it cannot be read, has several, or lets nobody in."""
    try:
        rates = parse_many(text)
    except ValueError as error:
        raise InvalidInput(
            f"{setting} is {text!r:.80}, must be such as 500/second or 10000/minute"
        ) from error
    if len(rates) > 1:
        raise InvalidInput(f"{setting} is {text!r:.80}, must be one rate, such as 500/second")
    if rates[0].amount < 1:
        raise InvalidInput(f"{setting} is {text!r:.80}, must be > 0, such as 500/second")
    return rates[0]
