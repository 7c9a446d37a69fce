"""`toolroll import`: from folders of toolkits, or from another registry, into a registry."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from toolroll.cli.catalog_options import (
    CATALOG,
    add_catalog,
    add_writing,
    is_registry,
    opened,
    redacted,
    url_of,
)
from toolroll.cli.registry.sync import add_review, counted, definitions_of, print_report
from toolroll.cli.terminal import Progress
from toolroll.errors import NotFound

if TYPE_CHECKING:
    from toolroll.registry.registry import Registry
    from toolroll.tools import Definitions


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    importing = commands.add_parser(
        "import",
        help="put tools into a registry",
        description="Puts the tools and toolkits of folders, files or another registry into a registry, "
        "which is made where there is none. What is there already gets a new version where its file changed; "
        "what people decided since (status, pins, groups, deletions) stays. Nothing is "
        "deleted, unless the tools are a plugin's (--plugin). Of another registry the approved tools are "
        "read, with toolkits and page mappings, as yours, whichever plugin's they were; one with rules, "
        "tiers or organisations is refused, since hidden tools would be seen here: copy it with "
        "pg_dump, or copy the file.",
        epilog="example: toolroll import toolkits/ --to postgresql://me@db.example.org/tools",
    )
    importing.add_argument(
        "sources",
        nargs="+",
        metavar="PATH|URL",
        help="folder of toolkit files, one such file, or another registry: what is approved there",
    )
    add_catalog(importing, "--to")
    importing.add_argument(
        "--plugin", metavar="NAME", help="they are this plugin's: what it no longer has is deleted"
    )
    add_review(importing)
    importing.add_argument("--restore", action="store_true", help="bring back what people deleted")
    importing.add_argument("--dry-run", action="store_true", help="print what would be done, do nothing")
    add_writing(importing)
    importing.set_defaults(run=run, usage=importing)


def run(options: argparse.Namespace) -> int:
    """Imports and prints what was done."""
    if options.review and not options.plugin:
        options.usage.error("--review: goes with --plugin; what you import yourself is approved by it")
    if options.restore and options.plugin:
        options.usage.error("--restore: is for what you import yourself, not for --plugin")
    url = url_of(options, "--to")
    definitions = _joined([_read(source, options.org) for source in options.sources])
    progress = Progress()
    with _target(options) as registry:
        try:
            if options.plugin:
                report = registry.sync(
                    definitions,
                    plugin=options.plugin,
                    org=options.org,
                    review=options.review,
                    dry_run=options.dry_run,
                    reason=options.reason,
                    progress=counted(progress),
                )
            else:
                report = registry.import_(
                    definitions,
                    org=options.org,
                    dry_run=options.dry_run,
                    restore=options.restore,
                    reason=options.reason,
                    progress=counted(progress),
                )
        finally:
            progress.clear()
    named = f'"${CATALOG}"' if options.catalog is None else shlex.quote(redacted(url))
    org = f" --org {shlex.quote(options.org)}" if options.org else ""
    return print_report(report, options, f'next: toolroll select "MESSAGE" --catalog {named}{org}')


@contextmanager
def _target(options: argparse.Namespace) -> Iterator[Registry]:
    """The registry, made where there is none; a dry run makes one that is gone afterwards."""
    try:
        registry = opened(options, create=not options.dry_run, option="--to")
    except NotFound:
        if not options.dry_run:
            raise
        with TemporaryDirectory(prefix="toolroll-") as folder:
            passing = argparse.Namespace(**{**vars(options), "catalog": f"sqlite:///{folder}/dry-run.db"})
            with opened(passing, create=True) as registry:
                yield registry
        return
    with registry:
        yield registry


def _read(source: str, org: str) -> Definitions:
    return _of_registry(source, org) if is_registry(source) else definitions_of(source)


def _of_registry(url: str, org: str) -> Definitions:
    """What a registry has of the same organisation: approved tools, toolkits, page mappings.

    Raises:
        Conflict: it has rules, tiers or organisations, which would be lost.
    """
    from dataclasses import replace

    from toolroll.registry.replica import Replica, catch_up
    from toolroll.registry.store.database import Database
    from toolroll.registry.sync.imports import check_whole

    database = Database.open(url, create=False, migrate=False)
    try:
        replica = catch_up(database, Replica())
        check_whole(database, redacted(url), org)
    finally:
        database.close()
    policy_source = replica.policy_source
    policy_source.check()
    return replace(
        replica.definitions(org),
        pages=tuple(page for page in policy_source.pages if page.org == org),
    )


def _joined(parts: list[Definitions]) -> Definitions:
    from toolroll.tools import Definitions

    return Definitions(
        tuple(tool for part in parts for tool in part.tools),
        tuple(toolkit for part in parts for toolkit in part.toolkits),
        tuple(route for part in parts for route in part.routes),
        tuple(rule for part in parts for rule in part.rules),
        tuple(page for part in parts for page in part.pages),
        max((part.tiers for part in parts), key=len),
    )
