"""`toolroll events list, show, export, prune`: the log of selections and their outcomes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from toolroll.cli.commands import command
from toolroll.cli.options import (
    RegistryOptions,
    WindowOptions,
    any_org_options,
    flag,
    option,
    registry_options,
    window_options,
)
from toolroll.cli.output import (
    Progress,
    one_line,
    print_fields,
    print_json,
    print_list,
    print_result,
    print_table,
)
from toolroll.cli.parameter_types import POSITIVE, duration

OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused", "unknown")


@command("list", example="toolroll events list --since 1d --outcome failed")
@option("--outcome", "Only events with this outcome.", choices=OUTCOMES, unset="all")
@option("--tool", "Only events in which this tool was called.", metavar="NAME", unset="all")
@option("--limit", "Most lines.", type=POSITIVE, default=50)
@window_options()
def list_events(options: WindowOptions, **filters: Any) -> None:
    """List events, newest first."""
    with options.report() as (database, unreadable):
        from toolroll.registry.analytics.event_view import list_events

        found = list_events(database, options.window(), **filters, unreadable=unreadable)
    print_list(
        options.json,
        "events",
        found,
        "AT EVENT=event_id ORG PAGE CATEGORY PROFILE OUTCOME CALLED OF",
        {"unreadable": [*unreadable]},
        profile=lambda event: event["variant"] or event["profile"],
        outcome=lambda event: event["outcome"] or "unknown",
        called=lambda event: one_line(", ".join(event["called"] or ()), 60),
        of=lambda event: one_line(", ".join(event["selected"]), 80),
    )


@command("show", example="toolroll events show 5f0c…")
@click.argument("event")
@option("--org", "Organisation that must own it.", metavar="ORG", unset="any")
@registry_options
def show(options: RegistryOptions, event: str, org: str | None) -> None:
    """Print one event with all its fields."""
    with options.report() as (database, unreadable):
        from toolroll.registry.analytics.event_view import find_event

        found = find_event(database, event, org, unreadable)
    if options.json:
        print_json({**found, "unreadable": [*unreadable]})
        return
    candidates, selected = found.pop("candidates"), set(found["selected"])
    found.pop("vector")
    found.pop("shown")
    print_fields({name: _joined(value) for name, value in found.items()})
    if candidates:
        print()
        print_table(
            ("SELECTED", "CANDIDATE", "SCORE", "MEAN", "SD", "SHOW", "PROPENSITY"),
            (
                (
                    "yes" if name in selected else "-",
                    name,
                    *(None if number is None else f"{number:.4g}" for number in numbers),
                )
                for name, *numbers in candidates
            ),
        )


def _joined(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


@command("export", example="toolroll events export e.parquet --since 2026-03-01")
@click.argument("file")
@flag("--messages", "Include the messages, where they were kept.")
@flag("--vectors", "Include the messages' vectors (float16).")
@window_options(since=None)
def export(options: WindowOptions, file: str, messages: bool, vectors: bool) -> None:
    """Write events into a Parquet file, oldest first.

    Users' messages are left out unless asked for. Needs the extra: pip install "toolroll[parquet]".
    """
    from toolroll._files import check_writable

    check_writable(file)
    with options.report() as (database, unreadable), Progress() as progress:
        from toolroll.registry.analytics import parquet

        written = parquet.export(
            database,
            options.window(),
            file,
            messages=messages,
            vectors=vectors,
            progress=lambda done: progress(f"{done:,} events"),
            unreadable=unreadable,
        )
    result = {"file": file, "events": written, "unreadable": [*unreadable]}
    print_result(options.json, result, f"{file}: {written:,} events")


@command("prune", example="toolroll events prune --older-than 90d")
@option("--older-than", "Such as 90d.", type=duration, required=True, metavar="AGE")
@any_org_options
def prune(options: WindowOptions, older_than: timedelta) -> None:
    """Delete old events; the statistics of their outcomes stay."""
    with options.database() as database:
        from toolroll.registry.events import maintenance

        deleted = maintenance.prune(database, events_s=older_than.total_seconds(), org=options.org)
    print_result(options.json, {"events": deleted}, f"{deleted:,} events were deleted")


COMMANDS = (list_events, show, export, prune)
