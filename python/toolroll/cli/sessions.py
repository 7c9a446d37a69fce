"""`toolroll sessions`: what conversations hold, one by one."""

from __future__ import annotations

import argparse

from toolroll.cli import arguments
from toolroll.cli.catalog_options import add_catalog, add_org, command, group, stored
from toolroll.cli.terminal import one_line, print_fields, print_json, print_table
from toolroll.errors import NotFound


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command and those below it."""
    below = group(
        commands,
        "sessions",
        "look at what conversations hold, forget it, clear it away",
        description="Looks at sessions: what each conversation holds from turn to turn, such as the tools it "
        "has loaded, as it was last written to the registry's database.",
        epilog="example: toolroll sessions list --org acme --catalog sqlite:///tools.db",
    )

    listing = command(below, "list", _list, "list sessions, the one used last first")
    add_org(listing, all_of_them=True)
    listing.add_argument("--limit", type=arguments.positive, default=50, metavar="N", help="default: 50")
    listing.add_argument(
        "--until",
        type=arguments.instant,
        metavar="TIME",
        help="only those last used before then: 2026-03-01, or how long ago: 12h, 7d",
    )
    add_catalog(listing)

    show = command(below, "show", _show, "print what one session holds")
    _add_session(show)

    forget = command(
        below,
        "forget",
        _forget,
        "delete one session",
        description="Deletes one session. A process in which the conversation goes on writes it again.",
        epilog="example: toolroll sessions forget conversation-42 --org acme --catalog sqlite:///tools.db",
    )
    _add_session(forget)

    prune = command(
        below,
        "prune",
        _prune,
        "clear sessions away that have expired",
        description="Clears sessions away that have expired, and with --older-than those not used for so "
        "long. Processes that write sessions clear the expired ones away by themselves.",
        epilog="example: toolroll sessions prune --older-than 7d --catalog sqlite:///tools.db",
    )
    prune.add_argument("--older-than", type=arguments.span, metavar="AGE", help="such as 7d")
    add_org(prune, all_of_them=True)
    add_catalog(prune)


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("--org", default="", metavar="ORG", help="whose it is (default: of no organisation)")
    add_catalog(parser)


def _list(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.sessions.store import SessionStore

        found = SessionStore(database).list(options.org, limit=options.limit, before=options.until)
    if options.json:
        print_json({"sessions": [one.to_dict() for one in found]})
        return 0
    print_table(
        ("USED", "ORG", "TURN", "EXPIRES", "SESSION"),
        (
            (
                f"{one.updated_at:%Y-%m-%d %H:%M:%S}",
                one.org or "-",
                one.turn,
                "never" if one.expires_at is None else f"{one.expires_at:%Y-%m-%d %H:%M:%S}",
                one.session,
            )
            for one in found
        ),
    )
    return 0


def _show(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.sessions.store import SessionStore

        found = SessionStore(database).read(options.org, options.session)
    if found is None:
        raise _absent(options)
    fields = {
        "org": options.org,
        "session": options.session,
        "version": found.version,
        "updated_at": found.updated_at.isoformat(),
    }
    if options.json:
        print_json({**fields, "record": dict(found.record)})
    else:
        print_fields({**fields, **found.record})
    return 0


def _forget(options: argparse.Namespace) -> int:
    with stored(options) as database:
        from toolroll.registry.sessions.store import SessionStore

        if not SessionStore(database).forget(options.org, options.session):
            raise _absent(options)
    if options.json:
        print_json({"session": options.session, "org": options.org})
    else:
        print(one_line(f"session {options.session} was forgotten"))
    return 0


def _absent(options: argparse.Namespace) -> NotFound:
    whose = f"organisation {options.org!r:.80}" if options.org else "no organisation"
    return NotFound(
        f"session {options.session!r:.80} of {whose}: is not there, or has expired; "
        "toolroll sessions list shows whose there are"
    )


def _prune(options: argparse.Namespace) -> int:
    age = options.older_than
    with stored(options) as database:
        from toolroll.registry.sessions.store import SessionStore

        gone = SessionStore(database).prune(None if age is None else age.total_seconds(), org=options.org)
    if options.json:
        print_json({"sessions": gone})
    else:
        print(f"{gone:,} sessions were cleared away")
    return 0
