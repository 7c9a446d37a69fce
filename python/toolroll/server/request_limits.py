"""Limits of requests: for each caller how many a second and how many at a time."""

from __future__ import annotations

import math
import time
from collections import Counter

from limits import RateLimitItem, parse_many
from limits.aio.storage import MemoryStorage  # the other one starts a thread every 10 ms, and waits for it
from limits.aio.strategies import FixedWindowRateLimiter

from toolroll.model.errors import InvalidInput

BUSY_RETRY_S = 1


class RequestLimits:
    """The limits of callers in one process. Each worker counts for itself.

    Attributes:
        in_flight: caller → requests that are being answered.
    """

    def __init__(self, rate: str, concurrency: int, of_all: int | None = None) -> None:
        """rate: requests in a time, such as "500/second". concurrency: requests at a time.

        of_all: requests at a time of a caller for all organisations; None for as many.

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
