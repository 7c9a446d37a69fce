"""Counts that many threads add to."""

from __future__ import annotations

import os
import sys
import threading
from bisect import bisect_left
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.runtime.counts import LONGEST_QUEUE, ConcurrentCounter, ConcurrentHistogram

THREADS, TIMES = 8, 2 * LONGEST_QUEUE + 1


def in_threads(work, count=THREADS):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_no_addition_of_any_thread_is_lost_while_others_read():
    counts, read = ConcurrentCounter(), []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def add():
            for n in range(TIMES):
                counts.add("all")
                counts.add(n)
                if n % 100 == 0:
                    read.append(counts.totals()["all"])

        in_threads(add)
    finally:
        sys.setswitchinterval(interval)
    totals = counts.totals()
    assert totals["all"] == THREADS * TIMES
    assert {totals[n] for n in range(TIMES)} == {THREADS}
    assert max(read) <= THREADS * TIMES


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 40), min_size=1, unique=True).map(sorted))
def test_a_histogram_counts_what_a_search_for_each_number_does(numbers, bounds):
    histogram = ConcurrentHistogram(bounds)
    for at, number in enumerate(numbers):
        histogram.add(number)
        if at % 7 == 0:
            histogram.totals()
    expected = Counter(bisect_left(bounds, number) for number in numbers)
    assert histogram.totals() == (tuple(expected[n] for n in range(len(bounds) + 1)), sum(numbers))


def test_a_queue_does_not_grow_although_nobody_reads():
    counts = ConcurrentCounter()
    for _ in range(3 * LONGEST_QUEUE):
        counts.add("all")
        assert len(counts._begin().queue) < LONGEST_QUEUE


def test_adding_does_not_wait_for_a_reader():
    counts = ConcurrentCounter()
    with counts._begin().adding_up:  # as a reader that lost its turn
        for _ in range(3 * LONGEST_QUEUE):
            counts.add("all")
    assert counts.totals()["all"] == 3 * LONGEST_QUEUE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_counts_from_zero_and_the_parent_goes_on():
    counts = ConcurrentCounter()
    for _ in range(5):
        counts.add("all")
    with counts._begin().adding_up:  # as another thread that reads during the fork
        child = os.fork()
        if child == 0:
            counts.add("all")
            os._exit(counts.totals()["all"])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    counts.add("all")
    assert counts.totals()["all"] == 6
