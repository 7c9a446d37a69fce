"""Background threads: a worker that repeats a step, calls with a deadline, and their life across a fork.

The child of a fork has none of its parent's threads, and a lock that another thread held stays locked there.
"""

from __future__ import annotations

import atexit
import contextvars
import itertools
import logging
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread
from typing import Any, Generic, TypeVar

from toolroll.model.errors import Overloaded, ToolrollError

_log = logging.getLogger("toolroll")

HOLD_S = 1.0  # how long a fork waits for a lock
IDLE_S = 1.0  # after which a thread of a pool ends
_END_S = 5.0  # how long the end of the process waits for threads that are at work
_SMOOTHING = 8  # calls that the mean duration of calls is taken over

T = TypeVar("T")


def survive_forks(
    owner: T, locks: Callable[[T], Iterable[threading.Lock]], in_child: Callable[[T], None]
) -> None:
    """Holds the owner's locks while the process forks, and calls `in_child` with the owner in the child.

    The owner is not kept alive. If the system has no fork, this does nothing.

    locks: returns the locks of work that must not run during a fork, such as a database call. It is called at
    each fork. A lock that is not free within a second is skipped. in_child: replaces the owner's locks and
    threads.
    """
    number = next(_numbers)
    this = weakref.ref(owner, lambda _: _survivors.pop(number, None))

    def hold() -> None:
        alive = this()
        if alive is not None:
            _held.locks.extend(lock for lock in locks(alive) if lock.acquire(timeout=HOLD_S))

    def reset() -> None:
        alive = this()
        if alive is not None:
            in_child(alive)

    _survivors[number] = (hold, reset)


class _HeldLocks(threading.local):
    """The locks that the forking thread holds."""

    def __init__(self) -> None:
        self.locks: list[threading.Lock] = []


# In the order of registration. Python never forgets a function of `os.register_at_fork`, so one set of
# functions serves all owners: an entry goes with its owner.
_survivors: dict[int, tuple[Callable[[], None], Callable[[], None]]] = {}
_numbers = itertools.count()
_held = _HeldLocks()


def _hold_locks() -> None:
    _call_each([hold for hold, _ in reversed(list(_survivors.values()))])


def _release_locks() -> None:
    while _held.locks:
        _held.locks.pop().release()


def _begin_in_child() -> None:
    _release_locks()
    _call_each([reset for _, reset in list(_survivors.values())])


def _call_each(functions: Iterable[Callable[[], None]]) -> None:
    for function in functions:
        try:
            function()
        except Exception:  # one owner must not leave the others with locks of the parent
            _log.exception("fork: an object is not ready for it")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_begin_in_child)


class PerProcess(Generic[T]):
    """A value for each process: the child of a fork makes its own at the first use.

    Reading costs 0.1 µs. Safe to share between threads.
    """

    __slots__ = ("_make", "_values")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values = dict[int, T]()  # in a fork's child, with the parent's value until the first use

    @property
    def own(self) -> T:
        """The value of this process."""
        pid = os.getpid()
        if pid not in self._values:
            self._values.setdefault(pid, self._make())
            for other in [one for one in self._values.copy() if one != pid]:
                self._values.pop(other, None)
        return self._values[pid]


class _Background(Thread):
    """A daemon thread that ends before the interpreter does.

    A daemon thread that takes the GIL while the interpreter ends has its stack unwound. If the stack has
    frames of C++, such as the core's, the process aborts.
    """

    def __init__(self, target: Callable[[], None], name: str, request_end: Callable[[], object]) -> None:
        """request_end: makes the target return soon; must not wait."""
        super().__init__(target=target, name=name, daemon=True)
        self.request_end = request_end


def _end_all() -> None:
    """Ends all background threads. Unwritten work stays in files for the next process."""
    deadline = time.monotonic() + _END_S
    threads = [one for one in threading.enumerate() if isinstance(one, _Background)]
    for one in threads:
        one.request_end()
    for one in threads:
        one.join(max(0.0, deadline - time.monotonic()))


# The last registered function runs first, so a caller's own `close` comes before this one.
atexit.register(_end_all)


