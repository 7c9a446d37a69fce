"""`toolroll select`: which tools a message needs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from toolroll.commands import arguments
from toolroll.commands.terminal import Progress, print_json

if TYPE_CHECKING:
    from toolroll.roll import Toolroll


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
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
        "-k", type=arguments.count, metavar="N", help="tools that retrieval adds (default: the profile's, 7)"
    )
    select.add_argument(
        "--max-tools", type=arguments.count, metavar="N", help="tools in all, base and pinned ones included"
    )
    select.add_argument(
        "--budget-tokens", type=arguments.count, metavar="N", help="tokens that the tools' schemas may cost"
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
    select.add_argument("--provider", default="", choices=arguments.PROVIDERS, help="whose limits apply")
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
    form.add_argument(
        "--schemas", choices=(*arguments.PROVIDERS, "openai_responses"), help="print the schemas to send"
    )
    select.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Selects and prints."""
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
        print_json(picked.to_dict())
    elif options.schemas:
        print_json(picked.schemas(options.schemas))
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
    progress = Progress()
    roll = Toolroll.from_folder(
        options.catalog,
        embedder=options.embedder,
        profile=options.profile,
        progress=(lambda done, of: progress(f"embedding {done}/{of}")) if progress.shows else None,
    )
    progress.clear()
    return roll
