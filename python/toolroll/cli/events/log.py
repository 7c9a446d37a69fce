"""`toolroll events list, show, prune`: the log of selections and their outcomes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from toolroll.cli.commands import command
from toolroll.cli.options import (
    RegistryOptions,
    WindowOptions,
    any_org_options,
    option,
    registry_options,
    window_options,
)
from toolroll.cli.output import one_line, print_fields, print_json, print_list, print_result, print_table
from toolroll.cli.parameter_types import POSITIVE, duration

OUTCOMES = ("succeeded", "failed", "corrected", "wanted", "called", "unused", "unknown")


@command("list", example="toolroll events list --since 1d --outcome failed")
@option("--outcome", "Only events with this outcome.", choices=OUTCOMES, unset="all")
@option("--tool", "Only events in which this tool was called.", metavar="NAME", unset="all")
@option("--limit", "Most lines.", type=POSITIVE, default=50)
@window_options()
def list_events(options: WindowOptions, **filters: Any) -> None:
    """List events, newest first."""
    with options.report() as database:
        from toolroll.registry.analytics.event_view import list_events

        found = list_events(database, options.window(), **filters)
    print_list(
        options.json,
        "events",
        found,
        "AT EVENT=event_id ORG PAGE CATEGORY PROFILE OUTCOME CALLED OF",
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
    with options.report() as database:
        from toolroll.registry.analytics.event_view import find_event

        found = find_event(database, event, org)
    if options.json:
        print_json(found)
        return
    candidates, selected = found.pop("candidates"), set(found["selected"])
    found.pop("vector")
    found.pop("shown")
    print_fields({name: _join_texts(value) for name, value in found.items()})
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


def _join_texts(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


@command("prune", example="toolroll events prune --older-than 90d")
@option("--older-than", "Events of this age: 90d.", type=duration, metavar="AGE", unset="none")
@option(
    "--figures-older-than",
    "Also figures of hours of this age, which `events analytics` prints: 400d.",
    type=duration,
    metavar="AGE",
    unset="none",
)
@any_org_options
def prune(options: WindowOptions, older_than: timedelta | None, figures_older_than: timedelta | None) -> None:
    """Delete old events. The statistics of their outcomes and the figures of analytics stay."""
    if older_than is None and figures_older_than is None:
        raise click.UsageError("say what to delete: --older-than AGE, --figures-older-than AGE")
    with options.database() as database:
        from toolroll.registry.keeper import maintenance

        deleted = maintenance.prune(
            database,
            events_s=None if older_than is None else older_than.total_seconds(),
            hours_s=None if figures_older_than is None else figures_older_than.total_seconds(),
            org=options.org,
        )
    print_result(options.json, {"events": deleted}, f"{deleted:,} events were deleted")


COMMANDS = (list_events, show, prune)
