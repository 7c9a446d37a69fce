"""`toolroll simulate`: what learning from outcomes is worth, in worlds whose truth is known."""

from __future__ import annotations

import argparse

from toolroll.cli import arguments
from toolroll.cli.terminal import Progress, print_json


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    simulate = commands.add_parser(
        "simulate",
        help="judge learning from outcomes in simulated use",
        description="Plays simulated use of real tools and messages: a model that calls what it is shown, "
        "tools that work more or less well, break and are repaired, newcomers, and reports that are not "
        "always true. Compares policies on the same worlds.",
        epilog="example: toolroll simulate my-tools/ --scenario main,null --jobs 2 --plot curves.png",
    )
    simulate.add_argument(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="dataset folder: tools.jsonl (or toolkit files) and queries.jsonl (default: the demonstration "
        "catalog, with its tools' examples as messages)",
    )
    simulate.add_argument(
        "--worlds", type=arguments.positive, default=30, help="worlds of each scenario (default: 30)"
    )
    simulate.add_argument(
        "--messages", type=arguments.positive, default=6_000, help="messages of a world (default: 6000)"
    )
    simulate.add_argument(
        "--policies",
        type=arguments.names,
        default=("static", "learned", "default"),
        metavar="NAME[,NAME…]",
        help="static: nothing is learnt; learned: a Beta posterior for each tool and page; default",
    )
    simulate.add_argument(
        "--scenario",
        type=arguments.names,
        default=("main",),
        metavar="NAME[,NAME…]",
        help="main, null (all tools work equally well), channel (reports are lost, doubled and late), break "
        "(nothing is repaired), groups, noisy, no-topics, no-position, first-listed, or all",
    )
    simulate.add_argument(
        "--half",
        choices=("judge", "tune", "all"),
        default="judge",
        help="which of the folder's messages, by a hash of their ids (default: judge)",
    )
    arguments.add_set(simulate, "the policy default")
    simulate.add_argument("-k", type=arguments.positive, default=7, help="tools shown (default: 7)")
    simulate.add_argument("--seed", type=arguments.count, default=1, help="of the first world (default: 1)")
    simulate.add_argument(
        "--jobs", type=arguments.positive, default=1, help="processes; the result is the same (default: 1)"
    )
    simulate.add_argument("--json", action="store_true", help="print one JSON object")
    simulate.add_argument("--plot", metavar="FILE.png", help="draw the learning curves (extra: plot)")
    simulate.add_argument(
        "--table",
        action="store_true",
        help="print how sure a Beta posterior is after so many calls, and play nothing",
    )
    simulate.set_defaults(run=run, usage=simulate)


def run(options: argparse.Namespace) -> int:
    """Plays and prints."""
    if options.table:
        return _print_convergence(options.json)
    from toolroll._files import check_writable
    from toolroll.evaluation.simulation.report import table, to_json
    from toolroll.evaluation.simulation.simulation import Plan, simulate
    from toolroll.evaluation.simulation.worlds import SCENARIOS

    if options.plot:
        check_writable(options.plot)
        from toolroll.evaluation.pictures.curves import draw  # before the work: the extra may be missing
    changes = arguments.set_by(options)
    plan = Plan(
        folder=options.folder,
        half=options.half,
        scenarios=tuple(SCENARIOS) if options.scenario == ("all",) else options.scenario,
        policies=options.policies,
        worlds=options.worlds,
        messages=options.messages,
        seed=options.seed,
        k=options.k,
        changes=tuple(changes.items()),
    )
    progress = Progress()
    try:
        result = simulate(plan, options.jobs, lambda done, of: progress(f"worlds: {done} of {of} played"))
    finally:
        progress.clear()
    if options.plot:
        draw(result, options.plot)
    if options.json:
        print_json(to_json(result))
    else:
        print(table(result))
    return 0


def _print_convergence(as_json: bool) -> int:
    from dataclasses import asdict

    from toolroll.evaluation.simulation.convergence import convergence
    from toolroll.evaluation.simulation.report import convergence_table

    rows = convergence()
    if as_json:
        print_json({"rate": 0.8, "rows": [asdict(row) for row in rows]})
    else:
        print(convergence_table(rows))
    return 0
