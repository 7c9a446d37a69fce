"""What waits to be written, against a list of all that was noted."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.registry.sessions.backlog import Backlog

KEYS = [("acme", name) for name in "abcdef"]


class Naive:
    """Keys in the order in which they wait, with the number of what was noted last."""

    def __init__(self, most: int) -> None:
        self.most, self.waiting, self.writing = most, [], []

    def put(self, key, number):
        for at, (known, _) in enumerate(self.waiting):
            if known == key:
                self.waiting[at] = (key, number)
                return False
        self.waiting.append((key, number))
        return self.trim() == 1

    def trim(self):
        over = max(0, len(self.waiting) - self.most)
        del self.waiting[:over]
        return over

    def take(self, most):
        self.writing, self.waiting = self.waiting[:most], self.waiting[most:]

    def done(self, keys):
        self.writing = [(key, number) for key, number in self.writing if key not in keys]

    def give_back(self):
        newer = dict(self.waiting)
        back = [(key, newer.pop(key, number)) for key, number in self.writing]
        self.waiting = back + [(key, number) for key, number in self.waiting if key in newer]
        self.writing = []
        return self.trim()

    def of(self, key):
        return {**dict(self.writing), **dict(self.waiting)}.get(key)


@given(
    st.integers(1, 5),
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from(KEYS)),
            st.tuples(st.just("round"), st.integers(1, 4), st.sets(st.sampled_from(KEYS)), st.lists(st.sampled_from(KEYS), max_size=3)),
            st.tuples(st.just("drop"), st.sampled_from(KEYS)),
        ),
        max_size=40,
    ),
)  # fmt: skip
def test_it_is_a_list_of_the_latest_of_each(most, steps):
    backlog, naive = Backlog(most), Naive(most)
    for number, step in enumerate(steps):
        if step[0] == "put":
            assert backlog.put(step[1], {"n": number}, None) == naive.put(step[1], number)
        elif step[0] == "drop":
            was_there = any(key == step[1] for key, _ in naive.waiting)
            naive.waiting = [(key, at) for key, at in naive.waiting if key != step[1]]
            assert backlog.drop(step[1]) == was_there
        else:
            _, size, written, meanwhile = step
            naive.take(size)
            assert list(backlog.take(size)) == [key for key, _ in naive.writing]
            for key in meanwhile:
                assert backlog.put(key, {"n": -number}, None) == naive.put(key, -number)
            naive.done(written)
            backlog.done(written)
            assert backlog.give_back() == naive.give_back()
        assert len(backlog) == len(naive.waiting)
        for key in KEYS:
            here = backlog.of(key)
            assert (None if here is None else here.made()["n"]) == naive.of(key)
    assert list(backlog.take(100)) == [key for key, _ in naive.waiting]


def test_what_comes_again_while_it_is_written_has_waited_since_it_first_came():
    backlog = Backlog(10)
    backlog.put(KEYS[0], {}, None)
    since = backlog.of(KEYS[0]).since
    backlog.put(KEYS[0], {}, None)
    assert backlog.of(KEYS[0]).since == since
    backlog.take(1)
    backlog.put(KEYS[0], {}, None)
    assert backlog.of(KEYS[0]).since >= since and backlog.has_before(since)
    backlog.give_back()
    assert backlog.of(KEYS[0]).since == since and backlog.has_before(since)
    backlog.take(1)
    backlog.done([KEYS[0]])
    assert not backlog.has_before(time.monotonic()) and backlog.waited_s() == 0


def test_a_second_batch_is_not_taken_before_the_first_is_done_with():
    backlog = Backlog(10)
    backlog.put(KEYS[0], {}, None)
    backlog.take(1)
    with pytest.raises(AssertionError, match="one batch at a time"):
        backlog.take(1)


def test_threads_that_note_while_others_write_lose_nothing():
    backlog, written, stop = Backlog(10**6), {}, threading.Event()

    def write():
        while not stop.is_set() or len(backlog):
            taken = backlog.take(7)
            odd = [key for key in taken if int(key[1]) % 2 or stop.is_set()]
            written.update({key: taken[key].made()["n"] for key in odd})
            backlog.done(odd)
            backlog.give_back()

    def note(part):
        for number in range(2_000):
            backlog.put(("acme", str(part * 100 + number % 50)), {"n": number}, None)

    writer = threading.Thread(target=write)
    noters = [threading.Thread(target=note, args=(part,)) for part in range(4)]
    for thread in (writer, *noters):
        thread.start()
    for thread in noters:
        thread.join()
    stop.set()
    writer.join()
    assert written == {("acme", str(part * 100 + at)): 1_950 + at for part in range(4) for at in range(50)}
