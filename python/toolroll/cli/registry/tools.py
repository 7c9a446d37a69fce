"""`toolroll registry list, show, history, diff, update, rollback, delete, restore`: the tools."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from toolroll.cli import arguments
from toolroll.cli.catalog_options import add_catalog, add_org, add_writing, command, opened
from toolroll.cli.terminal import note, one_line, print_fields, print_json, print_table, printable

if TYPE_CHECKING:
    from toolroll.registry.records import Record

STATUSES = ("draft", "active", "deprecated", "retired")  # written out: --help loads nothing
REVIEWS = ("approved", "pending", "changed")
_LONGEST = 60  # characters of a description in a list
_NO_TEXT = frozenset({"parameters", "returns", "execution_config", "tags", "examples", "public", "pinned"})


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the commands."""
    listing = command(commands, "list", _list, "list tools")
    listing.add_argument("--plugin", metavar="NAME", help='only those of this plugin; "" for none')
    listing.add_argument("--toolkit", metavar="NAME", help="only those in this toolkit")
    listing.add_argument("--status", choices=STATUSES, help="only those with this status")
    listing.add_argument("--review", choices=REVIEWS, help="only those in this state of review")
    listing.add_argument("--flagged", action="store_true", help="only those with something to look at")
    listing.add_argument("--text", metavar="TEXT", help="only those with this in name or description")
    listing.add_argument("--deleted", action="store_true", help="the deleted ones instead")
    listing.add_argument("--limit", type=arguments.positive, default=100, metavar="N", help="default: 100")
    listing.add_argument("--after", default="", metavar="NEXT", help="go on where the last page ended")
    add_org(listing)
    add_catalog(listing)

    show = command(commands, "show", _show, "print one tool with everything that is kept of it")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--deleted", action="store_true", help="even if it is deleted")
    add_org(show)
    add_catalog(show)

    history = command(commands, "history", _history, "list the versions of a tool, newest first")
    history.add_argument("name", metavar="NAME")
    history.add_argument("--limit", type=arguments.positive, default=100, metavar="N", help="default: 100")
    history.add_argument("--before", type=arguments.positive, metavar="N", help="only those before this one")
    add_org(history)
    add_catalog(history)

    diff = command(commands, "diff", _diff, "print what differs between two versions of a tool")
    diff.add_argument("name", metavar="NAME")
    diff.add_argument("before", type=arguments.positive, metavar="FROM")
    diff.add_argument("after", type=arguments.positive, metavar="TO")
    add_org(diff)
    add_catalog(diff)

    update = command(
        commands,
        "update",
        _update,
        "change fields of a tool",
        epilog="example: toolroll registry update get_forecast --set status=deprecated --reason 'use v2'",
    )
    update.add_argument("name", metavar="NAME")
    update.add_argument(
        "--set",
        type=field,
        action="append",
        required=True,
        metavar="FIELD=VALUE",
        help="repeatable; JSON where the field is no text (examples, parameters, pinned, …), else as it is",
    )
    _add_force(update)
    _add_version(update)

    rollback = command(commands, "rollback", _rollback, "bring back an earlier version, as a new one")
    rollback.add_argument("name", metavar="NAME")
    rollback.add_argument(
        "--to", type=arguments.positive, required=True, metavar="N", help="the version, as in history"
    )
    _add_force(rollback)
    _add_version(rollback)

    delete = command(commands, "delete", _delete, "take a tool out of the catalogs; restore brings it back")
    delete.add_argument("name", metavar="NAME")
    _add_version(delete)

    restore = command(commands, "restore", _restore, "bring a deleted tool back")
    restore.add_argument("name", metavar="NAME", help="its name, or its tool_id where several had the name")
    add_writing(restore)
    add_catalog(restore)


