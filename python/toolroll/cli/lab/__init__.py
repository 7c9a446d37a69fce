"""`toolroll lab`: measurements and experiments."""

from __future__ import annotations

from toolroll.cli.commands import LazyGroup

command = LazyGroup(
    "lab",
    help="Simulations, experiments, replays and benchmarks.",
    example="toolroll lab converse my-dialogs/ -k 15\n"
    "toolroll lab judge --profile learned --catalog sqlite:///tools.db --since 14d",
    modules={
        "simulate": "toolroll.cli.lab.simulate",
        "converse": "toolroll.cli.evaluate:converse",
        "judge": "toolroll.cli.lab.judge",
        "replay": "toolroll.cli.lab.judge:replay",
        "experiment": "toolroll.cli.lab.experiment",
        "bench": "toolroll.cli.evaluate:bench",
    },
)
