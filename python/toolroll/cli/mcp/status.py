"""`toolroll mcp status`: the state of the servers, and searches that missed a tool."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolroll.cli.commands import command as declare
from toolroll.cli.mcp.serve import config_option, configuration_of
from toolroll.cli.options import CATALOG, json_option, option
from toolroll.cli.output import note, print_json, print_list, redacted
from toolroll.cli.parameter_types import timestamp
from toolroll.model.errors import NotFound, ToolrollError

if TYPE_CHECKING:
    from toolroll.gateway.options import GatewayOptions
    from toolroll.registry.analytics.misses import MissReport

_MOST_SHOWN = 20  # misses in the table; --json has all


@declare("status", example="toolroll mcp status --config mcp.json --since 30d")
@config_option
@option("--catalog", "URL of the registry.", envvar=CATALOG, metavar="URL", unset="as configured")
@option(
    "--since",
    "Begin of the searches: 2026-03-01, 2026-03-01T12:00, or how long ago (12h, 7d).",
    type=timestamp,
    default="7d",
    metavar="TIME",
)
@json_option
def status(
    config: Path | None, manifests: Path | None, catalog: str | None, since: datetime, json: bool
) -> None:
    """Show the servers of running gateways and last week's misses.

    A miss is a search that did not find the tool that the conversation then called. Each one is decided
    again with today's tools and statistics.
    """
    from toolroll.gateway.options import with_changes
    from toolroll.gateway.places import registry_url
    from toolroll.gateway.status import running_gateways

    configuration, state = configuration_of(config, manifests)
    url = registry_url(with_changes(configuration.options, catalog=catalog), state)
    found = list(running_gateways(state))
    report, problem = _misses(url, since, configuration.options)
    paths = {"registry": redacted(url), "calls": str(state / "calls.jsonl")}
    if json:
        searches = None if report is None else report.to_dict()
        print_json({"gateways": found, **paths, "searches": searches, "problem": problem})
        return
    if not found:
        note("no gateway runs with this configuration; `toolroll mcp doctor` tries its servers")
    for gateway in found:
        _print_gateway(gateway)
    if report is not None:
        _print_misses(report, since)
    elif found and problem:
        note(f"no searches: {problem}")
    if found or report is not None:
        print(f"registry  {paths['registry']}\ncalls     {paths['calls']}")


def _print_gateway(gateway: dict[str, Any]) -> None:
    print(f"process {gateway['pid']}, mode {gateway['mode']}, {gateway['tools']:,} tools")
    servers = [
        {**server, "problem": server["refusal"] or server["reason"] or "; ".join(server["problems"][:3])}
        for server in gateway["servers"]
    ]
    columns = "SERVER=name STATE STARTS TOOLS HELD NEXT_TRY=wait PROBLEM"
    print_list(False, "servers", servers, columns, wait=_wait)


def _wait(server: dict[str, Any]) -> str:
    """The time until a server is started again."""
    if not server["next_try"]:
        return ""
    wait_s = server["next_try"] - time.time()
    return f"in {wait_s:.0f} s" if wait_s >= 0.5 else "now"


def _print_misses(report: MissReport, since: datetime) -> None:
    misses = report.misses
    print(
        f"since {since:%Y-%m-%d %H:%M}: {report.selections:,} searches with a call, {len(misses):,} missed "
        f"its tool; {report.found:,} of these find it now, {report.first:,} in first place"
    )
    if misses:
        place = "PLACE_NOW=place"
        print_list(False, "misses", misses[:_MOST_SHOWN], f"AT EVENT=event_id SEARCH=message TOOL {place}")
    if len(misses) > _MOST_SHOWN:
        note(f"{len(misses) - _MOST_SHOWN:,} more: --json")


def _misses(url: str, since: datetime, options: GatewayOptions) -> tuple[MissReport | None, str]:
    """The misses, or the reason why they are unknown."""
    from toolroll.embedders import named
    from toolroll.registry.analytics.misses import misses
    from toolroll.registry.analytics.redecide import Redecider
    from toolroll.registry.analytics.window import Window
    from toolroll.registry.store.database import Database
    from toolroll.selection import profiles
    from toolroll.selection.pipeline_builder import PipelineBuilder

    try:
        database = Database.open(url, create=False, migrate=False)
    except NotFound:
        return None, "no gateway has run yet"
    except ToolrollError as error:
        return None, redacted(str(error))
    try:  # with the parameters of the gateway
        builder = PipelineBuilder(named.embedder(options.embedder), profiles.profile(options.profile))
        today = Redecider(database, builder, at=datetime.now(timezone.utc))
        return misses(database, Window(since=since), today), ""
    except ToolrollError as error:
        return None, redacted(str(error))
    finally:
        database.close()


COMMANDS = (status,)
