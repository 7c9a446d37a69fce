"""`toolroll registry sync`: brings a plugin's tools in a registry up to date."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from toolroll.cli.commands import command
from toolroll.cli.options import WriteOptions, flag, on_bad_tool_option, option, write_options
from toolroll.cli.output import Progress, note, print_json, printable
from toolroll.model.errors import InvalidDefinition, NotFound

if TYPE_CHECKING:
    from toolroll.formats.sources.bad_tools import OnBadTool
    from toolroll.model.tools import Definitions
    from toolroll.registry.sync.sync import SyncReport

_LISTED = 20  # problems in an error

review_option = option(
    "--review",
    "Which tools wait for approval: none (auto), approved ones with new content (changed), new ones as "
    "well (all). Later syncs keep it.",
    choices=("auto", "changed", "all"),
    unset="as the last time, at first auto",
)

while_waiting_option = option(
    "--while-waiting",
    "What serves of an approved tool whose change waits: nothing (hidden), or its approved content, if only "
    "texts differ (approved). Later syncs keep it.",
    choices=("hidden", "approved"),
    unset="as the last time, at first hidden",
)


@command("sync", example="toolroll registry sync tools.jsonl --plugin billing --review changed --dry-run")
@click.argument("path")
@option("--plugin", "Plugin that owns the tools.", required=True, metavar="NAME")
@option("--plugin-version", "The plugin's own version, for people.", default="", metavar="V")
@review_option
@while_waiting_option
@flag(
    "--trusted",
    "Let the plugin also set what only people set otherwise: public, pinned, base, the rest that governs its "
    "toolkits, tools in other toolkits, page mappings. Tools that people deleted come back.",
)
@on_bad_tool_option
@flag("--dry-run", "Print what would be done, write nothing.")
@write_options
def sync(
    options: WriteOptions, path: str, dry_run: bool, on_bad_tool: OnBadTool | None, **how: object
) -> int:
    """Bring a plugin's tools up to date.

    PATH is a folder of toolkit files, or one file. In one transaction, new tools are added, changed ones get
    a version and missing ones are deleted, except those that are left out for an error. Tools of other owners
    are never touched.
    """
    definitions = definitions_of(path, on_bad_tool)
    with options.registry() as registry, Progress() as progress:
        report = registry.sync(
            definitions,
            org=options.org,
            dry_run=dry_run,
            reason=options.reason,
            progress=progress.counter("tools"),
            **how,  # type: ignore[arg-type]  # as declared above
        )
    return print_report(report, options.json)


def definitions_of(path: str, on_bad_tool: OnBadTool | None = None) -> Definitions:
    """The tools and toolkits of a folder or file. on_bad_tool: as for `read_folder`.

    Raises:
        NotFound: there is no such file or folder.
        InvalidDefinition: definitions are wrong; says file, line and key of each.
    """
    from toolroll.formats.sources.folder import read_folder

    if not os.path.exists(path):  # Path.exists raises for a name that is too long
        raise NotFound(f"{path!r:.300}: no such file or folder")
    read = read_folder(path, on_bad_tool=on_bad_tool, for_registry=True)
    if read.refused[1:]:
        more = f"; and {len(read.refused) - _LISTED} more" if len(read.refused) > _LISTED else ""
        listed = "; ".join(map(str, read.refused[:_LISTED]))
        raise InvalidDefinition(f"{len(read.refused)} problems, nothing was done: {listed}{more}")
    if read.refused:
        raise read.refused[0]
    return read


def print_report(report: SyncReport, as_json: bool, next_step: str = "") -> int:
    """Prints what was done or, of a dry run, would be. Returns 1 where it cannot be done."""
    if as_json:
        print_json(report.to_dict())
    else:
        print(printable(str(report)))
        if report.plan.held:
            note(f"{len(report.plan.held):,} wait for approval: toolroll registry review")
        if next_step and not report.dry_run:
            note(next_step)
    return int(bool(report.plan.problems))


COMMANDS = (sync,)
