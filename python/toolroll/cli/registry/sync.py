"""`toolroll registry sync`: brings a registry to what a plugin has now."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolroll.cli.catalog_options import add_catalog, add_writing, command, opened
from toolroll.cli.terminal import Progress, note, print_json, printable
from toolroll.errors import NotFound

if TYPE_CHECKING:
    from toolroll.registry.sync.sync import SyncReport
    from toolroll.tools import Definitions

REVIEWS = ("auto", "changed", "all")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    sync = command(
        commands,
        "sync",
        _sync,
        "bring the tools of a plugin to what it has now",
        description="Brings the tools of a plugin to what its folder or file has now, in one transaction: "
        "new ones are added, changed ones get a version, absent ones are deleted. What is unchanged costs "
        "nothing, and what others own is never touched.",
        epilog="example: toolroll registry sync tools.jsonl --plugin billing --review changed --dry-run",
    )
    sync.add_argument("path", metavar="PATH", help="folder of toolkit files, or one file")
    sync.add_argument("--plugin", required=True, metavar="NAME", help="whose tools these are")
    sync.add_argument("--version", default="", metavar="V", help="version of the plugin, for the record")
    add_review(sync)
    sync.add_argument(
        "--trusted",
        action="store_true",
        help="the plugin also decides what only people do else: public, pinned and base, what governs its "
        "toolkits, tools in toolkits of others, page mappings; what people deleted comes back",
    )
    sync.add_argument("--dry-run", action="store_true", help="print what would be done, do nothing")
    add_writing(sync)
    add_catalog(sync)


def add_review(parser: argparse.ArgumentParser) -> None:
    """Declares `--review`."""
    parser.add_argument(
        "--review",
        choices=REVIEWS,
        help="what waits for approval: nothing (auto), new content of approved tools (changed), new tools as "
        "well (all); it holds for later syncs (default: as the last time, auto at first)",
    )


def definitions_of(path: str) -> Definitions:
    """What a folder or file has.

    Raises:
        NotFound: there is no such file or folder.
        InvalidDefinition: with file, line and key of what is wrong.
    """
    from pathlib import Path

    from toolroll.formats.sources.folder import read_folder

    if not Path(path).exists():
        raise NotFound(f"{path!r}: no such file or folder")
    return read_folder(path)


def counted(progress: Progress) -> Callable[[int, int], None] | None:
    """Shows how many tools are written, where somebody looks."""
    return (lambda done, of: progress(f"tools {done:,}/{of:,}")) if progress.shows else None


def print_report(report: SyncReport, options: argparse.Namespace, next_step: str = "") -> int:
    """Prints what was done or, of a dry run, would be. Returns 1 where it cannot be done."""
    cannot = bool(report.plan.problems)
    if options.json:
        print_json(report.to_dict())
        return int(cannot)
    print(printable(str(report)))
    if report.plan.held:
        note(f"{len(report.plan.held):,} wait for approval: toolroll registry review")
    if next_step and not report.dry_run:
        note(next_step)
    return int(cannot)


def _sync(options: argparse.Namespace) -> int:
    definitions = definitions_of(options.path)
    progress = Progress()
    with opened(options) as registry:
        try:
            report = registry.sync(
                definitions,
                plugin=options.plugin,
                version=options.version,
                org=options.org,
                review=options.review,
                trusted=options.trusted,
                dry_run=options.dry_run,
                reason=options.reason,
                progress=counted(progress),
            )
        finally:
            progress.clear()
    return print_report(report, options)
