"""Events and reports on their way into the store: nothing acknowledged is lost, nobody waits."""

from __future__ import annotations

import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.outcomes import Oracle, dump, eventually, raw_counts, rows_of, said, tool
from tests.integration.recorder import Recorder
from toolroll import Context, Tool, Toolroll
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Entry, Report
from toolroll.model.errors import InvalidInput, NotFound, StoreUnavailable
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.window import Window
from toolroll.registry.events import hours
from toolroll.registry.events.event_row import SelectionOrigin
from toolroll.registry.events.logged_tools import LoggedTool, LoggedToolReader, ToolNumbers, unsigned
from toolroll.registry.events.receipts import message_secret, rotate, signer_of
from toolroll.registry.events.rows import MOST_STEPS, Messages, ReceivedReport
from toolroll.registry.keeper import keeper as keeping
from toolroll.registry.keeper.maintenance import delete_old_events, prune, rebuild
from toolroll.registry.outbox import shipper as module
from toolroll.registry.outbox.outbox import Outbox
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
def recorder(database: Database, tmp_path: Path) -> Iterator[Recorder]:
    made = new_recorder(database, tmp_path / "outbox")
    yield made
    made.close()


def new_recorder(
    database: Database, outbox: Path, messages: Messages | None = Messages(), **options
) -> Recorder:
    return Recorder(
        database,
        outbox,
        exposure_of,
        messages=messages,
        origin_of=lambda selection: SelectionOrigin(7, 3, "default", "test", "b"),
        **options,
    )


def written(recorder: Recorder) -> int:
    """How many records the outbox has had."""
    (seq,) = recorder.outbox._own.writing.execute("SELECT seq FROM sqlite_sequence").fetchone()
    return seq


def report(selection: Selection, **kinds: str) -> Report:
    return Report(selection.event_id, tuple(Entry(name, kind) for name, kind in kinds.items()))  # type: ignore[arg-type]


def test_a_selection_becomes_a_row_with_all_that_it_was_decided_by(
    database: Database, recorder: Recorder, roll: Toolroll
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
    assert unsigned(row.seed) == picked.turn.seed
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
    database: Database, recorder: Recorder, roll: Toolroll, seed: int
) -> None:
    picked = roll.select("play a song")
    object.__setattr__(picked.turn, "seed", seed)
    recorder.note(picked)
    assert recorder.flush(10)
    assert unsigned(rows_of(database, tables.selection_events)[0].seed) == seed


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
    recorder = new_recorder(database, tmp_path / "outbox", None)
    picked = roll.select("play a song")
    recorder.note(picked)
    recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
    assert recorder.flush(10)
    recorder.close()
    assert rows_of(database, tables.selection_events) == []
    assert raw_counts(database)["", "play_music"] == (1, 1, 1)


def test_words_that_no_database_keeps_do_not_stop_the_others(
    database: Database, recorder: Recorder, roll: Toolroll
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
    database: Database, recorder: Recorder, roll: Toolroll
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
    database: Database, recorder: Recorder, roll: Toolroll
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
    database: Database, recorder: Recorder, roll: Toolroll, tmp_path: Path
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
    recorder: Recorder, roll: Toolroll, tmp_path: Path
) -> None:
    picked = roll.select("play a song", k=1)
    with pytest.raises(InvalidInput, match="was not shown"):
        recorder.record(exposure_of(picked), report(picked, tank="succeeded"))
    assert not (tmp_path / "outbox").exists()


def test_a_report_that_is_repeated_is_written_again_and_says_nothing_new(
    recorder: Recorder, roll: Toolroll, tmp_path: Path
) -> None:
    picked = roll.select("play a song")
    assert len(recorder.record(exposure_of(picked), report(picked, play_music="succeeded")).changes) == 1
    size = written(recorder)
    assert len(recorder.record(exposure_of(picked), report(picked, play_music="succeeded")).changes) == 0
    assert written(recorder) > size  # another process may have said something else meanwhile
    assert len(recorder.record(exposure_of(picked), report(picked, play_music="failed")).changes) == 1


class Away:
    """A database that can be away."""

    def __init__(self, database: Database) -> None:
        self._database, self.is_away, self.tries = database, False, 0

    def __getattr__(self, name: str):
        if name in ("recording", "reading", "autocommit"):
            self.tries += 1
            if self.is_away:
                raise StoreUnavailable("the database is away")
        return getattr(self._database, name)


