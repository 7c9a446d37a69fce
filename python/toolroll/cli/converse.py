"""`toolroll converse`: what sessions are worth, on labelled dialogs."""

from __future__ import annotations

import argparse

from toolroll.cli import arguments
from toolroll.cli.terminal import Progress, print_json


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    converse = commands.add_parser(
        "converse",
        help="judge sessions on labelled dialogs",
        description="Plays the dialogs of a folder: each message by itself, with what was said before, and "
        "as a session that is told what was called. Says how often the tools of a turn were sent, how many "
        "were, and which share of their tokens a provider's prompt cache would have served. A folder is one "
        "of `toolroll eval`, whose queries have context.dialog and context.turn.",
        epilog="example: toolroll converse my-dialogs/ -k 15",
    )
    converse.add_argument("folders", nargs="+", metavar="FOLDER", help="dataset folder")
    converse.add_argument("--profile", default="static", metavar="NAME", help="which one (default: static)")
    arguments.add_set(converse, "the profile")
    converse.add_argument(
        "--embedder", default="static", metavar="NAME", help="as for eval (default: static)"
    )
    converse.add_argument(
        "-k", type=arguments.positive, default=15, metavar="N", help="tools found in a turn (default: 15)"
    )
    converse.add_argument("--max-tools", type=arguments.positive, metavar="N", help="tools sent at the most")
    converse.add_argument(
        "--split", choices=("test", "train", "all"), default="test", help="queries to ask (default: test)"
    )
    converse.add_argument(
        "--examples",
        choices=("train", "given", "none"),
        default="none",
        help="example messages of the tools: the train split's and their own, their own, or none (default)",
    )
    converse.add_argument("--json", action="store_true", help="print one JSON object")
    converse.set_defaults(run=run, usage=converse)


def run(options: argparse.Namespace) -> int:
    """Plays and prints."""
    from toolroll.evaluation.conversations import converse, table
    from toolroll.evaluation.dataset import read_dataset

    progress = Progress()
    try:
        results = [
            converse(
                read_dataset(folder),
                profile=options.profile,
                parameters=arguments.set_by(options),
                embedder=options.embedder,
                k=options.k,
                max_tools=options.max_tools,
                split=options.split,
                examples=options.examples,
                progress=lambda what, done, of: progress(f"{what} {done:,}/{of:,}"),
            )
            for folder in options.folders
        ]
    finally:
        progress.clear()
    if options.json:
        single = results[0].to_dict()
        print_json(single if len(results) == 1 else {"results": [result.to_dict() for result in results]})
    else:
        print(table(results))
    return 0
