"""Beta draws beside numpy's Generator, in one call from Python each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from bench.harness import Case
from toolroll import _core

Floats = npt.NDArray[np.float64]


def arms(n: int, *, smallest: float, greatest: float) -> tuple[npt.NDArray[np.uint64], Floats, Floats]:
    """Keys and shapes of n arms, uniform between the two."""
    random = np.random.default_rng(n)
    key = random.integers(0, 2**64, n, dtype=np.uint64)
    return key, random.uniform(smallest, greatest, n), random.uniform(smallest, greatest, n)


def mean_and_spread(alpha: Floats, beta: Floats) -> tuple[Floats, Floats]:
    total = alpha + beta
    return alpha / total, np.sqrt(alpha * beta / (total**2 * (total + 1)))


def numpy_generators() -> dict[str, Callable[[Floats, Floats], Floats]]:
    return {
        "numpy PCG64": np.random.Generator(np.random.PCG64(1)).beta,
        "numpy SFC64": np.random.Generator(np.random.SFC64(1)).beta,
    }


def sample_case(n: int, bar: float | None, *, smallest: float, greatest: float) -> Case:
    key, alpha, beta = arms(n, smallest=smallest, greatest=greatest)

    def peer(draw: Callable[[Floats, Floats], Floats]) -> Callable[[int], object]:
        return lambda i: draw(alpha, beta)

    def check() -> str:
        mean, spread = mean_and_spread(alpha, beta)
        seeds = max(1, 200_000 // n)
        z = sum((_core.thompson_sample(key, alpha, beta, seed) - mean) / spread for seed in range(seeds))
        worst = float(abs(z.sum()) / np.sqrt(seeds * n))
        assert worst < 5, f"the draws' mean is {worst:.1f} standard errors off"
        one = slice(n // 2, n // 2 + 1)
        alone = _core.thompson_sample(key[one], alpha[one], beta[one], 0)
        assert alone == _core.thompson_sample(key, alpha, beta, 0)[one], "a draw depends on its neighbours"
        return f"mean within {worst:.1f} standard errors"

    return Case(
        operation="Beta samples" if greatest > 1 else "Beta samples, shapes below 1",
        size=f"{n:,} arms",
        ours=lambda i: _core.thompson_sample(key, alpha, beta, i),
        peers={name: peer(draw) for name, draw in numpy_generators().items()},
        check=check,
        bar=bar,
        note=f"shapes uniform in {smallest:g}..{greatest:g}; ours replays by (seed, arm), numpy's do not",
        repeats=3000,
    )


def cases(quick: bool) -> Iterator[Case]:
    yield sample_case(40, None, smallest=1, greatest=50)
    yield sample_case(158, 1.0, smallest=1, greatest=50)
    if not quick:
        yield sample_case(158, None, smallest=0.02, greatest=0.8)
