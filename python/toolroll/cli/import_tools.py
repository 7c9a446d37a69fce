"""`toolroll import`: from folders of toolkits, or from another registry, into a registry."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toolroll.cli.commands import command as declare
from toolroll.cli.options import (
    CATALOG,
    WriteOptions,
    flag,
    import_options,
    is_registry,
    on_bad_tool_option,
    option,
)
from toolroll.cli.output import Progress, redacted
from toolroll.cli.registry.sync import definitions_of, print_report, review_option, while_waiting_option
from toolroll.model.errors import NotFound

if TYPE_CHECKING:
    from toolroll.formats.sources.bad_tools import OnBadTool
    from toolroll.model.tools import Definitions
    from toolroll.registry.registry import Registry


@declare(
    "import",
    example="toolroll import toolkits/ --to sqlite:///tools.db\n"
    "toolroll import toolkits/ --to postgresql://me@db.example.org/tools --dry-run",
)
@click.argument("sources", nargs=-1, required=True, metavar="PATH|URL...")
@option(
    "--plugin",
    "The tools belong to this plugin; its tools that are missing here are deleted.",
    metavar="NAME",
)
@review_option
@while_waiting_option
@on_bad_tool_option
@flag("--restore", "Bring back tools that people deleted.")
@flag("--dry-run", "Print what would be done, write nothing.")
@import_options
def command(
    options: WriteOptions,
    sources: tuple[str, ...],
    plugin: str | None,
    review: Any,
    while_waiting: Any,
    on_bad_tool: OnBadTool | None,
    restore: bool,
    dry_run: bool,
) -> int:
    """Put tools into a registry.

    Reads folders of toolkit files, single files or other registries, and writes their tools and toolkits to
    a registry, which is created if it does not exist. Tools that changed get a new version. What people
    decided since (status, pins, toolkits, deletions) stays. Nothing is deleted, except with --plugin.

    Of another registry it reads the approved tools with their toolkits and page mappings, as yours, whichever
    plugin owned them. It refuses a registry with rules, tiers or organisations, since hidden tools would
    become visible: copy that with pg_dump, or copy the file.
    """
    if review and not plugin:
        raise click.UsageError("--review: goes with --plugin; your own import approves what it brings")
    if while_waiting and not plugin:
        raise click.UsageError("--while-waiting: goes with --plugin; your own import approves what it brings")
    if restore and plugin:
        raise click.UsageError("--restore: is for your own imports, not for --plugin")
    from toolroll.model.tools import Definitions

    definitions = Definitions.joined([_read(source, options.org, on_bad_tool) for source in sources])
    with _target(options, dry_run) as registry, Progress() as progress:
        shown = progress.counter("tools")
        if plugin:
            report = registry.sync(
                definitions,
                plugin=plugin,
                org=options.org,
                review=review,
                while_waiting=while_waiting,
                dry_run=dry_run,
                reason=options.reason,
                progress=shown,
            )
        else:
            report = registry.import_(
                definitions,
                org=options.org,
                dry_run=dry_run,
                restore=restore,
                reason=options.reason,
                progress=shown,
            )
    source = click.get_current_context().get_parameter_source("catalog")
    url = f'"${CATALOG}"' if source == ParameterSource.ENVIRONMENT else shlex.quote(redacted(options.catalog))
    org = f" --org {shlex.quote(options.org)}" if options.org else ""
    return print_report(report, options.json, f'next: toolroll select "MESSAGE" --catalog {url}{org}')


@contextmanager
def _target(options: WriteOptions, dry_run: bool) -> Iterator[Registry]:
    """Opens the registry, created if it does not exist; a dry run uses a temporary one instead."""
    try:
        registry = options.registry(create=not dry_run)
    except NotFound:
        if not dry_run:
            raise
        with TemporaryDirectory(prefix="toolroll-") as folder:
            temporary = replace(options, catalog=f"sqlite:///{folder}/dry-run.db")
            with temporary.registry(create=True) as registry:
                yield registry
        return
    with registry:
        yield registry


def _read(source: str, org: str, on_bad_tool: OnBadTool | None) -> Definitions:
    if not is_registry(source):
        return definitions_of(source, on_bad_tool)
    from toolroll.registry.follow.transfer import read_registry

    return read_registry(source, org, shown=redacted(source))
