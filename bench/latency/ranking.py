"""From candidates to a slate by what was learnt, folding a report, and the probability of being shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.harness import Case
from toolroll import _core
from toolroll._core import Learned, ToolKeys, Weights

_DAY = 86_400.0
_T0 = 1_790_000_000.0
_NOW = _T0 + 31 * _DAY
_PAGES, _LEAVES, _REPORTERS = 12, 36, 300
_K = 7


def outcomes(n: int, tools: int) -> Any:
    """DELTA[n] over a month: each a call of one of the tools on one of the pages, nine of ten successful."""
    random = np.random.default_rng(tools)
    tool, page = random.integers(0, tools, n), random.integers(0, _PAGES, n)
    deltas = np.zeros(n, _core.DELTA)
    deltas["at"] = _T0 + np.sort(random.uniform(0, 30 * _DAY, n))
    deltas["everywhere"], deltas["page"] = 1, 2 + page
    deltas["leaf"] = 100 + page * 3 + random.integers(0, _LEAVES // _PAGES, n)
    deltas["arm"], deltas["intent"] = 1_000_000 + tool, 2_000_000 + tool
    works = random.random(n) < 0.9
    deltas["successes"], deltas["failures"] = works, ~works
    deltas["calls"], deltas["expected"] = 1, random.uniform(0, 0.5, n)
    deltas["vector"], deltas["verdict"] = -1, np.where(works, 1, -1)
    deltas["reporter"] = random.integers(1, _REPORTERS, n)
    return deltas


def keys_of(tools: int) -> ToolKeys:
    rows = np.arange(tools, dtype=np.uint64)
    return ToolKeys(1_000_000 + rows, 2_000_000 + rows, np.zeros(tools, np.uint64))


def rank_case(m: int, tools: int, limit_us: float | None) -> Case:
    learned, keys = Learned(0).fold(outcomes(100_000, tools)), keys_of(tools)
    random = np.random.default_rng(1)
    rows = [random.choice(tools, m, replace=False).astype(np.int32) for _ in range(200)]
    scores = np.sort(random.uniform(0, 1, m).astype(np.float32))[::-1].copy()
    core, weights = (
        np.zeros(m, np.uint8),
        Weights(
            reliability=1.25,
            lift=1.0,
            exploration_scale=0.1,
            sd_max=2.0,
            most_up=1.0,
            most_down=4.0,
            protected_leaders=2,
            reliability_in_order=8.0,
            explore=0.0,
        ),
    )
    scopes = [(1, 2 + i % _PAGES, 100 + i % _LEAVES) for i in range(_LEAVES)]

    def ours(i: int) -> Any:
        at = rows[i % len(rows)]
        where = scopes[i % _LEAVES]
        return learned.rank(keys, at, scores, at[:1], core, where, _NOW, i, _K, 0.1, weights)

    def check() -> str:
        """The draws are those of the means and deviations that come with them."""
        z = []
        for i in range(2000):
            order, drawn, mean, sd, _, fate = ours(i)
            best = [at for at in order[:_K] if at != 0]
            others = [at for at in range(1, m) if at not in best and not fate[at]]
            assert min(drawn[best]) >= max(drawn[others]), "not the best of the drawn"
            z.append((drawn - mean) / sd)
        worst = float(abs(np.mean(z)) * np.sqrt(np.size(z)))
        assert worst < 5, f"the draws' mean is {worst:.1f} standard errors off"
        return f"the {_K} best of the drawn; mean within {worst:.1f} standard errors"

    return Case(
        operation="rank by what was learnt",
        size=f"{m} of {tools:,} tools",
        ours=ours,
        peers={},
        check=check,
        note=f"{learned.size:,} sums, {learned.memory_bytes / learned.size:.0f} bytes each",
        limit_us=limit_us,
    )


def fold_case(n: int, tools: int) -> Case:
    learned, deltas = Learned(0).fold(outcomes(100_000, tools)), outcomes(100_000, tools)

    def check() -> str:
        whole, parts = learned.fold(deltas[:700]), learned
        for at in range(0, 700, 7):
            parts = parts.fold(deltas[at : at + 7])
        assert parts.to_bytes() == whole.to_bytes(), "a fold in parts differs"
        return "in parts as in one piece"

    return Case(
        operation="fold outcomes",
        size=f"{n:,} tools of {tools:,}",
        ours=lambda i: learned.fold(deltas[i * n % 90_000 :][:n]),
        peers={},
        check=check,
        note="a new value; the old one stays as it was",
        repeats=2000 if n < 1000 else 10,
    )


def inclusion_case(m: int) -> Case:
    random = np.random.default_rng(m)
    mean = [np.sort(random.normal(0, 1, m))[::-1].copy() for _ in range(100)]
    sd, show = random.uniform(0.2, 0.5, m), np.ones(m)
    guarded, group = np.zeros(m, np.uint8), np.zeros(m, np.uint64)
    replays = 20_000

    def check() -> str:
        exact = _core.inclusion(mean[0], sd, show, guarded, group, _K)
        sampled, error = _core.inclusion_sampled(mean[0], sd, show, guarded, group, _K, 0.0, 1, 200_000)
        worst = float(np.abs((exact - sampled) / error).max())
        assert worst < 5 and abs(exact.sum() - _K) < 1e-6, "not what replays come to"
        return f"within {worst:.1f} standard errors of 200,000 replays"

    return Case(
        operation="probability of being shown",
        size=f"{m} candidates",
        ours=lambda i: _core.inclusion(mean[i % 100], sd, show, guarded, group, _K),
        peers={
            f"{replays:,} replays": lambda i: _core.inclusion_sampled(
                mean[i % 100], sd, show, guarded, group, _K, 0.0, i, replays
            )
        },
        check=check,
        bar=10.0,
        note="exact; replays of the same draw for two digits",
        repeats=100,
    )


def cases(quick: bool) -> Iterator[Case]:
    yield rank_case(30, 158, None)
    yield rank_case(40, 158, 20.0)
    yield fold_case(7, 158)
    yield inclusion_case(40)
    if not quick:
        yield rank_case(100, 158, None)
        yield rank_case(40, 10_000, None)
        yield fold_case(7, 10_000)
        yield fold_case(100_000, 10_000)
