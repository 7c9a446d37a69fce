"""Packs the parts of events and outcomes that no query reads into one column each, and reads them back."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll.learning.exposure import ShownTool, unpack_keys
from toolroll.learning.outcomes import Kind
from toolroll.registry.events.columns import CandidateColumns, float_column, floats, pack, unpack
from toolroll.registry.events.logged_tools import LoggedTool, LoggedToolReader
from toolroll.registry.store import tables
from toolroll.registry.store.errors import DamagedRow
from toolroll.registry.store.row_reader import Row, read_rows
from toolroll.runtime.gil import GilYielder

Numbers = Mapping[LoggedTool, int]

# The fields that are packed into an event's column `details`.
PACKED = ("context", "limits", "timings", "candidates", "shown", "vector")
_DRAWN = 5  # numbers of a candidate
_MICRO = 1e6  # `ShownTool.to_record` rounds shares to six digits
# The numbers of kinds are stored: new kinds go to the end.
_KINDS: tuple[Kind | None, ...] = (None, *get_args(Kind))
_KIND_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
_HEAD = struct.Struct("<cHH")  # width of tool numbers (a small letter if late), tools, shown ones among them
_SHORT = 2**16 - 1  # the largest number of a tool in two bytes
# As `LoggedTool(…)`, whose call in Python would take longer than the rest.
_new_tool: Callable[[Iterable[Any]], LoggedTool] = partial(tuple.__new__, LoggedTool)
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

# Events.


def packed_event(event: Mapping[str, Any], number_of: Numbers) -> dict[str, Any]:
    """Converts an event to a row of `selection_events`. number_of: includes the event's tools."""
    row = {name: value for name, value in event.items() if name not in PACKED}
    return {**row, "details": _details_of(event, number_of)}


def tools_of(event: Mapping[str, Any]) -> list[LoggedTool]:
    """The tools of an event of `event_row`: its candidates, then the shown tools."""
    candidates: CandidateColumns = event["candidates"]
    keys = unpack_keys(candidates.keys)
    ranked = [_new_tool((name, *key)) for name, key in zip(candidates.names, keys, strict=True)]
    return [*ranked, *map(LoggedTool.of, event["shown"])]


def _details_of(event: Mapping[str, Any], number_of: Numbers) -> bytes:
    candidates: CandidateColumns = event["candidates"]
    timings, count = event["timings"], len(candidates.names)
    found = np.array([number_of[tool] for tool in tools_of(event)], "<u4")
    columns = [
        found[:count],
        *map(float_column, candidates.numbers),
        found[count:],
        np.array(list(map(_micro, event["shown"])), "<u4"),
        float_column(np.array(list(timings.values()), np.float64)),
        _vector_column(event["vector"]),
    ]
    text = _ENCODE([event["context"], event["limits"], list(timings)]).encode()
    return pack(columns, text)


class _EventDetails(NamedTuple):
    """The column `details` of an event, in which numbers stand for tools."""

    text: bytes
    tools: list[int]
    drawn: list[list[float | None]]
    shown: list[int]
    shares: list[float]
    times: list[float | None]
    vector: bytes | None

    @classmethod
    def of(cls, data: bytes) -> _EventDetails:
        text, columns = unpack(data)
        tools, shown = columns[0].tolist(), columns[1 + _DRAWN].tolist()
        drawn = [floats(column, len(tools)) for column in columns[1 : 1 + _DRAWN]]
        shares, times, vector = columns[2 + _DRAWN :]
        return cls(
            text,
            tools,
            drawn,
            shown,
            (shares / _MICRO).tolist(),
            floats(times, len(times)),
            vector.tobytes() if len(vector) else None,
        )


def event_vector(details: bytes) -> bytes | None:
    """The message's vector in an event's column `details`: float16, little-endian."""
    return _EventDetails.of(details).vector


