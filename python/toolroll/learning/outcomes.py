"""What a model did with what it was shown, as callers say it and as it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from toolroll.argument_checks import items_of
from toolroll.errors import InvalidInput, quoted
from toolroll.learning.exposure import ShownTool

Kind: TypeAlias = Literal[
    "succeeded",  # called, and it worked
    "failed",  # called, and the tool did not do what it says
    "called",  # called; what came of it is unknown, or no fault of the tool's
    "corrected",  # called, and the user said that it was the wrong one
    "wanted_succeeded",  # not shown: found by a search afterwards, called, and it worked
    "wanted_failed",
    "wanted",
    "meant",  # what the user said should have been called
]
KINDS: frozenset[str] = frozenset(get_args(Kind))
# What a call of a tool that was not shown is, by what a call of a shown one would be.
WANTED: Mapping[Kind, Kind] = {
    "succeeded": "wanted_succeeded",
    "failed": "wanted_failed",
    "called": "wanted",
}
NOT_SHOWN: frozenset[str] = frozenset({"wanted_succeeded", "wanted_failed", "wanted", "meant"})

Called: TypeAlias = "Mapping[str, bool | None] | Iterable[str | tuple[str, bool | None]]"


@dataclass(frozen=True, slots=True)
class Entry:
    """The outcome of one tool."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Report:
    """A report about one event.

    Attributes:
        event_id: of the selection.
        entries: one for each tool with a known outcome.
        found: the tools among them that were not shown, with their keys.
        is_final: whether all other tools that were shown were not called.
    """

    event_id: str
    entries: tuple[Entry, ...]
    found: tuple[ShownTool, ...] = ()
    is_final: bool = True

    def to_record(self) -> dict[str, Any]:
        """A mapping for JSON."""
        return {
            "event_id": self.event_id,
            "entries": [[entry.name, entry.kind] for entry in self.entries],
            "found": [tool.to_record() for tool in self.found],
            "is_final": self.is_final,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Report:
        """From what `to_record` made. Raises KeyError, TypeError or ValueError for anything else."""
        entries = tuple(Entry(name, kind) for name, kind in record["entries"])
        if not KINDS.issuperset(entry.kind for entry in entries):
            raise ValueError(f"outcome of an unknown kind in {quoted(record['entries'])}")
        found = tuple(ShownTool.from_record(tool) for tool in record["found"])
        return cls(record["event_id"], entries, found, bool(record["is_final"]))


def read_called(
    called: Called,
    wanted: Called = (),
    corrected: Mapping[str, str | None] | Iterable[str] = (),
) -> tuple[Entry, ...]:
    """The outcomes that a caller reports, one entry for each tool.

    called: name → whether it succeeded; None if that is unknown or not the tool's fault. A list of names
        means that all succeeded. A list of pairs has one for each call; of several calls of one tool the last
        with a known result counts, so that a call that was tried again is no failure.
    wanted: the same for tools that were not shown and that a search found.
    corrected: name → the tool that should have been called instead, or None if nobody said which; a list of
        names means None for each.

    Raises:
        InvalidInput: an argument is of the wrong type, or a tool is in two of them.
    """
    entries: dict[str, Kind] = {}

    def add(what: str, name: object, kind: Kind) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{what}: names {quoted(name)}, must name tools")
        if entries.setdefault(name, kind) != kind:
            raise InvalidInput(
                f"{what}: tool {quoted(name)} is also reported as {entries[name]!r}; report one"
            )

    for name, succeeded in _read("called", called).items():
        add("called", name, "called" if succeeded is None else "succeeded" if succeeded else "failed")
    for name, succeeded in _read("wanted", wanted).items():
        add(
            "wanted",
            name,
            "wanted" if succeeded is None else "wanted_succeeded" if succeeded else "wanted_failed",
        )
    if isinstance(corrected, (str, bytes)) or not isinstance(corrected, Iterable):
        raise InvalidInput(
            f"corrected: is {quoted(corrected)}, must map the wrong tool to the right one, or None"
        )
    right = (
        corrected if isinstance(corrected, Mapping) else dict.fromkeys(items_of(corrected, "corrected", str))
    )
    for name, meant in right.items():
        if not isinstance(name, str) or not (meant is None or isinstance(meant, str)):
            raise InvalidInput(
                f"corrected: maps {quoted(name)} to {quoted(meant)}, must map the name of the wrong tool to "
                "that of the right one, or None"
            )
        entries.pop(name, None)  # it was also called, but a correction says more
        add("corrected", name, "corrected")
        if meant is not None and entries.get(meant) not in ("succeeded", "failed", "called"):
            entries.pop(meant, None)
            add("corrected", meant, "meant")
    return tuple(Entry(name, kind) for name, kind in entries.items())


def _read(what: str, said: object) -> Mapping[str, bool | None]:
    if isinstance(said, Mapping):
        for name, succeeded in said.items():
            if succeeded is not None and not isinstance(succeeded, bool):
                raise InvalidInput(
                    f"{what}: {quoted(name)} is {quoted(succeeded)}, must be True, False or None (unknown)"
                )
        return said
    if isinstance(said, (str, bytes)) or not isinstance(said, Iterable):
        raise InvalidInput(f"{what}: is {quoted(said)}, must map names of tools to whether they succeeded")
    calls: dict[str, bool | None] = {}
    for one in said:
        name, succeeded = one if isinstance(one, tuple) and len(one) == 2 else (one, True)
        if not isinstance(name, str):
            raise InvalidInput(f"{what}: holds {quoted(one)}, must hold names of tools, or (name, succeeded)")
        if succeeded is not None and not isinstance(succeeded, bool):
            raise InvalidInput(
                f"{what}: {quoted(name)} is {quoted(succeeded)}, must be True, False or None (unknown)"
            )
        calls[name] = calls.get(name) if succeeded is None else succeeded
    return calls
