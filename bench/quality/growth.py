"""What examples from use are worth.

``python -m bench.quality.growth FOLDER… [--embedder static|minilm] [--queries N]``. The *train* split streams
through selection, and where a right tool was selected the message becomes its example; recall@5 is of the
*test* split. Rows: how many examples a tool may keep. Columns: after which part of the stream; "given" is
what as many train messages a tool give from the start, also where selection would have missed them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.quality.attacks import embedder_of
from bench.quality.growth_model import given, grow

from toolroll.evaluation.dataset import read_dataset

PARTS = (0, 0.125, 0.25, 0.5, 1)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.quality.growth", description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--embedder", choices=("static", "minilm"), default="static")
    parser.add_argument("--queries", type=int, default=2_000, help="messages asked, at the most")
    parser.add_argument("--most", default="1,2,4,8", help="examples a tool may keep")
    parser.add_argument("--mistakes", type=float, default=0.0, help="share of wrong reports")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    embedder = embedder_of(args.embedder)
    print(f"{'':<18}{'most':>5}" + "".join(f"{part:>8.1%}" for part in PARTS) + "   given   taught")
    for folder in args.folders:
        dataset = read_dataset(folder)
        tools, messages = dataset.definitions.tools, dataset.queries
        for most in map(int, args.most.split(",")):
            steps = list(
                grow(
                    tools,
                    messages,
                    embedder=embedder,
                    most_per_tool=most,
                    parts=PARTS,
                    mistakes=args.mistakes,
                    asked=args.queries,
                    seed=args.seed,
                )
            )
            full = given(tools, messages, most, embedder=embedder, asked=args.queries, seed=args.seed)
            recall = "".join(f"{step.recall:>8.3f}" for step in steps)
            print(f"{folder.name:<18}{most:>5}{recall}{full:>8.3f}{steps[-1].taught:>9.0%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
