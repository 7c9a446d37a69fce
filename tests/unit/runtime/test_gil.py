"""Background loops let another thread have the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.table import each_row
from toolroll.runtime import gil
from toolroll.runtime.gil import batches


@each_row(("count", "sizes"), [(0, []), (1, [1]), (4, [4]), (9, [4, 4, 1])])
def test_batches_are_slices_in_order(count: int, sizes: list[int]) -> None:
    found = list(batches(list(range(count)), 4))
    assert [len(some) for some in found] == sizes
    assert [item for some in found for item in some] == list(range(count))


@pytest.fixture
def is_alone(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether the process has one thread only."""
    return lambda alone: monkeypatch.setattr(gil.threading, "active_count", lambda: 1 if alone else 2)


@pytest.mark.parametrize(("alone", "count"), [(False, 3), (True, 0)])
def test_between_two_batches_other_threads_may_run_if_there_are_some(
    monkeypatch: pytest.MonkeyPatch, is_alone: Callable[[bool], None], alone: bool, count: int
) -> None:
    is_alone(alone)
    pauses, now = [], [0.0]
    monkeypatch.setattr(gil.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(gil.time, "sleep", pauses.append)
    for _ in batches("abcdef", 2):
        now[0] += 0.001
    assert len(pauses) == count


def test_a_pause_that_lasts_is_followed_by_as_much_work(
    monkeypatch: pytest.MonkeyPatch, is_alone: Callable[[bool], None]
) -> None:
    is_alone(False)
    now = [0.0]

    def busy_threads_take(_: float) -> None:
        now[0] += 0.015

    monkeypatch.setattr(gil.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(gil.time, "sleep", busy_threads_take)
    yield_gil = gil.GilYielder()
    for _ in range(1_000):
        now[0] += 0.0001
        yield_gil()
    assert 0.1 < now[0] < 0.22  # 0.1 s of work; with a pause of 15 ms every 0.3 ms it would take 5 s
