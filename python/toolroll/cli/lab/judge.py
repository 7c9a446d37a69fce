"""`toolroll lab judge`: estimates from logged events how another profile would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolroll.cli.commands import command as declare
from toolroll.cli.options import WindowOptions, embedder_option, option, window_options
from toolroll.cli.output import Progress, note, print_json, print_table
from toolroll.cli.parameter_types import POSITIVE

if TYPE_CHECKING:
    from toolroll.learning.off_policy import Judgement


@declare("judge", example="toolroll lab judge --profile learned --catalog sqlite:///tools.db --since 14d")
@option("--profile", "The profile to estimate.", default="default", metavar="NAME")
@embedder_option()
@option("--most", "Most events, the latest ones.", type=POSITIVE, default=20000)
@option("--clip", "Greatest weight in the clipped estimate.", type=POSITIVE, default=10)
@window_options()
def command(options: WindowOptions, profile: str, embedder: str, most: int, clip: int) -> None:
    """Estimate how another profile would have done.

    Decides logged events again under another profile, with the present tools, and estimates its success from
    how likely each tool was to be shown and what its calls achieved. A profile that learns knows only what it
    would have known then. It needs no experiment and changes nothing for users.
    """
    from toolroll.embedders import named
    from toolroll.selection import profiles
    from toolroll.selection.pipeline_builder import PipelineBuilder

    builder = PipelineBuilder(named.embedder(embedder), profiles.profile(profile))
    window = options.window()
    with options.report() as (database, unreadable), Progress() as progress:
        from toolroll.registry.analytics.off_policy_log import evaluate_off_policy
        from toolroll.registry.analytics.redecide import Redecider

        found = evaluate_off_policy(
            database,
            window,
            Redecider(database, builder),
            clip=clip,
            most=most,
            progress=lambda done: progress(f"{done:,} events") if done % 100 == 0 else None,
            unreadable=unreadable,
        )
    if options.json:
        result = {"profile": profile, **window.to_dict(), **found.to_dict()}
        print_json({**result, "unreadable": [*unreadable]})
    else:
        for reason, number in found.skipped.items():
            note(f"{number:,} of {found.events:,} events are left out: {reason}")
        print_judgement(found.judgement, profile)


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