class Worker:
    """Repeats a step in a daemon thread: when it is woken, and after the pause that the step asks for.

    The first `wake` starts the thread. If the step raises, the worker logs the first error, tries again after
    a pause that doubles each time, and logs the first success. The worker does not keep the step's object
    alive: without the object, the thread ends. In the child of a fork, the first `wake` starts a thread of
    the child's own. Any thread may call the methods.

    Attributes:
        batch_s: the pause between `wake` and the step, so that one step serves many calls. May be changed.
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
        retry_s: tuple[float, float] = (0.1, 1.0),
        holds_forks: bool = True,
    ) -> None:
        """Starts no thread yet.

        step: a bound method. It returns the seconds until its next call: 0 for at once, None to wait for
        `wake`. subject: the beginning of log lines; "" logs nothing. retry_s: the shortest and the longest
        pause after an error, before jitter. holds_forks: whether a fork waits until the step has ended.
        """
        self._step: Callable[[], Callable[[], float | None] | None] = weakref.WeakMethod(
            step, self.request_stop
        )
        self._name, self._subject, self.batch_s, self._retry_s = name, subject, batch_s, retry_s
        self.is_stopped = False
        self._last: Callable[[], object] | None = None
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

    @property
    def is_started(self) -> bool:
        """Whether it has a thread in this process."""
        return self._thread is not None

    def wake(self) -> None:
        """Runs the step soon, and returns at once. Starts the thread, if the system has one to give."""
        if not self._is_woken:
            self._is_woken = True
            self._signals.put(None)
        if self._thread is None:
            self._start()

    def hurry(self) -> None:
        """Runs the step now, without the pause for a batch or after an error."""
        self._is_hurried = True
        self._signals.put(None)
        self.wake()

    def flush(self, is_done: Callable[[], bool], timeout_s: float) -> bool:
        """Repeats the step until `is_done`. Returns False if that takes longer than `timeout_s`."""
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
        """Ends the thread after its present step, and waits for it."""
        self.request_stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, timeout_s))

    def request_stop(self, _: object = None) -> None:
        """Ends the thread after its present step, without a wait."""
        self.is_stopped = True
        self._signals.put(None)

    def end_with(self, last: Callable[[], object]) -> None:
        """Ends the thread after its present step, and calls `last` in it if it has been started.

        Garbage collection may call this: it takes no lock and starts no thread.
        """
        self._last = last
        self.request_stop()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self.is_stopped:
                thread = _Background(self._run_to_end, self._name, self.request_stop)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads
                    return
                self._thread = thread

    def _run_to_end(self) -> None:
        self._run()
        last, self._last = self._last, None
        if last is not None:
            last()

    def _run(self) -> None:
        pause_s: float | None = None
        retry_s = self._retry_s[0]
        while True:
            if pause_s != 0:
                self._wait(pause_s, lambda: self._is_woken or self._is_hurried)
                self._wait(self.batch_s, lambda: self._is_hurried)
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
        is_new = error is not None and self.error is None and not self.is_stopped
        if self._subject and is_new:
            is_known = isinstance(error, ToolrollError)
            _log.warning("%s: failed, will try again: %s", self._subject, error, exc_info=not is_known)
        self.error = None if error is None else str(error) or type(error).__name__


class Overdue(Exception):
    """The call did not return in time. It may still run."""


class Full(Exception):
    """The call was not started: every thread is taken."""


class _Current(threading.local):
    """The task of a pool's thread, and the time when the work of this thread is given up."""

    task: _Task[Any] | None = None
    give_up_at = math.inf  # monotonic


_current = _Current()


def is_given_up() -> bool:
    """Whether this thread has worked for too long, so that a wait for a database should end.

    So it is if a pool's call has passed its deadline, or a `give_up_after` its time.
    """
    task = _current.task
    return (task is not None and task.is_lost) or time.monotonic() >= _current.give_up_at


@contextmanager
def give_up_after(timeout_s: float) -> Iterator[None]:
    """Makes a wait of this thread for PostgreSQL fail after so long in all, with the driver's error."""
    before = _current.give_up_at
    _current.give_up_at = min(before, time.monotonic() + timeout_s)
    try:
        yield
    finally:
        _current.give_up_at = before


