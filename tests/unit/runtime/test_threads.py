"""Background workers, and what becomes of locks and threads in a fork."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
import weakref
from itertools import pairwise

import pytest

from toolroll.model.errors import StoreUnavailable
from toolroll.runtime import threads as _threads
from toolroll.runtime.threads import Worker, survive_forks

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Holder:
    def __init__(self):
        self.lock, self.is_idle, self.begun = threading.Lock(), False, []
        survive_forks(self, lambda one: () if one.is_idle else (one.lock,), lambda one: one.begin())

    def begin(self):
        self.begun.append(os.getpid())


def forked(look):
    """The value that `look` returns in a child, as text."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        os.write(there, str(look()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(there)
    with os.fdopen(here) as answer:
        return answer.read()


@needs_fork
def test_a_fork_waits_for_who_is_at_work_and_the_child_begins_anew():
    holder, done = Holder(), []

    def work():
        with holder.lock:
            at_work.set()
            ended.wait(0.3)
            done.append(True)

    at_work, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    at_work.wait()
    said = forked(lambda: (done, len(holder.begun), holder.lock.locked()))
    thread.join()
    assert said == "([True], 1, False)"
    assert holder.begun == [] and not holder.lock.locked()


@needs_fork
def test_who_never_ends_is_not_waited_for_and_keeps_its_lock(monkeypatch):
    monkeypatch.setattr(_threads, "HOLD_S", 0.01)
    holder = Holder()
    with holder.lock:
        assert forked(lambda: (len(holder.begun), holder.lock.locked())) == "(1, True)"
        assert holder.lock.locked()
    assert not holder.lock.locked()


@needs_fork
def test_locks_are_asked_for_at_each_fork():
    holder = Holder()
    holder.is_idle = True
    with holder.lock:  # would take a second
        assert forked(lambda: len(holder.begun)) == "1"


@needs_fork
def test_nobody_is_kept_alive():
    holder = Holder()
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None
    assert forked(lambda: "well") == "well"


@needs_fork
def test_an_owner_that_fails_at_a_fork_leaves_the_others_as_they_should_be(caplog):
    before, failing, after = Holder(), Holder(), Holder()
    failing.begin = lambda: 1 / 0
    del failing.is_idle
    assert forked(lambda: (len(before.begun), len(after.begun), before.lock.locked())) == "(1, 1, False)"
    assert not before.lock.locked() and not after.lock.locked()
    assert "not ready" in caplog.text


@needs_fork
def test_of_an_owner_that_is_gone_nothing_is_left():
    before = len(_threads._survivors)
    for _ in range(100):
        Holder()
    gc.collect()
    assert len(_threads._survivors) <= before


# The worker.


class Owner:
    """Its step takes a lambda from outside, so that tests can change it."""

    def __init__(self, step=lambda: None, **options):
        self.calls, self.action = 0, step
        self.worker = Worker(self.step, "test-worker", **{"subject": "tests", **options})

    def step(self):
        self.calls += 1
        return self.action()


@pytest.fixture
def made():
    owners = []

    def make(*args, **options):
        owners.append(Owner(*args, **options))
        return owners[-1]

    yield make
    for owner in owners:
        owner.worker.stop()


def soon(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.001)


def test_a_worker_starts_with_the_first_wake_and_runs_once_for_each(made):
    owner = made()
    assert not owner.worker.is_started
    for count in (1, 2, 3):
        owner.worker.wake()
        soon(lambda count=count: owner.calls == count)
    time.sleep(0.05)
    assert owner.calls == 3 and owner.worker.error is None


def test_a_step_runs_again_after_the_pause_that_it_asks_for(made):
    pauses = [0, 0, 0.05, None]
    owner = made(lambda: pauses.pop(0))
    begun = time.monotonic()
    owner.worker.wake()
    soon(lambda: not pauses)
    assert time.monotonic() - begun >= 0.05
    time.sleep(0.05)
    assert owner.calls == 4


def test_a_wake_during_a_step_is_not_lost(made):
    entered, leave = threading.Event(), threading.Event()
    owner = made(lambda: (entered.set(), leave.wait(60), None)[2])
    owner.worker.wake()
    entered.wait(60)
    owner.worker.wake()
    leave.set()
    soon(lambda: owner.calls == 2)


def test_many_wakes_within_a_batch_make_one_step_and_hurry_does_not_wait_for_it(made):
    owner = made(batch_s=60.0)
    for _ in range(10):
        owner.worker.wake()
    time.sleep(0.05)
    assert owner.calls == 0
    owner.worker.hurry()
    soon(lambda: owner.calls == 1)


