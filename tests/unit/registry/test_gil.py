"""Background loops let another thread have the interpreter."""

from __future__ import annotations

import pytest

from toolroll.registry.store import gil
from toolroll.registry.store.gil import batches


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (4, [4]), (9, [4, 4, 1])])
def test_batches_are_slices_in_order(count: int, sizes: list[int]) -> None:
    found = list(batches(list(range(count)), 4))
    assert [len(some) for some in found] == sizes
    assert [item for some in found for item in some] == list(range(count))


def test_between_two_batches_other_threads_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = []
    monkeypatch.setattr(gil, "_EVERY_S", -1.0)
    monkeypatch.setattr(gil.time, "sleep", pauses.append)
    assert len(list(batches("abcdef", 2))) == 3
    assert len(pauses) == 3