class CallPool:
    """Runs calls on at most `count` daemon threads, each before a deadline.

    A thread starts when a call finds no idle one, and ends after a second without a call. `run` waits in a
    thread, `arun` in an event loop. Safe to share between threads. The child of a fork begins without threads
    and calls: its parent's calls never return there.

    With `patience_s`, the pool refuses a call that would wait longer for a thread: at once if the times
    of earlier calls predict it, else after that time. Slow calls extend the limit: a call may always wait
    for twice the mean time of a call.
    """

    def __init__(self, count: int, name: str, *, patience_s: float | None = None) -> None:
        """name: the threads' name. patience_s: None lets calls wait for a thread until their own deadline."""
        self._of_process = PerProcess(lambda: _Threads(count, name, patience_s))

    @property
    def _threads(self) -> _Threads:
        return self._of_process.own

    @property
    def refused(self) -> int:
        """How many calls this process refused because too many waited."""
        return self._threads.refused

    def run(self, call: Callable[[], T], timeout_s: float) -> T:
        """Returns the result of `call`, or raises its error.

        Raises:
            Overdue: it took longer than `timeout_s`.
            Full: all threads were busy for that long, or all run calls that were given up.
            Overloaded: it would wait for a thread for too long.
        """
        threads, done = self._threads, Event()
        task = _Task(call, done.set)
        threads.start(task)
        try:
            done.wait(max(0.0, timeout_s))
        finally:
            threads.give_up(task, is_lost=True)
        return task.outcome(timeout_s)

    async def arun(self, call: Callable[[], T], timeout_s: float | None = None) -> T:
        """`run` for an event loop. The call sees the context variables of its caller.

        If the caller is cancelled, a call that has not begun never will; one that has begun runs to its end.
        A `timeout_s` of None waits for as long as it takes.
        """
        import asyncio  # the caller has imported it; a process without an event loop does without

        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        def notify() -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(wake)

        def refuse() -> None:
            if threads.refuse(task):
                wake()

        threads = self._threads
        task = _Task(partial(contextvars.copy_context().run, call), notify)
        threads.start(task)
        limits = ((timeout_s, wake), (threads.longest_wait_s, refuse))
        timers = [loop.call_later(limit_s, end) for limit_s, end in limits if limit_s is not None]
        is_overdue = False
        try:
            await woken
            is_overdue = True  # if it is not done
        finally:
            for timer in timers:
                timer.cancel()
            threads.give_up(task, is_lost=is_overdue)
        return task.outcome(timeout_s)

    def stop(self, timeout_s: float = 0.0) -> bool:
        """Ends each thread with its call. Returns whether none is left within `timeout_s`.

        A later call runs on a new thread.
        """
        return self._threads.stop(time.monotonic() + timeout_s)


