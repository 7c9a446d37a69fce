"""Records and rows: what was written comes back as it was."""

from __future__ import annotations

import json
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.learning.deduplication import NEW_EVENT, EventState, ReportedOutcome, deduplicate
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import KINDS, NOT_SHOWN, Entry, Report
from toolroll.model.identity import ToolKey
from toolroll.registry.events.details import EntryReader
from toolroll.registry.events.logged_tools import LoggedTool
from toolroll.registry.events.rows import (
    LONGEST_WORD,
    Messages,
    OutcomeRow,
    ReceivedReport,
    instant,
    normal,
    outcome_row,
    outcome_rows,
    seconds,
    settled_after,
    summary,
    word,
)

keys = st.integers(0, 2**64 - 1)
names = st.text(min_size=1, max_size=12)
shares = st.floats(0, 1)
times = st.floats(1e9, 4e9)
everything = st.text(st.characters(), max_size=300)  # half surrogates too


@st.composite
def exposures(draw: st.DrawFn) -> Exposure:
    shown = draw(st.lists(names, max_size=5, unique=True))
    vector = draw(st.one_of(st.none(), st.lists(st.floats(-1, 1, width=16), min_size=4, max_size=4)))
    return Exposure(
        draw(names),
        draw(names),
        draw(times),
        draw(everything),
        draw(everything),
        draw(everything),
        draw(everything),
        tuple(ShownTool(name, ToolKey(draw(keys), draw(keys), draw(keys)), draw(shares)) for name in shown),
        None if vector is None else np.array(vector, "<f2"),
        "hash@1" if vector is not None else "",
    )


@st.composite
def reports(draw: st.DrawFn, exposure: Exposure) -> Report:
    shown = [tool.name for tool in exposure.shown]
    kinds = sorted(KINDS - NOT_SHOWN)
    entries = [Entry(name, draw(st.sampled_from(kinds))) for name in shown if draw(st.booleans())]  # type: ignore[arg-type]
    found = [name for name in draw(st.lists(names, max_size=2, unique=True)) if name not in shown]
    entries += [Entry(name, draw(st.sampled_from(sorted(NOT_SHOWN)))) for name in found]  # type: ignore[arg-type]
    tools = tuple(ShownTool(name, ToolKey(draw(keys), 1, 0), 0.0) for name in found)
    return Report(exposure.event_id, tuple(entries), tools, draw(st.booleans()))


def plain(exposure: Exposure) -> list[object]:
    vector = None if exposure.vector is None else exposure.vector.tobytes()
    return [getattr(exposure, name) for name in Exposure.__slots__ if name != "vector"] + [vector]


@given(st.data())
def test_what_is_put_into_the_outbox_comes_out_as_it_was(data: st.DataObject) -> None:
    exposure = normal(data.draw(exposures()))
    received = ReceivedReport(exposure, data.draw(reports(exposure)), data.draw(times))
    back = ReceivedReport.from_bytes(received.to_bytes())
    assert plain(back.exposure) == plain(exposure)
    assert (back.report, back.at) == (received.report, received.at)


