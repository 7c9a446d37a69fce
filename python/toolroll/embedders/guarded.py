"""Makes an embedder that may wait, fail or return invalid vectors safe in a turn (extra `remote`).

Put a `CachedEmbedder` around it, so that known texts need no call:
`CachedEmbedder(GuardedEmbedder(OllamaEmbedder("nomic-embed-text")))`.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock

import numpy as np
import numpy.typing as npt

from toolroll.embedders.checks import RequestRejected
from toolroll.model.embedder import Embedder, EmbedsTexts, as_embedder, unit_rows
from toolroll.model.errors import EmbedderUnavailable, InvalidInput
from toolroll.runtime.threads import CallPool, Full, Overdue

try:
    from circuitbreaker import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
        CircuitBreaker,
    )
    from tenacity import (
        RetryCallState,
        Retrying,
        retry_if_exception,
        stop_after_attempt,
        stop_before_delay,
        wait_random_exponential,
    )
except ImportError as error:
    raise EmbedderUnavailable(f'guarded embedder: {error}: pip install "toolroll[remote]"') from error

logger = logging.getLogger(__name__)

QUERY_BACKOFF_S, BACKOFF_S = 0.05, 0.25  # longest wait before the first retry; it doubles, with full jitter
LONGEST_BACKOFF_S = 8.0


class GuardedEmbedder(Embedder):
    """Embeds by another embedder before a deadline, or raises EmbedderUnavailable.

    - **Deadline.** The call runs on a daemon thread of this guard, at most `workers` at a time, and is
      abandoned at its deadline. If all threads hang in abandoned calls, a new call fails at once.
    - **Retries**, with exponential backoff and jitter, or after the delay that the embedder asks for, until
      the deadline. `RequestRejected` is not retried.
    - **Circuit breaker.** After `failures` consecutive calls that failed or were abandoned, no call is made
      for `rest_s`: a query then takes microseconds. After that one trial call decides.
    - **Answers are checked**: count, width, NaN, rows that are neither of unit length nor zero.

    Safe to share between threads. After a fork the child starts its own threads.

    Attributes:
        identity, dim, is_english, scale: the inner embedder's.
    """

    def __init__(
        self,
        inner: EmbedsTexts,
        *,
        query_timeout_s: float = 0.5,
        timeout_s: float = 60.0,
        query_attempts: int = 2,
        attempts: int = 4,
        batch: int = 64,
        workers: int = 4,
        failures: int = 3,
        rest_s: float = 10.0,
    ) -> None:
        """Guards `inner`.

        query_timeout_s, query_attempts: for the message of a turn, retries and waits included.
        timeout_s, attempts: for each `batch` of documents (tools, examples), retries and waits included.
        """
        for name, number, least in (
            ("query_attempts", query_attempts, 1),
            ("attempts", attempts, 1),
            ("batch", batch, 1),
            ("workers", workers, 1),
            ("failures", failures, 1),
        ):
            if number < least:
                raise InvalidInput(f"guarded embedder: {name} is {number}, must be at least {least}")
        for name, seconds in (
            ("query_timeout_s", query_timeout_s),
            ("timeout_s", timeout_s),
            ("rest_s", rest_s),
        ):
            if not 0 < seconds < math.inf:
                raise InvalidInput(f"guarded embedder: {name} is {seconds}, must be above 0 and finite")
        self._inner = whole = as_embedder(inner)
        self.identity, self.dim = whole.identity, whole.dim
        self.is_english, self.scale = whole.is_english, whole.scale
        self._query = _RetryPolicy(query_timeout_s, query_attempts, QUERY_BACKOFF_S)
        self._documents = _RetryPolicy(timeout_s, attempts, BACKOFF_S)
        self._batch = batch
        self._limits = workers, failures, rest_s
        self._begin()

    def _begin(self) -> None:
        """Creates the threads and the breaker of this process: a fork does not copy threads."""
        workers, failures, rest_s = self._limits
        self._workers = CallPool(workers, "toolroll-embedder")
        self._breaker = Breaker(failures, rest_s, self.identity)
        self._pid = os.getpid()

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim]; `timeout_s` for each batch. The first batch that fails raises."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        for at in range(0, len(texts), self._batch):
            part = list(texts[at : at + self._batch])
            ask = partial(self._inner.embed, part)
            vectors[at : at + len(part)] = self._call(ask, len(part), self._documents)
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim], within `query_timeout_s`."""
        rows = self._call(lambda: np.asarray(self._inner.embed_query(text))[None], 1, self._query)
        vector: npt.NDArray[np.float32] = rows[0]
        return vector

    def _call(self, ask: Callable[[], object], count: int, policy: _RetryPolicy) -> npt.NDArray[np.float32]:
        """Checked rows of `ask` before the deadline, unless the breaker is open."""
        if self._pid != os.getpid():
            self._begin()
        workers, breaker = self._workers, self._breaker
        deadline = time.monotonic() + policy.timeout_s

        def attempt() -> npt.NDArray[np.float32]:
            try:
                answer = workers.run(ask, deadline - time.monotonic())
            except (EmbedderUnavailable, Full):
                raise
            except Overdue as error:
                raise EmbedderUnavailable(f"embedder {self.identity}: {error}, abandoned") from error
            except Exception as error:  # a foreign embedder may raise errors of any library
                raise EmbedderUnavailable(
                    f"embedder {self.identity}: {type(error).__name__}: {error}"
                ) from error
            return unit_rows(answer, count, self.dim, self.identity)

        is_trial = breaker.enter()
        works, why = None, ""  # None: the call says nothing about the embedder
        try:
            rows: npt.NDArray[np.float32] = policy.retrying()(attempt)
            works = True
            return rows
        except Full as error:
            raise EmbedderUnavailable(f"embedder {self.identity}: {error}") from error
        except EmbedderUnavailable as error:
            works, why = isinstance(error, RequestRejected) and error.only_this_text, str(error)
            raise
        finally:
            breaker.leave(is_trial, works, why)


