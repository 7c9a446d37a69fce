"""The outcomes of a selection, in the form of callers' reports and in the stored form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from toolroll.learning.exposure import ShownTool
from toolroll.model.argument_checks import items_of
from toolroll.model.errors import InvalidInput, quoted

Kind: TypeAlias = Literal[
    "succeeded",  # called, and it worked
    "failed",  # called, and the tool did not work
    "called",  # called; the result is unknown, or not the tool's fault
    "corrected",  # called, and the user said that it was the wrong one
    "wanted_succeeded",  # not shown: found by a search afterwards, called, and it worked
    "wanted_failed",
    "wanted",
    "meant",  # named by the user as the right one
]
KINDS: frozenset[str] = frozenset(get_args(Kind))
# The kind of a call of a tool that was not shown, by the kind of a call of a shown one.
WANTED: Mapping[Kind, Kind] = {"succeeded": "wanted_succeeded", "failed": "wanted_failed", "called": "wanted"}
NOT_SHOWN: frozenset[str] = frozenset({"wanted_succeeded", "wanted_failed", "wanted", "meant"})
SUCCEEDED: frozenset[str] = frozenset({"succeeded", "wanted_succeeded"})
FAILED: frozenset[str] = frozenset({"failed", "wanted_failed"})
CALLED: frozenset[str] = KINDS - {"meant"}  # the right one was not called

LONGEST_MS = 86_400_000.0  # a day: a call that takes longer is no call of a turn


class _Succeeded(TypedDict):
    succeeded: bool | None


class CallReport(_Succeeded, total=False):
    """A call with its duration; a plain mapping in Python and in JSON alike.

    Attributes:
        succeeded: True, False, or None if that is unknown or not the tool's fault.
        duration_ms: how long the tool's call took, in milliseconds; None or absent if nobody measured it.
    """

    duration_ms: float | None


CallResult: TypeAlias = "bool | CallReport | None"
Called: TypeAlias = "Mapping[str, CallResult] | Iterable[str | tuple[str, CallResult]]"


@dataclass(frozen=True, slots=True)
class Entry:
    """The outcome of one tool.

    Attributes:
        duration_ms: how long its call took; None if nobody measured it.
    """

    name: str
    kind: Kind
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report about one event.

    Attributes:
        event_id: of the selection.
        entries: one for each tool with a known outcome.
        found: the reported tools that were not shown, with their keys.
        is_final: whether all other shown tools were not called.
    """

    event_id: str
    entries: tuple[Entry, ...]
    found: tuple[ShownTool, ...] = ()
    is_final: bool = True


def read_entries(said: Iterable[Any], durations_ms: Any) -> tuple[Entry, ...]:
    """The entries of a report from pairs of name and kind, and from the result of `durations_of`.

    Raises TypeError or ValueError for anything else.
    """
    durations = read_durations(durations_ms)
    entries = tuple(Entry(name, kind, durations.get(name)) for name, kind in said)
    if not KINDS.issuperset(entry.kind for entry in entries):
        raise ValueError(f"outcome of an unknown kind in {quoted(said)}")
    return entries


def durations_of(entries: Iterable[Entry]) -> dict[str, float]:
    """Tool → how long its call took, for the entries with a known duration."""
    return {entry.name: entry.duration_ms for entry in entries if entry.duration_ms is not None}


def read_durations(record: Any) -> dict[str, float]:
    """Tool → how long its call took, from the stored result of `durations_of`.

    Raises TypeError or ValueError for anything else.
    """
    if not isinstance(record, Mapping):
        raise TypeError(f"durations are {quoted(record)}, must map names of tools to milliseconds")
    for name, duration_ms in record.items():
        if not is_duration(duration_ms):
            raise ValueError(f"duration of {quoted(name)} is {quoted(duration_ms)}")
    return {name: float(duration_ms) for name, duration_ms in record.items()}


def is_duration(value: object) -> bool:
    """Whether the value is a number of milliseconds from 0 to a day."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= LONGEST_MS  # False for NaN


def read_called(
    called: Called, wanted: Called = (), corrected: Mapping[str, str | None] | Iterable[str] = ()
) -> tuple[Entry, ...]:
    """The outcomes that a caller reports, one entry for each tool.

    called: name → whether it succeeded; None if that is unknown or not the tool's fault; or a `CallReport`
    with the duration. A list of names means that all succeeded. A list of pairs has one for each call; of
    several calls of one tool the last with a known result counts, so that a successful retry is no failure.
    wanted: the same for tools that were not shown and that a search found. corrected: name → the tool that
    should have been called instead, or None if that is unknown; a list of names means None for each.

    Raises InvalidInput if an argument is of the wrong type, or a tool is in two of them.
    """
    entries: dict[str, Kind] = {}
    durations: dict[str, float | None] = {}

    def add(what: str, name: object, kind: Kind) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{what}: names {quoted(name)}, must name tools")
        if entries.setdefault(name, kind) != kind:
            raise InvalidInput(
                f"{what}: tool {quoted(name)} is also reported as {entries[name]!r}; report one"
            )

    for what, calls in (("called", _read("called", called)), ("wanted", _read("wanted", wanted))):
        for name, (succeeded, duration_ms) in calls.items():
            kind: Kind = "called" if succeeded is None else "succeeded" if succeeded else "failed"
            add(what, name, kind if what == "called" else WANTED[kind])
            durations[name] = duration_ms
    if corrected == ():
        return tuple([Entry(name, kind, durations[name]) for name, kind in entries.items()])
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
    return tuple(Entry(name, kind, durations.get(name)) for name, kind in entries.items())


class _Call(NamedTuple):
    """One call's result."""

    succeeded: bool | None
    duration_ms: float | None = None


def _read(what: str, said: object) -> Mapping[str, _Call]:
    if isinstance(said, Mapping):
        return {name: _call(what, name, result) for name, result in said.items()}
    if isinstance(said, (str, bytes)) or not isinstance(said, Iterable):
        raise InvalidInput(f"{what}: is {quoted(said)}, must map names of tools to whether they succeeded")
    calls: dict[str, _Call] = {}
    for one in said:
        name, result = one if isinstance(one, tuple) and len(one) == 2 else (one, True)
        if not isinstance(name, str):
            raise InvalidInput(f"{what}: holds {quoted(one)}, must hold names of tools, or (name, succeeded)")
        call, known = _call(what, name, result), calls.get(name)
        if known is None or known.succeeded is None or call.succeeded is not None:
            calls[name] = call
    return calls


def _call(what: str, name: object, result: object) -> _Call:
    """A result in a caller's form: whether it succeeded, or a `CallReport`."""
    duration_ms = None
    if isinstance(result, Mapping):
        if "succeeded" not in result or not {"succeeded", "duration_ms"}.issuperset(result):
            raise InvalidInput(
                f"{what}: {quoted(name)} has {quoted(list(result))}, must have succeeded, and may have "
                "duration_ms"
            )
        duration_ms, result = result.get("duration_ms"), result["succeeded"]
        if duration_ms is not None and not is_duration(duration_ms):
            raise InvalidInput(
                f"{what}: duration_ms of {quoted(name)} is {quoted(duration_ms)}, must be milliseconds "
                f"from 0 to {LONGEST_MS:,.0f} (a day), or None if nobody measured it"
            )
    if result is not None and not isinstance(result, bool):
        raise InvalidInput(
            f"{what}: {quoted(name)} is {quoted(result)}, must be True, False or None (unknown)"
        )
    return _Call(result, None if duration_ms is None else float(duration_ms))
