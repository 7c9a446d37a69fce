"""`toolroll analytics`: figures of what a registry's readers selected, and of what came of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from toolroll.cli import arguments
from toolroll.cli.catalog_options import add_window, command, group, stored, window_of
from toolroll.cli.terminal import note, one_line, print_fields, print_json, print_table

LEVELS = ("everywhere", "page", "context", "seed")  # written out: --help loads nothing
COUNTED = ("called", "selected", "succeeded")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command and those below it."""
    below = group(
        commands,
        "analytics",
        "figures of selections and outcomes",
        description="Figures of the selections that a registry's readers logged, and of what came of them.",
        epilog="example: toolroll analytics metrics --catalog sqlite:///tools.db --since 7d",
    )

    metrics = command(below, "metrics", _metrics, "print totals, latency, profiles, outcomes, tokens saved")
    add_window(metrics)

    heatmap = command(below, "heatmap", _heatmap, "print how often each tool was called, by page")
    heatmap.add_argument("--of", choices=COUNTED, default="called", help="what is counted (default: called)")
    heatmap.add_argument("--tools", type=arguments.positive, default=40, metavar="N", help="default: 40")
    heatmap.add_argument("--pages", type=arguments.positive, default=20, metavar="N", help="default: 20")
    _add_plot(heatmap)
    add_window(heatmap)

    hits = command(below, "hits", _hits, "print by day how often the called tool had been selected")
    _add_plot(hits)
    add_window(hits)

    drift = command(
        below,
        "drift",
        _drift,
        "list tools that lack vectors of an embedder, or have old ones",
        description="Lists tools that lack vectors of an embedder, or have old ones. An embedder that works "
        "within the process (static) needs none in the store.",
    )
    drift.add_argument("--embedder", default="static", metavar="NAME", help="as the readers have it")
    drift.add_argument("--older-than", type=arguments.instant, metavar="AGE", help="also older ones: 7d")
    add_window(drift, since=None)

    arms = command(below, "arms", _arms, "list tools with how well they work, and how sure that is")
    arms.add_argument("--level", choices=LEVELS, default="everywhere", help="default: everywhere")
    arms.add_argument("--tool", metavar="NAME", help="only this tool")
    arms.add_argument("--limit", type=arguments.positive, default=100, metavar="N", help="default: 100")
    add_window(arms, since=None)

    unused = command(below, "unused", _unused, "list tools that are never selected, or never called")
    unused.add_argument(
        "--shown",
        type=arguments.positive,
        default=50,
        metavar="N",
        help="never called of so many (default: 50)",
    )
    add_window(unused)

    broken = command(below, "broken", _broken, "list tools that stopped working lately")
    add_window(broken, since="7d")


def _add_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plot", metavar="FILE.png", help="draw it as well")


