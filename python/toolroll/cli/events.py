"""`toolroll events`: what was selected and what came of it, one by one."""

from __future__ import annotations

import argparse
from typing import Any

from toolroll.cli import arguments
from toolroll.cli.catalog_options import add_catalog, add_org, add_window, command, group, stored, window_of
from toolroll.cli.terminal import Progress, one_line, print_fields, print_json, print_table

OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused", "unknown")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command and those below it."""
    below = group(
        commands,
        "events",
        "look at logged selections, export them, clear them away",
        description="Looks at the selections that a registry's readers logged, and at what came of them.",
        epilog="example: toolroll events list --catalog sqlite:///tools.db --since 1d --outcome failed",
    )

    listing = command(below, "list", _list, "list events, newest first")
    listing.add_argument("--outcome", choices=OUTCOMES, help="only those that came to this")
    listing.add_argument("--tool", metavar="NAME", help="only those in which this tool was called")
    listing.add_argument("--limit", type=arguments.positive, default=50, metavar="N", help="default: 50")
    add_window(listing)

    show = command(below, "show", _show, "print one event with everything that is kept of it")
    show.add_argument("event", metavar="EVENT")
    show.add_argument("--org", metavar="ORG", help="whose it must be (default: whosever it is)")
    add_catalog(show)

    export = command(
        below,
        "export",
        _export,
        "write events into a Parquet file",
        description="Writes events into a Parquet file, oldest first. What users wrote is left out unless "
        'it is asked for. Needs the extra: pip install "toolroll[parquet]".',
        epilog="example: toolroll events export e.parquet --catalog sqlite:///tools.db --since 2026-03-01",
    )
    export.add_argument("file", metavar="FILE")
    export.add_argument("--messages", action="store_true", help="with the messages, as far as they were kept")
    export.add_argument("--vectors", action="store_true", help="with the messages' vectors (float16)")
    add_window(export, since=None)

    prune = command(
        below,
        "prune",
        _prune,
        "clear old events away",
        description="Clears away events that are older than that. What was learnt from their outcomes stays.",
        epilog="example: toolroll events prune --older-than 90d --catalog sqlite:///tools.db",
    )
    prune.add_argument("--older-than", type=arguments.span, required=True, metavar="AGE", help="such as 90d")
    add_org(prune, all_of_them=True)
    add_catalog(prune)


def _list(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.event_view import list_events

        found = list_events(
            database, window_of(options), outcome=options.outcome, tool=options.tool, limit=options.limit
        )
    if options.json:
        print_json({"events": found})
        return 0
    print_table(
        ("AT", "EVENT", "ORG", "PAGE", "CATEGORY", "PROFILE", "OUTCOME", "CALLED", "OF"),
        (
            (
                event["at"][:19].replace("T", " "),
                event["event_id"],
                event["org"] or "-",
                event["page"] or "-",
                event["category"],
                event["variant"] or event["profile"],
                event["outcome"] or "unknown",
                one_line(", ".join(event["called"] or ()) or "-", 60),
                one_line(", ".join(event["selected"]), 80),
            )
            for event in found
        ),
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.event_view import find_event

        found = find_event(database, options.event, options.org)
    if options.json:
        print_json(found)
        return 0
    candidates, selected = found.pop("candidates"), set(found["selected"])
    found.pop("vector")
    found.pop("shown")
    print_fields({name: _said(value) for name, value in found.items()})
    if candidates:
        print()
        print_table(
            ("SELECTED", "CANDIDATE", "SCORE", "MEAN", "SD", "SHOW", "PROPENSITY"),
            (
                ("yes" if name in selected else "-", name, *map(_number, numbers))
                for name, *numbers in candidates
            ),
        )
    return 0


def _said(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _export(options: argparse.Namespace) -> int:
    from toolroll._files import check_writable

    check_writable(options.file)
    progress = Progress()
    with stored(options) as database:
        from toolroll.registry.analytics.parquet import export

        try:
            written = export(
                database,
                window_of(options),
                options.file,
                messages=options.messages,
                vectors=options.vectors,
                progress=lambda done: progress(f"{done:,} events"),
            )
        finally:
            progress.clear()
    if options.json:
        print_json({"file": options.file, "events": written})
    else:
        print(one_line(f"{options.file}: {written:,} events"))
    return 0


def _prune(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.events.maintenance import prune

        gone = prune(database, events_s=options.older_than.total_seconds(), org=options.org)
    if options.json:
        print_json({"events": gone})
    else:
        print(f"{gone:,} events were cleared away")
    return 0
