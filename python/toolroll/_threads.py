"""Background threads: a worker that repeats a step, calls with a deadline, and what a fork does to both.

After a fork the child has none of its parent's threads, and a lock that was held stays locked in the child.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread
from typing import Generic, TypeVar

from toolroll.errors import ToolrollError

_log = logging.getLogger("toolroll")

HOLD_S = 1.0  # how long a fork waits for a lock

T = TypeVar("T")


def survive_forks(
    owner: T, locks: Callable[[T], Iterable[threading.Lock]], in_child: Callable[[T], None]
) -> None:
    """Holds the owner's locks while the process forks, and calls `in_child` with the owner in the child.

    The owner is not kept alive. Where the system has no fork, this does nothing.

    Args:
        owner: the object that has the threads and locks.
        locks: returns the locks of whatever must not be running during a fork, such as a database call. It is
            called at each fork. A lock that is not free within a second is skipped.
        in_child: replaces the owner's locks and threads.
    """
    if not hasattr(os, "register_at_fork"):
        return
    this = weakref.ref(owner)
    held: list[threading.Lock] = []

    def hold() -> None:
        alive = this()
        if alive is not None:
            held.extend(lock for lock in locks(alive) if lock.acquire(timeout=HOLD_S))

    def release() -> None:
        while held:
            held.pop().release()

    def reset() -> None:
        release()
        alive = this()
        if alive is not None:
            in_child(alive)

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=reset)


class Worker:
    """Repeats a step in a daemon thread: when it is woken, and after the pause that the step asks for.

    The first `wake` starts the thread. When the step raises, the worker logs the first error, tries again
    after a pause that doubles each time, and logs the first success. The worker does not keep the step's
    object alive: once that is gone, the thread ends. In the child of a fork, the first `wake` starts a thread
    of the child's own. Any thread may call the methods.

    Attributes:
        lock: held during each step, and during a fork; replaced in the child.
        error: the message of the last step's error; None if it succeeded. The error itself would keep the
            step's object alive.
    """

    def __init__(
        self,
        step: Callable[[], float | None],
        name: str,
        *,
        subject: str,
        batch_s: float = 0.0,
        retry_s: tuple[float, float] = (0.1, 10.0),
        holds_forks: bool = True,
    ) -> None:
        """Starts no thread yet.

        Args:
            step: a bound method. It returns the seconds until its next call: 0 for at once, None for not
                before `wake`.
            name: the thread's name.
            subject: what the log lines begin with; "" logs nothing.
            batch_s: the pause between `wake` and the step, so that one step serves many calls.
            retry_s: the shortest and the longest pause after an error, before jitter.
            holds_forks: whether a fork waits until the step has ended.
        """
        self._step: Callable[[], Callable[[], float | None] | None] = weakref.WeakMethod(
            step, self.request_stop
        )
        self._name, self._subject, self._batch_s, self._retry_s = name, subject, batch_s, retry_s
        self.is_stopped = False
        self._reset()
        survive_forks(self, lambda one: (one.lock,) if holds_forks and one.is_started else (), Worker._reset)

    def _reset(self) -> None:
        self.lock, self._starting = threading.Lock(), threading.Lock()
        self._thread: Thread | None = None
        self._progress = Condition()
        # A queue, not an event: `put` is safe while the garbage collector runs, and costs 0.1 µs.
        self._signals: SimpleQueue[None] = SimpleQueue()
        self._is_woken = self._is_hurried = False
        self.error: str | None = None
        self._succeeded_at: float | None = None  # monotonic

    @property
    def is_started(self) -> bool:
        """Whether it has a thread in this process."""
        return self._thread is not None

    @property
    def age_s(self) -> float | None:
        """Seconds since the last step that succeeded; None before the first."""
        return None if self._succeeded_at is None else time.monotonic() - self._succeeded_at

    def wake(self) -> None:
        """Has the step run soon, and returns at once. Starts the thread, if the system has one to give."""
        if not self._is_woken:
            self._is_woken = True
            self._signals.put(None)
        if self._thread is None:
            self._start()

    def hurry(self) -> None:
        """Has the step run now, without the pause for a batch or after an error."""
        self._is_hurried = True
        self._signals.put(None)
        self.wake()

    def flush(self, is_done: Callable[[], bool], timeout_s: float) -> bool:
        """Repeats the step until `is_done`; False if that takes longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0 or self.is_stopped:
                return False
            self.hurry()
            with self._progress:
                if not is_done():
                    self._progress.wait(min(left, 0.5))
        return True

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ends the thread after its present step, and waits that long for it."""
        self.request_stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def request_stop(self, _: object = None) -> None:
        """Ends the thread after its present step, without waiting for that."""
        self.is_stopped = True
        self._signals.put(None)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self.is_stopped:
                thread = Thread(target=self._run, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads
                    return
                self._thread = thread

    def _run(self) -> None:
        pause_s: float | None = None
        retry_s = self._retry_s[0]
        while True:
            if pause_s != 0:
                self._wait(pause_s, lambda: self._is_woken or self._is_hurried)
                self._wait(self._batch_s, lambda: self._is_hurried)
            if self.is_stopped:
                return
            try:
                pause_s = self._run_step()
                self._report(None)
                retry_s = self._retry_s[0]
            except Exception as error:  # a thread that died would leave its work undone unseen
                self._report(error)
                pause_s = 0.0
            with self._progress:
                self._progress.notify_all()
            if self.error is not None:
                self._wait(retry_s * (0.5 + os.urandom(1)[0] / 255), lambda: self._is_hurried)
                retry_s = min(2 * retry_s, self._retry_s[1])

    def _run_step(self) -> float | None:
        self._is_woken = self._is_hurried = False
        step = self._step()
        if step is None:  # its object is gone
            return None
        with self.lock:
            return step()

    def _wait(self, seconds: float | None, is_over: Callable[[], bool]) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while not (is_over() or self.is_stopped):
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            try:
                self._signals.get(timeout=left)
            except Empty:
                return

    def _report(self, error: Exception | None) -> None:
        if self._subject and error is None and self.error is not None:
            _log.warning("%s: succeeded again", self._subject)
        if self._subject and error is not None and self.error is None:
            is_known = isinstance(error, ToolrollError)
            _log.warning("%s: failed, will try again: %s", self._subject, error, exc_info=not is_known)
        if error is None:
            self._succeeded_at = time.monotonic()
        self.error = None if error is None else str(error) or type(error).__name__


class Overdue(Exception):
    """The call did not return in time. It may still be running."""


class Full(Exception):
    """The call was not started: every thread is taken."""


class CallPool:
    """Runs calls with a deadline, each on one of at most `count` daemon threads.

    Safe to share between threads. The child of a fork needs a pool of its own: the parent's calls never
    return there. Starting a thread takes about 0.1 ms.
    """

    def __init__(self, count: int, name: str) -> None:
        """name: the threads' name."""
        self._slots, self._name = _Slots(count), name

    def run(self, call: Callable[[], T], timeout_s: float) -> T:
        """Returns what `call` returns, and raises what it raises.

        Raises:
            Overdue: it took longer than `timeout_s`.
            Full: all threads were taken for that long, or all of them run calls that were given up.
        """
        slots, deadline = self._slots, time.monotonic() + timeout_s
        slots.enter(deadline)
        task = _Task(call, slots)
        try:
            Thread(target=task.work, name=self._name, daemon=True).start()
        except RuntimeError as error:  # the system has no more threads
            slots.leave(task)
            raise Full(str(error)) from error
        try:
            task.done.wait(max(0.0, deadline - time.monotonic()))
        finally:
            in_time = slots.collect(task)
        if not in_time:
            raise Overdue(f"no answer in {round(timeout_s, 2):g} s")
        if task.error is not None:
            raise task.error
        return task.result


