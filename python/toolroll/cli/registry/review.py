"""`toolroll registry review, approve, reject, duplicates`: tools that a person should read."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command
from toolroll.cli.options import OrgOptions, WriteOptions, org_options, write_options
from toolroll.cli.output import note, one_line, print_json, printable
from toolroll.cli.registry.tools import print_record, version_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolroll.registry.editing.records import ToolRecord
    from toolroll.registry.registry import Registry


from toolroll.cli.commands import DefaultGroup
from toolroll.cli.options import embedder_option, option
from toolroll.cli.output import print_list, print_result


@command("review", example="toolroll registry review --catalog sqlite:///tools.db")
@org_options
def review(options: OrgOptions) -> None:
    """Print the tools that wait for approval.

    Shows new tools, and the changes of approved tools. New content is not selected until it is approved; for
    some tools the approved content serves meanwhile.
    """
    with options.registry() as registry:
        waiting = tuple(waiting_tools(registry, options.org))
        if options.json:
            print_json({"waiting": [_with_differences(registry, record) for record in waiting]})
            return
        found = [(record, difference(registry, record)) for record in waiting]
    for record, diff in found:
        print_waiting(record, diff)
    note(
        f"{len(found)} waiting; toolroll registry approve NAME, or reject NAME" if found else "nothing waits"
    )


def print_waiting(record: ToolRecord, diff: str) -> None:
    """Prints a tool that waits. diff: the changes by an approval; "" for a new tool."""
    plugin = f" from plugin {record.plugin}" if record.plugin else ""
    serves = "" if record.served_version is None else f", version {record.served_version} serves meanwhile"
    print(one_line(f"{record.name} (version {record.version}{plugin}): {record.review}{serves}"))
    flags = (f"flag {flag['code']}: {flag['message']}" for flag in record.flags)
    text = (
        f"> {line}" for line in record.tool.description.splitlines()
    )  # marked, so that no line looks like a flag
    for line in chain(flags, diff.splitlines() or text):
        print(f"    {printable(line)}")


def _with_differences(registry: Registry, record: ToolRecord) -> dict[str, Any]:
    """The record, with the changes by an approval; [] for a new tool."""
    approved = record.approved_version
    if approved is None:
        return {**record.to_dict(), "differences": []}
    found = registry.differences(record.name, approved, record.version, org=record.org)
    return {**record.to_dict(), "differences": [each.to_dict() for each in found]}


def difference(registry: Registry, record: ToolRecord) -> str:
    """The changes by an approval, as text; "" for a new tool."""
    approved = record.approved_version
    if approved is None:
        return ""
    return registry.diff(record.name, approved, record.version, org=record.org)


def waiting_tools(registry: Registry, org: str, plugin: str | None = None) -> Iterator[ToolRecord]:
    """The tools of an organisation that wait. plugin: their owner; None means any."""
    for state in ("pending", "changed"):
        after = ""
        while True:
            page = registry.tools(org=org, plugin=plugin, review=state, after=after, limit=1_000)
            yield from page.records
            if not page.next:
                break
            after = page.next


@command("approve", example="toolroll registry approve get_forecast --expected-version 3")
@click.argument("name")
@version_option
@write_options
def approve(options: WriteOptions, name: str, version: int | None) -> None:
    """Approve a tool that waits, so that it can be selected."""
    with options.registry() as registry:
        record = registry.approve(name, version=version, org=options.org, reason=options.reason)
    print_record(record, "approved", options)


@command("reject", example="toolroll registry reject get_forecast --reason 'misleading description'")
@click.argument("name")
@version_option
@write_options
def reject(options: WriteOptions, name: str, version: int | None) -> None:
    """Reject new content.

    The approved content stays; a new tool is deleted.
    """
    with options.registry() as registry:
        record = registry.reject(name, version=version, org=options.org, reason=options.reason)
    done = "rejected and deleted" if record.deleted_at is not None else "rejected, the approved content stays"
    print_record(record, done, options)


duplicates = DefaultGroup(
    "duplicates",
    help="List tools that seem to do the same, or accept a pair. Without a command: list.\n\n"
    "Pairs are proposed by their texts and parameters.",
    example="toolroll registry duplicates --catalog sqlite:///tools.db",
)


@duplicates.command("list", example="toolroll registry duplicates list --least 0.9 --org acme")
@embedder_option()
@option("--least", "Lowest score of a pair; 1.3 is the highest.", type=float, default=0.75, metavar="SCORE")
@org_options
def list_duplicates(options: OrgOptions, embedder: str, least: float) -> None:
    """List pairs of different plugins, the best first.

    The score is the cosine of the two texts, and up to 0.3 for parameters of the same names. Tools without a
    plugin are told apart by their toolkits. A person should read each pair.
    """
    from toolroll.embedders.named import embedder as named

    made = named(embedder)
    if made is None:
        raise click.UsageError("--embedder: is none, and texts are compared by an embedder")
    with options.registry() as registry:
        found = registry.duplicates.list(made, org=options.org, least=least)
    pairs = [
        {
            "tools": [pair.first, pair.second],
            "score": pair.score,
            "cosine": pair.cosine,
            "parameters": list(pair.parameters),
        }
        for pair in found
    ]
    if options.json:
        print_json({"duplicates": pairs})
    elif pairs:
        print_list(False, "duplicates", pairs, "SCORE TOOLS COSINE PARAMETERS")
        note("`toolroll registry duplicates accept FIRST SECOND` declares a pair interchangeable")
    else:
        note(f"no two tools of different plugins score {least:g}")


@duplicates.command("accept", example="toolroll registry duplicates accept send_email gmail_send")
@click.argument("names", nargs=-1, required=True, metavar="TOOL TOOL...")
@option("--group", "Name of the group.", default="", metavar="NAME")
@write_options
def accept(options: WriteOptions, names: tuple[str, ...], group: str) -> None:
    """Declare that tools do the same.

    Of a group of interchangeable tools, the most reliable one is shown.
    """
    with options.registry() as registry:
        done = registry.duplicates.accept(names, group=group, org=options.org, reason=options.reason)
    name = done[0].tool.interchangeable
    listed = ", ".join(record.name for record in done)
    print_result(
        options.json,
        {"group": name, "tools": [record.name for record in done]},
        f"{listed}: interchangeable, in group {name}",
    )


COMMANDS = (review, approve, reject, duplicates)