@given(
    st.one_of(
        st.binary(max_size=99), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)
    )
)
def test_what_is_no_record_is_an_error_of_a_known_kind(noise: bytes | str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        ReceivedReport.from_bytes(
            noise if isinstance(noise, bytes) else noise.encode("utf-8", "surrogatepass")
        )


@given(st.data())
def test_a_record_with_another_value_anywhere_is_an_error_or_a_record(data: st.DataObject) -> None:
    exposure = normal(data.draw(exposures()))
    record = json.loads(ReceivedReport(exposure, data.draw(reports(exposure)), 1.5e9).to_bytes())
    field = data.draw(st.sampled_from(sorted(record)))
    record[field] = data.draw(
        st.none() | st.integers() | st.text(max_size=9) | st.lists(st.text(max_size=3), max_size=9)
    )
    with suppress(KeyError, TypeError, ValueError):
        ReceivedReport.from_bytes(json.dumps(record).encode())


@given(st.data())
def test_a_row_of_outcomes_says_what_was_counted(data: st.DataObject) -> None:
    exposure = normal(data.draw(exposures()))
    before = NEW_EVENT
    if data.draw(st.booleans()):
        before = deduplicate(exposure, before, data.draw(reports(exposure))).settled
    step = deduplicate(exposure, before, data.draw(reports(exposure)))
    start = data.draw(st.sampled_from([1, 2**16 - 1, 2**31]))
    made = outcome_row(7, 2, exposure, step, data.draw(st.sampled_from([0.0, 1.0])), 1.5e9)
    number_of = {LoggedTool.of(entry.tool): number for number, entry in enumerate(made.entries(), start)}
    reader = EntryReader(None)  # type: ignore[arg-type]
    reader._tools._known = {number: tool for tool, number in number_of.items()}
    (back,) = outcome_rows(reader, [SimpleNamespace(**made.to_row(number_of))])
    assert (back.seq, back.step, back.closes, back.closing_weight) == (7, 2, step.closes, made.closing_weight)
    assert {change.tool.name: change for change in back.changes} == {
        change.tool.name: change for change in made.changes
    }
    assert back.exposure.shown == made.exposure.shown
    if step.closes:
        assert [tool.name for tool in back.exposure.shown] == [tool.name for tool in exposure.shown]
    assert back.received_at == 1.5e9 and not back.voided


@given(everything)
def test_words_are_such_that_both_databases_keep_them(text: str) -> None:
    kept = word(text)
    kept.encode()  # no half of a pair is left
    assert "\0" not in kept and len(kept) <= LONGEST_WORD
    assert word(kept) == kept


@given(st.text(min_size=LONGEST_WORD + 1, max_size=400), st.text(min_size=LONGEST_WORD + 1, max_size=400))
def test_long_words_that_differ_stay_different(one: str, other: str) -> None:
    assert (word(one) == word(other)) == (word(one, 10_000) == word(other, 10_000))


@given(times)
def test_instants_come_back_to_the_microsecond(at: float) -> None:
    assert seconds(instant(at)) == round(at, 6) == seconds(instant(round(at, 6)))


@given(everything)
def test_hashed_messages_are_alike_where_their_texts_are(text: str) -> None:
    one, other = Messages("hashed", b"a" * 32), Messages("hashed", b"b" * 32)
    assert one.of(text) == one.of(text) != other.of(text)
    assert Messages("dropped").of(text) == ""
    Messages("kept").of(text).encode()


@each_row(
    ("kinds", "closed", "gist"),
    [
        ([], False, None),
        ([], True, "unused"),
        (["called"], True, "called"),
        (["called", "succeeded"], True, "succeeded"),
        (["failed", "succeeded"], False, "failed"),
        (["succeeded", "wanted_failed"], True, "wanted"),
        (["corrected", "meant", "failed"], True, "corrected"),
    ],
)
def test_the_gist_of_an_event(kinds: list[str], closed: bool, gist: str | None) -> None:
    said = {f"t{at}": ReportedOutcome(kind, 1.0) for at, kind in enumerate(kinds)}  # type: ignore[arg-type]
    assert summary(EventState(said, closed)) == {
        "called": {f"t{at}": kind for at, kind in enumerate(kinds)},
        "outcome": gist,
        "durations_ms": None,
    }


def test_what_was_voided_is_known_and_weighs_nothing() -> None:
    exposure = Exposure("e", "o", 1.5e9, "", "", "", "", (ShownTool("a", ToolKey(1, 2, 0), 0.5),))
    step = deduplicate(exposure, NEW_EVENT, Report("e", (Entry("a", "failed"),)))
    row = outcome_row(1, 1, exposure, step, 1.0, 1.5e9)
    voided = OutcomeRow(1, 1, row.exposure, row.changes, True, 1.0, 1.5e9, True)
    assert settled_after([row]) == EventState({"a": ReportedOutcome("failed", 1.0, 1.5e9)}, True)
    assert settled_after([voided]) == EventState({"a": ReportedOutcome("failed", 0.0, 1.5e9)}, True)
