"""`toolroll registry why, changes, check, status, upgrade, keep`: the state of a registry, and its causes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command
from toolroll.cli.options import (
    POLL_S,
    RegistryOptions,
    WindowOptions,
    WriteOptions,
    any_org_options,
    caller_options,
    flag,
    option,
    platform_write_options,
    registry_options,
)
from toolroll.cli.output import note, one_line, print_fields, print_json, print_list, print_result
from toolroll.cli.parameter_types import COUNT, POSITIVE
from toolroll.model.errors import NotFound

if TYPE_CHECKING:
    from toolroll.model.context import Context


import signal
import threading
from datetime import timedelta

from toolroll.cli.parameter_types import duration
from toolroll.registry.options import Recording

_LONGEST = 80  # characters of a change's details in a table


@command("why", example="toolroll registry why crm_export --org acme --tier free")
@click.argument("name")
@option("--org", "Organisation that asks.", default="", metavar="ORG")
@caller_options
@option(
    "--setting settings",
    "A further setting that has a value; repeatable.",
    multiple=True,
    metavar="KEY",
    unset="those of the registry",
)
@registry_options
def why(options: RegistryOptions, name: str, **context: Any) -> None:
    """Print whether somebody sees a tool, and the reason."""
    from toolroll.model.context import Context

    found = _verdict(options, name, Context(**context))
    reason = found["reason"]
    if reason.startswith(("shown by ", "hidden by ")):
        text = f"{name} is {reason}"
    else:
        text = f"{name} is {'visible' if found['visible'] else 'hidden'}: {reason}"
    print_result(options.json, {"name": name, **found}, text)
    for sentence in () if options.json else found["unknown_values"]:
        note(sentence)


def _verdict(options: RegistryOptions, name: str, context: Context) -> dict[str, Any]:
    from toolroll.registry.options import Follow, Recording
    from toolroll.roll import Toolroll

    # The answer needs no vectors, and without them the catalog is built at once.
    follow, recording = Follow(poll_s=POLL_S, listens=False), Recording(keeper="none")
    with Toolroll.open(options.catalog, embedder="none", follow=follow, recording=recording) as roll:
        roll.warm_up([context.org])
        unknown = list(roll.unknown_values(context))
        try:
            verdict = roll.why(name, context)
        except NotFound:
            return {**_reason_of_absence(options, name, context.org), "unknown_values": unknown}
    rule = None if verdict.rule is None else verdict.rule.name
    return {
        "visible": verdict.visible,
        "reason": verdict.reason,
        "level": verdict.level,
        "rule": rule,
        "unknown_values": unknown,
    }


def _reason_of_absence(options: RegistryOptions, name: str, org: str) -> dict[str, Any]:
    """The reason why a tool of the registry is in no catalog. Raises NotFound for an unknown tool."""
    with options.registry() as registry:
        try:
            record = registry.tool(name, org=org, deleted=True)
        except NotFound:
            if not org:
                raise
            record = registry.tool(name, deleted=True)
    if record.deleted_at is not None:
        reason = f"it was deleted by {record.updated_by} on {record.deleted_at:%Y-%m-%d %H:%M}"
    else:
        reason = f"it waits for approval ({record.review}): toolroll registry review"
    return {"visible": False, "reason": reason, "level": "", "rule": None}


@command("changes", example="toolroll registry changes --subject get_forecast --limit 10")
@option("--subject", "Only changes of this tool, rule, ….", metavar="NAME", unset="all")
@option("--action", "Only changes of this kind: rule.create, or rule for all of rules.", unset="all")
@option("--limit", "Most lines.", type=POSITIVE, default=100)
@option(
    "--after",
    "List the changes after this one, oldest first.",
    type=COUNT,
    metavar="SEQ",
    unset="newest first",
)
@any_org_options
def changes(options: WindowOptions, **filters: Any) -> None:
    """Print the audit log, newest first."""
    with options.report() as database:
        from toolroll.registry.editing.audit import Audit

        listed = Audit(database).list(org=options.org, **filters)
        found = [change.to_dict() for change in listed]
    print_list(
        options.json,
        "changes",
        found,
        "SEQ AT ORG BY=actor ACTION SUBJECT REASON DETAILS",
        details=lambda change: (
            one_line(json.dumps(change["details"], ensure_ascii=False), _LONGEST)
            if change["details"]
            else None
        ),
    )


@command("check", example="toolroll registry check --catalog sqlite:///tools.db")
@flag("--accept", "Accept the rows as they are, after an edit by hand on purpose.")
@platform_write_options
def check(options: WriteOptions, accept: bool) -> None:
    """Say whether policy rows are as the registry wrote them.

    Policy rows are rules, toolkits and all other rows that policy reads. If somebody edits a row of an
    organisation by hand, its contexts see public tools only; for a row of the platform, all contexts do.
    Restore a backup, or accept the rows. The exit status is 1 if something is wrong and was not accepted.
    """
    from toolroll.registry.editing import policy_check

    with options.registry() as registry:
        found = (
            policy_check.accept(registry.database, registry.actor, options.reason)
            if accept
            else policy_check.check(registry.database)
        )
    if options.json:
        print_json({"accepted": accept and bool(found), "mismatches": [each.to_dict() for each in found]})
    else:
        for each in found:
            whose = f"organisation {each.org}" if each.org else "the platform"
            print(one_line(f"{whose}: {', '.join(each.parts)} are not as the registry wrote them"))
            for difference in each.differences:
                print(one_line(f"  {difference}"))
        if not found:
            print("all is as the registry wrote it")
        elif accept:
            print("accepted")
        else:
            note("restore a backup, or accept the rows as they are: toolroll registry check --accept")
    if found and not accept:
        click.get_current_context().exit(1)


@command("status", example="toolroll registry status --catalog sqlite:///tools.db")
@registry_options
def status(options: RegistryOptions) -> None:
    """Print what the registry holds, and how much waits in it."""
    with options.database() as database:
        from toolroll.registry.editing.status import status_of

        found = status_of(database)
    if options.json:
        print_json(found)
    else:
        print_fields({name: _lines(value) for name, value in found.items()})


def _lines(value: Any) -> Any:
    """The parts of a count, a line each."""
    if isinstance(value, dict):
        return "\n".join(f"{name.replace('_', ' ') or '-'} {number}" for name, number in value.items())
    if isinstance(value, list):
        return "\n".join(_line(item) for item in value) or "none"
    return value


def _line(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    parts = (f"{name.replace('_', ' ')} {value}" for name, value in item.items() if value != "")
    return one_line(", ".join(parts))


@command("upgrade", example="toolroll registry upgrade --catalog sqlite:///tools.db")
@registry_options
def upgrade(options: RegistryOptions) -> None:
    """Upgrade the registry's tables to this version of toolroll.

    Runs in one transaction. Make a backup first, and upgrade all hosts: older versions of toolroll refuse an
    upgraded registry. Afterwards it rebuilds the statistics and figures of each organisation, as
    `toolroll events learning rebuild` does.
    """
    from toolroll.registry.editing import status

    before, after = status.upgrade(options.catalog)
    if before != after:
        from toolroll.registry.keeper import maintenance

        with options.database() as database:
            maintenance.rebuild(database)
    result = "nothing to do" if before == after else f"upgraded from {before}"
    print_result(options.json, {"before": before, "after": after}, f"schema {after}: {result}")


_LOOK_S = 0.2
_END_S = 5.0  # for what is in the inbox


@command(
    "keep",
    example="toolroll registry keep --catalog postgresql://tools@db/tools\n"
    "toolroll registry keep --catalog sqlite:///tools.db --events 90d",
)
@option(
    "--events",
    "How long the events of selections are kept; their outcomes stay.",
    type=duration,
    metavar="TIME",
    default="30d",
)
@registry_options
def keep(options: RegistryOptions, events: timedelta) -> None:
    """Count events and outcomes of hosts until it is stopped. Of several keepers one works; the others wait.

    `toolroll serve` and `toolroll mcp --http` start a keeper of their own. Other hosts keep the registry in a
    thread, unless they are opened with keeper="none".
    """
    from toolroll.registry.events.lease import state_of
    from toolroll.registry.keeper.keeper import Keeper

    events_s = Recording(events_s=events.total_seconds()).events_s
    is_ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_ending.set())
    with options.database() as database:
        keeper = Keeper(database, events_s=events_s)
        keeper.start()
        last_line = ""
        while not is_ending.wait(_LOOK_S):
            if keeper.failing is not None:
                line = f"waiting: {keeper.failing}"
            elif keeper.is_held:
                line = f"keeping {database.url}"
            else:
                line = f"waiting: {state_of(database).holder} keeps {database.url}"
            if line != last_line:
                note(line)
                last_line = line
        keeper.drain(_END_S)
        keeper.close(_END_S)
        figures = keeper.figures
    if options.json:
        print_json(figures)
    else:
        print_fields(figures)


COMMANDS = (why, changes, check, status, upgrade, keep)
