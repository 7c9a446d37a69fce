"""`toolroll build`: a folder of tools as one file, from which processes start in milliseconds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import (
    embedder_option,
    hnsw_option,
    json_option,
    on_bad_tool_option,
    option,
    profile_option,
    tiers_option,
)
from toolroll.cli.output import Progress, print_json, printable

if TYPE_CHECKING:
    from toolroll.formats.sources.bad_tools import OnBadTool


@declare("build", example="toolroll build toolkits/ --to tools.catalog")
@click.argument("source", metavar="PATH")
@option(
    "--to target", "The file to write; an older one is replaced in one step.", required=True, metavar="FILE"
)
@tiers_option
@on_bad_tool_option
@profile_option("Named set of parameters, the one that readers use.")
@embedder_option(envvar="TOOLROLL_EMBEDDER", show_envvar=True)
@hnsw_option
@json_option
def command(
    source: str,
    target: str,
    tiers: tuple[str, ...] | None,
    on_bad_tool: OnBadTool | None,
    profile: str | None,
    embedder: str,
    hnsw: bool,
    json: bool,
) -> None:
    """Build a catalog and save it.

    PATH is a folder of toolkit files, a folder with tools.jsonl, or one such file. `Toolroll.load(FILE)` and
    `toolroll select --catalog FILE` start from the file without embedding or indexing anything. Build it
    again when the tools, the embedder or the version of toolroll change.
    """
    from toolroll.cli.environment import from_environment
    from toolroll.roll import Toolroll
    from toolroll.runtime.files import check_writable

    check_writable(target)
    with Progress() as progress:
        roll = Toolroll.from_folder(
            source,
            tiers=tiers or (),
            embedder=embedder,
            profile=from_environment(profile),
            hnsw=hnsw,
            on_bad_tool=on_bad_tool,
            progress=progress.counter("embedding"),
        )
    with roll:
        roll.save(target)
        catalog = roll.catalog
    size = os.path.getsize(target)
    if json:
        print_json(
            {
                "tools": len(catalog),
                "bytes": size,
                "catalog_revision": catalog.revision,
                "embedder": catalog.space or None,
            }
        )
        return
    print(printable(f"{target}: {len(catalog):,} tools, {size / 1e6:.1f} MB"))