def test_while_the_database_is_away_reports_are_taken_and_later_drained_by_themselves(
    database: Database, roll: Toolroll, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = Away(database)
    away.is_away = True
    recorder = new_recorder(away, tmp_path / "outbox")  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "toolroll"):
        for _ in range(40):
            picked = roll.select("play a song")
            recorder.note(picked)
            recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
        eventually(lambda: recorder.health()["failing"])
        assert not recorder.flush(0.3)
        health = recorder.health()
        assert "is away" in health["failing"]
        assert health["events"]["written"] == 40 and health["outcomes"]["waiting_bytes"] > 10_000
        assert health["outcomes"]["waiting_s"] > 0.2
        away.is_away = False
        assert recorder.flush(20)
    assert raw_counts(database)["", "play_music"] == (40, 40, 40)
    assert recorder.health()["failing"] is None and recorder.health()["outcomes"]["waiting_s"] == 0
    logged = [record.message for record in caplog.records if record.message.startswith("outbox: ")]
    assert logged == [  # once each
        "outbox: failed, will try again: the database is away",
        "outbox: succeeded again",
    ]
    recorder.close()


def test_closing_while_the_database_is_away_leaves_the_reports_to_the_next_process(
    database: Database, roll: Toolroll, tmp_path: Path
) -> None:
    away = Away(database)
    away.is_away = True
    first = new_recorder(away, tmp_path / "outbox")  # type: ignore[arg-type]
    picked = roll.select("play a song")
    first.record(exposure_of(picked), report(picked, play_music="succeeded"))
    first.close(timeout_s=0.2)
    assert raw_counts(database) == {}
    second = new_recorder(database, tmp_path / "outbox")
    second.shipper.start()
    eventually(lambda: raw_counts(database) != {})
    assert raw_counts(database)["", "play_music"] == (1, 1, 1)
    eventually(lambda: second.outbox.waiting() == (0, 0.0))
    second.close()


