"""Seconds of a release of priors over many organisations: bounds, sums and noise, without the database.

``python -m bench.scale.sharing [ORGANISATIONS]``; bench/README.md has the figure of 10,000.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from toolroll.learning.privacy import Counts, release

TOOLS, USED = 158, 40


def main(organisations: int) -> None:
    draw = np.random.default_rng(1)
    tools = [f"tool_{n:03d}" for n in range(TOOLS)]
    contributions = []
    for _ in range(organisations):
        counts = draw.gamma(0.5, 2.0, (USED, 4))
        used = draw.choice(TOOLS, USED, replace=False)
        contributions.append(
            {tools[tool]: Counts(*map(float, row)) for tool, row in zip(used, counts, strict=True)}
        )
    start = time.perf_counter()
    told = release(contributions, tools, epsilon=1.0)
    print(
        f"{organisations:,} organisations: {time.perf_counter() - start:.2f} s, {len(told.counts)} tools told"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
