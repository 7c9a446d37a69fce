"""`toolroll experiment`: two profiles side by side, and which is better."""

from __future__ import annotations

import argparse

from toolroll.cli.catalog_options import actor_of, add_catalog, add_writing, command, group, stored
from toolroll.cli.terminal import note, one_line, print_json, print_table

_ASKEW = 0.05  # shares of events whose outcome is known may differ by this
UNITS = ("user", "session", "org")  # written out: --help loads nothing


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command and those below it."""
    below = group(
        commands,
        "experiment",
        "serve profiles side by side and say which is better",
        description="Serves profiles side by side: each user, session or organisation always gets the same. "
        "A winner may be asked for at any time, as often as one likes.",
        epilog="example: toolroll experiment start ranking --variant default=0.5 --variant learned=0.5",
    )

    start = command(below, "start", _start, "begin an experiment")
    start.add_argument("name", metavar="NAME", help="of the experiment, never used before")
    start.add_argument(
        "--variant",
        type=variant,
        action="append",
        required=True,
        metavar="PROFILE=SHARE",
        help="what is served, to which share of the units; the first is the control; repeatable",
    )
    start.add_argument("--unit", choices=UNITS, default="user", help="who gets the same (default: user)")
    start.add_argument("--salt", default="", metavar="TEXT", help="deals the units out anew")
    add_writing(start)
    add_catalog(start)

    stop = command(below, "stop", _stop, "end an experiment; the profile itself serves everybody again")
    stop.add_argument("name", metavar="NAME")
    add_writing(stop, org=False)
    add_catalog(stop)

    show = command(below, "show", _show, "say whether there is a winner; without NAME, list experiments")
    show.add_argument("name", metavar="NAME", nargs="?")
    show.add_argument(
        "--worth",
        type=share,
        default=0.02,
        metavar="SHARE",
        help="difference one would act on (default: 0.02)",
    )
    show.add_argument(
        "--error", type=share, default=0.05, metavar="SHARE", help="chance of a false winner (default: 0.05)"
    )
    add_catalog(show)


def share(text: str) -> float:
    """A number above 0 and below 1."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number") from None
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be between 0 and 1")
    return number


def variant(text: str) -> tuple[str, float]:
    """PROFILE=SHARE."""
    name, equals, number = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: must be PROFILE=SHARE")
    return name, share(number)


def _start(options: argparse.Namespace) -> int:
    from toolroll.learning.experiments import Experiment
    from toolroll.selection.profiles import profile

    with stored(options) as database:
        from toolroll.registry.analytics.experiments import read_variants, start

        variants = read_variants(options.variant)
        for name in variants:
            profile(name)  # raises NotFound for one that nobody could serve
        begun = start(
            database,
            Experiment(options.name, variants, options.unit, options.salt),
            actor=actor_of(options),
            org=options.org,
            reason=options.reason,
        )
    if options.json:
        print_json(begun.to_dict())
    else:
        print(one_line(f"{options.name}: begun, by {options.unit}; control is {begun.experiment.control}"))
    return 0


def _stop(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.experiments import stop

        ended = stop(database, options.name, actor=actor_of(options), reason=options.reason)
    if options.json:
        print_json(ended.to_dict())
    else:
        print(one_line(f"{options.name}: ended {ended.ended_at:%Y-%m-%d %H:%M}"))
    return 0


def _show(options: argparse.Namespace) -> int:
    from toolroll.learning.experiments import compare

    with stored(options) as database:
        from toolroll.registry.analytics.experiments import counts, find, list_experiments

        if options.name is None:
            return _list(list_experiments(database), options)
        trial = find(database, options.name)
        found = counts(database, trial)
    verdict = compare(
        trial.experiment, found.tallies, found.assigned, error=options.error, worth=options.worth
    )
    if options.json:
        print_json(
            {
                **trial.to_dict(),
                **verdict.to_dict(),
                "dealt": dict(found.assigned),
                "unknown": dict(found.unknown),
                "strays": found.strays,
            }
        )
        return 0
    print_table(
        ("VARIANT", "SHARE", "UNITS", "EVENTS", "SUCCESS", "NOT KNOWN"),
        (
            (
                name,
                f"{share:.0%}",
                f"{found.assigned[name]:,}",
                f"{verdict.tallies[name].events:,.0f}",
                f"{verdict.tallies[name].mean:.2%}" if verdict.tallies[name].events else "-",
                f"{found.unknown[name]:,}",
            )
            for name, share in trial.experiment.variants.items()
        ),
    )
    for each in verdict.contrasts:
        if each.high - each.low < 2:
            gain = f"{100 * each.value:+.2f} points, {100 * each.low:+.2f} to {100 * each.high:+.2f}"
            print(one_line(f"{each.variant} against {each.against}: {gain}, whenever one looks"))
    if found.strays:
        note(f"{found.strays:,} units have been in several variants and are left out")
    known = [
        tally.events / (tally.events + found.unknown[name])
        for name, tally in verdict.tallies.items()
        if tally.events
    ]
    if known and max(known) - min(known) > _ASKEW:
        note("outcomes are known of unequal shares of the events: the successes may not be comparable")
    print(one_line(_sentence(verdict.state, verdict.winner, options)))
    return 0


def _sentence(state: str, winner: str | None, options: argparse.Namespace) -> str:
    if state == "winner":
        return f"{winner} is better than every other"
    if state == "equal":
        return f"no two differ by more than {100 * options.worth:g} points"
    if state == "unsound":
        return (
            "the units were not dealt out as the shares say: some of their events get lost; believe no figure"
        )
    return "there is no winner yet"


def _list(found: tuple[object, ...], options: argparse.Namespace) -> int:
    listed = [trial.to_dict() for trial in found]  # type: ignore[attr-defined]
    if options.json:
        print_json({"experiments": listed})
        return 0
    print_table(
        ("NAME", "ORG", "UNIT", "BEGUN", "ENDED", "VARIANTS"),
        (
            (
                trial["name"],
                trial["org"] or "-",
                trial["unit"],
                trial["begun_at"][:16].replace("T", " "),
                "runs" if trial["active"] else trial["ended_at"][:16].replace("T", " "),
                ", ".join(f"{name} {share:.0%}" for name, share in trial["variants"].items()),
            )
            for trial in listed
        ),
    )
    return 0
