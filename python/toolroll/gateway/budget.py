"""`Budget`: an amount that can be spent and refills over time."""

from __future__ import annotations

import time
from collections.abc import Callable


class Budget:
    """A token bucket."""

    def __init__(self, most: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """most: the amount that may be spent at once. per_s: the refill in a second."""
        self._most, self._per_s, self._clock = most, per_s, clock
        self._left, self._at = most, clock()

    def take(self, amount: float = 1.0) -> bool:
        """Spends the amount if enough is left. Returns whether it was."""
        self._refill()
        if self._left < amount:
            return False
        self._left -= amount
        return True

    def owe(self, amount: float) -> float:
        """Always spends the amount. Returns the seconds until the budget is no longer negative."""
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
