"""Over a fork: threads stay behind in the parent, and a lock that was held stays shut in the child."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TypeVar

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
