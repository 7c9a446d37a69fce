"""`toolroll registry list, show, history, diff, create, update, rollback, delete, restore`: the tools."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command
from toolroll.cli.options import (
    Decorator,
    OrgOptions,
    RegistryOptions,
    WriteOptions,
    expected_version_option,
    flag,
    option,
    org_options,
    write_options,
)
from toolroll.cli.output import note, one_line, print_fields, print_json, print_list, print_result, printable
from toolroll.cli.parameter_types import POSITIVE, field, once_each

if TYPE_CHECKING:
    from toolroll.registry.editing.records import ToolRecord

_LONGEST = 60  # characters of a description in a list

version_option = expected_version_option("tool")
_limit_option = option("--limit", "Most lines.", type=POSITIVE, default=100)
_force_option = flag("--force", "Do it even where rules or a tier no longer apply to the tool afterwards.")


@command("list", example="toolroll registry list --toolkit crm --status active")
@option("--plugin", 'Only tools of this plugin; "" for none.', metavar="NAME", unset="all")
@option("--toolkit", "Only tools in this toolkit.", metavar="NAME", unset="all")
@option(
    "--status",
    "Only tools with this status.",
    choices=("draft", "active", "deprecated", "retired"),
    unset="all",
)
@option(
    "--review", "Only tools in this state of review.", choices=("approved", "pending", "changed"), unset="all"
)
@flag("--flagged", "Only tools with a warning, such as a misleading name.")
@option("--text", "Only tools with this text in name or description.", unset="all")
@flag("--deleted", "The deleted tools instead.")
@_limit_option
@option("--after", "Continue where a page ended.", default="", metavar="NEXT", unset="the first")
@org_options
def list_tools(options: OrgOptions, flagged: bool, **filters: Any) -> None:
    """List tools."""
    with options.registry() as registry:
        page = registry.tools(org=options.org, flagged=flagged or None, **filters)
    if options.json:
        print_json(page.to_dict())
        return
    print_list(
        False,
        "tools",
        page.records,
        "NAME TOOLKIT PLUGIN STATE VERSION FLAGS DESCRIPTION",
        toolkit=lambda record: record.tool.toolkit,
        state=_state,
        flags=lambda record: ",".join(warning["code"] for warning in record.flags),
        description=lambda record: one_line(record.tool.description, _LONGEST),
    )
    if page.next:
        note(f"there are more: --after {shlex.quote(page.next)}")


def _state(record: ToolRecord) -> str:
    """The tool's state: its review, and the version that serves meanwhile, or its status."""
    if record.deleted_at is not None:
        return "deleted"
    if record.review == "approved":
        return record.tool.status
    serves = "" if record.served_version is None else f", version {record.served_version} serves"
    return f"{record.review}{serves}"


@command("show", example="toolroll registry show get_forecast")
@click.argument("name")
@flag("--deleted", "Also find a deleted tool.")
@org_options
def show(options: OrgOptions, name: str, deleted: bool) -> None:
    """Print one tool with all its fields."""
    with options.registry() as registry:
        record = registry.tool(name, org=options.org, deleted=deleted)
    (print_json if options.json else print_fields)(record.to_dict())
    if record.review != "approved" and not options.json:
        if record.served_version is None:
            note("this content waits for approval, and nothing serves meanwhile: toolroll registry review")
        else:
            versions = f"{record.served_version} {record.version}"
            note(
                f"this content waits for approval; version {record.served_version} serves meanwhile: "
                f"toolroll registry diff {shlex.quote(record.name)} {versions}"
            )


@command("history", example="toolroll registry history get_forecast --limit 5")
@click.argument("name")
@_limit_option
@option("--before", "Only versions before this one.", type=POSITIVE, unset="the newest")
@org_options
def history(options: OrgOptions, name: str, before: int | None, limit: int) -> None:
    """List the versions of a tool, newest first."""
    with options.report() as database:
        from toolroll.registry.registry import Registry

        versions = Registry(database).history(name, org=options.org, before=before, limit=limit)
    print_list(
        options.json,
        "versions",
        versions,
        "VERSION AT BY=actor SEMANTIC CHANGED REASON",
        {"name": name},
        semantic=lambda version: version.tool.version,
    )


@command("diff", example="toolroll registry diff get_forecast 1 2")
@click.argument("name")
@click.argument("before", type=POSITIVE, metavar="FROM")
@click.argument("after", type=POSITIVE, metavar="TO")
@org_options
def diff(options: OrgOptions, name: str, before: int, after: int) -> None:
    """Print the differences between two versions of a tool."""
    with options.registry() as registry:
        if options.json:
            found = [each.to_dict() for each in registry.differences(name, before, after, org=options.org)]
            print_json({"name": name, "from": before, "to": after, "differences": found})
        else:
            print(printable(registry.diff(name, before, after, org=options.org)))


