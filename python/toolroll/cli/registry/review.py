"""`toolroll registry review, approve, reject`: what waits for somebody to look at it."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import TYPE_CHECKING

from toolroll.cli import arguments
from toolroll.cli.catalog_options import add_catalog, add_org, add_writing, command, opened
from toolroll.cli.registry.tools import print_record
from toolroll.cli.terminal import note, one_line, print_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolroll.registry.records import Record
    from toolroll.registry.registry import Registry


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the commands."""
    review = command(
        commands,
        "review",
        _review,
        "print what waits for approval, and what would change by it",
        description="Prints the tools that wait for approval: new ones, and approved ones with new content. "
        "None of them is selected until somebody approves it.",
    )
    add_org(review)
    add_catalog(review)
    for name, run, help in (
        ("approve", _approve, "let a tool that waits be selected"),
        ("reject", _reject, "refuse what waits: the approved content stays, a new tool is deleted"),
    ):
        decide = command(commands, name, run, help)
        decide.add_argument("name", metavar="NAME")
        decide.add_argument(
            "--version", type=arguments.positive, metavar="N", help="only if this is still its version"
        )
        add_writing(decide)
        add_catalog(decide)


def _waiting(registry: Registry, org: str) -> Iterator[Record]:
    for review in ("pending", "changed"):
        after = ""
        while True:
            page = registry.tools(org=org, review=review, after=after, limit=1_000)
            yield from page.records
            if not page.next:
                break
            after = page.next


def _review(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        found = []
        for record in _waiting(registry, options.org):
            approved = record.approved_version
            diff = ""
            if approved is not None:
                diff = registry.diff(record.name, approved, record.version, org=options.org)
            found.append((record, diff))
    if options.json:
        print_json({"waiting": [{**record.to_dict(), "diff": diff} for record, diff in found]})
        return 0
    for record, diff in found:
        plugin = f" from plugin {record.plugin}" if record.plugin else ""
        print(one_line(f"{record.name} (version {record.version}{plugin}): {record.review}"))
        lines = chain(
            (f"flag {flag['code']}: {flag['message']}" for flag in record.flags),
            (diff or record.tool.description).splitlines(),
        )
        for line in lines:
            print(f"    {printable(line)}")
    note(
        f"{len(found)} waiting; toolroll registry approve NAME, or reject NAME" if found else "nothing waits"
    )
    return 0


def _approve(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        record = registry.approve(
            options.name, version=options.version, org=options.org, reason=options.reason
        )
    return print_record(record, "approved", options)


def _reject(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        record = registry.reject(
            options.name, version=options.version, org=options.org, reason=options.reason
        )
    done = "rejected and deleted" if record.deleted_at is not None else "rejected, the approved content stays"
    return print_record(record, done, options)
