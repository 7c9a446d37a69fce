"""`toolroll registry list, show, history, diff, update, rollback, delete, restore`: the tools."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command
from toolroll.cli.options import OrgOptions, RegistryOptions, WriteOptions, org_options, write_options
from toolroll.cli.output import note, one_line, print_fields, print_json, print_result, print_table, printable
from toolroll.cli.parameter_types import POSITIVE, field, once_each

if TYPE_CHECKING:
    from toolroll.registry.records import Record

_LONGEST = 60  # characters of a description in a list

version_option = click.option(
    "--version",
    type=POSITIVE,
    metavar="N",
    show_default="any",
    help="Do it only if this is still the tool's version.",
)
_limit_option = click.option("--limit", type=POSITIVE, default=100, metavar="N", help="Most lines.")
_force_option = click.option(
    "--force", is_flag=True, help="Do it even where rules or a tier no longer apply to the tool afterwards."
)


@command("list", example="toolroll registry list --toolkit crm --status active")
@click.option("--plugin", metavar="NAME", show_default="all", help='Only tools of this plugin; "" for none.')
@click.option("--toolkit", metavar="NAME", show_default="all", help="Only tools in this toolkit.")
@click.option(
    "--status",
    type=click.Choice(("draft", "active", "deprecated", "retired")),
    show_default="all",
    help="Only tools with this status.",
)
@click.option(
    "--review",
    type=click.Choice(("approved", "pending", "changed")),
    show_default="all",
    help="Only tools in this state of review.",
)
@click.option("--flagged", is_flag=True, help="Only tools with a warning, such as a misleading name.")
@click.option("--text", show_default="all", help="Only tools with this text in name or description.")
@click.option("--deleted", is_flag=True, help="The deleted tools instead.")
@_limit_option
@click.option(
    "--after", default="", metavar="NEXT", show_default="the first", help="Continue where a page ended."
)
@org_options
def list_tools(options: OrgOptions, flagged: bool, **filters: Any) -> None:
    """List tools."""
    with options.registry() as registry:
        page = registry.tools(org=options.org, flagged=flagged or None, **filters)
    if options.json:
        print_json(page.to_dict())
        return
    print_table(
        ("NAME", "TOOLKIT", "PLUGIN", "STATE", "VERSION", "FLAGS", "DESCRIPTION"),
        (
            (
                record.name,
                record.tool.toolkit or "-",
                record.plugin or "-",
                _state(record),
                record.version,
                ",".join(flag["code"] for flag in record.flags) or "-",
                one_line(record.tool.description, _LONGEST),
            )
            for record in page.records
        ),
    )
    if page.next:
        note(f"there are more: --after {shlex.quote(page.next)}")


def _state(record: Record) -> str:
    """Why a tool is in no catalog, or "active"."""
    if record.deleted_at is not None:
        return "deleted"
    return record.tool.status if record.review == "approved" else record.review


@command("show", example="toolroll registry show get_forecast")
@click.argument("name")
@click.option("--deleted", is_flag=True, help="Also find a deleted tool.")
@org_options
def show(options: OrgOptions, name: str, deleted: bool) -> None:
    """Print one tool with all its fields."""
    with options.registry() as registry:
        found = registry.tool(name, org=options.org, deleted=deleted).to_dict()
    (print_json if options.json else print_fields)(found)


@command("history", example="toolroll registry history get_forecast --limit 5")
@click.argument("name")
@_limit_option
@click.option(
    "--before", type=POSITIVE, metavar="N", show_default="the newest", help="Only versions before this one."
)
@org_options
def history(options: OrgOptions, name: str, before: int | None, limit: int) -> None:
    """List the versions of a tool, newest first."""
    with options.registry() as registry:
        versions = registry.history(name, org=options.org, before=before, limit=limit)
    if options.json:
        print_json({"name": name, "versions": [version.to_dict() for version in versions]})
        return
    print_table(
        ("VERSION", "AT", "BY", "SEMANTIC", "CHANGED", "REASON"),
        (
            (
                version.version,
                f"{version.at:%Y-%m-%d %H:%M:%S}",
                version.actor,
                version.tool.version,
                ", ".join(version.changed) or "-",
                version.reason,
            )
            for version in versions
        ),
    )


@command("diff", example="toolroll registry diff get_forecast 1 2")
@click.argument("name")
@click.argument("before", type=POSITIVE, metavar="FROM")
@click.argument("after", type=POSITIVE, metavar="TO")
@org_options
def diff(options: OrgOptions, name: str, before: int, after: int) -> None:
    """Print the differences between two versions of a tool."""
    with options.registry() as registry:
        text = registry.diff(name, before, after, org=options.org)
    if options.json:
        print_json({"name": name, "from": before, "to": after, "diff": text})
    else:
        print(printable(text))


@command(
    "update",
    example="toolroll registry update get_forecast --set status=deprecated --reason 'use v2'\n"
    "toolroll registry update get_forecast --set 'examples=[\"will it rain?\"]' --set pinned=true",
)
@click.argument("name")
@click.option(
    "--set",
    "changes",
    type=field,
    multiple=True,
    required=True,
    metavar="FIELD=VALUE",
    callback=once_each,
    help="Repeatable. VALUE is JSON for fields that do not hold text (examples, parameters, pinned, …).",
)
@_force_option
@version_option
@write_options
def update(
    options: WriteOptions, name: str, changes: dict[str, object], force: bool, version: int | None
) -> None:
    """Change fields of a tool."""
    with options.registry() as registry:
        before = registry.tool(name, org=options.org)
        if version is None:  # a change that somebody makes from here on is a conflict
            version = before.version
        record = registry.update(
            name, changes, version=version, force=force, org=options.org, reason=options.reason
        )
    done = "unchanged" if record.version == version else "updated"
    print_record(record, f"{done}{_review_of(before, record)}", options)


@command("rollback", example="toolroll registry rollback get_forecast --to 1 --reason 'worse since'")
@click.argument("name")
@click.option("--to", type=POSITIVE, required=True, metavar="N", help="The version, as in history.")
@_force_option
@version_option
@write_options
def rollback(options: WriteOptions, name: str, to: int, force: bool, version: int | None) -> None:
    """Restore an earlier version's content, as a new version."""
    with options.registry() as registry:
        before = registry.tool(name, org=options.org)
        record = registry.rollback(
            name, to, version=version, force=force, org=options.org, reason=options.reason
        )
    print_record(record, f"has the content of version {to} again{_review_of(before, record)}", options)


