"""`toolroll lab`: measurements and experiments."""

from __future__ import annotations

from toolroll.cli.commands import LazyGroup

command = LazyGroup(
    "lab",
    help="Simulations, experiments, replays and benchmarks.",
    example="toolroll lab converse my-dialogs/ -k 15\n"
    "toolroll lab judge --profile learned --catalog sqlite:///tools.db --since 14d",
    modules={
        name: f"toolroll.cli.lab.{name}"
        for name in ("simulate", "converse", "judge", "replay", "experiment", "bench")
    },
)
