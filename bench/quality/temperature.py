"""How many units of score are one nat: the temperature that makes the tools that were needed most likely.

``python -m bench.quality.temperature FOLDER… [--embedder static|minilm] [--queries N]``. For each message
the forty best tools compete by a softmax of their scores over the temperature; printed is the negative
logarithm of what the needed ones get, and the temperature at which its mean is least.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from bench.quality.attacks import embedder_of

from toolroll import Profile, Toolroll
from toolroll.lab.evaluation.dataset import Dataset, read_dataset

TEMPERATURES = (0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.14, 0.16, 0.2)
CANDIDATES = 40


def losses(dataset: Dataset, embedder: str, most: int, seed: int) -> npt.NDArray[np.float64]:
    """float64[len(TEMPERATURES)]: mean negative log-likelihood of the needed tools."""
    profile = Profile(candidates=CANDIDATES, learning=None, pass_through_tools=0)
    roll = Toolroll.from_tools(dataset.definitions.tools, embedder=embedder_of(embedder), profile=profile)
    order = np.random.default_rng(seed).permutation(len(dataset.queries))
    found = []
    for at in order[:most].tolist():
        query = dataset.queries[at]
        candidates = roll.select(query.text, k=CANDIDATES).candidates
        needed = np.array([roll.catalog.tools[row].name in query.gold for row in candidates.rows.tolist()])
        if needed.any():
            odds = (candidates.scores - candidates.scores.max())[:, None] / np.array(TEMPERATURES)
            odds = np.exp(odds, dtype=np.float64)
            found.append(-np.log(odds[needed].sum(0) / odds.sum(0)))
    return np.mean(found, axis=0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.quality.temperature", description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--embedder", choices=("static", "minilm"), default="static")
    parser.add_argument("--queries", type=int, default=1_000, help="messages asked, at the most")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    print(f"{'':<18}" + "".join(f"{each:>7}" for each in TEMPERATURES) + "   best")
    for folder in args.folders:
        means = losses(read_dataset(folder), args.embedder, args.queries, args.seed)
        print(f"{folder.name:<18}" + "".join(f"{mean:7.3f}" for mean in means), end="")
        print(f"   {TEMPERATURES[int(means.argmin())]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
