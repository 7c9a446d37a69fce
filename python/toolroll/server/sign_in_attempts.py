"""How fast passwords can be tried: attempts wait for their turn, by address and by account.

Beyond a rate, an attempt is delayed and not refused: wrong passwords of a stranger keep nobody out who has
the right one. Only who would have to wait for longer than `LONGEST_DELAY_S` is told to come again. An account
takes `PLACES` times the rate of an address, so one address cannot use up its turns. A browser in which the
account signed in before has turns of its own, whatever others do.

The turns follow the generic cell rate algorithm: one number for each address and account.
Source: ITU-T I.371, 2004, annex A.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections.abc import Callable, Mapping

from fastapi import HTTPException
from limits import RateLimitItem

LONGEST_DELAY_S = 10.0
PLACES = 5


class SignInAttempts:
    """The turns of one process. Each worker counts for itself."""

    def __init__(self, rate: RateLimitItem, clock: Callable[[], float] = time.monotonic) -> None:
        """rate: of an address, and of a browser that an account knows."""
        self._period_s, self._interval_s = rate.get_expiry(), rate.get_expiry() / rate.amount
        self._clock = clock
        self._used: dict[str, float] = {}  # turn → the time at which nothing of it is used up

    def wait_s(self, intervals: Mapping[str, float]) -> float:
        """How long an attempt waits for its turns. One that waits for too long takes none.

        intervals: turn → the seconds between two of them, as `place` and `account` return them. As many as
            fit in the time of the rate come at once.
        """
        now = self._clock()
        waits_s = (self._used.get(turn, now) - now - self._period_s + s for turn, s in intervals.items())
        wait_s = max(0.0, *waits_s)
        if wait_s <= LONGEST_DELAY_S:
            self._used = {turn: at for turn, at in self._used.items() if at > now}
            for turn, interval_s in intervals.items():
                self._used[turn] = max(now, self._used.get(turn, now)) + interval_s
        return wait_s

    async def take(self, intervals: Mapping[str, float]) -> None:
        """Waits for the turns of an attempt.

        Raises:
            HTTPException: 429, it would have to wait for too long.
        """
        wait_s = self.wait_s(intervals)
        if wait_s > LONGEST_DELAY_S:
            retry = {"Retry-After": str(math.ceil(wait_s - LONGEST_DELAY_S))}
            raise HTTPException(429, "too many attempts to sign in", retry)
        await asyncio.sleep(wait_s)

    def key(self, key_id: str) -> dict[str, float]:
        """The turns of a service key. It needs no password, but each session may end with a line in a log."""
        return {f"key {key_id}": self._interval_s}

    def place(self, address: str) -> dict[str, float]:
        """The turns of an address; of IPv6, of the network that one customer has."""
        return {f"address {_network(address)}": self._interval_s}

    def account(self, name: str, address: str, browser: str) -> dict[str, float]:
        """The turns of an attempt at an account.

        browser: the one in which the account signed in before; "" for any other.
        """
        if browser:
            return {f"browser {browser} {name}": self._interval_s}
        return {**self.place(address), f"account {name}": self._interval_s / PLACES}


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address
