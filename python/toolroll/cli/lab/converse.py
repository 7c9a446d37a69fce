"""`toolroll lab converse`: what sessions add on labelled dialogs."""

from __future__ import annotations

from typing import Any

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import embedder_option, json_option, option, set_option, split_option
from toolroll.cli.output import Progress, print_json
from toolroll.cli.parameter_types import POSITIVE


@declare("converse", example="toolroll lab converse my-dialogs/ -k 15")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@option("--profile", "Named set of parameters.", default="static", metavar="NAME")
@set_option("the profile")
@embedder_option()
@option("-k", "Tools found in a turn.", type=POSITIVE, default=15)
@option("--max-tools", "Most tools to send.", type=POSITIVE, unset="the profile's")
@split_option()
@option(
    "--examples",
    "Example messages of the tools: their own and those of the train split, their own, or none.",
    choices=("train", "given", "none"),
    default="none",
)
@json_option
def command(folders: tuple[str, ...], json: bool, **options: Any) -> None:
    """Measure sessions on labelled dialogs.

    Plays each dialog of a folder three times: each message alone, with the earlier messages, and as a session
    that learns which tools were called. Reports how often the tools of a turn were sent, how many tools were
    sent, and which share of their tokens a provider's prompt cache would have served. A folder is one of
    `toolroll eval` whose queries have context.dialog and context.turn.
    """
    from toolroll.lab.evaluation.conversations import converse, table
    from toolroll.lab.evaluation.dataset import read_dataset

    with Progress() as progress:
        results = [
            converse(
                read_dataset(folder),
                progress=lambda step, done, total: progress(f"{step} {done:,}/{total:,}"),
                **options,
            )
            for folder in folders
        ]
    found = [result.to_dict() for result in results]
    if json:
        print_json(found[0] if len(found) == 1 else {"results": found})
    else:
        print(table(results))
