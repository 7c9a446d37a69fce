"""Options that several commands share: the registry, the organisation, the period, the actor and the reason.

A decorator such as `org_options` declares a set of options and passes them to the command as one value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.output import note
from toolroll.cli.parameter_types import POSITIVE, assignment, names, once_each, timestamp
from toolroll.model.argument_checks import check_registry_url
from toolroll.model.errors import InvalidInput

if TYPE_CHECKING:
    from toolroll.registry.analytics.window import Window
    from toolroll.registry.registry import Registry
    from toolroll.registry.store.database import Database

CATALOG = "TOOLROLL_CATALOG"  # the environment variable with the registry's URL
READ_REPLICA = "TOOLROLL_READ_REPLICA"  # the environment variable with the URL of its copy for reports
POLL_S = 0.05  # bounds the time that a command over a registry takes to stop

_URL = re.compile(r"(sqlite|postgres(ql)?)(\+\w+)?:|[a-z][a-z0-9+.-]*://", re.IGNORECASE)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def is_registry(text: str) -> bool:
    """Whether the text names a database, rather than a file or folder."""
    return _URL.match(text) is not None


@dataclass(frozen=True)
class RegistryOptions:
    """The registry that a command works on.

    Attributes:
        catalog: URL of the registry. It may hold a password: print it only through `redacted`.
        actor: the author of changes; None means the login name.
        read_replica: URL of a copy of the registry for reports; empty if there is none.
    """

    catalog: str
    json: bool = False
    actor: str | None = None
    read_replica: str = ""

    @property
    def actor_name(self) -> str:
        """The author of changes: the option's value, or the login name."""
        if self.actor:
            return self.actor
        import getpass

        try:
            return getpass.getuser()
        except (OSError, KeyError, ImportError):  # a container may run as a user without a name
            return "unknown"

    def registry(self, *, create: bool = False) -> Registry:
        """Opens the registry; use it in a `with`."""
        from toolroll.registry.registry import Registry

        return Registry.open(self.catalog, actor=self.actor_name, create=create)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Opens the registry's database."""
        from toolroll.registry.store.database import Database

        database = Database.open(self.catalog, create=False, migrate=False)
        try:
            yield database
        finally:
            database.close()

    @contextmanager
    def read_replica_database(self) -> Iterator[Database]:
        """Opens the copy of the registry. The first read fails if it is a copy of another registry."""
        from toolroll.registry.store.read_replica import ReadReplica

        with self.database() as primary, closing(ReadReplica(self.read_replica, primary)) as replica:
            yield replica

    @contextmanager
    def report(self) -> Iterator[Database]:
        """Opens the registry's database, or its copy, for a report."""
        with self.read_replica_database() if self.read_replica else self.database() as database:
            yield database
            if database.behind_s >= 1:
                note(f"{database.url} is up to {database.behind_s:,.0f} s older than the registry")


@dataclass(frozen=True)
class OrgOptions(RegistryOptions):
    """A registry and one of its organisations; "" is the platform."""

    org: str = ""


@dataclass(frozen=True)
class WriteOptions(OrgOptions):
    """Options of a command that changes something. The registry keeps the reason with the change."""

    reason: str = ""


@dataclass(frozen=True)
class WindowOptions(RegistryOptions):
    """A registry and a period of its events. org: None means all organisations."""

    org: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def window(self) -> Window:
        """Converts it for analytics."""
        from toolroll.registry.analytics.window import Window

        return Window(self.org, self.since, self.until)


def option(
    names: str, help: str, *, choices: Sequence[str] = (), unset: str = "none", **attributes: Any
) -> Decorator:
    """Declares an option.

    names: separated by spaces; the last may name the parameter. unset: the help's text in place of a missing
    default.
    """
    if choices:
        attributes["type"] = click.Choice(choices)
    if isinstance(attributes.get("type"), click.IntRange):
        attributes.setdefault("metavar", "N")
    if attributes.get("default") in (None, "") and not attributes.get("required"):
        attributes["show_default"] = unset
    return click.option(*names.split(), help=help, **attributes)


def path_option(names: str, help: str, unset: str = "none", *, is_folder: bool = False) -> Decorator:
    """Declares an option with the path of a file, or of a folder."""
    kind: Any = click.Path(path_type=Path, dir_okay=is_folder, file_okay=not is_folder)
    return option(names, help, type=kind, metavar="FOLDER" if is_folder else "FILE", unset=unset)


def flag(names: str, help: str, **attributes: Any) -> Decorator:
    """Declares an option without a value."""
    return click.option(*names.split(), is_flag=True, help=help, **attributes)


def _url(context: click.Context, option: click.Parameter, url: str) -> str:
    if url and is_registry(url):
        check_registry_url(url)  # before the import of a registry's packages fails
    elif url:
        raise InvalidInput(
            f"{option.opts[0]} {url!r:.200}: is not a registry, must be sqlite:///FILE or "
            "postgresql://USER@HOST/DATABASE"
        )
    return url


def _catalog(name: str) -> Decorator:
    return option(
        f"{name} catalog",
        "Registry: sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
        required=True,
        metavar="URL",
        envvar=CATALOG,
        show_envvar=True,
        callback=_url,
    )


