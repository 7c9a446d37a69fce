"""`toolroll lab judge`: estimates from logged events how another profile would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toolroll.cli.commands import command as declare
from toolroll.cli.options import (
    WindowOptions,
    check_on,
    embedder_option,
    jobs_option,
    keep_option,
    on_option,
    option,
    storage_options_option,
    window_options,
)
from toolroll.cli.output import Progress, note, print_json, print_table
from toolroll.cli.parameter_types import POSITIVE

if TYPE_CHECKING:
    from toolroll.lab.offline.work import On
    from toolroll.registry.analytics.off_policy import Judgement
    from toolroll.registry.analytics.off_policy_log import OffPolicyResult


_OF_FILES = ("on", "jobs", "keep", "storage_options")


@declare(
    "judge",
    example="toolroll lab judge --profile learned --catalog sqlite:///tools.db --since 14d\n"
    "toolroll lab judge --profile learned --events s3://bucket/events --on ray --keep work/",
)
@option("--profile", "The profile to estimate.", default="default", metavar="NAME")
@embedder_option()
@option("--most", "Most events of the registry, the latest ones.", type=POSITIVE, default=20000)
@option("--clip", "Greatest weight in the clipped estimate.", type=POSITIVE, default=10)
@option(
    "--events",
    "Decide these exported events (Parquet, with --messages) and not the registry's.",
    metavar="LOCATION",
    unset="the registry's",
)
@on_option
@jobs_option
@keep_option
@storage_options_option
@window_options()
def command(
    options: WindowOptions,
    profile: str,
    embedder: str,
    most: int,
    clip: int,
    events: str | None,
    **of_files: Any,
) -> None:
    """Estimate how another profile would have done.

    Decides logged events again under another profile, with the present tools, and estimates its success from
    how likely each tool was to be shown and what its calls achieved. A profile that learns knows only what it
    would have known then. It needs no experiment and changes nothing for users.

    With --events, it decides all exported events of the period, each partition apart: in this process, in
    several, or on a Ray cluster whose nodes reach the registry and the files. The result is the same.
    """
    _check(events is not None)
    window = options.window()
    found: OffPolicyResult
    if events is not None:
        found = _judge_files(options, events, profile, embedder, clip, **of_files)
    else:
        found = _judge_registry(options, profile, embedder, most, clip)
    if options.json:
        print_json({"profile": profile, **window.to_dict(), **found.to_dict()})
        return
    for reason, number in found.skipped.items():
        note(f"{number:,} of {found.events:,} events are left out: {reason}")
    print_judgement(found.judgement, profile)


def _check(is_of_files: bool) -> None:
    """Refuses an option that belongs to the other kind of events."""
    context = click.get_current_context()
    for each in context.command.params:
        is_other = each.name == "most" if is_of_files else each.name in _OF_FILES
        if is_other and context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE:
            why = "is for events of the registry" if is_of_files else "needs --events"
            raise click.UsageError(f"{each.opts[0]}: {why}")


def _judge_registry(
    options: WindowOptions, profile: str, embedder: str, most: int, clip: int
) -> OffPolicyResult:
    from toolroll.embedders import named
    from toolroll.selection import profiles
    from toolroll.selection.pipeline_builder import PipelineBuilder

    builder = PipelineBuilder(named.embedder(embedder), profiles.profile(profile))
    with options.report() as database, Progress() as progress:
        from toolroll.registry.analytics.off_policy_log import evaluate_off_policy
        from toolroll.registry.analytics.redecide import Redecider

        return evaluate_off_policy(
            database,
            options.window(),
            Redecider(database, builder),
            clip=clip,
            most=most,
            progress=lambda done: progress(f"{done:,} events") if done % 100 == 0 else None,
        )


def _judge_files(
    options: WindowOptions,
    events: str,
    profile: str,
    embedder: str,
    clip: int,
    *,
    on: On,
    jobs: int,
    keep: str | None,
    storage_options: dict[str, Any],
) -> OffPolicyResult:
    check_on(on)
    from toolroll.lab.offline.lake import event_files
    from toolroll.lab.offline.redeciding import Decider, judge_profile

    parts = event_files(events, storage_options, org=options.org, since=options.since, until=options.until)
    with options.report() as database:
        database.revision()  # workers get an address alone, so what it holds is checked here
    with Progress() as progress:
        return judge_profile(
            parts,
            Decider(options.read_replica or options.catalog, profile, embedder),
            clip=float(clip),
            on=on,
            jobs=jobs,
            kept=keep,
            progress=lambda done, of: progress(f"partitions: {done} of {of} done"),
        )


def print_judgement(judged: Judgement | None, profile: str) -> None:
    """Prints the estimates as a table. profile: what was judged."""
    if judged is None:
        note("no event has enough information for an estimate")
        return
    rows = [
        ("as it was served", judged.logged),
        (f"{profile}: inverse propensity", judged.ips),
        ("  clipped", judged.clipped),
        ("  self-normalised", judged.snips),
    ]
    if judged.doubly_robust is not None:
        rows.append(("  doubly robust", judged.doubly_robust))
    print_table(
        ("", "SUCCESS", "95 %", "GAIN", "95 %"),
        (
            (
                name,
                f"{each.value:.2%}",
                f"{each.low:.2%} to {each.high:.2%}",
                f"{100 * each.gain:+.2f}",
                f"{100 * each.gain_low:+.2f} to {100 * each.gain_high:+.2f}",
            )
            for name, each in rows
        ),
    )
    note(
        f"{judged.events:,} events of {judged.sessions:,} conversations, worth "
        f"{judged.effective_events:,.0f}; {judged.overlap:.0%} of the profile's tools were shown, "
        f"{judged.unsupported:.1%} had no chance to be"
    )
    if not judged.is_supported:
        note("the log covers too little of what this profile would show: a rough estimate; run an experiment")
