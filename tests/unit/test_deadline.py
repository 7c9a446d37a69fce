"""Calls with a deadline that is kept from outside."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from threading import Event, Thread

import pytest

from toolroll._threads import CallPool, Full, Overdue


def test_a_call_returns_what_it_returns_and_raises_what_it_raises() -> None:
    workers = CallPool(1, "test")
    assert workers.run(lambda: 6 * 7, 5) == 42
    with pytest.raises(ZeroDivisionError):
        workers.run(lambda: 1 // 0, 5)
    with pytest.raises(SystemExit):  # not the thread's to die of
        workers.run(sys.exit, 5)
    assert workers.run(lambda: "still there", 5) == "still there"


def test_a_call_that_hangs_is_given_up_at_its_deadline() -> None:
    let_go, start = Event(), time.monotonic()
    with pytest.raises(Overdue, match=r"0\.05 s"):
        CallPool(1, "test").run(let_go.wait, 0.05)
    assert 0.04 < time.monotonic() - start < 5
    let_go.set()


def test_when_every_thread_is_lost_nobody_waits() -> None:
    workers, let_go = CallPool(2, "test"), Event()
    for _ in range(2):
        with pytest.raises(Overdue):
            workers.run(let_go.wait, 0.01)
    with pytest.raises(Full, match="all 2 threads are lost"):
        workers.run(lambda: None, 3600)
    let_go.set()


def test_who_waits_for_a_thread_is_told_when_the_last_one_is_lost() -> None:
    workers, let_go, told = CallPool(1, "test"), Event(), Event()

    def wait() -> None:
        with pytest.raises(Full):
            workers.run(lambda: None, 3600)
        told.set()

    with pytest.raises(Overdue):
        thread = Thread(target=lambda: (time.sleep(0.05), wait()))
        thread.start()
        workers.run(let_go.wait, 0.2)
    assert told.wait(5)
    let_go.set()
    thread.join()


def test_a_thread_that_comes_back_is_used_again() -> None:
    workers, let_go = CallPool(1, "test"), Event()
    with pytest.raises(Overdue):
        workers.run(let_go.wait, 0.01)
    let_go.set()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            assert workers.run(lambda: 1, 5) == 1
            return
        except Full:
            time.sleep(0.001)
    pytest.fail("the thread did not come back")


def test_busy_is_not_lost_so_a_caller_waits_for_its_turn() -> None:
    workers, answers = CallPool(2, "test"), []
    threads = [
        Thread(target=lambda: answers.append(workers.run(lambda: time.sleep(0.02), 30))) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [None] * 10


def test_there_are_never_more_threads_than_allowed() -> None:
    workers, let_go = CallPool(3, "counted"), Event()
    for _ in range(20):
        with pytest.raises((Overdue, Full)):
            workers.run(let_go.wait, 0.005)
    assert sum(thread.name == "counted" for thread in threading.enumerate()) == 3
    let_go.set()


def test_a_call_that_never_returns_does_not_hold_up_the_end_of_the_process() -> None:
    code = (
        "from threading import Event; from toolroll._threads import *\n"
        "try: CallPool(1, 'x').run(Event().wait, 0.01)\n"
        "except Overdue: print('given up')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "given up\n"