_READ_REPLICA = option(
    "--read-replica",
    "Read from this copy of the registry instead, such as a standby of PostgreSQL.",
    default="",
    metavar="URL",
    envvar=READ_REPLICA,
    show_envvar=True,
    callback=_url,
)
json_option = flag("--json", "Print one JSON object.")
_CATALOG = _catalog("--catalog")
_ORG = option(
    "--org", "Organisation that owns it.", default="", metavar="ORG", unset="the platform, shared by all"
)
_ANY_ORG = option("--org", 'Only this organisation; "" is the platform.', metavar="ORG", unset="all")
_ACTOR = option("--actor", "Who makes the change.", metavar="NAME", unset="login name")
_REASON = option("--reason", "Why; kept with the change.", default="", metavar="TEXT")
_UNTIL = option("--until", "End, in the same form.", type=timestamp, metavar="TIME", unset="now")


def pack(cls: type[Any], *options: Decorator) -> Decorator:
    """Declares options whose values the command gets as its first argument, an instance of `cls`."""
    of_value = {each.name for each in fields(cls)}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(**values: Any) -> Any:
            packed = {name: values.pop(name) for name in of_value & set(values)}
            return function(cls(**packed), **values)

        declared: Callable[..., Any] = run
        for option in reversed(options):
            declared = option(declared)
        return declared

    return decorate


registry_options = pack(RegistryOptions, _CATALOG, json_option)
org_options = pack(OrgOptions, _ORG, _CATALOG, json_option)
report_options = pack(RegistryOptions, _CATALOG, _READ_REPLICA, json_option)
any_org_options = pack(WindowOptions, _ANY_ORG, _CATALOG, json_option)
write_options = pack(WriteOptions, _ORG, _ACTOR, _REASON, _CATALOG, json_option)
platform_write_options = pack(WriteOptions, _ACTOR, _REASON, _CATALOG, json_option)
source_options = pack(
    WriteOptions, click.argument("catalog", metavar="PATH|URL"), _ORG, _ACTOR, _REASON, json_option
)
import_options = pack(WriteOptions, _catalog("--to"), _ORG, _ACTOR, _REASON, json_option)


def window_options(since: str | None = "30d") -> Decorator:
    """Declares the organisation and the period of events. since: the default begin."""
    begin = option(
        "--since",
        "Begin: 2026-03-01, 2026-03-01T12:00, or how long ago (12h, 7d).",
        type=timestamp,
        default=since,
        metavar="TIME",
        unset=since or "the first event",
    )
    return pack(WindowOptions, _ANY_ORG, begin, _UNTIL, _CATALOG, _READ_REPLICA, json_option)


def embedder_option(
    help: str = "What embeds texts: static, minilm, multilingual, ollama:MODEL, … or none.", **attributes: Any
) -> Decorator:
    """Declares `--embedder`."""
    return option("--embedder", help, **{"default": "static", "metavar": "NAME", **attributes})


def profile_option(help: str = "Named set of parameters.") -> Decorator:
    """Declares `--profile`, which variables of the environment change."""
    return option(
        "--profile",
        f"{help} Variables such as TOOLROLL_MAX_TOOLS change single ones.",
        metavar="NAME",
        envvar="TOOLROLL_PROFILE",
        show_envvar=True,
        unset="default",
    )


def caller_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declares the fields of a caller that rules read."""
    for each in (
        option("--page", "Page that the user is on.", default=""),
        option("--tier", "Subscription tier, for rules.", default=""),
        option("--role roles", "Role of the user; repeatable.", multiple=True),
        option("--user", "User that asks, for rules.", default=""),
    ):
        function = each(function)
    return function


tiers_option = option(
    "--tiers",
    "The subscription tiers of a folder, lowest first: free,pro.",
    type=names,
    metavar="NAME,…",
    unset="those in its catalog.json",
)
hnsw_option = flag("--hnsw", "Also build a graph over the vectors, which pays above some 50,000 tools.")
on_bad_tool_option = option(
    "--on-bad-tool",
    "What to do with a tool that has an error: stop (refuse), or repair or omit it and say so (skip).",
    choices=("refuse", "skip"),
    unset="skip what comes from an MCP server, refuse the rest",
)


def set_option(of: str) -> Decorator:
    """Declares `--set`, for parameters of a profile; the command gets a dict named `parameters`."""
    return option(
        "--set parameters",
        f"Change a parameter of {of}; repeatable.",
        type=assignment,
        multiple=True,
        metavar="PARAM=VALUE",
        callback=once_each,
        unset="unchanged",
    )


def expected_version_option(of: str) -> Decorator:
    """Declares `--expected-version`, the optimistic lock; the command gets `version`."""
    return option(
        "--expected-version version",
        f"Do it only if this is still the {of}'s version, as the registry counts.",
        type=POSITIVE,
        unset="any",
    )


def _storage_options(context: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("is no JSON object")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--storage-options: {error}") from error
    return found


storage_options_option = option(
    "--storage-options storage_options",
    "What the storage's package takes, as a JSON object.",
    metavar="JSON",
    callback=_storage_options,
)


on_option = option(
    "--on",
    "Where the work runs: here, or on a Ray cluster (RAY_ADDRESS, else one started here; extra: ray).",
    choices=("here", "ray"),
    default="here",
)


def check_on(on: str) -> None:
    """Imports Ray first if `--on` names it: its extra also brings the other packages."""
    if on == "ray":
        import toolroll.lab.offline.ray_cluster  # noqa: F401


jobs_option = option(
    "--jobs",
    "Processes, or workers of a cluster that is started here; the result is the same.",
    type=POSITIVE,
    default=1,
)
keep_option = option(
    "--keep", "Keep what is done in this folder, so that an interrupted run goes on.", metavar="FOLDER"
)


def split_option() -> Decorator:
    """Declares `--split`, which queries of a dataset are asked."""
    return option("--split", "Queries to ask.", choices=("test", "train", "all"), default="test")
