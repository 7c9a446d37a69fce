"""`Budget`: an amount that may be spent, and comes back with time."""

from __future__ import annotations

import time
from collections.abc import Callable


class Budget:
    """A token bucket."""

    def __init__(self, most: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """most: the amount that may be spent at once. per_s: the amount that comes back in a second."""
        self._most, self._per_s, self._clock = most, per_s, clock
        self._left, self._at = most, clock()

    def take(self, amount: float = 1.0) -> bool:
        """Spends the amount if so much is left; returns whether it was."""
        self._refill()
        if self._left < amount:
            return False
        self._left -= amount
        return True

    def owe(self, amount: float) -> float:
        """Spends the amount in any case; returns the seconds until nothing is owed."""
        self._refill()
        self._left -= amount
        return max(0.0, -self._left / self._per_s)

    def give(self, amount: float = 1.0) -> None:
        """Gives an amount back."""
        self._left = min(self._most, self._left + amount)

    def _refill(self) -> None:
        now = self._clock()
        self.give((now - self._at) * self._per_s)
        self._at = now