class _Task(Generic[T]):
    """A call and its result; the lock of its `_Threads` guards the state."""

    _result: T

    def __init__(self, call: Callable[[], T], notify: Callable[[], object]) -> None:
        """notify: called once, in any thread, when the task is done."""
        self._call, self.notify = call, notify
        self.error: BaseException | None = None
        self.is_done = self.is_lost = False
        self.begun_ns = 0

    def work(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:  # raised again by `outcome`
            self.error = error

    def outcome(self, timeout_s: float | None) -> T:
        """The result of the call. Raises Overdue if it has not returned."""
        if not self.is_done:
            raise Overdue(f"no answer in {round(timeout_s or 0.0, 2):g} s")
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # else the error holds its traceback, and that this task
        return self._result


class _Threads:
    """The threads of a `CallPool` and the calls that wait for one. An idle thread keeps no pool alive."""

    def __init__(self, count: int, name: str, patience_s: float | None) -> None:
        self._count, self._name, self.patience_s = count, name, patience_s
        self._idle_s = IDLE_S
        self._waiting: deque[_Task[Any]] = deque()
        self._started = self._idle = 0
        self._lost = 0  # threads whose call was given up
        self.refused = 0
        self._mean_ns = 0  # the mean time of the last calls
        self._running = self._begun_ns = 0  # how many, and the sum of the times at which they began
        lock = threading.Lock()
        self._begun, self._ended = Condition(lock), Condition(lock)  # a task waits; a thread has ended

    def start(self, task: _Task[Any]) -> None:
        """Gives the task to the next free thread.

        Raises:
            Full: all threads are lost, or the system starts no more.
            Overloaded: the task would wait for longer than `patience_s`.
        """
        with self._begun:
            if self._lost >= self._count:
                raise Full(self._all_lost)
            if self.patience_s is not None and len(self._waiting) + self._running >= 2 * self._count:
                wait_s = self._expected_wait_s()
                if wait_s > self.patience_s:
                    self.refused += 1
                    raise self._overloaded(wait_s)
            self._waiting.append(task)
            is_short = len(self._waiting) > self._idle and self._started < self._count
            self._started += is_short
            self._begun.notify()
        if is_short:
            try:
                _Background(self._run, self._name, partial(self.stop, 0.0)).start()
            except RuntimeError as error:  # the system has no more threads
                self._without_thread(task, error)

    def _without_thread(self, task: _Task[Any], error: RuntimeError) -> None:
        with self._ended:
            self._started -= 1
            self._ended.notify_all()
            if self._started or task not in self._waiting:
                return  # another thread will run it
            self._waiting.remove(task)
        raise Full(str(error)) from error

    def withdraw(self, task: _Task[Any]) -> bool:
        """Takes back a task that has not begun. Returns False if it has."""
        with self._begun:
            if task not in self._waiting:
                return False
            self._waiting.remove(task)
            task.error, task.is_done = Full(f"all {self._count} threads are taken"), True
            return True

    def refuse(self, task: _Task[Any]) -> bool:
        """Takes back a task that has waited for too long. Returns False if it has begun."""
        if not self.withdraw(task):
            return False
        with self._begun:
            self.refused += 1
            task.error = self._overloaded(self._expected_wait_s())
        return True

    @property
    def longest_wait_s(self) -> float | None:
        """How long a task may wait for a thread; None for no limit."""
        return None if self.patience_s is None else max(self.patience_s, 2 * self._mean_ns / 1e9)

    def _expected_wait_s(self) -> float:
        """How long one more call would wait. A long call counts with its time so far."""
        mean_ns = self._mean_ns
        if self._running:
            mean_ns = max(mean_ns, time.monotonic_ns() - self._begun_ns // self._running)
        ahead = max(0, len(self._waiting) + self._running + 1 - self._count)
        return ahead * mean_ns / self._count / 1e9

    def _overloaded(self, wait_s: float) -> Overloaded:
        return Overloaded(
            f"{self._name}: {self._running} calls run and {len(self._waiting)} wait, which is {wait_s:.2g} s "
            "of work; this one was not begun",
            retry_after_s=max(wait_s, self.patience_s or 0.0),
        )

    def give_up(self, task: _Task[Any], *, is_lost: bool) -> None:
        """Abandons a task whose caller no longer waits.

        is_lost: whether the task, if it runs, may never return.
        """
        if self.withdraw(task):
            return
        with self._begun:
            if task.is_done:
                return
            task.is_lost = is_lost
            self._lost += is_lost
            if self._lost < self._count:
                return
            refused = list(self._waiting)
            self._waiting.clear()
            for one in refused:
                one.error, one.is_done = Full(self._all_lost), True
        for one in refused:
            one.notify()

    def stop(self, deadline: float) -> bool:
        with self._begun:
            self._idle_s = 0.0
            self._begun.notify_all()
            return self._ended.wait_for(lambda: not self._started, max(0.0, deadline - time.monotonic()))

    @property
    def _all_lost(self) -> str:
        return f"all {self._count} threads are lost to calls that never returned"

    def _run(self) -> None:
        while (task := self._next()) is not None:
            _current.task = task
            task.work()
            _current.task = None
            with self._begun:
                task.is_done = True
                self._lost -= task.is_lost
                self._running -= 1
                self._begun_ns -= task.begun_ns
                took_ns = time.monotonic_ns() - task.begun_ns
                self._mean_ns += (took_ns - self._mean_ns) // (_SMOOTHING if self._mean_ns else 1)
            task.notify()
            del task  # an idle thread keeps no result alive

    def _next(self) -> _Task[Any] | None:
        """The next task; None if there was none for a while."""
        with self._begun:
            until = time.monotonic() + self._idle_s
            while not self._waiting:
                left = min(until - time.monotonic(), self._idle_s)
                if left <= 0:
                    self._started -= 1
                    self._ended.notify_all()
                    return None
                self._idle += 1
                self._begun.wait(left)
                self._idle -= 1
            task = self._waiting.popleft()
            task.begun_ns = time.monotonic_ns()
            self._running += 1
            self._begun_ns += task.begun_ns
            return task