def _review_of(before: Record, after: Record) -> str:
    """What a change did to content that waited for approval."""
    if before.review == "approved":
        return ""
    return ", what waited is given up" if after.review == "approved" else ", still waits for approval"


@command("delete", example="toolroll registry delete get_forecast --reason 'gone upstream'")
@click.argument("name")
@version_option
@write_options
def delete(options: WriteOptions, name: str, version: int | None) -> None:
    """Take a tool out of all catalogs; `restore` brings it back."""
    with options.registry() as registry:
        record = registry.delete(name, version=version, org=options.org, reason=options.reason)
    print_record(record, "deleted", options)


@command("restore", example="toolroll registry restore get_forecast")
@click.argument("name", metavar="NAME|TOOL_ID")
@write_options
def restore(options: WriteOptions, name: str) -> None:
    """Bring back a deleted tool; where several had the name, by its tool_id."""
    with options.registry() as registry:
        record = registry.restore(name, org=options.org, reason=options.reason)
    print_record(record, "restored", options)


def print_record(record: Record, done: str, options: RegistryOptions) -> None:
    """Prints what was done to one tool."""
    print_result(options.json, record.to_dict(), f"{record.name}: {done}, version {record.version}")
    for flag in () if options.json else record.flags:
        note(f"{record.name}: {flag['code']}: {flag['message']}")


COMMANDS = (list_tools, show, history, diff, update, rollback, delete, restore)