class EventReader:
    """Reads whole rows of `selection_events` within one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        """Reads nothing yet."""
        self._tools = LoggedToolReader(connection)

    def __call__(self, rows: Sequence[Row]) -> list[SimpleNamespace]:
        """The rows, with `details` replaced by the fields of `PACKED`."""
        read, yielder = list[_EventDetails](), GilYielder()
        for row in rows:
            read.append(_EventDetails.of(row["details"]))
            yielder()
        self._tools.read({number for each in read for number in (*each.tools, *each.shown)})
        events = []
        for row, each in zip(rows, read, strict=True):
            events.append(self._event(row, each))
            yielder()
        return events

    def _event(self, row: Row, details: _EventDetails) -> SimpleNamespace:
        tools = self._tools
        context, limits, stages = json.loads(details.text)
        times = [round(time or 0.0, 3) for time in details.times]
        fields = {name: value for name, value in row.items() if name != "details"}
        names = [tools[number].name for number in details.tools]
        shown = [
            tools[number].shown(share) for number, share in zip(details.shown, details.shares, strict=True)
        ]
        return SimpleNamespace(
            **fields,
            context=context,
            limits=limits,
            timings=dict(zip(stages, times, strict=True)),
            candidates=[list(each) for each in zip(names, *details.drawn, strict=True)],
            shown=shown,
            vector=details.vector,
        )


def read_events(
    connection: sa.Connection,
    where: Sequence[sa.ColumnElement[bool]],
    order_by: Sequence[sa.ColumnElement[Any]],
    some: int = 500,
) -> Iterator[list[SimpleNamespace]]:
    """The events that meet the conditions, in lists of `some`."""
    table, reader = tables.selection_events, EventReader(connection)
    query = sa.select(table).where(*where).order_by(*order_by)
    streamed = connection.execution_options(yield_per=some).execute(query)
    for rows in streamed.mappings().partitions():
        yield reader(list(map(dict, rows)))


def read_event(connection: sa.Connection, event_id: str, org: str | None = None) -> SimpleNamespace | None:
    """An event, or None if there is none. Raises DamagedRow. org: its organisation, if known."""
    table = tables.selection_events
    mine = [] if org is None else [table.c.org == org]
    for row in read_rows(connection, list(table.c), table.c.event_id == event_id, *mine):
        try:
            return EventReader(connection)([row])[0]
        except (ValueError, TypeError, LookupError) as error:
            raise DamagedRow(f"event {event_id}: its details are damaged: {error}") from error
    return None


# Outcomes.


class OutcomeEntry(NamedTuple):
    """One tool of a row of `outcomes`.

    Attributes:
        before, after: the outcome before and after this report; None if not reported.
        weight: the weight of the change.
        was_shown: whether the selection showed it.
        is_late: whether the report came too late to count.
    """

    tool: ShownTool
    before: Kind | None
    after: Kind | None
    weight: float
    was_shown: bool
    is_late: bool = False

    def to_record(self) -> list[Any]:
        """A list for JSON."""
        record = self.tool.to_record()
        return [*record, self.before, self.after, self.weight, self.was_shown, self.is_late]


def packed_entries(entries: Sequence[OutcomeEntry], vector: bytes | None, number_of: Numbers) -> bytes:
    """Makes the column `details` of an outcome. entries: shown first. number_of: includes all tools."""
    count, shown = len(entries), sum(entry.was_shown for entry in entries)
    found = [number_of[LoggedTool.of(entry.tool)] for entry in entries]
    kinds = bytes([_KIND_NUMBERS[entry.before] << 4 | _KIND_NUMBERS[entry.after] for entry in entries])
    weights = [entry.weight for entry in entries if entry.after is not None]
    wide = "I" if max(found, default=0) > _SHORT else "H"
    numbers_in = struct.pack(
        f"<{count}{wide}{count}I{len(weights)}d", *found, *(_micro(entry.tool) for entry in entries), *weights
    )
    rest = b"" if vector is None else pack([_vector_column(vector)])
    # A report is late for all its tools: a small letter marks it.
    is_late = any(entry.is_late for entry in entries)
    head = _HEAD.pack((wide.lower() if is_late else wide).encode(), count, shown)
    return b"".join((head, kinds, numbers_in, rest))


class EntryReader:
    """Reads the column `details` of rows of `outcomes`, within one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        """Reads nothing yet."""
        self._tools = LoggedToolReader(connection)

    def __call__(self, details: Iterable[bytes]) -> list[tuple[list[OutcomeEntry], bytes | None]]:
        """Each row's entries, and the message's vector if it has one."""
        read, yielder = list[_OutcomeDetails](), GilYielder()
        for data in details:
            read.append(_OutcomeDetails.of(data))
            yielder()
        self._tools.read({number for each in read for number in each.tools})
        found = []
        for each in read:
            found.append((self._entries(each), each.vector))
            yielder()
        return found

    def _entries(self, details: _OutcomeDetails) -> list[OutcomeEntry]:
        tools, weights = self._tools, iter(details.weights)
        found = zip(details.tools, details.shares, details.kinds, strict=True)
        return [
            OutcomeEntry(
                tools[number].shown(share / _MICRO),
                _KINDS[kinds >> 4],
                _KINDS[kinds & 15],
                next(weights) if kinds & 15 else 0.0,
                at < details.shown,
                bool(kinds & 15) and details.is_late,
            )
            for at, (number, share, kinds) in enumerate(found)
        ]


class _OutcomeDetails(NamedTuple):
    """The column `details` of an outcome, in which numbers stand for tools and kinds."""

    tools: tuple[int, ...]
    shares: tuple[int, ...]
    kinds: bytes
    weights: tuple[float, ...]
    shown: int
    vector: bytes | None
    is_late: bool

    @classmethod
    def of(cls, data: bytes) -> _OutcomeDetails:
        wide, count, shown = _HEAD.unpack_from(data)
        at = _HEAD.size + count
        kinds = data[_HEAD.size : at]
        changes = sum(each & 15 != 0 for each in kinds)
        form = f"<{count}{wide.decode().upper()}{count}I{changes}d"
        values = struct.unpack_from(form, data, at)
        rest = data[at + struct.calcsize(form) :]
        vector = unpack(rest)[1][0].tobytes() if rest else None
        weights = values[2 * count :]
        return cls(values[:count], values[count : 2 * count], kinds, weights, shown, vector, wide.islower())


# Columns.


def _micro(tool: ShownTool) -> int:
    """The tool's expected calls in millionths."""
    return round(round(tool.expected, 6) * _MICRO)


def _vector_column(vector: bytes | None) -> npt.NDArray[np.float16]:
    return np.frombuffer(vector or b"", "<f2")
