"""`toolroll judge`: what another profile would have reached, from logged events."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from toolroll.cli import arguments
from toolroll.cli.catalog_options import add_window, stored, window_of
from toolroll.cli.terminal import Progress, note, print_json, print_table

if TYPE_CHECKING:
    from toolroll.registry.analytics.off_policy_log import OffPolicyResult


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    judge = commands.add_parser(
        "judge",
        help="say what another profile would have reached",
        description="Decides logged events again under another profile, with the tools that are there now, "
        "and says what would have come of it: from how probable each shown tool was and what its call "
        "brought. A profile that learns knows no more than it would have known then. No experiment is "
        "needed, and nothing is served differently.",
        epilog="example: toolroll judge --profile learned --catalog sqlite:///tools.db --since 14d",
    )
    judge.add_argument("--profile", default="default", metavar="NAME", help="which one (default: default)")
    judge.add_argument("--embedder", default="static", metavar="NAME", help="as the readers have it")
    judge.add_argument(
        "--most",
        type=arguments.positive,
        default=20_000,
        metavar="N",
        help="events, the latest (default: 20000)",
    )
    judge.add_argument(
        "--clip",
        type=arguments.positive,
        default=10,
        metavar="N",
        help="greatest weight of the clipped estimate (default: 10)",
    )
    add_window(judge)
    judge.set_defaults(run=run, usage=judge)


def run(options: argparse.Namespace) -> int:
    """Judges and prints."""
    from toolroll.embedders import named
    from toolroll.selection.pipeline_builder import PipelineBuilder
    from toolroll.selection.profiles import profile

    progress = Progress()
    builder = PipelineBuilder(named.embedder(options.embedder), profile(options.profile))
    with stored(options) as database:
        from toolroll.registry.analytics.off_policy_log import evaluate_off_policy
        from toolroll.registry.analytics.redecide import Redecider

        window = window_of(options)
        try:
            found = evaluate_off_policy(
                database,
                window,
                Redecider(database, builder),
                clip=options.clip,
                most=options.most,
                progress=lambda done: progress(f"{done:,} events") if done % 100 == 0 else None,
            )
        finally:
            progress.clear()
    if options.json:
        print_json({"profile": options.profile, **window.to_dict(), **found.to_dict()})
    else:
        _print(found, options.profile)
    return 0


def _print(found: OffPolicyResult, profile: str) -> None:
    for reason, number in found.skipped.items():
        note(f"{number:,} of {found.events:,} events are left out: {reason}")
    judged = found.judgement
    if judged is None:
        note("no event says enough to judge by")
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
        f"{judged.events:,} events of {judged.sessions:,} conversations, "
        f"worth {judged.effective_events:,.0f}; {judged.overlap:.0%} of its tools were shown, "
        f"{judged.unsupported:.1%} never could be"
    )
    if not judged.is_supported:
        note(
            "the log says too little of what this profile would show: "
            "take it for a guess, or run an experiment"
        )
