"""`toolroll simulate`: measures learning from outcomes in simulated worlds."""

from __future__ import annotations

from typing import Any

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import flag, jobs_option, json_option, keep_option, on_option, option, set_option
from toolroll.cli.output import Progress, print_json
from toolroll.cli.parameter_types import COUNT, POSITIVE, names


@declare(
    "simulate",
    example="toolroll simulate my-tools/ --scenario main,null --jobs 2 --plot curves.png\n"
    "toolroll simulate --table",
)
@click.argument("folder", required=False)
@option("--worlds", "Worlds of each scenario.", type=POSITIVE, default=30)
@option("--messages", "Messages of a world.", type=POSITIVE, default=6000)
@option(
    "--policies",
    "Policies to compare: static learns nothing, learned keeps a Beta posterior for each tool and page.",
    type=names,
    default="static,learned,default",
    metavar="NAME[,NAME…]",
)
@option(
    "--scenario scenarios",
    "Kinds of world: main, null (all tools work equally well), channel (reports are lost, doubled and "
    "late), break (nothing is repaired), groups, noisy, no-topics, no-position, first-listed, or all.",
    type=names,
    default="main",
    metavar="NAME[,NAME…]",
)
@option(
    "--half",
    "Half of the folder's messages to use, by a hash of their ids.",
    choices=("judge", "tune", "all"),
    default="judge",
)
@set_option("the policy default")
@option("-k", "Tools shown.", type=POSITIVE, default=7)
@option("--seed", "Seed of the first world.", type=COUNT, default=1)
@on_option
@jobs_option
@keep_option
@json_option
@option("--plot", "Draw the learning curves (extra: plot).", metavar="FILE.png")
@flag(
    "--table convergence",
    "Print how certain a Beta posterior is after so many calls, and the reward, recall@K and regret that "
    "Thompson sampling alone reaches then; play no world.",
)
def command(
    folder: str | None,
    scenarios: tuple[str, ...],
    parameters: dict[str, object],
    on: Any,
    jobs: int,
    keep: str | None,
    json: bool,
    plot: str | None,
    convergence: bool,
    **plan: Any,
) -> None:
    """Measure learning from outcomes in simulated use.

    Simulates users and a model that calls the tools it is shown: tools work more or less well, break and are
    repaired, new ones arrive, and reports are not always true. Compares policies on the same worlds.

    FOLDER is a dataset folder: tools.jsonl (or toolkit files) and queries.jsonl. Without one it is the
    demonstration catalog, with its tools' examples as messages.
    """
    if convergence:
        _print_convergence(json)
        return
    from toolroll.lab.simulation.report import table, to_json
    from toolroll.lab.simulation.simulation import SimulationPlan, simulate
    from toolroll.lab.simulation.worlds import SCENARIOS
    from toolroll.runtime.files import check_writable

    if plot:
        check_writable(plot)
        from toolroll.lab.pictures.curves import draw  # fails here, before the work
    with Progress() as progress:
        result = simulate(
            SimulationPlan(
                folder=folder,
                scenarios=tuple(SCENARIOS) if scenarios == ("all",) else scenarios,
                changes=tuple(parameters.items()),
                **plan,
            ),
            jobs,
            lambda done, total: progress(f"worlds: {done} of {total} done"),
            on=on,
            kept=keep,
        )
    if plot:
        draw(result, plot)
    if json:
        print_json(to_json(result))
    else:
        print(table(result))


def _print_convergence(as_json: bool) -> None:
    from dataclasses import asdict

    from toolroll.lab.simulation.projection import BEST, CALLS, NEAR, OTHERS, TOOLS, Bandit, convergence
    from toolroll.lab.simulation.report import convergence_table, projection_table

    rows, bandits = convergence(BEST), [Bandit.play(tools) for tools in TOOLS]
    if as_json:
        print_json(
            {
                "rate": BEST,
                "rows": [asdict(row) for row in rows],
                "others": OTHERS,
                "projections": [asdict(bandit.after(calls)) for bandit in bandits for calls in CALLS],
                "calls_to_converge": {bandit.tools: bandit.calls_to_reach(NEAR) for bandit in bandits},
            }
        )
        return
    print(f"the posterior of a tool that works in {BEST:.0%} of its calls")
    print(convergence_table(rows))
    print(f"\nThompson sampling, where one tool works in {BEST:.0%} of its calls, the others in {OTHERS:.0%}")
    print(projection_table(bandits))
