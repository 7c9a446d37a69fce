"""``python -m bench.scale.replicas [REPLICAS] [--faults delay,failover,…] [--rate N]``.

Prints what replicas cost, when they select a change, and counts that must be zero; exit status 1 if one is
not. docs/scale.md has figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.scale.replicas.server import server
from bench.scale.replicas.simulation import EVERY_FAULT, MUST_BE_ZERO, run


def main(arguments: list[str]) -> int:
    """Runs the simulation; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale.replicas")
    parser.add_argument("replicas", nargs="?", type=int, default=100)
    parser.add_argument("--faults", default=",".join(EVERY_FAULT), help="some of them, or none")
    parser.add_argument("--rate", type=float, default=1.0, help="selections a second of each replica")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    given = parser.parse_args(arguments)
    faults = [name for name in given.faults.split(",") if name and name != "none"]
    if unknown := set(faults) - set(EVERY_FAULT):
        parser.error(f"--faults: {', '.join(sorted(unknown))} must be some of {', '.join(EVERY_FAULT)}")
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", file=sys.stderr, flush=True)

    with (
        tempfile.TemporaryDirectory() as folder,
        server(given.replicas) as postgresql,
    ):
        found = run(
            postgresql, Path(folder), given.replicas, faults, given.rate, seconds=given.seconds, say=say
        )
    for name, figure in found.items():
        print(f"{name}: {figure:,}" if not isinstance(figure, str) else f"{name}: {figure}")
    return int(any(found[name] for name in MUST_BE_ZERO))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