def field(text: str) -> tuple[str, object]:
    """FIELD=VALUE: a text, or JSON where the field holds something else."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r:.200}: must be FIELD=VALUE")
    if name not in _NO_TEXT and name != "pin_weight":
        return name, value
    try:
        return name, arguments.strict_json(value)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{name}: must be JSON ({error})") from None


def print_record(record: Record, done: str, options: argparse.Namespace) -> int:
    """Says what became of one tool."""
    if options.json:
        print_json(record.to_dict())
        return 0
    print(one_line(f"{record.name}: {done}, version {record.version}"))
    for flag in record.flags:
        note(f"{record.name}: {flag['code']}: {flag['message']}")
    return 0


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="even where rules or a tier that hold for the tool would lose it"
    )


def _add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--version",
        type=arguments.positive,
        metavar="N",
        help="only if this is still its version (default: whatever it is)",
    )
    add_writing(parser)
    add_catalog(parser)


def _list(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        page = registry.tools(
            org=options.org,
            plugin=options.plugin,
            toolkit=options.toolkit,
            status=options.status,
            review=options.review,
            flagged=options.flagged or None,
            text=options.text,
            deleted=options.deleted,
            after=options.after,
            limit=options.limit,
        )
    if options.json:
        print_json(page.to_dict())
        return 0
    print_records(page.records)
    if page.next:
        note(f"there are more: --after {shlex.quote(page.next)}")
    return 0


def print_records(records: Any) -> None:
    """One line a tool."""
    print_table(
        ("NAME", "TOOLKIT", "PLUGIN", "STATE", "VERSION", "FLAGS", "DESCRIPTION"),
        (
            (
                record.name,
                record.tool.toolkit or "-",
                record.plugin or "-",
                state_of(record),
                record.version,
                ",".join(flag["code"] for flag in record.flags) or "-",
                one_line(record.tool.description, _LONGEST),
            )
            for record in records
        ),
    )


def state_of(record: Record) -> str:
    """Why a tool is in no catalog, or "active"."""
    if record.deleted_at is not None:
        return "deleted"
    return record.tool.status if record.review == "approved" else record.review


def _show(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        record = registry.tool(options.name, org=options.org, deleted=options.deleted)
    found = record.to_dict()
    if options.json:
        print_json(found)
    else:
        print_fields(found)
    return 0


def _history(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        versions = registry.history(options.name, org=options.org, before=options.before, limit=options.limit)
    if options.json:
        print_json({"name": options.name, "versions": [version.to_dict() for version in versions]})
        return 0
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
    return 0


def _diff(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        text = registry.diff(options.name, options.before, options.after, org=options.org)
    if options.json:
        print_json({"name": options.name, "from": options.before, "to": options.after, "diff": text})
    else:
        print(printable(text))
    return 0


def _update(options: argparse.Namespace) -> int:
    changes: dict[str, object] = {}
    for name, value in options.set:
        if name in changes:
            options.usage.error(f"--set {name}: is given twice")
        changes[name] = value
    with opened(options) as registry:
        before = registry.tool(options.name, org=options.org)
        version = options.version
        if version is None:  # should somebody else be faster from here on, that is a conflict
            version = before.version
        record = registry.update(
            options.name,
            changes,
            version=version,
            force=options.force,
            org=options.org,
            reason=options.reason,
        )
    done = "unchanged" if record.version == version else "updated"
    return print_record(record, f"{done}{_review_of(before, record)}", options)


def _review_of(before: Record, after: Record) -> str:
    """What became of what waited for approval, for a line that says what was done."""
    if before.review == "approved":
        return ""
    return ", what waited is given up" if after.review == "approved" else ", still waits for approval"


def _rollback(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        before = registry.tool(options.name, org=options.org)
        record = registry.rollback(
            options.name,
            options.to,
            version=options.version,
            force=options.force,
            org=options.org,
            reason=options.reason,
        )
    done = f"has the content of version {options.to} again{_review_of(before, record)}"
    return print_record(record, done, options)


def _delete(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        record = registry.delete(
            options.name, version=options.version, org=options.org, reason=options.reason
        )
    return print_record(record, "deleted", options)


def _restore(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        record = registry.restore(options.name, org=options.org, reason=options.reason)
    return print_record(record, "restored", options)
