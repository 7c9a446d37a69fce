"""`toolroll select`: which tools a message needs."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from toolroll.cli import arguments
from toolroll.cli.catalog_options import CATALOG, POLL_S, is_registry
from toolroll.cli.terminal import Progress, note, print_json

if TYPE_CHECKING:
    from toolroll.context import Context
    from toolroll.roll import Toolroll
    from toolroll.selection.selection import Selection


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    select = commands.add_parser(
        "select",
        help="pick tools for a message",
        description="Picks tools for a message: from the demonstration catalog, from files, from a registry.",
        epilog='example: toolroll select "Should I bring an umbrella?" --explain',
    )
    select.add_argument("message", metavar="MESSAGE", help="what the user wrote; - reads standard input")
    select.add_argument(
        "--catalog",
        metavar="PATH|URL",
        help="folder of toolkit files, folder with tools.jsonl, or one such file; or a registry: "
        f"sqlite:///FILE or postgresql://USER@HOST/DATABASE (default: {CATALOG}, else a demonstration)",
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
        "--org", default="", help="organisation that asks: of a registry, its own tools and rules count too"
    )
    select.add_argument("--user", default="", help="user that asks, as rules read it")
    select.add_argument(
        "--role", action="append", default=[], metavar="ROLE", help="role of the user, likewise; repeatable"
    )
    select.add_argument("--tier", default="", help="subscription tier, likewise")
    select.add_argument("--page", default="", help="page that the user is on, for rules and page mappings")
    select.add_argument("--provider", default="", choices=arguments.PROVIDERS, help="whose limits apply")
    select.add_argument(
        "--setting",
        action="append",
        metavar="KEY",
        help="a setting that has a value; repeatable (default: every toolkit counts as configured; of a "
        "registry, those count that it has a value for, and these beside them)",
    )
    select.add_argument(
        "--require", action="append", default=[], metavar="NAME", help="select just this tool"
    )
    select.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="never select this tool"
    )
    select.add_argument(
        "--profile",
        metavar="NAME",
        help="composition of stages (default: the environment variable TOOLROLL_PROFILE, else default); "
        "variables such as TOOLROLL_MAX_TOOLS change its parameters",
    )
    select.add_argument(
        "--embedder",
        metavar="NAME",
        help="static, minilm, ollama:MODEL, … or none (default: the environment variable TOOLROLL_EMBEDDER, "
        "else static)",
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
    from toolroll.cli.environment import from_environment
    from toolroll.context import Context

    message = options.message
    if message == "-":
        message = sys.stdin.buffer.read().decode("utf-8", "replace")
    options.catalog = options.catalog or os.getenv(CATALOG) or None
    options.embedder = options.embedder or os.getenv("TOOLROLL_EMBEDDER") or "static"
    options.profile = from_environment(options.profile)
    is_stored = options.catalog is not None and is_registry(options.catalog)
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
        everything=options.setting is None and not is_stored,
    )
    if is_stored:
        with _registry(options) as roll:
            picked = _select(roll, message, context, options)
    else:
        picked = _select(_catalog(options), message, context, options)
    if options.json:
        print_json(picked.to_dict())
    elif options.schemas:
        print_json(picked.schemas(options.schemas))
        for loss in picked.conversion_losses(options.schemas):
            note(str(loss))
    elif options.explain:
        print(picked.explain())
        print(picked.summary())
    else:
        for name in picked.names:
            print(name)
        print(picked.summary(), file=sys.stderr)
    return 0


def _select(roll: Toolroll, message: str, context: Context, options: argparse.Namespace) -> Selection:
    roll.select(message, context, options.k)  # the first one touches cold memory; what is shown is the rule
    return roll.select(
        message, context, options.k, max_tools=options.max_tools, budget_tokens=options.budget_tokens
    )


def _registry(options: argparse.Namespace) -> Toolroll:
    """Follows the registry no longer than one selection takes, with what is the organisation's own."""
    from toolroll.roll import Toolroll

    progress = Progress()
    roll = Toolroll.open(
        options.catalog,
        embedder=options.embedder,
        profile=options.profile,
        progress=(lambda done, of: progress(f"embedding {done}/{of}")) if progress.shows else None,
        poll_s=POLL_S,
        listens=False,
        messages="none",
    )
    try:
        roll.warm_up([options.org])
    except BaseException:
        roll.close()
        raise
    finally:
        progress.clear()
    return roll


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