class _Task(Generic[T]):
    result: T

    def __init__(self, call: Callable[[], T], slots: _Slots) -> None:
        self._call, self._slots = call, slots
        self.error: BaseException | None = None
        self.done = Event()
        self.is_given_up = False

    def work(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # raised again in the caller's thread
            self.error = error
        self._slots.leave(self)


class _Slots:
    """Counts the threads that are taken, and those among them whose call was given up."""

    def __init__(self, count: int) -> None:
        self._count, self._taken, self._lost = count, 0, 0
        self._changed = Condition()

    def enter(self, deadline: float) -> None:
        with self._changed:
            while self._taken == self._count:
                if self._lost == self._count:
                    raise Full(f"all {self._count} threads are lost to calls that never returned")
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise Full(f"all {self._count} threads are taken")
            self._taken += 1

    def leave(self, task: _Task[T]) -> None:
        with self._changed:
            self._taken -= 1
            self._lost -= task.is_given_up
            task.done.set()
            self._changed.notify()

    def collect(self, task: _Task[T]) -> bool:
        """Whether the task is done; if not, it is given up."""
        with self._changed:
            if not task.done.is_set():
                task.is_given_up = True
                self._lost += 1
                if self._lost == self._count:
                    self._changed.notify_all()
            return not task.is_given_up