def test_a_worker_that_fails_backs_off_and_logs_the_first_error_and_the_first_success(made, caplog):
    at, fails = [], True

    def step():
        at.append(time.monotonic())
        if fails:
            raise StoreUnavailable("the database is away")
        return None

    owner = made(step, retry_s=(0.02, 0.08))
    with caplog.at_level(logging.WARNING, "toolroll"):
        owner.worker.wake()
        soon(lambda: len(at) == 6)
        assert owner.worker.error == "the database is away"
        fails = False
        soon(lambda: owner.worker.error is None)
    pauses = [after - before for before, after in pairwise(at)]
    assert all(pause >= least / 2 for pause, least in zip(pauses, (0.02, 0.04, 0.08, 0.08), strict=False))
    assert [record.message for record in caplog.records] == [
        "tests: failed, will try again: the database is away",
        "tests: succeeded again",
    ]
    assert not caplog.records[0].exc_info


def test_an_error_that_nobody_expects_is_logged_with_its_traceback(made, caplog):
    with caplog.at_level(logging.WARNING, "toolroll"):
        owner = made(lambda: 1 / 0, retry_s=(60, 60))
        owner.worker.wake()
        soon(lambda: owner.worker.error)
    assert caplog.records[0].exc_info and owner.worker.error == "division by zero"


def test_a_wake_does_not_cut_the_back_off_short_but_a_flush_does(made):
    owner = made(lambda: 1 / 0, subject="", retry_s=(60, 60))
    owner.worker.wake()
    soon(lambda: owner.worker.error)
    owner.worker.wake()
    time.sleep(0.05)
    assert owner.calls == 1
    owner.action = lambda: None
    assert owner.worker.flush(lambda: owner.calls >= 2, 10)


def test_a_flush_ends_with_its_deadline_and_with_the_worker(made):
    owner = made()
    assert owner.worker.flush(lambda: True, 0) and not owner.worker.is_started
    assert not owner.worker.flush(lambda: False, 0.05)
    owner.worker.stop()
    assert not owner.worker.flush(lambda: False, 60)


def test_a_worker_that_was_stopped_runs_no_step(made):
    owner = made()
    owner.worker.wake()
    soon(lambda: owner.calls == 1)
    owner.worker.stop()
    owner.worker.wake()
    time.sleep(0.05)
    assert owner.calls == 1
    assert not any(thread.name == "test-worker" for thread in threading.enumerate())


def test_a_worker_ends_with_the_last_call_that_it_is_given(made):
    owner, last = made(), []
    owner.worker.wake()
    soon(lambda: owner.calls == 1)
    owner.worker.end_with(lambda: last.append(threading.current_thread().name))
    soon(lambda: last == ["test-worker"])
    soon(lambda: not any(thread.name == "test-worker" for thread in threading.enumerate()))


def test_the_lock_keeps_the_step_from_running(made):
    owner = made()
    with owner.worker.lock:
        owner.worker.wake()
        time.sleep(0.05)
        assert owner.calls == 1 - 1
    soon(lambda: owner.calls == 1)


@pytest.mark.parametrize("step", [lambda: None, lambda: 60.0, lambda: 1 / 0])
def test_a_thread_does_not_keep_its_owner_alive_and_ends_with_it(step):
    def begun():
        owner = Owner(step, subject="", retry_s=(60, 60))
        owner.worker.wake()
        soon(lambda: owner.calls and not owner.worker.lock.locked())
        return weakref.ref(owner)

    gone = begun()
    gc.collect()
    assert gone() is None
    soon(lambda: not any(thread.name == "test-worker" for thread in threading.enumerate()))


def test_where_the_system_has_no_thread_left_the_next_wake_tries_again(made, monkeypatch):
    owner = made()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda thread: exec("raise RuntimeError('no more')"))
        owner.worker.wake()
    assert not owner.worker.is_started
    owner.worker.wake()
    soon(lambda: owner.calls == 1)


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_starts_a_thread_of_its_own(made):
    owner = made(lambda: time.sleep(0.01))
    owner.worker.wake()
    soon(lambda: owner.calls >= 1)
    before = owner.calls

    def in_child():
        was_started = owner.worker.is_started
        owner.worker.wake()
        soon(lambda: owner.calls > before)
        return was_started, owner.worker.lock.acquire(timeout=60)

    assert forked(in_child) == "(False, True)"
    owner.worker.wake()
    soon(lambda: owner.calls > before)


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("holds_forks", [True, False])
def test_a_fork_waits_for_a_step_if_it_should(made, holds_forks):
    entered, leave, ended = threading.Event(), threading.Event(), []
    # A fork that waits would wait for ever, so this step ends by itself.
    owner = made(
        lambda: (entered.set(), leave.wait(0.3 if holds_forks else 60), ended.append(True), None)[3],
        holds_forks=holds_forks,
    )
    owner.worker.wake()
    entered.wait(60)
    assert forked(lambda: ended == [True]) == str(holds_forks)
    leave.set()
