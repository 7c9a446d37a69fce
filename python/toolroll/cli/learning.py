"""`toolroll learning`: outcomes taken back, counted anew, shared."""

from __future__ import annotations

import argparse

from toolroll.cli.arguments import instant
from toolroll.cli.catalog_options import actor_of, add_catalog, add_org, add_writing, command, group, stored
from toolroll.cli.terminal import note, one_line, print_json, print_table


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command and those below it."""
    below = group(
        commands,
        "learning",
        "take outcomes back, count them anew, share what they taught",
        description="Takes outcomes back, counts statistics anew, and shares over organisations what they "
        "taught. What they taught is read by `toolroll analytics arms`.",
        epilog="example: toolroll learning forget --reporter user-17 --catalog sqlite:///tools.db",
    )

    forget = command(
        below,
        "forget",
        _forget,
        "take outcomes back",
        description="Takes outcomes of an organisation back, whole events at a time: they are kept and count "
        "no more, and every process unlearns what they taught within a second. At least one of --event, "
        "--reporter, --tool, --since and --until says which; of several, all must hold.",
        epilog="example: toolroll learning forget --tool send_mail --since 2d --reason 'test traffic'",
    )
    forget.add_argument("--event", metavar="EVENT", help="of this event")
    forget.add_argument("--reporter", metavar="NAME", help="that this one reported")
    forget.add_argument("--tool", metavar="NAME", help="of events in which something was said of this tool")
    forget.add_argument("--since", type=instant, metavar="TIME", help="from then on: 2026-03-01, or 12h, 7d")
    forget.add_argument("--until", type=instant, metavar="TIME", help="up to then")
    add_writing(forget)
    add_catalog(forget)

    rebuild = command(
        below,
        "rebuild",
        _rebuild,
        "count the statistics anew from the outcomes",
        description="Counts the statistics anew from the outcomes and says how many were not what those say. "
        "Nothing but damage makes that more than none. Exit status 1 where there were some.",
    )
    add_org(rebuild, all_of_them=True)
    add_catalog(rebuild)

    share = command(
        below,
        "share",
        _share,
        "share what organisations learnt of the platform's tools, with differential privacy",
        description="Adds up what the organisations that agreed (the setting share_learning) learnt of the "
        "platform's tools, each one's counts bounded, with noise; new organisations begin with it. The unit "
        "of privacy is an organisation: what one of them did changes the probability of any result by a "
        "factor of at most exp(EPSILON). Needs twenty of them; what was spent stands in the log of changes.",
        epilog="example: toolroll learning share --epsilon 1 --catalog postgresql://me@db.example.org/tools",
    )
    share.add_argument("--epsilon", type=float, required=True, metavar="EPSILON", help="what it may cost")
    add_writing(share, org=False)
    add_catalog(share)


def _forget(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.events.maintenance import OutcomeFilter, forget

        which = OutcomeFilter(options.event, options.reporter, options.tool, options.since, options.until)
        count = forget(database, options.org or "", which, actor=actor_of(options), reason=options.reason)
    if options.json:
        print_json({"events": count})
    else:
        print(f"outcomes of {count:,} events count no more")
    return 0


def _rebuild(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.events.maintenance import rebuild

        wrong = rebuild(database, None if options.org is None else [options.org])
    if options.json:
        print_json({"wrong": wrong})
    else:
        for org, count in wrong.items():
            if count:
                note(one_line(f"organisation {org!r}: {count:,} statistics were not what its outcomes say"))
        print(f"{len(wrong):,} organisations counted anew")
    return 1 if any(wrong.values()) else 0


def _share(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.sharing import share

        shared = share(database, epsilon=options.epsilon, actor=actor_of(options), reason=options.reason)
    if options.json:
        print_json(shared.to_dict())
        return 0
    print_table(
        ("TOOL", "SUCCESSES", "FAILURES", "CALLS", "EXPECTED"),
        (
            (one_line(name, 60), *(f"{count:,.1f}" for count in counts))
            for name, counts in sorted(shared.release.counts.items())
        ),
    )
    told = shared.release
    note(
        f"{told.organisations:,} organisations, epsilon {told.epsilon:g} ({shared.spent:g} in all), noise of "
        f"standard deviation {told.noise:.1f} in each number"
    )
    return 0
