"""Locks and threads over a fork."""

import gc
import os
import threading
import weakref

import pytest

from toolroll import _threads
from toolroll._threads import survive_forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Worker:
    def __init__(self):
        self.lock, self.is_idle, self.begun = threading.Lock(), False, []
        survive_forks(self, lambda worker: () if worker.is_idle else (worker.lock,), lambda w: w.begin())

    def begin(self):
        self.begun.append(os.getpid())


def forked(look):
    """What a child answers."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        os.write(there, str(look()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(there)
    with os.fdopen(here) as answer:
        return answer.read()


def test_a_fork_waits_for_who_is_at_work_and_the_child_begins_anew():
    worker, done = Worker(), []

    def work():
        with worker.lock:
            at_work.set()
            ended.wait(0.3)
            done.append(True)

    at_work, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    at_work.wait()
    said = forked(lambda: (done, len(worker.begun), worker.lock.locked()))
    thread.join()
    assert said == "([True], 1, False)"
    assert worker.begun == [] and not worker.lock.locked()


def test_who_never_ends_is_not_waited_for_and_keeps_its_lock(monkeypatch):
    monkeypatch.setattr(_threads, "HOLD_S", 0.01)
    worker = Worker()
    with worker.lock:
        assert forked(lambda: (len(worker.begun), worker.lock.locked())) == "(1, True)"
        assert worker.lock.locked()
    assert not worker.lock.locked()


def test_locks_are_asked_for_at_each_fork():
    worker = Worker()
    worker.is_idle = True
    with worker.lock:  # would take a second
        assert forked(lambda: len(worker.begun)) == "1"


def test_nobody_is_kept_alive():
    worker = Worker()
    gone = weakref.ref(worker)
    del worker
    gc.collect()
    assert gone() is None
    assert forked(lambda: "well") == "well"
