"""Which registry a command is about, and on whose behalf: the options that all of them have.

A URL may hold a password. It is handed to the database and to nothing else: what is printed, errors and wrong
use included, goes through `redacted`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from toolroll.cli.arguments import instant
from toolroll.errors import InvalidInput

if TYPE_CHECKING:
    from toolroll.registry.analytics.window import Window
    from toolroll.registry.registry import Registry
    from toolroll.registry.store.database import Database

CATALOG = "TOOLROLL_CATALOG"  # the registry, where no option names one
POLL_S = 0.05  # of a command that follows a registry: how long it takes to stop

_URL = re.compile(r"(sqlite|postgres(ql)?)(\+\w+)?:|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_USER = re.compile(r"(://[^\s/@:]*):\S*@")
_OPTION = re.compile(r"(password=)[^\s&]+", re.IGNORECASE)


class Parser(argparse.ArgumentParser):
    """Says what is wrong without the password that somebody typed into it."""

    def error(self, message: str) -> NoReturn:
        """Exits with status 2."""
        super().error(redacted(message))


def redacted(text: str) -> str:
    """The text with `***` for the passwords of the URLs in it."""
    return _OPTION.sub(r"\1***", _USER.sub(r"\1:***@", text))


def is_registry(text: str) -> bool:
    """Whether this names a database, rather than a file or folder."""
    return _URL.match(text) is not None


def command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
    *,
    description: str | None = None,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Declares one command, which errors name in full ("registry list").

    description: help as a sentence, if there is none.
    """
    if description is None:
        description = f"{help[0].upper()}{help[1:]}."
    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(run=run, usage=parser, title=parser.prog.partition(" ")[2])
    return parser


def group(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help: str,
    *,
    description: str,
    epilog: str,
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Declares a command that others stand below; by itself it says which."""
    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(run=lambda options: parser.error("a COMMAND is missing; --help lists them"))
    return parser.add_subparsers(metavar="COMMAND")


def add_catalog(parser: argparse.ArgumentParser, option: str = "--catalog", *, nested: bool = False) -> None:
    """Declares the option that names the registry, and `--json`.

    nested: the same is declared one level up, whose value stays unless this one is given.
    """
    parser.add_argument(
        option,
        dest="catalog",
        metavar="URL",
        default=argparse.SUPPRESS if nested else None,
        help="registry: sqlite:///FILE or postgresql://USER@HOST/DATABASE "
        f"(default: the environment variable {CATALOG})",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS if nested else False,
        help="print one JSON object",
    )


def add_org(parser: argparse.ArgumentParser, *, nested: bool = False, all_of_them: bool = False) -> None:
    """Declares `--org`."""
    parser.add_argument(
        "--org",
        default=argparse.SUPPRESS if nested else None if all_of_them else "",
        metavar="ORG",
        help="organisation whose own it is (default: "
        + ('all; "" is the platform)' if all_of_them else "the platform's, shared by all)"),
    )


def add_window(parser: argparse.ArgumentParser, *, since: str | None = "30d") -> None:
    """Declares whose events, and of when."""
    add_org(parser, all_of_them=True)
    parser.add_argument(
        "--since",
        type=instant,
        default=since,
        metavar="TIME",
        help="from when on: 2026-03-01, or how long ago: 12h, 7d" + (f" (default: {since})" if since else ""),
    )
    parser.add_argument("--until", type=instant, metavar="TIME", help="before when (default: now)")
    add_catalog(parser)


def window_of(options: argparse.Namespace) -> Window:
    """What `add_window` declared."""
    from toolroll.registry.analytics.window import Window

    return Window(options.org, options.since, options.until)


@contextmanager
def stored(options: argparse.Namespace) -> Iterator[Database]:
    """The database of the registry that the options name."""
    url = url_of(options)
    from toolroll.registry.store.database import Database

    database = Database.open(url, create=False, migrate=False)
    try:
        yield database
    finally:
        database.close()


def add_writing(parser: argparse.ArgumentParser, *, org: bool = True) -> None:
    """Declares who changes something, for whom, and why."""
    if org:
        add_org(parser)
    parser.add_argument("--actor", metavar="NAME", help="who does this (default: your login name)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; kept with the change")


def url_of(options: argparse.Namespace, option: str = "--catalog") -> str:
    """The registry's URL, from the option or from the environment.

    Raises:
        InvalidInput: neither names one, or what they name is no URL.
    """
    url: str = options.catalog or os.getenv(CATALOG, "")
    if not url:
        options.usage.error(f"{option}: names no registry; give its URL, or set {CATALOG}")
    if not is_registry(url):
        raise InvalidInput(
            f"{option} {url!r:.200}: is not a registry, must be sqlite:///FILE or "
            "postgresql://USER@HOST/DATABASE"
        )
    return url


def actor_of(options: argparse.Namespace) -> str:
    """Who acts: as told, or the login name."""
    actor: str | None = getattr(options, "actor", None)
    if actor:
        return actor
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as a user without a name
        return "unknown"


def opened(options: argparse.Namespace, *, create: bool = False, option: str = "--catalog") -> Registry:
    """The registry that the options name; use it in a `with`."""
    url = url_of(options, option)
    from toolroll.registry.registry import Registry

    return Registry.open(url, actor=actor_of(options), create=create)
