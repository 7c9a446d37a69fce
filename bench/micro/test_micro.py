"""`pytest bench/micro`: times each kernel and each whole selection; bench/README.md says how to read it."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.kernels import KERNELS
from bench.micro.selections import SELECTIONS


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark(KERNELS[name]())


@pytest.mark.parametrize("name", SELECTIONS)
def test_selection(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark(SELECTIONS[name]())
