"""Each microbenchmark runs, on less data, and `pytest bench/micro` collects them all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import _lru_cache_wrapper
from pathlib import Path
from types import ModuleType

import pytest
from bench.micro import kernels, selections
from bench.micro.rotation import Call, each

ROOT = Path(__file__).parents[3]


@pytest.fixture
def less_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kernels, "TOOLS", 158)
    monkeypatch.setattr(kernels, "ROWS", 300)
    monkeypatch.setattr(selections, "MANY", 158)
    monkeypatch.setattr(selections, "TAUGHT", 20)
    _forget()
    yield
    _forget()


def _forget() -> None:
    modules: tuple[ModuleType, ...] = (kernels, selections)
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, _lru_cache_wrapper) and value.__module__ == module.__name__:
                value.cache_clear()


@pytest.mark.parametrize("made", [kernels.KERNELS, selections.SELECTIONS], ids=["kernels", "selections"])
def test_each_microbenchmark_runs(made: Mapping[str, Callable[[], Call]], less_data: None) -> None:
    for make in made.values():
        call = make()
        for _ in range(3):
            call()


def test_a_rotation_begins_again_behind_its_last_argument() -> None:
    seen: list[int] = []
    call = each(seen.append, [1, 2, 3])
    for _ in range(5):
        call()
    assert seen == [1, 2, 3, 1, 2]


@pytest.mark.slow
def test_pytest_finds_every_microbenchmark_without_the_options_of_the_suite() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "bench/micro", "--collect-only", "--benchmark-disable", "-q"],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(kernels.KERNELS) + len(selections.SELECTIONS)} tests collected" in found.stdout