def test_a_batch_whose_commit_nobody_heard_of_counts_once(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that of the shipper to the inbox nor that of the keeper."""
    recorder = new_recorder(database, tmp_path / "outbox", keeps=False)
    keeper = keeping.Keeper(database)
    deaf = {"delete": 2, "_count_together": 1}
    for owner, name in ((recorder.outbox, "delete"), (keeper, "_count_together")):
        real = getattr(owner, name)

        def lost(*arguments: Any, real=real, name=name) -> Any:
            done = None if name == "delete" and deaf[name] > 0 else real(*arguments)
            deaf[name] -= 1
            if deaf[name] >= 0:
                raise StoreUnavailable("the connection is lost")
            return done

        monkeypatch.setattr(owner, name, lost)
    for _ in range(10):
        picked = roll.select("play a song")
        recorder.note(picked)
        recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
    keeper.start()
    assert recorder.shipper.flush(20, keeper.hurry)
    keeper.drain(5)
    keeper.close(5)
    recorder.close()
    assert max(deaf.values()) <= 0
    assert raw_counts(database)["", "play_music"] == (10, 10, 10)
    assert len(rows_of(database, tables.selection_events)) == 10
    assert rows_of(database, tables.inbox) == []


def test_what_the_store_will_never_take_is_logged_and_the_others_get_through(
    database: Database, roll: Toolroll, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(tmp_path / "outbox")
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
        outbox.append(("", time.time(), data))
    outbox.close()  # its process is gone
    with caplog.at_level(logging.WARNING, "toolroll"):
        recorder = new_recorder(database, tmp_path / "outbox")
        recorder.shipper.start()
        eventually(lambda: recorder.figures["refused"] == 3)
        eventually(lambda: raw_counts(database).get(("", "play_music")) == (6, 6, 6))
    lines = [one.message for one in caplog.records if "does not count" in one.message]
    assert len(lines) == 3 and any("exploded" in line for line in lines)
    eventually(lambda: recorder.health()["keeper"]["last_refusal"] == recorder.figures["last_refusal"])
    recorder.close()


def test_more_events_than_can_be_kept_are_dropped_and_counted_but_no_outcome_is(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 65)
    away = Away(database)
    away.is_away = True
    recorder = new_recorder(away, tmp_path / "outbox", most_bytes=500_000)  # type: ignore[arg-type]
    said = 0
    for _ in range(2_000):
        picked = roll.select("play a song")
        recorder.note(picked)
        try:
            recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
            said += 1
        except StoreUnavailable as error:
            assert "is full (499,712 bytes wait for the registry); nothing was recorded" in str(error)
            break
    assert 100 < said < 2_000
    eventually(lambda: not recorder.shipper._queue)
    assert recorder.counts.dropped > 0
    away.is_away = False
    eventually(lambda: recorder.flush(20))
    recorder.record(exposure_of(picked), report(picked, play_music="succeeded"))
    recorder.close()
    assert raw_counts(database)["", "play_music"] == (said + 1,) * 3
    rows = len(rows_of(database, tables.selection_events))
    assert rows == recorder.counts.written and rows + recorder.counts.dropped == said + 1


def test_events_that_are_dropped_are_a_fair_sample_and_the_others_stand_for_them(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty selections come for each eight that become events: what comes first must not count for more."""
    monkeypatch.setattr(module, "MOST_EVENTS", 96)
    recorder = new_recorder(database, tmp_path / "outbox", most_bytes=2**26)
    shipper = recorder.shipper
    monkeypatch.setattr(shipper._worker, "wake", lambda: None)  # the test says when it works
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
            monkeypatch.setattr(module, "_RECORDS", 8)
            monkeypatch.setattr(module, "DELIVERED_WITHIN_S", 0.0)
            shipper._make_events()
    monkeypatch.undo()
    assert recorder.flush(20)
    recorder.close()
    rows = rows_of(database, tables.selection_events)
    assert len(rows) + recorder.counts.dropped == turns * of_turn and recorder.counts.dropped > 800
    assert len({row.share for row in rows}) > 1
    for half in range(2):
        mine = [row for row in rows if int(row.event_id[:8]) // (turns * of_turn // 2) == half]
        assert sum(1 / row.share for row in mine) == pytest.approx(turns * of_turn / 2, rel=0.2)
    assert metrics(database, Window())["total"] == pytest.approx(turns * of_turn, rel=0.2)


def test_threads_record_and_everything_counts_once(
    database: Database, recorder: Recorder, roll: Toolroll
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
def test_a_child_of_a_fork_records_by_itself(database: Database, recorder: Recorder, roll: Toolroll) -> None:
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
    database: Database, recorder: Recorder, roll: Toolroll
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
    with database.recording() as connection:
        long_ago = datetime.now(timezone.utc) - timedelta(days=2)
        retired = tables.receipt_keys.c.retired_at
        connection.execute(
            sa.update(tables.receipt_keys).where(retired.is_not(None)).values(retired_at=long_ago)
        )
    rotate(database)  # the first was retired for longer than a receipt is valid
    with pytest.raises(PermissionError, match="not signed here"):
        signer_of(other).read(receipt, time.time())
    other.close()
    elsewhere.close()


# The log is bounded.


def test_old_events_are_pruned_in_the_background_and_what_was_learnt_stays(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_PRUNED", 2)
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
    eventually(lambda: sum(one.figures["pruned"] for one in others) == 5)
    assert all(one.flush(10) for one in others)
    left = {row.event_id for row in rows_of(database, table)}
    assert left == {one.event_id for one in picked[5:]}
    assert (dump(database, "acme"), dump(database, "acme", tables.outcomes)) == before
    assert rebuild(database, ["acme"]) == {"acme": 0}  # the outcomes alone make the same statistics
    assert metrics(database, then)["total"] == 5
    assert all(one.health()["failing"] is None for one in others)
    eventually(lambda: any(one.figures["stored_bytes"] for one in others))
    for one in others:
        one.close()


def test_reports_are_written_though_old_events_cannot_be_pruned(
    database: Database, roll: Toolroll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> int:
        raise StoreUnavailable("another writer holds the lock")

    monkeypatch.setattr(keeping, "delete_old_events", locked)
    recorder = new_recorder(database, tmp_path / "outbox", events_s=86_400.0)
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
    recorder = new_recorder(database, tmp_path / "outbox")
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
    database: Database, recorder: Recorder, roll: Toolroll, tmp_path: Path
) -> None:
    picked = roll.select("play a song")
    recorder.note(picked)
    exposure = exposure_of(picked)
    most = MOST_STEPS + len(exposure.shown)
    said_last = ""
    for at in range(most):
        said_last = ("succeeded", "failed")[at % 2]
        recorder.record(exposure, report(picked, play_music=said_last))
    size = written(recorder)
    for kind in ("called", "corrected"):
        with pytest.raises(InvalidInput, match=f"has had {most} different reports"):
            recorder.record(exposure, report(picked, play_music=kind))
    assert written(recorder) == size
    assert not recorder.record(exposure, report(picked, play_music=said_last)).changes  # a repetition
    assert recorder.flush(10)
    other = new_recorder(database, tmp_path / "other")  # knows nothing of the reports so far
    other.record(exposure, report(picked, play_music="corrected"))
    assert other.flush(10)
    assert other.figures["refused"] + recorder.figures["refused"] == 1
    other.close()
    assert len(rows_of(database, tables.outcomes)) == most
    (row,) = rows_of(database, tables.selection_events)
    assert row.outcome == said_last


def test_an_event_with_many_partial_reports_still_closes(
    database: Database, recorder: Recorder, roll: Toolroll
) -> None:
    picked = roll.select("play a song")
    exposure = exposure_of(picked)
    for at in range(MOST_STEPS + len(exposure.shown)):
        kind = ("succeeded", "failed")[at % 2]
        recorder.record(exposure, Report(picked.event_id, (Entry("play_music", kind),), is_final=False))  # type: ignore[arg-type]
    recorder.record(exposure, report(picked))
    assert recorder.flush(10)
    assert recorder.figures["refused"] == 0
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
