"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from toolroll import __version__
from toolroll.cli import (
    analytics,
    bench,
    converse,
    embed,
    evaluate,
    events,
    experiment,
    import_tools,
    judge,
    learning,
    registry,
    replay,
    select,
    sessions,
    simulate,
)
from toolroll.cli.catalog_options import Parser, redacted
from toolroll.cli.terminal import printable
from toolroll.errors import ToolrollError

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130  # the last as shells count who was ended by Ctrl-C
_OF_STORE = ("sqlalchemy", "alembic")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns its exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("toolroll: interrupted; what was not acknowledged is undone", file=sys.stderr)
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return WRONG_USE
    try:
        return int(options.run(options))
    except ToolrollError as error:
        print(f"toolroll {getattr(options, 'title', options.command)}: {_said(error)}", file=sys.stderr)
        return FAILED
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_STORE:
            raise
        print(
            f"toolroll {getattr(options, 'title', options.command)}: a registry needs {error.name}: "
            "pip install 'toolroll[store]', or 'toolroll[postgres]'",
            file=sys.stderr,
        )
        return FAILED
    except BrokenPipeError:  # the reader of our output has gone, as in `toolroll … | head`
        sys.stderr.close()
        return FAILED


def _said(error: ToolrollError) -> str:
    """The error on one line, without the password of a URL and without what a terminal would act on."""
    first, *rest = str(error).splitlines() or [""]
    return printable(redacted(" ".join([first, "; ".join(line.strip() for line in rest)]).rstrip()))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="toolroll", description="Picks the few tools that a message needs, out of thousands."
    )
    parser.add_argument("--version", action="version", version=f"toolroll {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in (
        select,
        evaluate,
        converse,
        simulate,
        bench,
        import_tools,
        registry,
        embed,
        events,
        sessions,
        replay,
        analytics,
        judge,
        experiment,
        learning,
    ):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
