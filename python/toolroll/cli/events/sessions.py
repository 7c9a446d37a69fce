"""`toolroll events sessions`: the state of conversations."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from toolroll.cli.commands import Group
from toolroll.cli.options import RegistryOptions, WindowOptions, any_org_options, option, registry_options
from toolroll.cli.output import print_fields, print_json, print_list, print_result
from toolroll.cli.parameter_types import POSITIVE, duration, timestamp
from toolroll.model.errors import NotFound

sessions = Group(
    "sessions",
    help="Read and delete the state of conversations.\n\n"
    "A session holds what a conversation carries from turn to turn, such as the tools it loaded, as it was "
    "last written to the registry's database.",
    example="toolroll events sessions list --org acme --catalog sqlite:///tools.db",
)
_org_option = option("--org", "Organisation that owns it.", default="", metavar="ORG")


@sessions.command("list", example="toolroll events sessions list --until 7d")
@option("--limit", "Most lines.", type=POSITIVE, default=50)
@option(
    "--until before",
    "Only sessions last used before then: 2026-03-01, or how long ago (12h, 7d).",
    type=timestamp,
    metavar="TIME",
    unset="now",
)
@any_org_options
def list_sessions(options: WindowOptions, limit: int, before: datetime | None) -> None:
    """List sessions, the one used last first."""
    with options.database() as database:
        from toolroll.registry.sessions.store import SessionStore

        found = SessionStore(database).list(options.org, limit=limit, before=before)
    print_list(
        options.json,
        "sessions",
        found,
        "USED=updated_at ORG TURN EXPIRES SESSION",
        expires=lambda session: session.expires_at or "never",
    )


@sessions.command("show", example="toolroll events sessions show conversation-42 --org acme")
@click.argument("session")
@_org_option
@registry_options
def show(options: RegistryOptions, session: str, org: str) -> None:
    """Print the state of one session."""
    with options.database() as database:
        from toolroll.registry.sessions.keys import key_of
        from toolroll.registry.sessions.store import SessionStore

        found = SessionStore(database).read(key_of(org, session))
    if found is None:
        raise _no_session(session, org)
    fields = {
        "org": org,
        "session": session,
        "version": found.version,
        "updated_at": found.updated_at.isoformat(),
    }
    if options.json:
        print_json({**fields, "record": dict(found.record)})
    else:
        print_fields({**fields, **found.record})


@sessions.command("forget", example="toolroll events sessions forget conversation-42 --org acme")
@click.argument("session")
@_org_option
@registry_options
def forget(options: RegistryOptions, session: str, org: str) -> None:
    """Delete one session.

    If the conversation goes on, its process writes the session again.
    """
    with options.database() as database:
        from toolroll.registry.sessions.keys import key_of
        from toolroll.registry.sessions.store import SessionStore

        if not SessionStore(database).forget(key_of(org, session)):
            raise _no_session(session, org)
    print_result(options.json, {"session": session, "org": org}, f"session {session} was forgotten")


def _no_session(session: str, org: str) -> NotFound:
    owner = f"organisation {org!r:.80}" if org else "no organisation"
    return NotFound(
        f"session {session!r:.80} of {owner}: is not there, or has expired; "
        "toolroll events sessions list shows those that are"
    )


@sessions.command("prune", example="toolroll events sessions prune --older-than 7d")
@option(
    "--older-than",
    "Also delete sessions not used for so long: 7d.",
    type=duration,
    metavar="AGE",
    unset="only expired ones",
)
@any_org_options
def prune(options: WindowOptions, older_than: timedelta | None) -> None:
    """Delete sessions that have expired.

    Processes over the registry delete expired ones by themselves.
    """
    with options.database() as database:
        from toolroll.registry.sessions.store import SessionStore

        age_s = None if older_than is None else older_than.total_seconds()
        deleted = SessionStore(database).prune(age_s, org=options.org)
    print_result(options.json, {"sessions": deleted}, f"{deleted:,} sessions were deleted")