def _set_option(**attributes: Any) -> Decorator:
    return option(
        "--set changes",
        "Repeatable. VALUE is JSON for fields that do not hold text (examples, parameters, pinned, …).",
        type=field,
        multiple=True,
        metavar="FIELD=VALUE",
        callback=once_each,
        **attributes,
    )


@command(
    "create",
    example="toolroll registry create get_tides --set toolkit=weather --set 'description=Tides at sea.'\n"
    "toolroll registry create --file get_tides.json --set status=draft",
)
@click.argument("name", required=False)
@option(
    "--file",
    "JSON file with its definition, in any form that a catalog takes; - for standard input.",
    metavar="FILE",
)
@_set_option()
@write_options
def create(options: WriteOptions, name: str | None, file: str | None, changes: dict[str, object]) -> None:
    """Add one tool.

    NAME and --set precede the file. People own the tool, so it needs no approval.
    """
    if name is None and file is None and "name" not in changes:
        raise click.UsageError("NAME --file: needs one of them")
    if name is not None and "name" in changes:
        raise click.UsageError("NAME --set name: not allowed with each other")
    from toolroll.formats.sources.tool_file import read_tool, read_tool_file
    from toolroll.registry.editing.content import attributes_of, content_of, tool_of
    from toolroll.registry.editing.toolkits import check_toolkit

    content: dict[str, Any] = {}
    if file == "-":
        content = content_of(read_tool(sys.stdin.buffer.read(), "standard input"))
    elif file is not None:
        content = content_of(read_tool_file(file))
    if name is not None:
        content["name"] = name
    tool = tool_of({**content, **attributes_of(changes)})
    with options.registry() as registry:
        if tool.toolkit:
            check_toolkit(registry.database, tool.toolkit, options.org)
        record = registry.create(tool, org=options.org, reason=options.reason)
    print_record(record, "created", options)


@command(
    "update",
    example="toolroll registry update get_forecast --set status=deprecated --reason 'use v2'\n"
    "toolroll registry update get_forecast --set 'examples=[\"will it rain?\"]' --set pinned=true",
)
@click.argument("name")
@_set_option()
@option(
    "--give-back",
    "A field that people have set: it gets what the tool's plugin sends, and follows it from now on. "
    "Repeatable.",
    multiple=True,
    metavar="FIELD",
)
@_force_option
@version_option
@write_options
def update(
    options: WriteOptions,
    name: str,
    changes: dict[str, object],
    give_back: tuple[str, ...],
    force: bool,
    version: int | None,
) -> None:
    """Change fields of a tool.

    People then own these fields: the tool's plugin no longer changes them.
    """
    if not changes and not give_back:
        raise click.UsageError("missing option '--set' or '--give-back'")
    with options.registry() as registry:
        before = registry.tool(name, org=options.org)
        if version is None:  # a change that somebody makes from here on is a conflict
            version = before.version
        record = registry.update(
            name,
            changes,
            version=version,
            give_back=give_back,
            force=force,
            org=options.org,
            reason=options.reason,
        )
    done = "unchanged" if record.version == version else "updated"
    print_record(record, f"{done}{_review_of(before, record)}", options)


@command("rollback", example="toolroll registry rollback get_forecast --to 1 --reason 'worse since'")
@click.argument("name")
@option("--to", "The version, as in history.", type=POSITIVE, required=True)
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


def _review_of(before: ToolRecord, after: ToolRecord) -> str:
    """The effect of a change on content that waited for approval, as text."""
    if before.review == "approved":
        return ""
    return (
        ", the content that waited is discarded"
        if after.review == "approved"
        else ", still waits for approval"
    )


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
    """Bring back a deleted tool.

    If several deleted tools had the name, give the tool_id.
    """
    with options.registry() as registry:
        record = registry.restore(name, org=options.org, reason=options.reason)
    print_record(record, "restored", options)


def print_record(record: ToolRecord, done: str, options: RegistryOptions) -> None:
    """Prints a change of one tool."""
    print_result(options.json, record.to_dict(), f"{record.name}: {done}, version {record.version}")
    for warning in () if options.json else record.flags:
        note(f"{record.name}: {warning['code']}: {warning['message']}")


COMMANDS = (list_tools, show, history, diff, create, update, rollback, delete, restore)