class _RetryPolicy:
    """The time limit of a call and its retries."""

    def __init__(self, timeout_s: float, attempts: int, backoff_s: float) -> None:
        self.timeout_s = timeout_s
        self._stop = stop_after_attempt(attempts) | stop_before_delay(timeout_s)
        self._backoff = wait_random_exponential(multiplier=backoff_s, max=LONGEST_BACKOFF_S)

    def retrying(self) -> Retrying:
        return Retrying(
            stop=self._stop, wait=self._wait, retry=retry_if_exception(_is_retryable), reraise=True
        )

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after_s if isinstance(error, EmbedderUnavailable) else None
        return max(self._backoff(state), asked or 0.0)


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, EmbedderUnavailable) and not isinstance(error, RequestRejected)


class Breaker:
    """A circuit breaker that threads may share; its clock is monotonic.

    The library has state, counts and clock, but no lock, and lets every caller through once the pause is
    over. This class adds the lock and lets one trial call through.
    """

    def __init__(self, failures: int, rest_s: float, name: str) -> None:
        """Opens for `rest_s` after `failures` in a row. name: of the embedder, for messages."""
        self._state = CircuitBreaker(failure_threshold=failures, recovery_timeout=rest_s, name=name)
        self._is_trying = False
        self._lock = Lock()

    def enter(self) -> bool:
        """Whether this call is the trial call. Raises EmbedderUnavailable if the breaker is open."""
        state = self._state
        if state.closed:
            return False
        with self._lock:
            if state.closed:
                return False
            if state.opened or self._is_trying:
                raise EmbedderUnavailable(
                    f"paused after {state.failure_count} consecutive failures: {state.last_failure}",
                    retry_after_s=max(0.0, float(state.open_remaining)),
                )
            self._is_trying = True
            return True

    def leave(self, is_trial: bool, works: bool | None, why: str) -> None:
        """Records the result of a call, unless the breaker opened meanwhile."""
        state = self._state
        if works and state.closed and not state.failure_count:
            return
        with self._lock:
            if is_trial:
                self._is_trying = False
            elif not state.closed:
                return
            if works:
                if is_trial:
                    logger.info("embedder %s: available again", state.name)
                state.reset()
            elif works is False:
                with suppress(_Failed), state:
                    raise _Failed(why)  # not the error itself: its traceback holds the texts
                if state.opened:
                    logger.warning("embedder %s: paused: %s", state.name, why)


class _Failed(Exception):
    """Reports a failure to the library."""
