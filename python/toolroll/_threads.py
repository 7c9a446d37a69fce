"""Threads: calls with a deadline, and what a fork does to threads and locks.

After a fork the child has none of its parent's threads, and a lock that was held stays locked in the child.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from threading import Condition, Event, Thread
from typing import Generic, TypeVar

HOLD_S = 1.0  # that a fork waits for a lock

T = TypeVar("T")


def survive_forks(
    owner: T, locks: Callable[[T], Iterable[threading.Lock]], begin_anew: Callable[[T], None]
) -> None:
    """Has the owner's locks held while the process forks, and lets it begin anew in the child.

    The owner is not kept alive by this. Where there is no fork, this does nothing.

    Args:
        owner: whose threads and locks they are.
        locks: from the owner to what must not be at work meanwhile, such as a database; asked at each fork.
            One that is not free within a second is done without.
        begin_anew: called in the child.
    """
    if not hasattr(os, "register_at_fork"):
        return
    this = weakref.ref(owner)
    held: list[threading.Lock] = []

    def hold() -> None:
        alive = this()
        if alive is not None:
            held.extend(lock for lock in locks(alive) if lock.acquire(timeout=HOLD_S))

    def let_go() -> None:
        while held:
            held.pop().release()

    def begin() -> None:
        let_go()
        alive = this()
        if alive is not None:
            begin_anew(alive)

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=begin)


class Overdue(Exception):
    """The call did not return in time and was given up; it may still be running."""


class Full(Exception):
    """The call was not begun: every thread is taken."""


class Workers:
    """Runs calls on at most `count` daemon threads.

    Safe to share between threads. A child after a fork needs its own: the parent's calls never return there.
    Starting a thread takes some 0.1 ms: little beside what may wait, much beside what may not.
    """

    def __init__(self, count: int, name: str) -> None:
        """name: what the threads are called."""
        self._crew, self._name = _Crew(count), name

    def run(self, call: Callable[[], T], timeout_s: float) -> T:
        """What `call` returns or raises.

        Raises:
            Overdue: it took longer than `timeout_s`.
            Full: all threads were taken for so long, or all of them are lost to calls that were given up.
        """
        crew, deadline = self._crew, time.monotonic() + timeout_s
        crew.enter(deadline)
        task = _Task(call, crew)
        try:
            Thread(target=task.work, name=self._name, daemon=True).start()
        except RuntimeError as error:  # the system has no more threads
            crew.leave(task)
            raise Full(str(error)) from error
        try:
            task.done.wait(max(0.0, deadline - time.monotonic()))
        finally:
            in_time = crew.collect(task)
        if not in_time:
            raise Overdue(f"no answer in {round(timeout_s, 2):g} s")
        if task.error is not None:
            raise task.error
        return task.result


class _Task(Generic[T]):
    result: T

    def __init__(self, call: Callable[[], T], crew: _Crew) -> None:
        self._call, self._crew = call, crew
        self.error: BaseException | None = None
        self.done = Event()
        self.is_given_up = False

    def work(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # whatever it is, it is the caller's
            self.error = error
        self._crew.leave(self)


class _Crew:
    """How many threads are taken, and how many of those nobody waits for any more."""

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
        """Whether the task is done; if not it is given up."""
        with self._changed:
            if not task.done.is_set():
                task.is_given_up = True
                self._lost += 1
                if self._lost == self._count:
                    self._changed.notify_all()
            return not task.is_given_up
