"""`toolroll events analytics`: figures of the logged selections and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import click

from toolroll.cli.commands import Group
from toolroll.cli.options import WindowOptions, embedder_option, option, window_options
from toolroll.cli.output import note, one_line, print_fields, print_json, print_list, print_table
from toolroll.cli.parameter_types import POSITIVE, timestamp

analytics = Group(
    "analytics",
    help="Print figures of selections and outcomes.",
    example="toolroll events analytics metrics --catalog sqlite:///tools.db --since 7d",
)
_plot_option = option("--plot", "Also draw it.", metavar="FILE.png")


@analytics.command("metrics", example="toolroll events analytics metrics --since 7d --org acme")
@window_options()
def metrics(options: WindowOptions) -> None:
    """Print totals, latency, profiles, outcomes and saved tokens."""
    with options.report() as database:
        from toolroll.registry.analytics import metrics

        found = metrics.metrics(database, options.window())
    if options.json:
        print_json(found)
        return
    latency, tokens = found["latency_us"], found["tokens"]
    print_fields(
        {
            "organisation": found["org"],
            "selections": f"{found['total']:,}",
            "organisations": f"{found['organisations']:,}",
            "first": found["first"],
            "last": found["last"],
            "latency": ", ".join(f"{name} {_time(us)}" for name, us in latency.items() if us is not None),
            "profiles": "\n".join(
                f"{method['events']:,} ({method['share']:.0%}) {method['profile']}"
                + (f", {method['experiment']}: {method['variant']}" if method["experiment"] else "")
                for method in found["methods"]
            ),
            "outcomes": "\n".join(f"{count:,} {name}" for name, count in found["outcomes"].items() if count),
            "success": _format("{:.1%} of those whose outcome is known", found["success"]),
            "tools a selection": _format("{:,.1f}", found["tools_per_event"]),
            "tokens a selection": _format("{:,.1f}", tokens["selected_per_event"]),
            "tokens saved": _format(f"{tokens['saved']:,} ({{:.1%}})", tokens["saved_share"]),
            "degraded": "\n".join(f"{count:,} {name}" for name, count in found["degraded"].items()),
        }
    )


def _format(form: str, value: float | None) -> str | None:
    return None if value is None else form.format(value)


def _time(microseconds: Any) -> str:
    return f"{microseconds / 1e3:.3g} ms" if microseconds >= 1e3 else f"{microseconds:.3g} µs"


@analytics.command("heatmap", example="toolroll events analytics heatmap --of selected --plot pages.png")
@option("--of", "What is counted.", choices=("called", "selected", "succeeded"), default="called")
@option("--tools", "Most tools to show.", type=POSITIVE, default=40)
@option("--pages", "Most pages to show.", type=POSITIVE, default=20)
@_plot_option
@window_options()
def heatmap(options: WindowOptions, of: Any, tools: int, pages: int, plot: str | None) -> None:
    """Print how often each tool was called, by page."""
    with options.report() as database:
        from toolroll.registry.analytics import usage

        found = usage.heatmap(database, options.window(), of, tools, pages)
    if plot:
        from toolroll.lab.pictures.usage import draw_heatmap

        draw_heatmap(found, plot)
    if options.json:
        print_json(found.to_dict())
        return
    print_table(
        ("TOOL", "ALL", *(one_line(page or "(none)", 16) for page in found.pages)),
        (
            (tool, f"{sum(row):,}", *(f"{count:,}" if count else "." for count in row))
            for tool, row in zip(found.tools, found.counts, strict=True)
        ),
    )
    if found.left_out:
        note(f"{found.left_out:,} are of further tools and pages: --tools, --pages")


@analytics.command("hits", example="toolroll events analytics hits --since 30d --plot hits.png")
@_plot_option
@window_options()
def hits(options: WindowOptions, plot: str | None) -> None:
    """Print by day how often the called tool had been selected."""
    with options.report() as database:
        from toolroll.registry.analytics import usage

        found = usage.hits(database, options.window())
    if plot:
        from toolroll.lab.pictures.usage import draw_hits

        draw_hits(found, plot)
    calls, hit = sum(day.calls for day in found), sum(day.hits for day in found)
    if options.json:
        days = [day.to_dict() for day in found]
        print_json({"calls": calls, "hits": hit, "rate": hit / calls if calls else None, "days": days})
        return
    print_table(
        ("DAY", "CALLS", "HITS", "RATE"),
        ((day.day, f"{day.calls:,}", f"{day.hits:,}", f"{day.rate:.1%}") for day in found),
    )
    if calls:
        note(f"{hit:,} of {calls:,} called tools had been selected: {hit / calls:.1%}")


@analytics.command("drift", example="toolroll events analytics drift --embedder minilm --older-than 90d")
@embedder_option(help="The embedder that readers use.")
@option(
    "--older-than",
    "Also list vectors that are older than this: 90d, 12h, 30s.",
    type=timestamp,
    metavar="AGE",
    unset="any age",
)
@window_options(since=None)
def drift(options: WindowOptions, embedder: str, older_than: datetime | None) -> None:
    """List tools that lack vectors of an embedder, or have old ones.

    An embedder that works within the process (static) needs none in the store. --since and --until choose
    tools by their last change.
    """
    if embedder == "none":
        raise click.UsageError("--embedder none: embeds nothing; name an embedder")
    with options.report() as database:
        from toolroll.embedders import named
        from toolroll.registry.analytics import drift

        made = named.embedder(embedder)
        assert made is not None
        looked_at, found = 0, tuple[drift.Drift, ...]()
        if not made.is_instant:
            looked_at, found = drift.drift(database, options.window(), made.identity, older_than)
    if options.json:
        tools = [tool.to_dict() for tool in found]
        keeps = not made.is_instant
        print_json({"embedder": made.identity, "stored": keeps, "looked_at": looked_at, "tools": tools})
        return
    if made.is_instant:
        note(f"{made.identity}: embeds within each process and reads no stored vectors, so none can be old")
        return
    print_list(
        False,
        "tools",
        found,
        "ORG TOOL=name STATE EMBEDDED OLDEST WHAT",
        embedded=lambda tool: f"{tool.embedded}/{tool.texts}",
        what=lambda tool: drift.STATES[tool.state],
    )
    note(
        f"{made.identity}: {len(found):,} of {looked_at:,} tools; `toolroll embed` makes the missing vectors"
    )


@analytics.command("arms", example="toolroll events analytics arms --tool get_forecast")
@option(
    "--level",
    "Contexts to tell apart.",
    choices=("everywhere", "page", "context", "plain"),
    default="everywhere",
)
@option("--tool", "Only this tool.", metavar="NAME", unset="all")
@option("--limit", "Most lines.", type=POSITIVE, default=100)
@window_options(since=None)
def arms(options: WindowOptions, level: str, tool: str | None, limit: int) -> None:
    """List the success rate of each tool, with its interval."""
    with options.report() as database:
        from toolroll.registry.analytics import tools

        now = datetime.now(timezone.utc)
        found = tools.arms(database, options.window(), now, level=level, tool=tool, limit=limit)
    print_list(
        options.json,
        "arms",
        found,
        "ORG TOOL WHERE SHOWN CALLED SUCCEEDED MEAN 95_%=interval",
        {"level": level},
        where=lambda arm: arm.context_key or "everywhere",
        mean=lambda arm: f"{arm.mean:.3f}",
        interval=lambda arm: f"{arm.low:.3f} to {arm.high:.3f}",
    )


@analytics.command("tools", example="toolroll events analytics tools --by p95 --since 7d")
@option("--by", "The order, the highest first.", choices=("calls", "failed", "mean", "p95"), default="calls")
@option("--limit", "Most lines.", type=POSITIVE, default=100)
@window_options(since="7d")
def tools(options: WindowOptions, by: Any, limit: int) -> None:
    """List failures and durations of calls by tool."""
    with options.report() as database:
        from toolroll.registry.analytics.tool_calls import tool_calls

        found = tool_calls(database, options.window(), by=by, limit=limit)
    _print_calls(options.json, "tools", found, "ORG TOOL", {"by": by})


@analytics.command("plugins", example="toolroll events analytics plugins --since 24h")
@window_options(since="7d")
def plugins(options: WindowOptions) -> None:
    """List failures and durations of calls by plugin.

    The plugins with the most failures come first.
    """
    with options.report() as database:
        from toolroll.registry.analytics.tool_calls import plugin_calls

        found = plugin_calls(database, options.window())
    _print_calls(options.json, "plugins", found, "ORG PLUGIN")


def _print_calls(
    as_json: bool, key: str, found: Iterable[Any], columns: str, also: dict[str, Any] | None = None
) -> None:
    print_list(
        as_json,
        key,
        found,
        f"{columns} CALLS SUCCEEDED FAILED MEAN P95 TIMED",
        also,
        calls=lambda each: f"{each.calls:,}",
        succeeded=lambda each: f"{each.succeeded:,}",
        failed=lambda each: f"{each.failed:,}" + (f" ({each.failed / each.calls:.0%})" if each.calls else ""),
        mean=lambda each: _milliseconds(each.duration_ms["mean"]),
        p95=lambda each: _milliseconds(each.duration_ms["p95"]),
        timed=lambda each: f"{each.timed:,}",
    )


def _milliseconds(time: float | None) -> str | None:
    return None if time is None else f"{time / 1e3:.3g} s" if time >= 1e3 else f"{time:.3g} ms"


@analytics.command("unused", example="toolroll events analytics unused --shown 100")
@option("--shown", "A tool counts as never called after so many selections.", type=POSITIVE, default=50)
@window_options()
def unused(options: WindowOptions, shown: int) -> None:
    """List tools that are never selected, or never called."""
    with options.report() as database:
        from toolroll.registry.analytics import tools

        found = tools.unused(database, options.window(), shown)
    if options.json:
        print_json(found)
        return
    rows = [{**tool, "what": "never selected"} for tool in found["never_selected"]]
    for tool in found["never_called"]:
        rows.append({**tool, "what": f"shown {tool['shown']:,} times, never called"})
    print_list(False, "tools", rows, "ORG TOOL=name TOOLKIT WHAT")
    note(f"of {found['tools']:,} tools in {found['events']:,} selections")


@analytics.command("broken", example="toolroll events analytics broken --since 7d")
@window_options(since="7d")
def broken(options: WindowOptions) -> None:
    """List tools that stopped working recently, or never worked."""
    with options.report() as database:
        from toolroll.registry.analytics import tools

        found = tools.broken(database, options.window())
    print_list(
        options.json,
        "tools",
        found,
        "ORG TOOL FIRST_FAILURE NOTICED=alarm WORKED FAILURES REPORTERS WORKS_AGAIN=back",
        worked=lambda each: f"{each.worked:.0%}",
        failures=lambda each: f"{each.failures} of {each.failures + each.successes}",
        back=lambda each: each.back or "no",
    )
