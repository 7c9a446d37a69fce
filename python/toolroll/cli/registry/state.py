"""`toolroll registry why, changes, status, upgrade`: what the registry is like, and how it came to that."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from toolroll.cli import arguments
from toolroll.cli.catalog_options import POLL_S, add_catalog, add_org, command, opened, url_of
from toolroll.cli.terminal import one_line, print_fields, print_json, print_table
from toolroll.errors import NotFound

if TYPE_CHECKING:
    from toolroll.context import Context

_LONGEST = 80  # characters of a change's details in a table


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the commands."""
    why = command(
        commands,
        "why",
        _why,
        "say whether somebody sees a tool, and what decides it",
        epilog="example: toolroll registry why crm_export --org acme --tier free",
    )
    why.add_argument("name", metavar="NAME")
    why.add_argument("--org", default="", metavar="ORG", help="organisation that asks")
    why.add_argument("--user", default="", metavar="USER", help="user that asks")
    why.add_argument("--role", action="append", default=[], metavar="ROLE", help="the user's; repeatable")
    why.add_argument("--tier", default="", metavar="TIER", help="subscription tier")
    why.add_argument("--page", default="", metavar="PAGE", help="page that the user is on")
    why.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="KEY",
        help="a setting that has a value, beside those that the registry has; repeatable",
    )
    add_catalog(why)

    changes = command(commands, "changes", _changes, "print the audit log, newest first")
    changes.add_argument("--subject", metavar="NAME", help="only changes of this tool, rule, …")
    changes.add_argument(
        "--action", metavar="ACTION", help="only this kind: rule.create, or rule for all of rules"
    )
    changes.add_argument("--limit", type=arguments.positive, default=100, metavar="N", help="default: 100")
    changes.add_argument(
        "--after", type=arguments.count, metavar="SEQ", help="oldest first, from behind this one"
    )
    add_org(changes, all_of_them=True)
    add_catalog(changes)

    status = command(commands, "status", _status, "print what the registry holds and what waits in it")
    add_catalog(status)

    upgrade = command(
        commands,
        "upgrade",
        _upgrade,
        "bring the registry's tables to this version of toolroll",
        description="Brings the tables of a registry to this version of toolroll, in one transaction. Make a "
        "backup first. Older versions of toolroll then refuse it, so upgrade them all.",
    )
    add_catalog(upgrade)


def _why(options: argparse.Namespace) -> int:
    url = url_of(options)
    from toolroll.context import Context

    context = Context(
        org=options.org,
        user=options.user,
        roles=tuple(options.role),
        tier=options.tier,
        page=options.page,
        settings=tuple(options.setting),
    )
    found = _verdict(url, options, context)
    if options.json:
        print_json({"name": options.name, **found})
    else:
        print(one_line(_sentence(options.name, found["visible"], found["reason"])))
    return 0


def _sentence(name: str, visible: bool, reason: str) -> str:
    if reason.startswith(("shown by ", "hidden by ")):
        return f"{name} is {reason}"
    return f"{name} is {'visible' if visible else 'hidden'}: {reason}"


def _verdict(url: str, options: argparse.Namespace, context: Context) -> dict[str, Any]:
    from toolroll.roll import Toolroll

    # No question of retrieval: without vectors it is built in a moment.
    with Toolroll.open(url, embedder="none", poll_s=POLL_S, listens=False) as roll:
        roll.warm_up([context.org])
        try:
            verdict = roll.why(options.name, context)
        except NotFound:
            return _absent(options)
    rule = verdict.rule
    return {
        "visible": verdict.visible,
        "reason": verdict.reason,
        "level": verdict.level,
        "rule": None if rule is None else rule.name,
    }


def _absent(options: argparse.Namespace) -> dict[str, Any]:
    """Why a tool that the registry knows is in no catalog. Raises NotFound where it does not know it."""
    with opened(options) as registry:
        try:
            record = registry.tool(options.name, org=options.org, deleted=True)
        except NotFound:
            if not options.org:
                raise
            record = registry.tool(options.name, deleted=True)
    if record.deleted_at is not None:
        reason = f"it was deleted by {record.updated_by} on {record.deleted_at:%Y-%m-%d %H:%M}"
    else:
        reason = f"it waits for approval ({record.review}): toolroll registry review"
    return {"visible": False, "reason": reason, "level": "", "rule": None}


def _changes(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        listed = registry.audit.list(
            org=options.org,
            subject=options.subject,
            action=options.action,
            after=options.after,
            limit=options.limit,
        )
    found = [change.to_dict() for change in listed]
    if options.json:
        print_json({"changes": found})
        return 0
    print_table(
        ("SEQ", "AT", "ORG", "BY", "ACTION", "SUBJECT", "REASON", "DETAILS"),
        (
            (
                change["seq"],
                str(change["at"])[:19].replace("T", " "),
                change["org"] or "-",
                change["actor"],
                change["action"],
                change["subject"],
                change["reason"] or "-",
                _short(change["details"]),
            )
            for change in found
        ),
    )
    return 0


def _short(details: object) -> str:
    text = json.dumps(details, ensure_ascii=False) if details else "-"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _status(options: argparse.Namespace) -> int:
    url = url_of(options)
    from toolroll.registry.status import status_of
    from toolroll.registry.store.database import Database

    database = Database.open(url, create=False, migrate=False)
    try:
        found = status_of(database)
    finally:
        database.close()
    if options.json:
        print_json(found)
    else:
        print_fields({name: _said(value) for name, value in found.items()})
    return 0


def _said(value: Any) -> Any:
    """A count with what it consists of, a line each."""
    if isinstance(value, dict):
        return "\n".join(f"{name.replace('_', ' ') or '-'} {number}" for name, number in value.items())
    if isinstance(value, list):
        return "\n".join(_item(item) for item in value) or "none"
    return value


def _item(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    parts = (f"{name.replace('_', ' ')} {value}" for name, value in item.items() if value != "")
    return one_line(", ".join(parts))


def _upgrade(options: argparse.Namespace) -> int:
    url = url_of(options)
    from toolroll.registry.status import upgrade

    before, after = upgrade(url)
    if options.json:
        print_json({"before": before, "after": after})
    else:
        print(f"schema {after}: " + ("nothing to do" if before == after else f"upgraded from {before}"))
    return 0
