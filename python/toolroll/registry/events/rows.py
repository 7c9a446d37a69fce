"""Conversions between events, outcomes and rows of the store."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll.learning.deduplication import EventState, ReportedOutcome, Step
from toolroll.learning.effects import EFFECTS, OutcomeChange
from toolroll.learning.exposure import Exposure, ShownTool, pack_tools, unpack_tools
from toolroll.learning.outcomes import Report, durations_of, read_entries
from toolroll.model.errors import InvalidInput
from toolroll.registry.events.details import (
    EntryReader,
    Numbers,
    OutcomeEntry,
    packed_entries,
    read_event,
)
from toolroll.registry.store.database import Database

MessageForm: TypeAlias = Literal["kept", "hashed", "dropped"]

LONGEST_WORD = 128  # characters of names in a context, which are in keys of indexes
MOST_STEPS = 32  # rows of outcomes of one event, plus one for each shown tool
_FORM = 1  # of a record in the outbox
_EVENT = ("event_id", "org", "at", "reporter", "page", "tier", "category", "space")  # of an exposure, there
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_NO_NUL = {0: "\u2400"} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def word(text: str, longest: int = LONGEST_WORD) -> str:
    """The text as both databases can store it. A long text is cut and ends in a digest."""
    text = storable(text)
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: longest - 17]}…{digest}"


def storable(text: str) -> str:
    """The text without NUL and unpaired surrogates, which neither database can store."""
    return text if text.isprintable() else text.translate(_NO_NUL)


def instant(seconds: float) -> datetime:
    """Seconds since the epoch as a datetime in UTC."""
    return datetime.fromtimestamp(round(seconds, 6), timezone.utc)


def seconds(at: datetime) -> float:
    """A datetime as seconds since the epoch."""
    return at.timestamp()


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedReport:
    """A report with its exposure. at: when it was received, in seconds since the epoch."""

    exposure: Exposure
    report: Report
    at: float

    def to_bytes(self) -> bytes:
        """For the outbox: JSON with packed numbers, which is quick, since the reporting thread waits."""
        exposure, report, vector = self.exposure, self.report, self.exposure.vector
        packed = pack_tools((*exposure.shown, *report.found))
        return _ENCODE(
            {
                "form": _FORM,
                "at": self.at,
                "event": [getattr(exposure, name) for name in _EVENT],
                "shown": [tool.name for tool in exposure.shown],
                "found": [tool.name for tool in report.found],
                "said": [[entry.name, entry.kind] for entry in report.entries],
                "durations_ms": durations_of(report.entries),
                "final": report.is_final,
                "tools": b64encode(packed).decode(),
                "vector": None if vector is None else b64encode(vector.tobytes()).decode(),
            }
        ).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ReceivedReport:
        """Reverses `to_bytes`. Raises KeyError, TypeError or ValueError for any other bytes."""
        record = json.loads(data)
        if record["form"] != _FORM:
            raise ValueError(f"form is {record['form']!r:.80}, must be {_FORM}")
        event_id, org, at, reporter, page, tier, category, space = record["event"]
        for word_of in (event_id, org, reporter, page, tier, category, space):
            if not isinstance(word_of, str):
                raise TypeError(f"has {word_of!r:.80} where text must be")
        vector, names = record["vector"], [*record["shown"], *record["found"]]
        tools = unpack_tools(names, b64decode(record["tools"], validate=True))
        count = len(record["shown"])
        decoded = None if vector is None else np.frombuffer(b64decode(vector, validate=True), "<f2")
        context = (reporter, page, tier, category)
        exposure = Exposure(event_id, org, float(at), *context, tools[:count], decoded, space)
        entries = read_entries(record["said"], record["durations_ms"])
        report = Report(event_id, entries, tools[count:], bool(record["final"]))
        return cls(exposure, report, float(record["at"]))


def check_steps(exposure: Exposure, steps: int) -> None:
    """Raises InvalidInput if an event has too many rows of outcomes for another.

    A turn needs a row for each shown tool, and some for found tools and revisions. A receipt must not fill
    the database.
    """
    most = MOST_STEPS + len(exposure.shown)
    if steps >= most:
        raise InvalidInput(
            f"event {exposure.event_id}: has had {steps} different reports, must have at most {most}; "
            "this one was not recorded"
        )


def as_stored(exposure: Exposure) -> Exposure:
    """The exposure as the store returns it, so that every process computes the same."""
    return replace(
        exposure,
        at=round(exposure.at, 6),
        reporter=word(exposure.reporter),
        page=word(exposure.page),
        tier=word(exposure.tier),
        category=word(exposure.category),
        vector=None if exposure.vector is None else np.ascontiguousarray(exposure.vector, "<f2"),
    )


def vector_bytes(vector: npt.NDArray[np.float16] | None) -> bytes | None:
    """A vector in the form of the rows: float16, little-endian."""
    return None if vector is None else np.ascontiguousarray(vector, "<f2").tobytes()


# Events.


@dataclass(frozen=True, slots=True)
class Messages:
    """How to store messages.

    Attributes:
        form: "kept", "hashed" or "dropped". The same text has the same hash.
        secret: the key of the hashes, without which nobody can guess a text.
    """

    form: MessageForm = "kept"
    secret: bytes = b""

    def of(self, text: str) -> str:
        """The stored form of the message."""
        if self.form == "kept":
            return storable(text)
        if self.form == "hashed":
            return hmac.new(self.secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return ""


def exposure_in(event: Any) -> Exposure:
    """The exposure of an event that `EventReader` read."""
    return _exposure(event, tuple(event.shown), event.vector)


def _exposure(row: Any, shown: tuple[ShownTool, ...], vector: bytes | None) -> Exposure:
    """The exposure in a row of `selection_events` or `outcomes`, with these tools and this vector."""
    return Exposure(
        row.event_id,
        row.org,
        seconds(row.at),
        row.reporter,
        row.page,
        row.tier,
        row.category,
        shown,
        None if vector is None else np.frombuffer(vector, "<f2"),
        row.space,
    )


def summary(state: EventState) -> dict[str, Any]:
    """The columns of an event that come from reports: outcomes, the most important one, and durations."""
    called: dict[str, str] = {name: said.kind for name, said in state.said.items()}
    durations = {name: said.duration_ms for name, said in state.said.items() if said.duration_ms is not None}
    return {"called": called, "outcome": _outcome(state), "durations_ms": durations or None}


def _outcome(state: EventState) -> str | None:
    kinds = {said.kind for said in state.said.values()}
    for outcome, signs in _IMPORTANCE:
        if kinds & signs:
            return outcome
    return "unused" if state.closed else None


_IMPORTANCE: tuple[tuple[str, frozenset[str]], ...] = (
    ("corrected", frozenset({"corrected", "meant"})),
    ("wanted", frozenset({"wanted", "wanted_succeeded", "wanted_failed"})),
    ("failed", frozenset({"failed"})),
    ("succeeded", frozenset({"succeeded"})),
    ("called", frozenset({"called"})),
)


# Outcomes.


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeRow:
    """One row of `outcomes`: the changes of a report.

    Attributes:
        seq, step: its number within the organisation, and within the event.
        exposure: with all shown tools if the row closes the event, else with only the changed tools.
        closes: whether the row closes the event; then `closing_weight` is the event's weight.
        received_at: in seconds since the epoch.
        voided: whether the outcome no longer counts.
    """

    seq: int
    step: int
    exposure: Exposure
    changes: tuple[OutcomeChange, ...]
    closes: bool
    closing_weight: float
    received_at: float
    voided: bool = False

    def to_row(self, numbers_of: Numbers) -> dict[str, Any]:
        """For the store. numbers_of: includes its tools."""
        exposure = self.exposure
        pulls = any(EFFECTS[change.after].pull != EFFECTS[change.before].pull for change in self.changes)
        packed = vector_bytes(exposure.vector if pulls else None)
        return {
            **{name: getattr(exposure, name) for name in _EVENT},
            **{name: getattr(self, name) for name in ("seq", "step", "closes", "closing_weight")},
            "at": instant(exposure.at),
            "received_at": instant(self.received_at),
            "details": packed_entries(self.entries(), packed, numbers_of),
            "voided_at": None,
            "durations_ms": {
                change.tool.name: change.duration_ms
                for change in self.changes
                if change.duration_ms is not None
            }
            or None,
        }

    def entries(self) -> list[OutcomeEntry]:
        """The changed tools, and all shown ones if the row closes its event."""
        by_name = {change.tool.name: change for change in self.changes}
        entries = []
        for tool in self.exposure.shown:
            change = by_name.pop(tool.name, None)
            if change is not None:
                entries.append(_entry(change, True))
            elif self.closes:
                entries.append(OutcomeEntry(tool, None, None, 0.0, True))
        for change in by_name.values():
            entries.append(_entry(change, False))
        return entries

    @classmethod
    def of(cls, row: Any, entries: Iterable[OutcomeEntry], vector: bytes | None) -> OutcomeRow:
        """From a row of the store and its details."""
        shown, changes, durations = [], [], row.durations_ms or {}
        for entry in entries:
            tool = entry.tool
            if entry.was_shown:
                shown.append(tool)
            if entry.after is not None:
                took = durations.get(tool.name)
                changes.append(
                    OutcomeChange(tool, entry.before, entry.after, entry.weight, entry.is_late, took)
                )
        return cls(
            row.seq,
            row.step,
            _exposure(row, tuple(shown), vector),
            tuple(changes),
            row.closes,
            row.closing_weight,
            seconds(row.received_at),
            row.voided_at is not None,
        )


def _entry(change: OutcomeChange, was_shown: bool) -> OutcomeEntry:
    return OutcomeEntry(change.tool, change.before, change.after, change.weight, was_shown, change.is_late)


def outcome_rows(reader: EntryReader, rows: Sequence[Any]) -> list[OutcomeRow]:
    """Reads rows of `outcomes`."""
    read = reader(row.details for row in rows)
    return [OutcomeRow.of(row, *details) for row, details in zip(rows, read, strict=True)]


def outcome_row(
    seq: int, step: int, exposure: Exposure, report: Step, closing_weight: float, received_at: float
) -> OutcomeRow:
    """The row of a report. Rounds expected calls as the store does."""
    kept = {tool.name: tool.as_stored for tool in exposure.shown}
    changes = tuple(
        change._replace(tool=kept.get(change.tool.name) or change.tool.as_stored) for change in report.changes
    )
    changed = {change.tool.name for change in changes}
    shown = tuple(tool for name, tool in kept.items() if report.closes or name in changed)
    exposure = replace(exposure, shown=shown)
    return OutcomeRow(seq, step, exposure, changes, report.closes, closing_weight, received_at)


def state_after(rows: Sequence[OutcomeRow]) -> EventState:
    """The state of an event after its rows, in order.

    Voided reports are included without weight, so that repeating them adds nothing.
    """
    said: dict[str, ReportedOutcome] = {}
    closed = False
    for row in rows:
        for change in row.changes:
            weight = 0.0 if row.voided else change.weight
            said[change.tool.name] = ReportedOutcome(
                change.after, weight, row.received_at, change.duration_ms
            )
        closed = closed or row.closes
    return EventState(said, closed)


def by_event(rows: Sequence[OutcomeRow]) -> Mapping[str, list[OutcomeRow]]:
    """Event → its rows, in order."""
    found: dict[str, list[OutcomeRow]] = {}
    for row in sorted(rows, key=lambda row: row.step):
        found.setdefault(row.exposure.event_id, []).append(row)
    return found


def exposure_of_event(database: Database, event_id: str, org: str | None = None) -> Exposure | None:
    """The exposure of an event; None if the store lacks it. org: its organisation, if known.

    Raises:
        StoreUnavailable: the store did not answer within seconds.
    """
    with database.autocommit() as connection:  # a caller waits
        event = read_event(connection, event_id, org)
        return None if event is None else exposure_in(event)
