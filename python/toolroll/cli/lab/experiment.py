"""`toolroll lab experiment`: serves profiles side by side and compares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import Group
from toolroll.cli.options import (
    RegistryOptions,
    WriteOptions,
    option,
    platform_write_options,
    report_options,
    write_options,
)
from toolroll.cli.output import note, one_line, print_json, print_list, print_result, print_table
from toolroll.cli.parameter_types import SHARE, variant

if TYPE_CHECKING:
    from toolroll.registry.analytics.comparison import Comparison
    from toolroll.registry.analytics.experiments import ExperimentCounts, StoredExperiment

_UNEQUAL = 0.05  # difference between variants in the share of events with a known outcome

command = Group(
    "experiment",
    help="Serve profiles side by side and compare them.\n\n"
    "Each user, session or organisation always gets the same profile. The result stays valid however often "
    "and whenever you look at it.",
    example="toolroll lab experiment start ranking --variant default=0.5 --variant learned=0.5",
)


@command.command(
    "start", example="toolroll lab experiment start ranking --variant default=0.5 --variant learned=0.5"
)
@click.argument("name")
@option(
    "--variant variants",
    "A profile and the share of units that get it; the first is the control; repeatable.",
    type=variant,
    multiple=True,
    required=True,
    metavar="PROFILE=SHARE",
)
@option("--unit", "What gets a profile.", choices=("user", "session", "org"), default="user")
@option("--salt", "Another text assigns the units differently.", default="", metavar="TEXT")
@write_options
def start(
    options: WriteOptions, name: str, variants: tuple[tuple[str, float], ...], unit: Any, salt: str
) -> None:
    """Start an experiment; NAME must not have been used before."""
    from toolroll.learning.experiments import Experiment
    from toolroll.selection.profiles import profile

    with options.database() as database:
        from toolroll.registry.analytics import experiments

        shares = experiments.read_variants(list(variants))
        for each in shares:
            profile(each)  # raises NotFound for a profile that nobody could serve
        begun = experiments.start(
            database,
            Experiment(name, shares, unit, salt),
            actor=options.actor_name,
            org=options.org,
            reason=options.reason,
        )
    print_result(
        options.json, begun.to_dict(), f"{name}: started, by {unit}; control is {begun.experiment.control}"
    )


@command.command("stop", example="toolroll lab experiment stop ranking")
@click.argument("name")
@platform_write_options
def stop(options: WriteOptions, name: str) -> None:
    """Stop an experiment; all users get the usual profile again."""
    with options.database() as database:
        from toolroll.registry.analytics import experiments

        ended = experiments.stop(database, name, actor=options.actor_name, reason=options.reason)
    print_result(options.json, ended.to_dict(), f"{name}: ended {ended.ended_at:%Y-%m-%d %H:%M}")


@command.command("show", example="toolroll lab experiment show ranking")
@click.argument("name", required=False)
@option("--worth", "Least difference that matters to you.", type=SHARE, default=0.02, metavar="SHARE")
@option("--error", "Chance of a false winner.", type=SHARE, default=0.05, metavar="SHARE")
@report_options
def show(options: RegistryOptions, name: str | None, worth: float, error: float) -> None:
    """Print whether there is a winner.

    Without NAME, list the experiments.
    """
    from toolroll.registry.analytics.comparison import compare

    with options.report() as database:
        from toolroll.registry.analytics.experiments import counts, find, list_experiments

        if name is None:
            trials = list_experiments(database)
            _print_trials(trials, options.json)
            return
        trial = find(database, name)
        found = counts(database, trial)
    verdict = compare(trial.experiment, found.tallies, found.assigned, error=error, worth=worth)
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
    else:
        _print_verdict(trial, found, verdict, worth)


def _print_verdict(
    trial: StoredExperiment, found: ExperimentCounts, verdict: Comparison, worth: float
) -> None:
    print_table(
        ("VARIANT", "SHARE", "UNITS", "EVENTS", "SUCCESS", "NOT KNOWN"),
        (
            (
                name,
                f"{share:.0%}",
                f"{found.assigned[name]:,}",
                f"{verdict.tallies[name].events:,.0f}",
                f"{verdict.tallies[name].mean:.2%}" if verdict.tallies[name].events else None,
                f"{found.unknown[name]:,}",
            )
            for name, share in trial.experiment.variants.items()
        ),
    )
    for each in verdict.contrasts:
        if each.high - each.low < 2:
            gain = f"{100 * each.value:+.2f} points, {100 * each.low:+.2f} to {100 * each.high:+.2f}"
            print(one_line(f"{each.variant} against {each.against}: {gain}, valid at any time"))
    if found.strays:
        note(f"{found.strays:,} units were in several variants and are left out")
    known = [
        tally.events / (tally.events + found.unknown[name])
        for name, tally in verdict.tallies.items()
        if tally.events
    ]
    if known and max(known) - min(known) > _UNEQUAL:
        note("outcomes are known for unequal shares of the events: the successes may not be comparable")
    sentences = {
        "winner": f"{verdict.winner} is better than every other",
        "equal": f"no two differ by more than {100 * worth:g} points",
        "unsound": "the units do not divide as the shares say, so events are missing: trust no figure",
    }
    missing = ", ".join(f"{number:,} of {name}" for name, number in verdict.missing.items() if number)
    waits = f"; about {missing} more units decide it, if they go on as so far" if missing else ""
    print(one_line(sentences.get(verdict.state, f"there is no winner yet{waits}")))


def _print_trials(found: Sequence[StoredExperiment], as_json: bool) -> None:
    print_list(
        as_json,
        "experiments",
        [trial.to_dict() for trial in found],
        "NAME ORG UNIT BEGUN=begun_at ENDED VARIANTS",
        ended=lambda trial: "runs" if trial["active"] else trial["ended_at"],
        variants=lambda trial: ", ".join(f"{name} {share:.0%}" for name, share in trial["variants"].items()),
    )
