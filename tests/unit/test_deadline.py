"""Calls with a deadline that is kept from outside."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from threading import Event, Thread

import pytest

from toolroll.model.errors import Overloaded
from toolroll.runtime import threads as _threads
from toolroll.runtime.threads import CallPool, Full, Overdue, is_given_up


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
    assert 0.04 < time.monotonic() - start < 60
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
    assert told.wait(60)
    let_go.set()
    thread.join()


def test_a_thread_that_comes_back_is_used_again() -> None:
    workers, let_go = CallPool(1, "test"), Event()
    with pytest.raises(Overdue):
        workers.run(let_go.wait, 0.01)
    let_go.set()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            assert workers.run(lambda: 1, 5) == 1
            return
        except Full:
            time.sleep(0.001)
    pytest.fail("the thread did not come back")


def test_a_call_can_see_that_it_was_given_up_and_give_its_thread_back() -> None:
    workers, ended = CallPool(1, "test"), Event()

    def wait() -> None:
        while not is_given_up():
            time.sleep(0.005)
        ended.set()

    with pytest.raises(Overdue):
        workers.run(wait, 0.05)
    assert ended.wait(60)
    wait_until(lambda: workers._threads._lost == 0)
    assert workers.run(is_given_up, 5) is False and not is_given_up()


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
        "from threading import Event; from toolroll.runtime.threads import *\n"
        "try: CallPool(1, 'x').run(Event().wait, 0.01)\n"
        "except Overdue: print('given up')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "given up\n"


def test_an_idle_thread_serves_the_next_call_and_ends_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_threads, "IDLE_S", 0.2)
    workers = CallPool(4, "idle")
    assert len({workers.run(threading.get_ident, 5) for _ in range(20)}) == 1
    wait_until(lambda: not running("idle"))
    assert workers.run(lambda: "another thread", 5) == "another thread"


def test_stopping_ends_idle_threads_at_once_and_later_calls_still_run() -> None:
    workers = CallPool(4, "stopped")
    workers.run(lambda: None, 5)
    assert workers.stop(5) and not running("stopped")
    assert workers.run(lambda: 1, 5) == 1
    let_go = Event()
    with pytest.raises(Overdue):
        workers.run(let_go.wait, 0.01)
    assert not workers.stop(0.05)
    let_go.set()
    assert workers.stop(5)


def test_an_idle_thread_keeps_neither_its_pool_nor_a_result_alive() -> None:
    class Result:
        pass

    workers = CallPool(1, "forgetful")
    result, pool = weakref.ref(workers.run(Result, 5)), weakref.ref(workers)
    del workers
    gc.collect()
    wait_until(lambda: result() is None and pool() is None)


# In an event loop.


def test_an_awaited_call_returns_raises_and_sees_the_context_of_its_caller() -> None:
    workers, word = CallPool(2, "test"), ContextVar("word", default="unset")

    async def main() -> None:
        word.set("ours")
        assert await workers.arun(word.get) == "ours"
        with pytest.raises(ZeroDivisionError):
            await workers.arun(lambda: 1 // 0)
        assert (
            await asyncio.gather(*(workers.arun(lambda: time.sleep(0.01)) for _ in range(20))) == [None] * 20
        )

    asyncio.run(main())
    assert word.get() == "unset"


def test_an_awaited_call_that_hangs_is_given_up_and_the_next_one_does_not_wait() -> None:
    workers, let_go = CallPool(1, "test"), Event()

    async def main() -> None:
        with pytest.raises(Overdue, match=r"0\.05 s"):
            await workers.arun(let_go.wait, 0.05)
        with pytest.raises(Full, match="all 1 threads are lost"):
            await workers.arun(lambda: None, 3600)
        let_go.set()

    asyncio.run(main())


def test_a_call_that_has_not_begun_is_given_up_while_one_that_has_is_waited_for() -> None:
    workers, let_go = CallPool(1, "test", patience_s=0.01), Event()

    async def main() -> None:
        first = asyncio.ensure_future(workers.arun(let_go.wait))
        await asyncio.sleep(0.05)
        with pytest.raises(Overloaded, match="test: 1 calls run and 0 wait"):
            await workers.arun(lambda: None)
        let_go.set()
        assert await first

    asyncio.run(main())
    assert workers.refused == 1


# Too many calls.


async def outcomes(pool: CallPool, count: int, call: Callable[[], object]) -> list[object]:
    return await asyncio.gather(*(pool.arun(call) for _ in range(count)), return_exceptions=True)


def test_calls_that_would_wait_too_long_are_refused_at_once_and_as_many_as_threads_may_wait() -> None:
    workers = CallPool(2, "busy", patience_s=0.05)

    async def main() -> None:
        assert await outcomes(workers, 2, lambda: time.sleep(0.2)) == [None] * 2  # how long calls take
        full = asyncio.ensure_future(outcomes(workers, 2, lambda: time.sleep(0.2)))
        waiting = asyncio.ensure_future(outcomes(workers, 2, lambda: "waited"))
        await asyncio.sleep(0)
        refused = await outcomes(workers, 20, lambda: "never")
        assert not full.done()
        assert {type(one) for one in refused} == {Overloaded}
        assert all(isinstance(one, Overloaded) and one.retry_after_s for one in refused)
        assert await full == [None] * 2 and await waiting == ["waited"] * 2

    asyncio.run(main())
    assert workers.refused == 20


def test_many_short_calls_wait_and_none_is_refused() -> None:
    workers = CallPool(2, "quick", patience_s=5.0)
    assert asyncio.run(outcomes(workers, 500, lambda: "done")) == ["done"] * 500
    assert workers.refused == 0


def test_calls_that_hang_are_seen_before_the_first_one_ends() -> None:
    workers, let_go = CallPool(2, "hung", patience_s=0.3), Event()

    async def main() -> None:
        quick = await outcomes(workers, 50, lambda: None)
        assert quick == [None] * 50
        hung = asyncio.ensure_future(outcomes(workers, 2, let_go.wait))
        await asyncio.sleep(1.0)
        late = asyncio.ensure_future(outcomes(workers, 2, lambda: None))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await workers.arun(lambda: None)
        assert not late.done()  # at once, before those that wait are given up
        assert {type(one) for one in await late} == {Overloaded}
        let_go.set()
        assert await hung == [True, True]
        assert await workers.arun(lambda: "again") == "again"

    asyncio.run(main())


def test_of_cancelled_callers_a_waiting_call_never_runs_and_a_running_one_does_no_harm() -> None:
    workers, let_go, ran = CallPool(1, "test"), Event(), []

    async def main() -> None:
        first = asyncio.ensure_future(workers.arun(lambda: (let_go.wait(), ran.append("first"))))
        second = asyncio.ensure_future(workers.arun(lambda: ran.append("second")))
        await asyncio.sleep(0.05)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert first.cancelled() and second.cancelled()
        third = asyncio.ensure_future(workers.arun(lambda: ran.append("third"), 30))
        await asyncio.sleep(0.05)  # the thread is busy, not lost
        let_go.set()
        await third

    asyncio.run(main())
    assert ran == ["first", "third"]


def test_a_call_whose_event_loop_was_closed_ends_quietly() -> None:
    workers, let_go = CallPool(1, "test"), Event()

    async def main() -> None:
        asyncio.ensure_future(workers.arun(let_go.wait))  # noqa: RUF006  cancelled with the loop
        await asyncio.sleep(0.05)

    asyncio.run(main())
    let_go.set()
    assert workers.run(lambda: "still there", 5) == "still there"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_has_threads_of_its_own() -> None:
    workers, let_go = CallPool(1, "test"), Event()
    with pytest.raises(Overdue):
        workers.run(let_go.wait, 0.01)
    child = os.fork()
    if not child:
        in_thread = workers.run(lambda: 1, 5)
        awaited = asyncio.run(workers.arun(lambda: 2, 5))
        os._exit(in_thread + awaited)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    let_go.set()


def running(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "never came true"
        time.sleep(0.005)
