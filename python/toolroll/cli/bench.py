"""`toolroll bench`: how fast selection is on this machine."""

from __future__ import annotations

import argparse

from toolroll.cli import arguments
from toolroll.cli.terminal import Progress, print_json


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    bench = commands.add_parser(
        "bench",
        help="measure selection on this machine",
        description="Times whole selections on made-up catalogs, by stage, beside plain Python with numpy.",
    )
    bench.add_argument(
        "--tools",
        type=arguments.sizes,
        default=(158, 1_000, 10_000),
        metavar="N[,N…]",
        help="catalog sizes (default: 158,1000,10000)",
    )
    bench.add_argument(
        "--seconds", type=arguments.seconds, default=1.0, help="time for each measurement (default: 1)"
    )
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    bench.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measures and prints."""
    from toolroll.evaluation.latency import measure, table

    progress = Progress()
    results = []
    for size in options.tools:
        progress(f"{size} tools …")
        results.append(measure(size, options.seconds))
    progress.clear()
    if options.json:
        print_json({"results": results})
    else:
        print(table(results))
    return 0
