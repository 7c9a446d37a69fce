"""Events and reports on their way into the store: nothing acknowledged is lost, nobody waits."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.outcomes import Oracle, dump, eventually, raw_counts, rows_of, said, tool
from toolroll import Context, Tool, Toolroll
from toolroll.errors import InvalidInput, NotFound, StoreUnavailable
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Entry, Report
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.window import Window
from toolroll.registry.events import batch_writer
from toolroll.registry.events import writer as module
from toolroll.registry.events.batch_writer import WrittenBatch
from toolroll.registry.events.details import pack_early, packed_event, tools_of
from toolroll.registry.events.event_row import SelectionOrigin, event_row, seed_of
from toolroll.registry.events.ingest import ingest
from toolroll.registry.events.journal import Journal
from toolroll.registry.events.logged_tools import LoggedTool, LoggedToolReader, ToolNumbers
from toolroll.registry.events.maintenance import delete_old_events, prune, rebuild
from toolroll.registry.events.receipts import message_secret, rotate, signer_of
from toolroll.registry.events.rows import MOST_STEPS, Messages, ReceivedReport
from toolroll.registry.events.writer import WRITE_EVERY_S, EventWriter
from toolroll.registry.keeper import hours
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.selection.selection import Selection

TOOLS = [
    Tool(name, f"{what} for the user")
    for name, what in (
        ("send_email", "Sends an email"),
        ("get_forecast", "Gives the weather forecast"),
        ("play_music", "Plays a song"),
        ("convert_currency", "Converts money"),
    )
]


@pytest.fixture(scope="module")
def roll() -> Toolroll:
    return Toolroll.from_tools(TOOLS, embedder="hashing")


def exposure_of(selection: Selection) -> Exposure:
    context, vector = selection.turn.context, selection.turn.vector
    return Exposure(
        selection.event_id,
        context.org,
        time.time(),
        context.user,
        context.page,
        context.tier,
        "general",
        tuple(map(tool, selection.names)),
        None if vector is None else vector.astype(np.float16),
        selection.catalog.space if vector is not None else "",
    )


@pytest.fixture
def recorder(database: Database, tmp_path: Path) -> Iterator[EventWriter]:
    made = new_recorder(database, tmp_path / "journal")
    yield made
    made.close()


def new_recorder(
    database: Database, journal: Path, messages: Messages | None = Messages(), **options
) -> EventWriter:
    return EventWriter(
        database,
        Journal(journal),
        exposure_of,
        messages=None if messages is None else lambda: messages,
        origin_of=lambda selection: SelectionOrigin(7, 3, "default", "test", "b"),
        **options,
    )


def report(selection: Selection, **kinds: str) -> Report:
    return Report(selection.event_id, tuple(Entry(name, kind) for name, kind in kinds.items()))  # type: ignore[arg-type]


def test_a_selection_becomes_a_row_with_all_that_it_was_decided_by(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    context = Context(
        org="acme",
        user="ann",
        roles=("admin",),
        tier="team",
        page="crm",
        session="s1",
        settings={"key": "value"},
    )
    picked = roll.select("What is the weather in Oslo?", context, k=2, sent=("play_music",))
    recorder.note(picked)
    assert recorder.flush(10)
    (row,) = rows_of(database, tables.selection_events)
    assert (row.event_id, row.org, row.reporter, row.session) == (picked.event_id, "acme", "ann", "s1")
    assert (row.message, row.message_form) == ("What is the weather in Oslo?", "kept")
    assert (row.page, row.tier, row.category) == ("crm", "team", "general")
    assert row.context["user"] == "ann" and row.context["roles"] == ["admin"]
    assert "value" not in json.dumps(row.context)
    assert row.limits["k"] == 2 and row.limits["sent"] == ["play_music"]
    assert row.selected == list(picked.names) and [one.name for one in row.shown] == list(picked.names)
    assert {one[0] for one in row.candidates} <= {one.name for one in TOOLS}
    assert len(row.candidates) == len(TOOLS)
    scores = [one[1] for one in row.candidates]
    assert scores == sorted(scores, reverse=True)
    assert seed_of(row.seed) == picked.turn.seed
    assert row.latency_us > 0 and row.timings["total"] == pytest.approx(row.latency_us, abs=0.01)
    assert (row.tokens_selected, row.tokens_total) == (picked.tokens.selected, picked.tokens.total)
    assert row.catalog_revision == picked.catalog_revision
    assert (row.registry_revision, row.learned_revision) == (7, 3)
    assert (row.profile, row.experiment, row.variant) == ("default", "test", "b")
    assert picked.turn.vector is not None
    assert np.array_equal(np.frombuffer(row.vector, "<f2"), picked.turn.vector.astype(np.float16))
    assert (row.called, row.outcome, row.recorded_at) == (None, None, None)


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_seeds_of_64_bits_come_back(
    database: Database, recorder: EventWriter, roll: Toolroll, seed: int
) -> None:
    picked = roll.select("play a song")
    object.__setattr__(picked.turn, "seed", seed)
    recorder.note(picked)
    assert recorder.flush(10)
    assert seed_of(rows_of(database, tables.selection_events)[0].seed) == seed


def test_a_message_is_hashed_or_dropped_where_that_is_asked(
    database: Database, tmp_path: Path, roll: Toolroll
) -> None:
    secret = message_secret(database)
    assert message_secret(database) == secret and len(secret) == 32
    for at, form in enumerate(("hashed", "hashed", "dropped")):
        recorder = new_recorder(database, tmp_path / str(at), Messages(form, secret))  # type: ignore[arg-type]
        recorder.note(roll.select("my password is swordfish", history=["I am Ann", "I forgot it"]))
        assert recorder.flush(10)
        recorder.close()
    texts = [(row.message_form, row.message) for row in rows_of(database, tables.selection_events)]
    hashed = {text for form, text in texts if form == "hashed"}
    assert len(hashed) == 1 and ("dropped", "") in texts
    with database.reading() as connection:
        everything = repr(connection.execute(sa.select(tables.selection_events)).all())
    assert "swordfish" not in everything and "forgot" not in everything


def test_without_events_outcomes_are_recorded_all_the_same(
    database: Database, tmp_path: Path, roll: Toolroll
) -> None:
    recorder = new_recorder(database, tmp_path / "journal", None)
    picked = roll.select("play a song")
    recorder.note(picked)
    recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
    assert recorder.flush(10)
    recorder.close()
    assert rows_of(database, tables.selection_events) == []
    assert raw_counts(database)["", "play_music"] == (1, 1, 1)


def test_words_that_no_database_keeps_do_not_stop_the_others(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    odd = ["nul \0 here", "half \ud800 a pair", "x" * 20_000, "\u202egnirts", ""]
    for text in odd:
        recorder.note(roll.select(text, Context(user=text[:300], page=text[:3_000], session=text[:300])))
    recorder.note(roll.select("play", Context(org="nul \0 here")))  # no organisation can be called that
    assert recorder.flush(10)
    rows = rows_of(database, tables.selection_events)
    assert len(rows) == len(odd) and recorder.counts.dropped == 1
    assert all(len(row.page) <= 128 for row in rows)
    picked = roll.select("play", Context(org="nul \0 here"))
    with pytest.raises(InvalidInput, match="NUL"):
        recorder.record(exposure_of(picked), report(picked))


def test_what_came_of_an_event_stands_in_its_row_whichever_comes_first(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    kinds = {"a": "succeeded", "b": "failed", "c": "corrected", "d": "called"}
    for kind in kinds.values():
        picked = roll.select("play a song")
        recorder.note(picked)
        recorder.record(exposure_of(picked), report(picked, play_music=kind))
    unused = roll.select("play a song")
    recorder.note(unused)
    recorder.record(exposure_of(unused), report(unused))
    assert recorder.flush(10)
    before = roll.select("play a song")
    recorder.record(exposure_of(before), report(before, play_music="failed"))
    assert recorder.flush(10)
    recorder.note(before)
    unheard = roll.select("play a song")
    recorder.note(unheard)
    assert recorder.flush(10)
    rows = {row.event_id: row for row in rows_of(database, tables.selection_events)}
    assert sorted(str(row.outcome) for row in rows.values()) == sorted(
        [*kinds.values(), "unused", "failed", "None"]
    )
    assert rows[before.event_id].called == {"play_music": "failed"}
    assert rows[before.event_id].recorded_at is not None
    assert rows[unheard.event_id].called is None and rows[unused.event_id].called == {}


def test_a_report_without_the_messages_vector_finds_it_in_the_events_row(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    picked = roll.select("play a song")
    recorder.note(picked)
    assert recorder.flush(10)
    signer = signer_of(database)
    seen = signer.read(signer.sign(exposure_of(picked)), time.time())
    assert seen.vector is None
    recorder.record(seen, report(picked, play_music="succeeded"))
    assert recorder.flush(10)
    (row,) = rows_of(database, tables.outcomes)
    assert picked.turn.vector is not None
    assert row.vector == picked.turn.vector.astype("<f2").tobytes() and row.space == picked.catalog.space


def test_an_event_is_found_by_its_id_here_and_in_other_processes(
    database: Database, recorder: EventWriter, roll: Toolroll, tmp_path: Path
) -> None:
    picked = roll.select("play a song", Context(org="acme"))
    recorder.note(picked)
    assert recorder.exposure(picked.event_id).shown == exposure_of(picked).shown  # at once
    assert recorder.flush(10)
    other = new_recorder(database, tmp_path / "other")
    assert other.exposure(picked.event_id, "acme").shown == exposure_of(picked).shown
    for one in (recorder, other):
        with pytest.raises(NotFound, match="not known here"):
            one.exposure(picked.event_id, "umbrella")
        with pytest.raises(NotFound, match="not known here"):
            one.exposure("f" * 24)
    other.close()


def test_a_tool_that_was_not_shown_is_refused_before_anything_is_written(
    recorder: EventWriter, roll: Toolroll, tmp_path: Path
) -> None:
    picked = roll.select("play a song", k=1)
    with pytest.raises(InvalidInput, match="was not shown"):
        recorder.record(exposure_of(picked), report(picked, tank="succeeded"))
    assert not (tmp_path / "journal").exists()


def test_a_report_that_is_repeated_is_written_again_and_says_nothing_new(
    recorder: EventWriter, roll: Toolroll, tmp_path: Path
) -> None:
    picked = roll.select("play a song")
    assert len(recorder.record(exposure_of(picked), report(picked, play_music="succeeded")).changes) == 1
    size = recorder._journal._written
    assert len(recorder.record(exposure_of(picked), report(picked, play_music="succeeded")).changes) == 0
    assert recorder._journal._written > size  # another process may have said something else meanwhile
    assert len(recorder.record(exposure_of(picked), report(picked, play_music="failed")).changes) == 1


class Away:
    """A database that can be away."""

    def __init__(self, database: Database) -> None:
        self._database, self.is_away, self.tries = database, False, 0

    def __getattr__(self, name: str):
        if name in ("recording", "reading"):
            self.tries += 1
            if self.is_away:
                raise StoreUnavailable("the database is away")
        return getattr(self._database, name)


def test_while_the_database_is_away_reports_are_taken_and_later_drained_by_themselves(
    database: Database, roll: Toolroll, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = Away(database)
    away.is_away = True
    recorder = new_recorder(away, tmp_path / "journal")  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "toolroll"):
        for _ in range(40):
            picked = roll.select("play a song")
            recorder.note(picked)
            recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
        eventually(lambda: recorder.health()["failing"])
        assert not recorder.flush(0.3)
        health = recorder.health()
        assert "is away" in health["failing"]
        assert health["events"]["waiting"] == 40 and health["outcomes"]["waiting_bytes"] > 10_000
        assert health["outcomes"]["waiting_s"] > 0.2
        away.is_away = False
        assert recorder.flush(20)
    assert raw_counts(database)["", "play_music"] == (40, 40, 40)
    assert recorder.health()["failing"] is None and recorder.health()["outcomes"]["waiting_s"] == 0
    logged = [record.message for record in caplog.records if record.message.startswith("outcomes: ")]
    assert logged == [  # once each
        "outcomes: failed, will try again: the database is away",
        "outcomes: succeeded again",
    ]
    recorder.close()


def test_closing_while_the_database_is_away_leaves_the_reports_to_the_next_process(
    database: Database, roll: Toolroll, tmp_path: Path
) -> None:
    away = Away(database)
    away.is_away = True
    first = new_recorder(away, tmp_path / "journal")  # type: ignore[arg-type]
    picked = roll.select("play a song")
    first.record(exposure_of(picked), report(picked, play_music="succeeded"))
    first.close(timeout_s=0.2)
    assert raw_counts(database) == {}
    second = new_recorder(database, tmp_path / "journal")
    second.take_over()
    eventually(lambda: raw_counts(database) != {})
    assert raw_counts(database)["", "play_music"] == (1, 1, 1)
    eventually(lambda: not list((tmp_path / "journal").iterdir()))
    second.close()


def test_a_batch_whose_commit_nobody_heard_of_counts_once(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = iter([True, True, False])

    def committed_but(*arguments, **options):
        done = ingest(*arguments, **options)
        if next(deaf, False):
            raise StoreUnavailable("the connection is lost")
        return done

    monkeypatch.setattr(batch_writer, "ingest", committed_but)
    recorder = new_recorder(database, tmp_path / "journal")
    for _ in range(10):
        picked = roll.select("play a song")
        recorder.note(picked)
        recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
    assert recorder.flush(20)
    recorder.close()
    assert raw_counts(database)["", "play_music"] == (10, 10, 10)
    assert len(rows_of(database, tables.selection_events)) == 10


def test_what_the_store_will_never_take_is_set_aside_and_the_others_get_through(
    database: Database, roll: Toolroll, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path / "journal")
    picked = [roll.select("play a song") for _ in range(9)]
    for at, one in enumerate(picked):
        received = ReceivedReport(exposure_of(one), report(one, play_music="succeeded"), time.time())
        data = received.to_bytes()
        if at == 3:
            data = b"{}"
        if at == 4:
            data = data.replace(b'"play_music","succeeded"', b'"play_music","exploded"')
        if at == 5:
            data = data.replace(b'"general"', b"7")
        journal.append(data)
    journal._alive.close()  # type: ignore[union-attr]  # its process is gone
    with caplog.at_level(logging.ERROR, "toolroll"):
        recorder = new_recorder(database, tmp_path / "journal")
        recorder.take_over()
        eventually(lambda: recorder.counts.refused == 3)
        eventually(lambda: raw_counts(database).get(("", "play_music")) == (6, 6, 6))
    lines = (tmp_path / "journal" / "refused.jsonl").read_text().splitlines()
    assert len(lines) == 3 and all({"error", "record"} == set(json.loads(line)) for line in lines)
    recorder.close()


def test_more_events_than_can_be_kept_are_dropped_and_counted_but_no_outcome_is(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 65)
    monkeypatch.setattr(module, "MOST_ROWS", 20)
    away = Away(database)
    away.is_away = True
    recorder = new_recorder(away, tmp_path / "journal")  # type: ignore[arg-type]
    for _ in range(300):
        picked = roll.select("play a song")
        recorder.note(picked)
        recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
    eventually(lambda: not recorder._queue)
    assert recorder.counts.dropped >= 300 - 65 - 20
    away.is_away = False
    assert recorder.flush(20)
    recorder.close()
    assert raw_counts(database)["", "play_music"] == (300, 300, 300)
    rows = len(rows_of(database, tables.selection_events))
    assert rows >= 20 and rows + recorder.counts.dropped == 300


class SlowBatches(batch_writer.BatchWriter):
    """Takes a batch only when it is told to."""

    most_events = 8

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.turns = threading.Semaphore(0)

    def write(self, events: Sequence[bytes], records: Sequence[bytes], now: float | None) -> Any:
        if events:
            self.turns.acquire()
        return super().write(events, records, now)


def test_events_that_are_dropped_are_a_fair_sample_and_the_others_stand_for_them(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty events come for each eight that the store takes: whatever comes first must not count for more."""
    monkeypatch.setattr(module, "MOST_ROWS", 96)
    monkeypatch.setattr(module, "WRITE_EVERY_S", 0.0)
    monkeypatch.setattr(module, "DELIVERED_WITHIN_S", 0.0)
    slow = SlowBatches(database)
    recorder = new_recorder(database, tmp_path / "journal", batches=lambda: slow)
    picked = roll.select("play a song")
    turns, of_turn = 100, 20
    for number in range(turns * of_turn):
        one = Selection.of(
            picked.candidates,
            picked.catalog,
            picked.turn,
            (),
            picked.timings,
            f"{number:08d}{random.Random(number).getrandbits(64):016x}",
        )
        recorder.note(one)
        if number % of_turn == of_turn - 1:
            eventually(lambda: not recorder._queue)
            slow.turns.release()
            eventually(lambda turn=1 + number // of_turn: recorder.counts.written >= 8 * min(turn, 90) - 8)
    slow.turns.release(1_000)
    assert recorder.flush(20)
    recorder.close()
    rows = rows_of(database, tables.selection_events)
    assert len(rows) + recorder.counts.dropped == turns * of_turn and recorder.counts.dropped > 800
    assert len({row.share for row in rows}) > 1
    for half in range(2):
        mine = [row for row in rows if int(row.event_id[:8]) // (turns * of_turn // 2) == half]
        assert sum(1 / row.share for row in mine) == pytest.approx(turns * of_turn / 2, rel=0.2)
    assert metrics(database, Window())["total"] == pytest.approx(turns * of_turn, rel=0.2)


class Makers:
    """The threads that made rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        real = module.event_row

        def noting(*arguments: Any, **options: Any) -> Any:
            self.names.append(threading.current_thread().name)
            return real(*arguments, **options)

        monkeypatch.setattr(module, "event_row", noting)


def test_an_event_loop_makes_the_rows_of_its_selections_and_no_thread_competes_with_it(
    database: Database, recorder: EventWriter, roll: Toolroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers = Makers(monkeypatch)

    async def select() -> None:
        for at in range(30):
            recorder.note(roll.select(f"play song {at}"))
        while len(makers.names) < 30 and not late.is_set():
            await asyncio.sleep(0.01)

    late = threading.Event()
    timer = threading.Timer(20, late.set)
    timer.start()
    recorder.note(roll.select("play a song"))  # by the thread, which also learns the key of digests
    assert recorder.flush(10)
    asyncio.run(select())
    timer.cancel()
    assert makers.names == ["toolroll-journal", *["MainThread"] * 30]
    assert recorder.flush(10) and len(rows_of(database, tables.selection_events)) == 31


class CountingLoop(asyncio.SelectorEventLoop):
    """Attributes: timers (how many were set)."""

    timers = 0

    def call_later(self, *arguments: Any, **options: Any) -> Any:
        self.timers += 1
        return super().call_later(*arguments, **options)


def test_several_event_loops_have_one_timer_each(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    recorder.note(roll.select("play a song"))
    assert recorder.flush(10)
    loops = [CountingLoop(), CountingLoop()]
    threads = [threading.Thread(target=loop.run_forever) for loop in loops]
    picked = [roll.select(f"play song {at}") for at in range(60)]
    for thread in threads:
        thread.start()
    for at, one in enumerate(picked):
        loops[at % 2].call_soon_threadsafe(recorder.note, one)
    for loop in loops:
        loop.call_soon_threadsafe(loop.stop)  # before any row is made
    for thread, loop in zip(threads, loops, strict=True):
        thread.join()
        assert loop.timers <= 5  # one, or some more if this took so long that the first was due
        loop.close()
    assert recorder.flush(10) and len(rows_of(database, tables.selection_events)) == 61


def test_what_an_event_loop_has_left_is_written_by_the_thread_and_by_the_next_loop(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    async def select() -> None:
        recorder.note(roll.select("play a song"))

    async def select_and_wait() -> bool:
        await select()
        return recorder.flush(10)  # holds up the loop, so the loop makes no row

    asyncio.run(select())  # ends at once
    eventually(lambda: recorder.counts.written == 1)
    asyncio.run(select())
    assert asyncio.run(select_and_wait())
    assert len(rows_of(database, tables.selection_events)) == 3


def test_rows_that_were_packed_before_a_batch_failed_get_numbers_that_exist(
    database: Database, roll: Toolroll
) -> None:
    """The numbers of a transaction that was rolled back may later belong to other tools."""
    numbers = ToolNumbers()
    row = event_row(picked := roll.select("play a song"), exposure_of(picked), SelectionOrigin(), Messages())
    with pytest.raises(ZeroDivisionError), database.recording() as connection:
        wrong = numbers.of(connection, tools_of(row))
        pack_early(row, wrong)
        raise ZeroDivisionError
    numbers.forget()
    with database.recording() as connection:
        numbers.of(connection, [LoggedTool("another", 1, 2, 3)])  # takes the first number
        right = numbers.of(connection, tools_of(row))
        assert right is numbers.known and right is not wrong
        assert packed_event(row, right) == packed_event({**row, "packed": None}, right)
        assert packed_event(row, right) != packed_event(row, wrong)
    pack_early(row, right)
    assert packed_event(row, right) == packed_event({**row, "packed": None}, right)


def test_threads_record_and_everything_counts_once(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    oracle = Oracle()
    made = [roll.select("play a song", Context(user=f"u{at}")) for at in range(200)]
    reports = [said(exposure_of(one), {"play_music": "succeeded"}) for one in made]
    for one in reports:
        oracle.take(one)

    def work(part: int) -> None:
        for at in (*range(part, 200, 8), *range(part, 40, 8)):  # some of them twice
            recorder.record(reports[at].exposure, reports[at].report)

    threads = [threading.Thread(target=work, args=(part % 8,)) for part in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.flush(20)
    assert raw_counts(database) == oracle.counts()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_records_by_itself(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    picked = [roll.select("play a song") for _ in range(3)]
    recorder.record(exposure_of(picked[0]), report(picked[0], play_music="succeeded"))
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            recorder.note(picked[1])
            recorder.record(exposure_of(picked[1]), report(picked[1], play_music="failed"))
            status = 0 if recorder.flush(20) else 2
            recorder.close()
        finally:
            os._exit(status)
    recorder.record(exposure_of(picked[2]), report(picked[2], play_music="succeeded"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert recorder.flush(20)
    assert raw_counts(database)["", "play_music"] == (3, 3, 2)
    assert [row.event_id for row in rows_of(database, tables.selection_events)] == [picked[1].event_id]


def test_old_events_are_cleared_away_and_what_was_learnt_stays(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    picked = [roll.select("play a song", Context(org=org)) for org in ("acme", "acme", "umbrella")]
    for one in picked:
        recorder.note(one)
        recorder.record(exposure_of(one), report(one, play_music="succeeded"))
    assert recorder.flush(10)
    assert prune(database, events_s=3_600) == 0
    assert prune(database, events_s=0, org="acme") == 2
    assert [row.org for row in rows_of(database, tables.selection_events)] == ["umbrella"]
    assert raw_counts(database)["acme", "play_music"] == (2, 2, 2)
    with pytest.raises(InvalidInput, match="age"):
        prune(database, events_s=-1)


def test_keys_of_receipts_are_the_same_for_all_and_may_be_replaced(
    new_database_url: Callable[[str], str], database: Database, database_url: str, roll: Toolroll
) -> None:
    other = Database.open(database_url, create=False, migrate=False)
    elsewhere = Database.open(new_database_url("sqlite"), create=False, migrate=False)
    receipt = signer_of(database).sign(exposure_of(roll.select("play a song")))
    signer_of(other).read(receipt, time.time())
    rotate(other)
    newer = signer_of(database)
    newer.read(receipt, time.time())
    assert newer.sign(exposure_of(roll.select("x"))).split(".")[1] != receipt.split(".")[1]
    with pytest.raises(PermissionError, match="not signed here"):
        signer_of(elsewhere).read(receipt, time.time())
    rotate(database, lifetime_s=-1)  # the first was retired for longer than that
    with pytest.raises(PermissionError, match="not signed here"):
        signer_of(other).read(receipt, time.time())
    other.close()
    elsewhere.close()


@pytest.mark.skipif(sys.platform == "win32", reason="threads are named elsewhere there")
def test_who_neither_selects_nor_records_has_no_threads(database: Database, tmp_path: Path) -> None:
    recorder = new_recorder(database, tmp_path / "journal")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("toolroll-outcomes")]
    assert recorder.flush(0)
    recorder.take_over()
    assert not recorder._writer.is_started and not recorder._preparer.is_started
    recorder.close()


# The log is bounded.


def test_an_event_that_sampling_left_out_is_logged_once_somebody_reports_on_it(
    database: Database, roll: Toolroll, tmp_path: Path
) -> None:
    recorder = new_recorder(database, tmp_path / "journal", sample=0.2)
    picked = [roll.select("play a song", Context(user=f"u{at}")) for at in range(200)]
    for one in picked:
        recorder.note(one)
    assert recorder.flush(10)
    logged = {row.event_id: row for row in rows_of(database, tables.selection_events)}
    assert 10 < len(logged) < 80  # 40, plus or minus 7 standard errors
    assert {row.share for row in logged.values()} == {0.2}
    assert recorder.health()["events"]["sampled_out"] == 200 - len(logged)

    first, second, third = [one for one in picked if one.event_id not in logged][:3]
    known = next(one for one in picked if one.event_id in logged)
    signer = signer_of(database)
    recorder.record(exposure_of(first), report(first, play_music="succeeded"), selection=first)
    by_id = recorder.exposure(second.event_id)
    recorder.record(by_id, report(second, play_music="failed"))
    by_receipt = signer.read(signer.sign(exposure_of(third)), time.time())
    recorder.record(by_receipt, report(third, play_music="succeeded"))
    recorder.record(exposure_of(known), report(known, play_music="succeeded"), selection=known)
    assert recorder.flush(10)
    rows = {row.event_id: row for row in rows_of(database, tables.selection_events)}
    reported = [rows[one.event_id] for one in (first, second, third, known)]
    assert [row.outcome for row in reported] == ["succeeded", "failed", "succeeded", "succeeded"]
    assert [row.share for row in reported] == [1.0] * 4  # each of them stands for itself alone
    assert len(rows) == len(logged) + 3
    assert recorder.health()["events"]["sampled_out"] == 200 - len(rows)
    assert raw_counts(database)["", "play_music"] == (4, 4, 3)
    recorder.close()


def test_a_report_from_another_process_counts_though_its_event_was_left_out(
    database: Database, roll: Toolroll, tmp_path: Path
) -> None:
    recorder = new_recorder(database, tmp_path / "journal", sample=0.01)
    signer = signer_of(database)
    picked = [roll.select("play a song") for _ in range(100)]
    for one in picked:
        recorder.note(one)
    assert recorder.flush(10)
    recorder.close()
    other = new_recorder(database, tmp_path / "other", sample=0.01)
    for one in picked:
        seen = signer.read(signer.sign(exposure_of(one)), time.time())
        other.record(seen, report(one, play_music="succeeded"))
    assert other.flush(10)
    other.close()
    assert raw_counts(database)["", "play_music"] == (100, 100, 100)
    rows = rows_of(database, tables.selection_events)
    assert len(rows) < 20 and {row.share for row in rows} <= {0.01}  # and each stands for a hundred
    assert all(row.outcome == "succeeded" for row in rows)


def test_old_events_are_pruned_in_the_background_and_what_was_learnt_stays(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PRUNED", 2)
    first = new_recorder(database, tmp_path / "first")
    picked = [roll.select("play a song", Context(org="acme")) for _ in range(7)]
    for one in picked:
        first.note(one)
        first.record(exposure_of(one), report(one, play_music="succeeded"))
    assert first.flush(10)
    first.close()
    table = tables.selection_events
    old = [one.event_id for one in picked[:5]]
    with database.recording() as connection:
        month_ago = datetime.now(timezone.utc) - timedelta(days=31)
        connection.execute(sa.update(table).where(table.c.event_id.in_(old)).values(at=month_ago))
        hours.mark(connection, [("acme", month_ago)])
    then = Window("acme", until=month_ago + timedelta(days=1))
    assert metrics(database, then)["total"] == 5
    before = dump(database, "acme"), dump(database, "acme", tables.outcomes)
    others = [new_recorder(database, tmp_path / f"{at}", events_s=30 * 86_400.0) for at in range(3)]
    for one in others:  # each with something to write, which waits for none of this
        late = roll.select("play a song", Context(org="umbrella"))
        one.record(exposure_of(late), report(late, play_music="failed"))
    eventually(lambda: sum(one.counts.pruned for one in others) == 5)
    assert all(one.flush(10) for one in others)
    left = {row.event_id for row in rows_of(database, table)}
    assert left == {one.event_id for one in picked[5:]}
    assert (dump(database, "acme"), dump(database, "acme", tables.outcomes)) == before
    assert rebuild(database, ["acme"]) == {"acme": 0}  # the outcomes alone make the same statistics
    assert metrics(database, then)["total"] == 5
    assert all(one.health()["failing"] is None for one in others)
    eventually(lambda: all(one.health()["events"]["stored_bytes"] for one in others))
    for one in others:
        one.close()


def test_reports_are_written_though_old_events_cannot_be_pruned(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> int:
        raise StoreUnavailable("another writer holds the lock")

    monkeypatch.setattr(module, "delete_old_events", locked)
    recorder = new_recorder(database, tmp_path / "journal", events_s=86_400.0)
    picked = roll.select("play a song")
    recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
    assert recorder.flush(10)
    assert raw_counts(database)["", "play_music"] == (1, 1, 1)
    assert recorder.health()["failing"] is None
    recorder.close()


@pytest.mark.db
def test_pruning_does_not_wait_for_an_event_that_is_being_changed(
    new_database_url: Callable[[str], str], tmp_path: Path, roll: Toolroll
) -> None:
    database = Database.open(new_database_url("postgresql"), create=False, migrate=False)
    recorder = new_recorder(database, tmp_path / "journal")
    picked = [roll.select("play a song") for _ in range(2)]
    for one in picked:
        recorder.note(one)
    assert recorder.flush(10)
    table, later = tables.selection_events, datetime.now(timezone.utc) + timedelta(hours=1)
    with database.recording() as connection:
        mine = table.c.event_id == picked[0].event_id
        connection.execute(sa.update(table).where(mine).values(outcome="failed"))
        assert delete_old_events(database, later, 10) == 1
    assert [row.event_id for row in rows_of(database, table)] == [picked[0].event_id]
    assert delete_old_events(database, later, 10) == 1
    recorder.close()
    database.close()


def test_one_event_takes_a_limited_number_of_different_reports(
    database: Database, recorder: EventWriter, roll: Toolroll, tmp_path: Path
) -> None:
    picked = roll.select("play a song")
    recorder.note(picked)
    exposure = exposure_of(picked)
    most = MOST_STEPS + len(exposure.shown)
    said_last = ""
    for at in range(most):
        said_last = ("succeeded", "failed")[at % 2]
        recorder.record(exposure, report(picked, play_music=said_last))
    size = recorder._journal._written
    for kind in ("called", "corrected"):
        with pytest.raises(InvalidInput, match=f"has had {most} different reports"):
            recorder.record(exposure, report(picked, play_music=kind))
    assert recorder._journal._written == size
    assert not recorder.record(exposure, report(picked, play_music=said_last)).changes  # a repetition
    assert recorder.flush(10)
    other = new_recorder(database, tmp_path / "other")  # knows nothing of the reports so far
    other.record(exposure, report(picked, play_music="corrected"))
    assert other.flush(10)
    assert other.counts.refused == 1 and (tmp_path / "other" / "refused.jsonl").exists()
    other.close()
    assert len(rows_of(database, tables.outcomes)) == most
    (row,) = rows_of(database, tables.selection_events)
    assert row.outcome == said_last


def test_an_event_with_many_partial_reports_still_closes(
    database: Database, recorder: EventWriter, roll: Toolroll
) -> None:
    picked = roll.select("play a song")
    exposure = exposure_of(picked)
    for at in range(MOST_STEPS + len(exposure.shown)):
        kind = ("succeeded", "failed")[at % 2]
        recorder.record(exposure, Report(picked.event_id, (Entry("play_music", kind),), is_final=False))  # type: ignore[arg-type]
    recorder.record(exposure, report(picked))
    assert recorder.flush(10)
    assert recorder.counts.refused == 0
    assert raw_counts(database)["", "play_music"] == (1, 1, 0)


def test_numbers_of_tools_are_read_again_after_a_backup_was_restored(database: Database) -> None:
    numbers = ToolNumbers()
    one, two, three = (LoggedTool(name, 1, 2**64 - 1, 0) for name in ("one", "two", "three"))
    with database.recording() as connection:
        first = dict(numbers.of(connection, [one, two]))
    table = tables.logged_tools
    with database.recording() as connection:  # a backup with fewer rows, and another process behind it
        connection.execute(sa.delete(table))
        for number, name in ((first[one], "three"), (first[two], "one")):
            values = {"number": number, "name": name, "arm": 1, "intent": -1, "tool_group": 0, "stamp": 7}
            connection.execute(sa.insert(table).values(values))
    with database.recording() as connection:
        again = numbers.of(connection, [one, three])
        assert (again[three], again[one]) == (first[one], first[two])
        reader = LoggedToolReader(connection)
        reader.read([again[one]])
        assert reader[again[one]] == one


def test_a_writer_that_waits_for_others_writes_less_often(
    recorder: EventWriter, roll: Toolroll, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, changed = recorder._batches.write, {"waited_s": 0.0}

    def contended(*arguments: object) -> WrittenBatch:
        return real(*arguments)._replace(**changed)  # type: ignore[arg-type]

    monkeypatch.setattr(recorder._batches, "write", contended)
    for waited_s, pause_s in ((0.05, 0.5), (0.001, WRITE_EVERY_S), (10.0, 30.0)):
        changed["waited_s"] = waited_s
        recorder.note(roll.select("What is the weather in Oslo?", k=2))
        assert recorder.flush(20)  # which waits for no pause
        assert recorder._writer.batch_s == pytest.approx(pause_s)
