"""How long one Python thread keeps another from running."""

from __future__ import annotations

import threading
import time
from types import TracebackType

_LEAST_S = 0.0005


class Holds:
    """A thread that only counts, beside the caller's: how long it has to wait, as a context.

    On a busy machine it also waits for a processor. So each wait is counted twice: as it was, and as far as
    the caller's thread computed meanwhile. The second is what the interpreter (the GIL) can have been held.

    Attributes:
        longest_s: the longest wait.
        held_s: the most that the caller's thread computed during one wait.
    """

    def __init__(self) -> None:
        self.longest_s = self.held_s = 0.0
        self._stop = threading.Event()
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._counts = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> Holds:
        self._thread.start()
        self._counts.wait()
        time.sleep(0.02)  # until it has begun in earnest
        self.longest_s = self.held_s = 0.0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _count(self) -> None:
        now, computed = time.perf_counter, time.clock_gettime
        self._counts.set()
        last, before = now(), computed(self._clock)
        while not self._stop.is_set():
            at, cpu = now(), computed(self._clock)
            if at - last > _LEAST_S:
                self.longest_s = max(self.longest_s, at - last)
                self.held_s = max(self.held_s, cpu - before)
            last, before = at, cpu
