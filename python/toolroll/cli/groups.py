"""Commands that list by themselves and have others below: `registry rules`, `registry rules add`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from toolroll.cli.catalog_options import add_catalog, add_org, add_writing, command
from toolroll.cli.terminal import one_line, print_json

Run = Callable[[argparse.Namespace], int]


def group(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Run,
    help: str,
    *,
    all_of_them: bool = True,
    description: str | None = None,
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Declares a group, with `list` for what it does by itself.

    help: what the list shows, then what else there is, parted by a comma.
    all_of_them: without --org the list is that of all organisations, else that of the platform.
    """
    parser = command(commands, name, run, help, description=description)
    add_org(parser, all_of_them=all_of_them)
    add_catalog(parser)
    parts = parser.add_subparsers(metavar="COMMAND")
    listing = command(parts, "list", run, help.partition(",")[0])
    add_org(listing, nested=True, all_of_them=all_of_them)
    add_catalog(listing, nested=True)
    return parts


def below(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Run,
    help: str,
    *,
    description: str | None = None,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Declares a command of a group that changes something."""
    parser = command(commands, name, run, help, description=description, epilog=epilog)
    add_writing(parser)
    add_catalog(parser, nested=True)
    return parser


def print_done(done: Any, options: argparse.Namespace, text: str) -> int:
    """Says what was done: the thing as it is now, or a sentence."""
    if options.json:
        print_json(done.to_dict())
    else:
        print(one_line(text))
    return 0
