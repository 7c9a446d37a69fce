"""`Follow`, `Recording` and `Sessions`: options of `Toolroll.open`."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from toolroll.model.argument_checks import check_callable, check_flag, check_hnsw, check_number
from toolroll.model.errors import InvalidInput, quoted

if TYPE_CHECKING:
    from toolroll.catalog.catalog import Progress
    from toolroll.snapshots.replica import PublishedCatalogs

LoggedMessages: TypeAlias = Literal["kept", "hashed", "dropped", "none"]
Durable: TypeAlias = Literal["process", "disk"]
KeptBy: TypeAlias = Literal["thread", "process", "none"]

LIFETIME_S = 86_400.0  # how long after a selection its outcomes count and its receipt is valid
_YEAR_S = 365 * 86_400.0
_MOST_ORGANISATIONS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Follow:
    """How a process follows a registry and builds its catalogs.

    Attributes:
        poll_s: seconds between two reads of the registry, in case its notifications do not arrive.
        settings_s: seconds after which stored settings are read again.
        organisations: the most catalogs of organisations in memory; a further one replaces the least recently
            used.
        listens: whether to use the database's notifications.
        listen_url: the PostgreSQL behind the pooler that the registry's URL names: notifications do not pass
            a pooler (`docs/scale.md`).
        max_policy_age_s: the greatest age of the policy in seconds while the registry cannot be read. Beyond
            it only public tools are shown, until the next read; None for no limit (`docs/registry.md`).
        hnsw: whether a large catalog gets an HNSW graph; see `Toolroll.from_tools`.
        published: the place of built catalogs (`docs/scale.md`). A catalog is used only if it has exactly the
            registry's tools.
        progress: called with (texts embedded, in all) while the first catalog is built.

    Raises InvalidInput if a value is of the wrong type or out of range.
    """

    poll_s: float = 0.5
    settings_s: float = 10.0
    organisations: int = 1_000
    listens: bool = True
    listen_url: str | None = None
    max_policy_age_s: float | None = None
    hnsw: bool | Literal["auto"] = "auto"
    published: PublishedCatalogs | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("poll_s", self.poll_s, 0.05), ("settings_s", self.settings_s, 0.0)):
            if not _is_number(value, least, 3_600):
                raise InvalidInput(f"{name}: is {quoted(value)}, must be from {least} to 3600 seconds")
        check_number(self.organisations, "organisations", 1, _MOST_ORGANISATIONS)
        check_flag(self.listens, "listens")
        if self.listen_url is not None and not isinstance(self.listen_url, str):
            raise InvalidInput(f"listen_url: is {quoted(self.listen_url)}, must be a URL of PostgreSQL")
        if self.listen_url is not None and not self.listens:
            raise InvalidInput("listen_url: nothing listens there with listens=False")
        limit = self.max_policy_age_s
        if limit is not None and not _is_number(limit, 2 * self.poll_s, _YEAR_S):
            raise InvalidInput(
                f"max_policy_age_s: is {quoted(limit)}, must be seconds, at least twice poll_s, or None"
            )
        check_hnsw(self.hnsw)
        check_callable(self.progress, "progress", "(texts embedded, in all)")


@dataclass(frozen=True, slots=True)
class Recording:
    """How a registry keeps selections and their outcomes.

    Attributes:
        messages: how events keep the messages of selections: their text ("kept"), a keyed digest ("hashed")
            or nothing ("dropped"); "none" writes no events at all.
        durable: whether a recorded outcome survives only the end of the process ("process"), or also a power
            cut ("disk").
        events_s: seconds after which the event of a selection is deleted, at least a day; None for never. Its
            outcomes and their statistics stay.
        outbox: the file where records wait for the database; None for a file beside the SQLite file, or in
            the user's state folder.
        keeper: where events and outcomes are processed while no other process over this registry does so: in
            a "thread"; in a "process" that this one starts, which does not slow selections down and takes
            some 100 MB; or "none", if another program keeps the registry (`docs/scale.md`).

    Raises InvalidInput if a value is of the wrong type or out of range.
    """

    messages: LoggedMessages = "kept"
    durable: Durable = "process"
    events_s: float | None = 30 * 86_400.0
    outbox: str | PathLike[str] | None = None
    keeper: KeptBy = "thread"

    def __post_init__(self) -> None:
        for name, allowed in (("messages", LoggedMessages), ("durable", Durable), ("keeper", KeptBy)):
            value, words = getattr(self, name), get_args(allowed)
            if not isinstance(value, str) or value not in words:
                *first, last = map(repr, words)
                raise InvalidInput(f"{name}: is {quoted(value)}, must be {', '.join(first)} or {last}")
        if self.events_s is not None and not _is_number(self.events_s, LIFETIME_S, 100 * _YEAR_S):
            raise InvalidInput(
                f"events_s: is {quoted(self.events_s)}, must be seconds from {LIFETIME_S:.0f}, how long a "
                "receipt is valid, to a hundred years, or None for never"
            )
        if self.outbox is not None:
            if not isinstance(self.outbox, (str, PathLike)) or not str(self.outbox):
                raise InvalidInput(f"outbox: is {quoted(self.outbox)}, must be a file")
            object.__setattr__(self, "outbox", Path(self.outbox).absolute())


@dataclass(frozen=True, slots=True)
class Sessions:
    """How long a registry keeps conversations.

    Attributes:
        expire_s: seconds after which an unused conversation is deleted; None for never.

    Raises InvalidInput if a value is of the wrong type or out of range.
    """

    expire_s: float | None = 14 * 86_400.0

    def __post_init__(self) -> None:
        if self.expire_s is not None and not (self.expire_s and _is_number(self.expire_s, 0, 100 * _YEAR_S)):
            raise InvalidInput(
                f"expire_s: is {quoted(self.expire_s)}, must be seconds above 0, at most a hundred years, or "
                "None for never"
            )


def _is_number(value: object, least: float, most: float) -> bool:
    """Whether the value is a number, not a bool, from least to most."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
