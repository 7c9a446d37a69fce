"""`toolroll events learning`: voids outcomes, rebuilds statistics, shares statistics."""

from __future__ import annotations

from typing import Any

from toolroll.cli.commands import Group
from toolroll.cli.options import (
    WindowOptions,
    WriteOptions,
    any_org_options,
    option,
    platform_write_options,
    write_options,
)
from toolroll.cli.output import note, one_line, print_json, print_result, print_table
from toolroll.cli.parameter_types import timestamp

learning = Group(
    "learning",
    help="Void outcomes, rebuild the statistics, share them.\n\n"
    "`toolroll events analytics arms` prints the statistics.",
    example="toolroll events learning forget --reporter user-17 --catalog sqlite:///tools.db",
)


@learning.command(
    "forget", example="toolroll events learning forget --tool send_mail --since 2d --reason 'test traffic'"
)
@option("--event event_id", "Outcomes of this event.", metavar="EVENT", unset="any")
@option("--reporter", "Outcomes that this reporter sent.", metavar="NAME", unset="any")
@option("--tool", "Outcomes of events with this tool.", metavar="NAME", unset="any")
@option(
    "--since",
    "Outcomes from then on: 2026-03-01, or how long ago (12h, 7d).",
    type=timestamp,
    metavar="TIME",
    unset="any",
)
@option("--until", "Outcomes before then.", type=timestamp, metavar="TIME", unset="any")
@write_options
def forget(options: WriteOptions, **which: Any) -> None:
    """Void outcomes of an organisation.

    Works on whole events: they stay but no longer count, and every process unlearns them within a second.
    Needs --event, --reporter, --tool, --since or --until; several options must all match.
    """
    with options.report() as database:
        from toolroll.registry.keeper import maintenance

        count = maintenance.forget(
            database,
            options.org,
            maintenance.OutcomeFilter(**which),
            actor=options.actor_name,
            reason=options.reason,
        )
    result = {"events": count}
    print_result(options.json, result, f"outcomes of {count:,} events no longer count")


@learning.command("rebuild", example="toolroll events learning rebuild --org acme")
@any_org_options
def rebuild(options: WindowOptions) -> int:
    """Rebuild the statistics from the outcomes.

    Prints the number of statistics that differed, which only damage causes. The exit status is then 1.
    """
    with options.report() as database:
        from toolroll.registry.keeper import maintenance

        wrong = maintenance.rebuild(database, None if options.org is None else [options.org])
    for org, count in () if options.json else wrong.items():
        if count:
            note(f"organisation {org!r}: {count:,} statistics differed from its outcomes")
    result = {"wrong": wrong}
    print_result(options.json, result, f"statistics of {len(wrong):,} organisations rebuilt")
    return int(any(wrong.values()))


@learning.command("share", example="toolroll events learning share --epsilon 1")
@option("--epsilon", "Privacy budget to spend on this release.", type=float, required=True, metavar="EPSILON")
@platform_write_options
def share(options: WriteOptions, epsilon: float) -> None:
    """Share what organisations learned, with differential privacy.

    Adds up the counts that consenting organisations (setting share_learning) have for the platform's tools,
    each bounded, and adds noise. New organisations start from the sums. It needs twenty organisations.

    The unit of privacy is an organisation: its data changes the probability of any result by a factor of at
    most exp(EPSILON). The audit log records how much was spent.
    """
    with options.database() as database:
        from toolroll.registry.analytics import sharing

        shared = sharing.share(database, epsilon=epsilon, actor=options.actor_name, reason=options.reason)
    if options.json:
        print_json(shared.to_dict())
        return
    release = shared.release
    print_table(
        ("TOOL", "SUCCESSES", "FAILURES", "CALLS", "EXPECTED"),
        (
            (one_line(name, 60), *(f"{count:,.1f}" for count in counts))
            for name, counts in sorted(release.counts.items())
        ),
    )
    note(
        f"{release.organisations:,} organisations, epsilon {release.epsilon:g} ({shared.spent:g} in all), "
        f"noise of standard deviation {release.noise:.1f} in each number"
    )
