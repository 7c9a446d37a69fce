"""`toolroll events parquet`: estimates from exported events, without asking the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import Group
from toolroll.cli.lab.judge import print_judgement
from toolroll.cli.options import (
    check_on,
    jobs_option,
    json_option,
    keep_option,
    on_option,
    option,
    storage_options_option,
)
from toolroll.cli.output import Progress, note, print_json
from toolroll.cli.parameter_types import POSITIVE, timestamp

if TYPE_CHECKING:
    from toolroll.lab.offline.lake import EventFiles

parquet = Group(
    "parquet",
    help="Judge events in Parquet.\n\nReads what `toolroll events export` has written, by DuckDB, on "
    'this machine or on a Ray cluster. Needs the extra: pip install "toolroll[offline]".',
    example="toolroll events parquet judge events/ --rule mean --on ray",
)


@dataclass(frozen=True)
class _Source:
    """Which events are meant."""

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


def _source(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(**values: Any) -> Any:
        packed = {each.name: values.pop(each.name) for each in fields(_Source)}
        return function(_Source(**packed), **values)

    declared: Callable[..., Any] = run
    for each in (
        json_option,
        storage_options_option,
        option("--until", "End, in the same form.", type=timestamp, metavar="TIME", unset="now"),
        option(
            "--since", "Begin, or how long ago (7d).", type=timestamp, metavar="TIME", unset="the first event"
        ),
        option("--org", "Only this organisation.", metavar="ORG", unset="all"),
        click.argument("source", metavar="FILE|LOCATION"),
    ):
        declared = each(declared)
    return declared


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