def _metrics(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.metrics import metrics

        found = metrics(database, window_of(options))
    if options.json:
        print_json(found)
        return 0
    latency, tokens = found["latency_us"], found["tokens"]
    print_fields(
        {
            "organisation": found["org"],
            "selections": f"{found['total']:,}",
            "organisations": f"{found['organisations']:,}",
            "first": found["first"],
            "last": found["last"],
            "latency": ", ".join(
                f"{name} {_time(value)}" for name, value in latency.items() if value is not None
            ),
            "profiles": _lines(
                f"{method['events']:,} ({method['share']:.0%}) {method['profile']}"
                + (f", {method['experiment']}: {method['variant']}" if method["experiment"] else "")
                for method in found["methods"]
            ),
            "outcomes": _lines(f"{number:,} {name}" for name, number in found["outcomes"].items() if number),
            "success": _share(found["success"]),
            "tools a selection": _one(found["tools_per_event"]),
            "tokens a selection": _one(tokens["selected_per_event"]),
            "tokens saved": None
            if tokens["saved_share"] is None
            else f"{tokens['saved']:,} ({tokens['saved_share']:.1%})",
            "degraded": _lines(f"{number:,} {name}" for name, number in found["degraded"].items()),
        }
    )
    return 0


def _heatmap(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.usage import heatmap

        found = heatmap(database, window_of(options), options.of, options.tools, options.pages)
    if options.plot:
        from toolroll.evaluation.pictures.usage import draw_heatmap

        draw_heatmap(found, options.plot)
    if options.json:
        print_json(found.to_dict())
        return 0
    print_table(
        ("TOOL", "ALL", *(one_line(page or "(none)", 16) for page in found.pages)),
        (
            (tool, f"{sum(row):,}", *(f"{count:,}" if count else "." for count in row))
            for tool, row in zip(found.tools, found.counts, strict=True)
        ),
    )
    if found.left_out:
        note(f"{found.left_out:,} are of further tools and pages: --tools, --pages")
    return 0


def _hits(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.usage import hits

        found = hits(database, window_of(options))
    if options.plot:
        from toolroll.evaluation.pictures.usage import draw_hits

        draw_hits(found, options.plot)
    calls, hit = sum(day.calls for day in found), sum(day.hits for day in found)
    if options.json:
        days = [day.to_dict() for day in found]
        print_json({"calls": calls, "hits": hit, "rate": hit / calls if calls else None, "days": days})
        return 0
    print_table(
        ("DAY", "CALLS", "HITS", "RATE"),
        ((day.day, f"{day.calls:,}", f"{day.hits:,}", f"{day.rate:.1%}") for day in found),
    )
    if calls:
        note(f"{hit:,} of {calls:,} called tools had been selected: {hit / calls:.1%}")
    return 0


def _drift(options: argparse.Namespace) -> int:
    if options.embedder == "none":
        options.usage.error("--embedder none: embeds nothing; name one")
    with stored(options) as database:
        from toolroll.embedders.named import embedder
        from toolroll.registry.analytics.drift import STATES, Drift, drift

        made = embedder(options.embedder)
        assert made is not None
        looked_at, found = 0, tuple[Drift, ...]()
        if not made.is_instant:
            looked_at, found = drift(database, window_of(options), made.identity, options.older_than)
    if options.json:
        tools = [tool.to_dict() for tool in found]
        print_json({"embedder": made.identity, "looked_at": looked_at, "tools": tools})
        return 0
    if made.is_instant:
        note(f"{made.identity}: embeds within each process, the store keeps no vectors of it")
        return 0
    print_table(
        ("ORG", "TOOL", "STATE", "EMBEDDED", "OLDEST", "WHAT"),
        (
            (
                tool.org or "-",
                tool.name,
                tool.state,
                f"{tool.embedded}/{tool.texts}",
                "-" if tool.oldest is None else f"{tool.oldest:%Y-%m-%d}",
                STATES[tool.state],
            )
            for tool in found
        ),
    )
    note(f"{made.identity}: {len(found):,} of {looked_at:,} tools; `toolroll embed` makes what is missing")
    return 0


def _arms(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.tools import arms

        found = arms(
            database,
            window_of(options),
            datetime.now(timezone.utc),
            level=options.level,
            tool=options.tool,
            limit=options.limit,
        )
    if options.json:
        print_json({"level": options.level, "arms": [arm.to_dict() for arm in found]})
        return 0
    print_table(
        ("ORG", "TOOL", "WHERE", "SHOWN", "CALLED", "SUCCEEDED", "MEAN", "95 %"),
        (
            (
                arm.org or "-",
                arm.tool,
                arm.context_key or "everywhere",
                f"{arm.shown:,}",
                f"{arm.called:,}",
                f"{arm.succeeded:,}",
                f"{arm.mean:.3f}",
                f"{arm.low:.3f} to {arm.high:.3f}",
            )
            for arm in found
        ),
    )
    return 0


def _unused(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.tools import unused

        found = unused(database, window_of(options), options.shown)
    if options.json:
        print_json(found)
        return 0
    rows = [(tool, "never selected") for tool in found["never_selected"]]
    rows += [(tool, f"shown {tool['shown']:,} times, never called") for tool in found["never_called"]]
    print_table(
        ("ORG", "TOOL", "TOOLKIT", "WHAT"),
        ((tool["org"] or "-", tool["name"], tool["toolkit"] or "-", what) for tool, what in rows),
    )
    note(f"of {found['tools']:,} tools in {found['events']:,} selections")
    return 0


def _broken(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.analytics.tools import broken

        found = broken(database, window_of(options))
    if options.json:
        print_json({"tools": [each.to_dict() for each in found]})
        return 0
    print_table(
        ("ORG", "TOOL", "FIRST FAILURE", "NOTICED", "WORKED", "FAILURES", "REPORTERS", "WORKS AGAIN"),
        (
            (
                each.org or "-",
                each.tool,
                f"{each.first_failure:%Y-%m-%d %H:%M}",
                f"{each.alarm:%Y-%m-%d %H:%M}",
                f"{each.worked:.0%}",
                f"{each.failures} of {each.failures + each.successes}",
                each.reporters,
                "no" if each.back is None else f"{each.back:%Y-%m-%d %H:%M}",
            )
            for each in found
        ),
    )
    return 0


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)


def _one(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f}"


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%} of those whose outcome is known"


def _time(microseconds: Any) -> str:
    return f"{microseconds / 1e3:.3g} ms" if microseconds >= 1e3 else f"{microseconds:.3g} µs"
