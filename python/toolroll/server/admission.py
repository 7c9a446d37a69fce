"""`OrgAdmission`: shares one process between organisations, so that one takes nothing from the others.

Three limits. Rate: requests in a time, which is fixed. Slots: an organisation may have as many requests at a
time as slots are free, so one alone gets half of them, and a newcomer always finds some. Share: if requests
wait for the event loop, organisations are refused whose requests cost the most time and bytes in the last
second, until nothing waits. The share does not count where an organisation is alone, for one that sends one
request at a time, or where requests wait although the service does little: then the host is busy.

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

from toolroll.model.errors import Unavailable, quoted
from toolroll.server.request_limits import read_rate

_BEAT_S = 0.01
_WAITING_S = 0.02  # lag of the event loop above which requests count as waiting
_SMOOTHING = 0.3  # of the lag: one long step is no overload
_BEATS = 10  # from one update of what organisations have used to the next
_IDLE_BEATS = 200  # without a request, until the beat stops
_HALF_LIFE_S = 1.0  # of what an organisation has used
_USED_NOTHING = 1e-4  # seconds
_BUSY_S = 0.3  # of about the last second, from which on what all have used may be what others wait for
_NOTED_S = 0.001  # of a request, until they are noted
_S_PER_BYTE = 10e-9  # what a byte of a body costs beside the time of reading it
_RETRY_S = 1.0


class OrgRefused(Unavailable):
    """An organisation has too many requests now. The request was not begun.

    Attributes:
        limit: the limit: "slots" or "share".
    """

    def __init__(self, message: str, limit: str, retry_after_s: float = _RETRY_S) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.limit = limit


class OrgRateExceeded(OrgRefused):
    """An organisation has used up its requests of a time."""


class OrgAdmission:
    """The requests of organisations in one process, from its event loop and from threads of its routes."""

    def __init__(self, rate: str, slots: int, refused: Callable[[str], object] | None = None) -> None:
        """rate: requests of an organisation in a time. slots: requests of all organisations at a time.

        refused: called with the limit of each refusal.

        Raises:
            InvalidInput: the rate cannot be read.
        """
        item = read_rate(rate, "org_rate")
        self._amount, self._window_s = item.amount, item.get_expiry()
        self._slots, self._refused = slots, refused
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()
        self._total = 0
        self._counts: dict[str, int] = {}  # organisation → requests in this window
        self._window = 0
        self._used: dict[str, float] = {}  # organisation → seconds of about the last second
        self._level = math.inf  # what one may have used while requests wait
        self._lag_s, self._used_at = 0.0, 0.0  # event loop's seconds
        # organisation → requests in this round of the event loop: who sends one at a time has one at the most
        self._in_round: dict[str, int] = {}
        self._has_round = self._is_beating = False
        self._beats, self._idle = 0, 0  # beats, and those since the last request

    def ticket(self) -> Ticket:
        """For one request. The event loop calls this."""
        if not self._has_round:
            self._has_round = True
            asyncio.get_running_loop().call_soon(self._end_round)
        if not self._is_beating:
            self._is_beating, self._idle = True, 0
            loop = asyncio.get_running_loop()
            self._used_at = loop.time()
            self._beat_later(loop)
        return Ticket(self)

    def count(self, org: str, own: int = 0) -> None:
        """Counts a request, or one of a batch.

        own: slots of the organisation that the request has already.

        Raises:
            OrgRateExceeded: the organisation has used up its requests.
            OrgRefused: requests wait, and the organisation has used more than its share.
        """
        with self._lock:
            now = time.time()
            window = int(now // self._window_s)
            if window != self._window:
                self._window, self._counts = window, {}
            count = self._counts.get(org, 0)
            if count >= self._amount:
                wait_s = (window + 1) * self._window_s - now
                self._note("rate")
                raise OrgRateExceeded(f"organisation {quoted(org)}: has used up its requests", "rate", wait_s)
            is_over = self._lag_s > _WAITING_S and self._used.get(org, 0.0) > self._level
            in_round = self._in_round.get(org, 0)
            if is_over and (in_round or self._in_flight.get(org, 0)) > own:
                self._note("share")
                raise OrgRefused(
                    f"organisation {quoted(org)}: has used more than its share, and requests wait", "share"
                )
            self._counts[org], self._in_round[org], self._idle = count + 1, in_round + 1, 0

    def spend(self, org: str, seconds: float) -> None:
        """Adds up what an organisation's requests cost."""
        with self._lock:
            self._used[org] = self._used.get(org, 0.0) + seconds

    def begin(self, org: str) -> None:
        """Takes a slot; `end` must follow.

        Raises:
            OrgRefused: the organisation has as many requests at a time as there are free slots.
        """
        with self._lock:
            if self._in_flight.get(org, 0) >= self._slots - self._total:
                self._note("slots")
                raise OrgRefused(f"organisation {quoted(org)}: has too many requests at a time", "slots")
            self._in_flight[org] += 1
            self._total += 1

    def end(self, org: str) -> None:
        """Frees the slot."""
        with self._lock:
            self._total -= 1
            self._in_flight[org] -= 1
            if not self._in_flight[org]:
                del self._in_flight[org]

    def _end_round(self) -> None:
        with self._lock:
            self._has_round, self._in_round = False, {}

    def _note(self, limit: str) -> None:
        if self._refused is not None:
            self._refused(limit)

    def _beat_later(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(_BEAT_S, self._beat, loop, loop.time() + _BEAT_S)

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """Measures how late the event loop is, and who had the most of it."""
        now = loop.time()
        self._lag_s += _SMOOTHING * (max(0.0, now - due) - self._lag_s)
        self._beats, self._idle = self._beats + 1, self._idle + 1
        if self._beats % _BEATS == 0:
            decay = 0.5 ** ((now - self._used_at) / _HALF_LIFE_S)
            self._used_at = now
            with self._lock:
                used = {org: used * decay for org, used in self._used.items()}
                self._used = {org: left for org, left in used.items() if left > _USED_NOTHING}
            self._level = _level(list(self._used.values()))
        if self._idle > _IDLE_BEATS:
            self._is_beating, self._lag_s, self._used, self._level = False, 0.0, {}, math.inf
        else:
            self._beat_later(loop)


def _level(used: list[float]) -> float:
    """Above what an organisation is refused while requests wait.

    The level at which all use would be half of what it is, or the mean where that is higher: of equals, not
    all are refused.
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
    """What one request has been admitted for; `leave` at its end."""

    __slots__ = ("_admission", "_has_left", "_orgs", "_spent_s")

    def __init__(self, admission: OrgAdmission) -> None:
        self._admission = admission
        self._orgs: list[str] = []
        self._has_left = False
        self._spent_s = 0.0  # that no organisation has yet

    def enter(self, org: str) -> None:
        """Admits the request for an organisation; the platform ("") always is. Raises OrgRefused."""
        if not org:
            return
        self._admission.count(org, int(org in self._orgs))
        if org not in self._orgs:
            self._admission.begin(org)
            self._orgs.append(org)

    def spend(self, seconds: float) -> None:
        """Notes what the request costs."""
        self._spent_s += seconds
        if self._has_left or self._spent_s > _NOTED_S:
            self._divide()

    def received(self, size: int) -> None:
        """Notes bytes of its body."""
        self.spend(size * _S_PER_BYTE)

    def _divide(self) -> None:
        if not self._orgs:
            return
        spent_s, self._spent_s = self._spent_s, 0.0
        for org in self._orgs:
            self._admission.spend(org, spent_s / len(self._orgs))

    def leave(self) -> None:
        """Frees its slots. What it still costs counts; it may leave again."""
        if self._has_left:
            return
        self._has_left = True
        self._divide()
        for org in self._orgs:
            self._admission.end(org)
