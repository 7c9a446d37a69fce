"""`toolroll lab judge, replay`, `events parquet judge`: decides logged events in another way, or again."""

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
    pack,
    storage_options_option,
    window_options,
)
from toolroll.cli.output import Progress, note, print_json, print_table
from toolroll.cli.parameter_types import POSITIVE

if TYPE_CHECKING:
    from toolroll.lab.offline.work import On
    from toolroll.registry.analytics.off_policy import Judgement
    from toolroll.registry.analytics.off_policy_log import OffPolicyResult


from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from toolroll.cli.commands import Group
from toolroll.cli.options import json_option
from toolroll.cli.parameter_types import timestamp

if TYPE_CHECKING:
    from toolroll.lab.offline.lake import EventFiles


from typing import TYPE_CHECKING

from toolroll.cli.options import RegistryOptions, flag, registry_options
from toolroll.cli.output import printable

if TYPE_CHECKING:
    from toolroll.selection.pipeline_builder import PipelineBuilder


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
    """Refuses options of the other kind of events."""
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
        database.revision()  # workers get only the address, so this process checks the registry
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
    """Prints the estimates as a table. profile: the judged profile or rule."""
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


parquet = Group(
    "parquet",
    help="Judge events in Parquet.\n\nReads what `toolroll events export` has written, by DuckDB, on "
    'this machine or on a Ray cluster. Needs the extra: pip install "toolroll[offline]".',
    example="toolroll events parquet judge events/ --rule mean --on ray",
)


@dataclass(frozen=True)
class _Source:
    """A selection of exported events."""

    source: str
    org: str | None
    since: datetime | None
    until: datetime | None
    storage_options: dict[str, Any]

    def parts(self) -> tuple[EventFiles, ...]:
        from toolroll.lab.offline.lake import event_files

        return event_files(
            self.source, self.storage_options, org=self.org, since=self.since, until=self.until
        )


_source = pack(
    _Source,
    click.argument("source", metavar="FILE|LOCATION"),
    option("--org", "Only this organisation.", metavar="ORG", unset="all"),
    option(
        "--since", "Begin, or how long ago (7d).", type=timestamp, metavar="TIME", unset="the first event"
    ),
    option("--until", "End, in the same form.", type=timestamp, metavar="TIME", unset="now"),
    storage_options_option,
    json_option,
)


@parquet.command("judge", example="toolroll events parquet judge events/ --rule score --on ray --jobs 2")
@option(
    "--rule",
    "What to judge: mean (candidates with the best expected score, no exploration), score (those that fit "
    "the message best, no learning), logged (what was shown).",
    choices=("mean", "score", "logged"),
    default="mean",
)
@option("-k", "Candidates shown.", type=POSITIVE, unset="as many as the event shows")
@option("--clip", "Greatest weight in the clipped estimate.", type=POSITIVE, default=10)
@on_option
@jobs_option
@keep_option
@_source
def judge(
    source: _Source, rule: Any, k: int | None, clip: int, on: Any, jobs: int, keep: str | None, json: bool
) -> None:
    """Estimate how another choice would have done.

    The other choice is among the logged candidates, so it needs no registry and no message: each event has
    its candidates, their scores and how likely each was to be shown. Partitions are judged apart, so the
    result does not depend on where they are.
    """
    check_on(on)
    parts = source.parts()
    from toolroll.lab.offline.judging import TargetRule
    from toolroll.lab.offline.judging import judge as judge_parts

    with Progress() as progress:
        found = judge_parts(
            parts,
            TargetRule(rule, k, float(clip)),
            on=on,
            jobs=jobs,
            kept=keep,
            progress=lambda done, of: progress(f"partitions: {done} of {of} steps done"),
        )
    if json:
        print_json({"rule": rule, "k": k, **found.to_dict()})
        return
    for reason, number in found.skipped.items():
        note(f"{number:,} of {found.events:,} events are left out: {reason}")
    print_judgement(found.judgement, rule)


@declare("replay", example="toolroll lab replay 5f0c… --catalog sqlite:///tools.db --explain")
@click.argument("event")
@option("--org", "Organisation that must own the event.", metavar="ORG", unset="any")
@option("--profile", "Named set of parameters.", default="", metavar="NAME", unset="the event's")
@embedder_option()
@flag("--explain", "Also print why each tool is in or out.")
@registry_options
def replay(
    options: RegistryOptions, event: str, org: str | None, profile: str, embedder: str, explain: bool
) -> int:
    """Decide a logged selection again.

    Uses the registry as it was at the time of the EVENT, and what had been learned by then. Prints what
    differs. Exit status 1 if anything does, or if the event cannot be decided again.
    """
    from toolroll.embedders import named
    from toolroll.registry.editing.vectors import StoredEmbedder
    from toolroll.registry.events.replay import replay
    from toolroll.selection import profiles
    from toolroll.selection.pipeline_builder import PipelineBuilder

    with options.database() as database:
        made = named.embedder(embedder)
        if made is not None and not made.is_instant:
            made = StoredEmbedder(made, database)

        def builder(name: str) -> PipelineBuilder:
            return PipelineBuilder(made, profiles.profile(name or "default"))

        replayed = replay(database, event, builder, org=org, profile=profile)
    if options.json:
        print_json(replayed.to_dict())
    else:
        print(printable(str(replayed)))
        if explain and replayed.selection is not None:
            print(printable(replayed.selection.explain()))
    return 0 if replayed.is_same else 1
