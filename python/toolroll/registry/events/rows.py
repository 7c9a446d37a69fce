"""Conversions between events, outcomes and rows of the store."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

import numpy as np
import sqlalchemy as sa

from toolroll.identity import ToolKey
from toolroll.learning.deduplication import EventState, ReportedOutcome, Step
from toolroll.learning.effects import EFFECTS, Change
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import Report
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

MessageForm: TypeAlias = Literal["kept", "hashed", "dropped"]

LONGEST_WORD = 128  # characters of names in a context, which are in keys of indexes
_FORM = 1  # of a record in the journal
_TOOL = struct.Struct("<QQQd")  # a tool's three keys, and its share of calls
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_NO_NUL = {0: "\u2400"} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def word(text: str, longest: int = LONGEST_WORD) -> str:
    """The text as both databases can store it; a longer one is cut and ends in a digest."""
    text = storable(text)
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: longest - 17]}…{digest}"


def storable(text: str) -> str:
    """The text with NUL and unpaired surrogates replaced, which neither database can store."""
    return text if text.isprintable() else text.translate(_NO_NUL)


def instant(seconds: float) -> datetime:
    """Seconds since the epoch as a datetime in UTC."""
    return datetime.fromtimestamp(round(seconds, 6), timezone.utc)


def seconds(at: datetime) -> float:
    """A datetime as seconds since the epoch."""
    return at.timestamp()


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedReport:
    """A report and the exposure that it is about: everything that is needed to count it.

    Attributes:
        at: when it was received, in seconds since the epoch.
    """

    exposure: Exposure
    report: Report
    at: float

    def to_bytes(self) -> bytes:
        """For the journal: JSON with packed numbers, because the reporting thread waits for it."""
        exposure, report, vector = self.exposure, self.report, self.exposure.vector
        packed = pack_tools((*exposure.shown, *report.found))
        return _ENCODE(
            {
                "form": _FORM,
                "at": self.at,
                "event": [
                    exposure.event_id,
                    exposure.org,
                    exposure.at,
                    exposure.reporter,
                    exposure.page,
                    exposure.tier,
                    exposure.category,
                    exposure.space,
                ],
                "shown": [tool.name for tool in exposure.shown],
                "found": [tool.name for tool in report.found],
                "said": [[entry.name, entry.kind] for entry in report.entries],
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
        exposure = Exposure(
            event_id,
            org,
            float(at),
            reporter,
            page,
            tier,
            category,
            tools[:count],
            None if vector is None else np.frombuffer(b64decode(vector, validate=True), "<f2"),
            space,
        )
        report = Report.from_record(
            {"event_id": event_id, "entries": record["said"], "found": [], "is_final": record["final"]}
        )
        return cls(exposure, replace(report, found=tools[count:]), float(record["at"]))


def pack_tools(tools: Iterable[ShownTool]) -> bytes:
    """The tools without their names: three keys and the expected calls of each."""
    return b"".join([_TOOL.pack(*tool.key, tool.expected) for tool in tools])


def unpack_tools(names: Sequence[str], packed: bytes) -> tuple[ShownTool, ...]:
    """Reverses `pack_tools`. Raises ValueError if the bytes are not those of so many tools."""
    if len(packed) != len(names) * _TOOL.size:
        raise ValueError(f"has {len(packed)} bytes of keys for {len(names)} tools")
    return tuple(
        ShownTool(name, ToolKey(arm, intent, group), expected)
        for name, (arm, intent, group, expected) in zip(names, _TOOL.iter_unpack(packed), strict=True)
    )


def normal(exposure: Exposure) -> Exposure:
    """The exposure as the store returns it, so that it counts alike in every process."""
    return replace(
        exposure,
        at=round(exposure.at, 6),
        reporter=word(exposure.reporter),
        page=word(exposure.page),
        tier=word(exposure.tier),
        category=word(exposure.category),
        vector=None if exposure.vector is None else np.ascontiguousarray(exposure.vector, "<f2"),
    )


# Events.


@dataclass(frozen=True, slots=True)
class Messages:
    """How to store messages.

    Attributes:
        form: "kept", "hashed" or "dropped". The same text has the same hash; without the key, nobody can
            tell the text from it.
        secret: the key of the hashes.
    """

    form: MessageForm = "kept"
    secret: bytes = b""

    def of(self, text: str) -> str:
        """The message as it is stored."""
        if self.form == "kept":
            return text if text.isprintable() else text.translate(_NO_NUL)
        if self.form == "hashed":
            return hmac.new(self.secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return ""


def shown_records(exposure: Exposure) -> list[list[Any]]:
    """The tools of an exposure as they stand in the event's row."""
    return [tool.to_record() for tool in exposure.shown]


def exposure_in(row: Any) -> Exposure:
    """The exposure in a row of `selection_events`."""
    return _exposure(row, tuple(map(ShownTool.from_record, row.shown)))


_EXPOSURE = ("event_id", "org", "at", "reporter", "page", "tier", "category", "vector", "space")


def _exposure(row: Any, shown: tuple[ShownTool, ...]) -> Exposure:
    """The exposure in a row of `selection_events` or `outcomes`, with these tools."""
    return Exposure(
        row.event_id,
        row.org,
        seconds(row.at),
        row.reporter,
        row.page,
        row.tier,
        row.category,
        shown,
        None if row.vector is None else np.frombuffer(row.vector, "<f2"),
        row.space,
    )


