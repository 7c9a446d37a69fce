"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolroll import __version__
from toolroll.errors import ToolrollError

if TYPE_CHECKING:
    from toolroll.roll import Toolroll

FAILED, WRONG_USE = 1, 2
PROVIDERS = ("openai", "anthropic", "gemini", "mcp")  # written out: --help loads nothing


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
    _add_select(commands)
    _add_bench(commands)
    return parser


def _add_select(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    select = commands.add_parser(
        "select",
        help="pick tools for a message",
        description="Picks tools for a message, from the demonstration catalog or from your own.",
        epilog='example: toolroll select "Should I bring an umbrella?" --explain',
    )
    select.add_argument("message", metavar="MESSAGE", help="what the user wrote; - reads standard input")
    select.add_argument(
        "--catalog",
        metavar="PATH",
        help="folder of toolkit files, folder with tools.jsonl, or one such file (default: a demonstration)",
    )
    select.add_argument(
        "-k", type=_count, metavar="N", help="tools that retrieval adds (default: the profile's, 7)"
    )
    select.add_argument(
        "--max-tools", type=_count, metavar="N", help="tools in all, base and pinned ones included"
    )
    select.add_argument(
        "--budget-tokens", type=_count, metavar="N", help="tokens that the tools' schemas may cost"
    )
    select.add_argument(
        "--org", default="", help="organisation that asks (for policy rules, which are to come)"
    )
    select.add_argument("--user", default="", help="user that asks (likewise)")
    select.add_argument(
        "--role", action="append", default=[], metavar="ROLE", help="role of the user; repeatable"
    )
    select.add_argument("--tier", default="", help="subscription tier (likewise)")
    select.add_argument("--page", default="", help="page that the user is on (likewise)")
    select.add_argument("--provider", default="", choices=PROVIDERS, help="whose limits apply")
    select.add_argument(
        "--setting",
        action="append",
        metavar="KEY",
        help="a setting that has a value; repeatable (default: every toolkit counts as configured)",
    )
    select.add_argument(
        "--require", action="append", default=[], metavar="NAME", help="select just this tool"
    )
    select.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="never select this tool"
    )
    select.add_argument("--profile", default="default", metavar="NAME", help="composition of stages")
    select.add_argument(
        "--embedder", default="static", metavar="NAME", help="static, minilm, ollama:MODEL, … or none"
    )
    form = select.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--explain", action="store_true", help="print why each tool is in or out")
    form.add_argument("--schemas", choices=(*PROVIDERS, "openai_responses"), help="print the schemas to send")
    select.set_defaults(run=_select)


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    bench = commands.add_parser(
        "bench",
        help="measure selection on this machine",
        description="Times whole selections on made-up catalogs, by stage, beside plain Python with numpy.",
    )
    bench.add_argument(
        "--tools",
        type=_sizes,
        default=(158, 1_000, 10_000),
        metavar="N[,N…]",
        help="catalog sizes (default: 158,1000,10000)",
    )
    bench.add_argument("--seconds", type=_seconds, default=1.0, help="time for each measurement (default: 1)")
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    bench.set_defaults(run=_bench)


def _select(options: argparse.Namespace) -> int:
    from toolroll.context import Context

    message = options.message
    if message == "-":
        message = sys.stdin.buffer.read().decode("utf-8", "replace")
    roll = _catalog(options)
    context = Context(
        org=options.org,
        user=options.user,
        roles=tuple(options.role),
        tier=options.tier,
        page=options.page,
        settings=options.setting or (),
        provider=options.provider,
        required=tuple(options.require),
        exclude=tuple(options.exclude),
        everything=options.setting is None,
    )
    roll.select(message, context, options.k)  # the first one touches cold memory; what is shown is the rule
    picked = roll.select(
        message, context, options.k, max_tools=options.max_tools, budget_tokens=options.budget_tokens
    )
    if options.json:
        _print_json(picked.to_dict())
    elif options.schemas:
        _print_json(picked.schemas(options.schemas))
    elif options.explain:
        print(picked.explain())
        print(picked.summary())
    else:
        for name in picked.names:
            print(name)
        print(picked.summary(), file=sys.stderr)
    return 0


def _catalog(options: argparse.Namespace) -> Toolroll:
    from toolroll.roll import Toolroll

    if options.catalog is None:
        return Toolroll.demo(embedder=options.embedder, profile=options.profile)
    show = sys.stderr.isatty()
    roll = Toolroll.from_folder(
        options.catalog,
        embedder=options.embedder,
        profile=options.profile,
        progress=_show_progress if show else None,
    )
    if show:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return roll


def _bench(options: argparse.Namespace) -> int:
    from toolroll.evaluation.latency import measure, table

    results = []
    for size in options.tools:
        if sys.stderr.isatty():
            print(f"\r\033[K{size} tools …", end="", file=sys.stderr, flush=True)
        results.append(measure(size, options.seconds))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if options.json:
        _print_json({"results": results})
    else:
        print(table(results))
    return 0


def _show_progress(done: int, of: int) -> None:
    print(f"\rembedding {done}/{of}", end="", file=sys.stderr, flush=True)


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number}: must be at least 0")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of seconds") from None
    if not 0 < seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0 and at most 600")
    return seconds


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(_count(part) for part in text.split(","))
    if 0 in sizes:
        raise argparse.ArgumentTypeError("0: must be at least 1")
    return sizes


if __name__ == "__main__":
    sys.exit(main())
