"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from toolroll import __version__
from toolroll.commands import bench, evaluate, select
from toolroll.errors import ToolrollError

FAILED, WRONG_USE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns its exit status: 0 done, 1 failed, 2 wrong use."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return WRONG_USE
    try:
        return int(options.run(options))
    except ToolrollError as error:
        print(f"toolroll {options.command}: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # the reader of our output has gone, as in `toolroll … | head`
        sys.stderr.close()
        return FAILED
    except KeyboardInterrupt:
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolroll", description="Picks the few tools that a message needs, out of thousands."
    )
    parser.add_argument("--version", action="version", version=f"toolroll {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in (select, evaluate, bench):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