def summary(settled: EventState) -> tuple[dict[str, str], str | None]:
    """An event's columns `called`, tool → outcome, and `outcome`, the most important one."""
    called: dict[str, str] = {name: said.kind for name, said in settled.said.items()}
    kinds = set(called.values())
    for outcome, signs in _IMPORTANCE:
        if kinds & signs:
            return called, outcome
    return called, "unused" if settled.closed else None


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
    """One row of `outcomes`: the changes that a report made.

    Attributes:
        seq: its number within the organisation.
        step: its number within the event.
        exposure: with all tools that were shown, if the row closes its event; else with those that changed.
        changes: one for each tool that changed.
        closes: whether it closed the event.
        closing_weight: the weight of the event as a whole, if it closes it.
        received_at: in seconds since the epoch.
        voided: whether it no longer counts.
    """

    seq: int
    step: int
    exposure: Exposure
    changes: tuple[Change, ...]
    closes: bool
    closing_weight: float
    received_at: float
    voided: bool = False

    def to_row(self) -> dict[str, Any]:
        """For the store."""
        exposure = self.exposure
        pulls = any(EFFECTS[change.after].pull != EFFECTS[change.before].pull for change in self.changes)
        vector = exposure.vector if pulls else None
        return {
            "org": exposure.org,
            "seq": self.seq,
            "event_id": exposure.event_id,
            "step": self.step,
            "at": instant(exposure.at),
            "received_at": instant(self.received_at),
            "reporter": exposure.reporter,
            "page": exposure.page,
            "tier": exposure.tier,
            "category": exposure.category,
            "entries": self._entries(),
            "closes": self.closes,
            "closing_weight": self.closing_weight,
            "vector": None if vector is None else np.ascontiguousarray(vector, "<f2").tobytes(),
            "space": exposure.space,
            "voided_at": None,
        }

    def _entries(self) -> list[list[Any]]:
        by_name = {change.tool.name: change for change in self.changes}
        shown = {tool.name for tool in self.exposure.shown}
        entries = []
        for tool in self.exposure.shown:
            change = by_name.get(tool.name)
            if change is not None:
                entries.append(_entry(change, True))
            elif self.closes:
                entries.append([*tool.to_record(), None, None, 0.0, True, False])
        for change in self.changes:
            if change.tool.name not in shown:
                entries.append(_entry(change, False))
        return entries

    @classmethod
    def of(cls, row: Any) -> OutcomeRow:
        """From a row of the store."""
        shown, changes = [], []
        for *tool, before, after, weight, was_shown, is_late in row.entries:
            read = ShownTool.from_record(tool)
            if was_shown:
                shown.append(read)
            if after is not None:
                changes.append(Change(read, before, after, weight, is_late))
        return cls(
            row.seq,
            row.step,
            _exposure(row, tuple(shown)),
            tuple(changes),
            row.closes,
            row.closing_weight,
            seconds(row.received_at),
            row.voided_at is not None,
        )


def _entry(change: Change, was_shown: bool) -> list[Any]:
    return [
        *change.tool.to_record(),
        change.before,
        change.after,
        change.weight,
        was_shown,
        change.is_late,
    ]


def outcome_row(
    seq: int, step: int, exposure: Exposure, report: Step, closing_weight: float, received_at: float
) -> OutcomeRow:
    """The row of a report, with the tools' expected calls as they are stored."""
    kept = {tool.name: ShownTool.from_record(tool.to_record()) for tool in exposure.shown}
    changes = tuple(
        change._replace(tool=kept.get(change.tool.name) or ShownTool.from_record(change.tool.to_record()))
        for change in report.changes
    )
    changed = {change.tool.name for change in changes}
    shown = tuple(tool for name, tool in kept.items() if report.closes or name in changed)
    exposure = replace(exposure, shown=shown)
    return OutcomeRow(seq, step, exposure, changes, report.closes, closing_weight, received_at)


def settled_after(rows: Sequence[OutcomeRow]) -> EventState:
    """All reports on an event, from its rows in the order of their steps.

    Voided reports stay known and have no weight: repeating them adds nothing.
    """
    said: dict[str, ReportedOutcome] = {}
    closed = False
    for row in rows:
        for change in row.changes:
            weight = 0.0 if row.voided else change.weight
            said[change.tool.name] = ReportedOutcome(change.after, weight)
        closed = closed or row.closes
    return EventState(said, closed)


def by_event(rows: Sequence[OutcomeRow]) -> Mapping[str, list[OutcomeRow]]:
    """Event → its rows, in the order of their steps."""
    found: dict[str, list[OutcomeRow]] = {}
    for row in sorted(rows, key=lambda row: row.step):
        found.setdefault(row.exposure.event_id, []).append(row)
    return found


def exposure_of_event(database: Database, event_id: str) -> Exposure | None:
    """The exposure of an event; None if the store does not have it.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    table = tables.selection_events
    query = sa.select(*(table.c[name] for name in (*_EXPOSURE, "shown"))).where(table.c.event_id == event_id)
    with database.reading() as connection:
        row = connection.execute(query).first()
    return None if row is None else exposure_in(row)
