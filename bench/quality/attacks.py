"""How far a plugin gets that writes its own examples (the retrieval attack).

``python -m bench.quality.attacks FOLDER [--embedder static|minilm] [--queries N] [--tools 1,5,20,40]``. The
tools get four examples each and the attacker 2,000 other messages, all of the *train* split; asked are
messages of the *test* split, evenly over the tools (``--split train``: a third of the rest of *train*). For
each number of attacking tools every way to attack is tried; "captured" is the share of messages that get an
attacking tool among the first five.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from bench.quality.attack_model import Arena, Attack, Damage, attacks, damage

from toolroll.lab.evaluation.dataset import read_dataset
from toolroll.model.embedder import Embedder


def embedder_of(name: str) -> Embedder:
    if name == "static":
        from toolroll.embedders.static import StaticEmbedder

        return StaticEmbedder()
    from toolroll.embedders.cached import CachedEmbedder
    from toolroll.embedders.minilm import MiniLMEmbedder

    return CachedEmbedder(MiniLMEmbedder())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.quality.attacks", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", choices=("static", "minilm"), default="static")
    parser.add_argument("--queries", type=int, default=1_000, help="messages asked, at the most")
    parser.add_argument("--tools", default="1,5,20,40", help="numbers of attacking tools")
    parser.add_argument("--split", choices=("train", "test"), default="test", help="of the messages asked")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    dataset = read_dataset(given.folder)
    arena = Arena.of(
        dataset.definitions.tools,
        dataset.queries,
        asked=given.queries,
        ask=given.split,
        seed=given.seed,
    )
    print(
        f"{given.folder.name}, {given.embedder}: {len(arena.tools):,} tools, {len(arena.read):,} messages "
        f"read, {len(arena.asked):,} of {given.split} asked\n\n"
        f"{'tools':>5}  {'examples':<9}{'description':<12}{'slots':>6}{'recall@5':>16}{'captured':>10}"
    )
    ways = attacks([int(number) for number in given.tools.split(",")])
    worst: dict[int, Damage] = {}
    for done in damage(arena, embedder_of(given.embedder), ways):
        way: Attack = done.attack
        print(
            f"{way.tools:>5}  {way.picks:<9}{way.claims:<12}{done.slots:>6.2f}"
            f"{done.recall_before:>8.3f} →{done.recall_after:>6.3f}{done.captured:>10.1%}",
            flush=True,
        )
        if way.tools not in worst or done.captured > worst[way.tools].captured:
            worst[way.tools] = done
    print()
    for number, done in worst.items():
        print(f"worst of {number:>2}: {done.captured:.1%} ({done.attack.picks}, {done.attack.claims})")
    print(f"{time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
