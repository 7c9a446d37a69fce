"""Sessions written in the background: noted without waiting, merged where two wrote, kept while the store is away."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.conftest import Server
from tests.integration.outcomes import eventually
from toolroll._threads import CallPool
from toolroll.errors import InvalidInput, StoreUnavailable
from toolroll.registry.sessions import writer as module
from toolroll.registry.sessions.records import MOST_BYTES
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.sessions.writer import SessionWriter
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.engines import sqlite_module

Make = Callable[..., SessionWriter]


def union(one, other):
    return {"turn": max(one["turn"], other["turn"]), "seen": sorted({*one["seen"], *other["seen"]})}


def seen(*names, turn=1):
    return {"turn": turn, "seen": list(names)}


@pytest.fixture
def make(database: Database) -> Iterator[Make]:
    """Makes keepers, of which each stands for a process."""
    made: list[SessionWriter] = []

    def new(store: SessionStore | None = None, merge=union, **options) -> SessionWriter:
        made.append(SessionWriter(store or SessionStore(database), merge, **options))
        return made[-1]

    yield new
    end(*made)


def end(*keepers: SessionWriter) -> None:
    """Closes them; when this returns, no thread of theirs has a connection any more."""
    for one in keepers:
        one.close(timeout_s=0.1)
    eventually(lambda: not any(one.name.startswith("toolroll-session") for one in threading.enumerate()))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "toolroll-sessions"]


@pytest.fixture
def keeper(make: Make) -> SessionWriter:
    return make()


@pytest.fixture
def other(make: Make) -> SessionWriter:
    return make()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before somebody flushes."""
    monkeypatch.setattr(module, "WRITE_EVERY_S", 60)


@pytest.fixture
def away(
    database: Database, database_url: str, request: pytest.FixtureRequest
) -> Callable[[], AbstractContextManager]:
    """Takes the database away for the length of a block: moves the file, or refuses and ends connections."""

    @contextmanager
    def no_file() -> Iterator[None]:
        path = Path(database_url.removeprefix("sqlite:///"))
        path.rename(path.with_suffix(".moved"))
        yield
        path.with_suffix(".moved").rename(path)

    @contextmanager
    def no_server() -> Iterator[None]:
        server: Server = request.getfixturevalue("postgresql")
        name = sa.make_url(database_url).database
        server.run(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        yield
        server.run(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')

    return no_file if database.dialect == "sqlite" else no_server


@contextmanager
def locked(database_url: str) -> Iterator[None]:
    """Holds what writers of sessions need."""
    if database_url.startswith("sqlite"):
        # by the same library: within one process the locks of two exclude nobody
        connection = sqlite_module().connect(database_url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
        connection.close()
    else:
        with psycopg.connect(database_url) as held:
            held.execute("LOCK TABLE sessions")
            yield


def rows(database: Database) -> dict[tuple[str, str], dict]:
    with database.reading() as connection:
        return {(row.org, row.session): row.record for row in connection.execute(sa.select(tables.sessions))}


def test_what_is_noted_is_in_the_store_soon_and_by_itself(keeper, database):
    keeper.note("acme", "s", seen("a"))
    eventually(lambda: rows(database) == {("acme", "s"): seen("a")})
    keeper.note("acme", "s", seen("a", "b"))
    keeper.note("umbrella", "s", seen("c"))
    eventually(lambda: rows(database) == {("acme", "s"): seen("a", "b"), ("umbrella", "s"): seen("c")})
    eventually(lambda: (keeper.counts.written, keeper.counts.merged) == (3, 0))


def test_of_what_is_noted_in_a_row_the_last_is_written(slow, keeper, database):
    for number in range(500):
        keeper.note("acme", f"s{number % 5}", seen(number))
    assert keeper.flush(20)
    assert rows(database) == {("acme", f"s{at}"): seen(495 + at) for at in range(5)}
    assert keeper.counts.written <= 10


def test_a_record_may_be_made_when_it_is_written(slow, keeper, database):
    made = []

    def of(number):
        return lambda: made.append(number) or seen(number)

    for number in range(10):
        keeper.note("acme", "s", of(number))
    assert made == []
    assert keeper.read("acme", "s").record == seen(9)
    assert keeper.flush(20)
    assert set(made) <= {0, 9} and rows(database) == {("acme", "s"): seen(9)}


def test_what_waits_is_read_before_it_is_written(slow, keeper, database):
    assert keeper.read("acme", "s") is None
    keeper.note("acme", "s", seen("a"))
    found = keeper.read("acme", "s")
    assert (found.record, found.version) == (seen("a"), 0)
    assert abs(found.updated_at.timestamp() - time.time()) < 60
    assert keeper.read("umbrella", "s") is None
    assert rows(database) == {}


def test_after_a_restart_the_next_process_goes_on(make, database_url):
    first = make()
    first.note("acme", "s", seen("a", turn=7))
    first.close()
    with_own = Database.open(database_url, create=False, migrate=False)
    second = make(SessionStore(with_own))
    assert second.read("acme", "s").record == seen("a", turn=7)
    second.note("acme", "s", seen("b", turn=8))
    second.close()
    assert rows(with_own) == {("acme", "s"): seen("b", turn=8)} and second.counts.merged == 0
    with_own.close()


def test_what_another_has_written_meanwhile_is_merged(keeper, other, database):
    for one, name in ((keeper, "a"), (other, "b")):
        one.note("acme", "s", seen(name))
        assert one.flush(20)
    assert rows(database) == {("acme", "s"): seen("a", "b")}
    # Who noted b has not seen a, and its next notes do not undo that.
    for name in ("x", "y", "z"):
        other.note("acme", "s", seen("b", name))
        assert other.flush(20)
    assert rows(database) == {("acme", "s"): seen("a", "b", "x", "y", "z")}
    assert keeper.counts.merged == 0 and other.counts.merged == 4


def test_who_has_read_what_the_other_wrote_may_take_something_out(keeper, other, database):
    keeper.note("acme", "s", seen("a", "b"))
    assert keeper.flush(20)
    assert other.read("acme", "s").record == seen("a", "b")
    other.note("acme", "s", seen("b"))
    assert other.flush(20)
    other.note("acme", "s", seen("c"))  # of its own last write it need not be told
    assert other.flush(20)
    assert rows(database) == {("acme", "s"): seen("c")} and other.counts.merged == 0
    assert keeper.read("acme", "s").record == seen("c")


def test_reading_merges_what_waits_here_with_what_another_wrote(slow, keeper, other, database):
    keeper.note("acme", "s", seen("a"))
    other.note("acme", "s", seen("b", turn=5))
    assert other.flush(20)
    found = keeper.read("acme", "s")
    assert found.record == seen("a", "b", turn=5)
    keeper.note("acme", "s", seen("a", "c", turn=6))  # made from that: b was taken out
    assert keeper.flush(20)
    assert rows(database) == {("acme", "s"): seen("a", "c", turn=6)}


def test_a_note_that_was_made_from_an_earlier_version_undoes_nothing_of_a_later_one(
    slow, keeper, other, database
):
    keeper.note("acme", "s", seen("a"))
    assert keeper.flush(20)
    early = keeper.read("acme", "s")
    assert other.read("acme", "s") is not None
    other.note("acme", "s", seen("a", "b"))
    assert other.flush(20)
    late = keeper.read("acme", "s")  # by another thread, say
    keeper.note("acme", "s", seen("a", "c"), early.version)
    assert keeper.flush(20)
    assert rows(database) == {("acme", "s"): seen("a", "b", "c")}
    assert early.version != late.version


class Deaf(SessionStore):
    """Commits, and does not hear of it so many times."""

    times = 2

    def write_all(self, *arguments, **options):
        done = super().write_all(*arguments, **options)
        if self.times:
            self.times -= 1
            raise StoreUnavailable("the connection is lost")
        return done


def test_a_write_of_which_nobody_heard_that_it_was_committed_is_not_merged_with(slow, make, database):
    keeper = make(Deaf(database))
    keeper.note("acme", "s", seen("a", "b"))
    eventually(lambda: keeper.flush(0.2) or rows(database))
    keeper.note("acme", "s", seen("a"))
    assert keeper.flush(20)
    assert rows(database) == {("acme", "s"): seen("a")} and keeper.counts.merged == 0


def test_while_the_store_is_away_nothing_waits_for_it_and_nothing_is_lost(make, away, database, caplog):
    keeper = make()
    keeper.note("acme", "before", seen("a"))
    assert keeper.flush(20)
    with caplog.at_level(logging.WARNING, "toolroll"):
        with away():
            for number in range(200):
                keeper.note("acme", f"s{number % 20}", seen(number, turn=number))
            eventually(lambda: keeper.health()["failing"])
            assert not keeper.flush(0.3)
            health = keeper.health()
            assert health["waiting"] == 20 and health["waiting_s"] > 0.2 and health["written"] == 1
            assert keeper.read("acme", "s3").record == seen(183, turn=183)
            for ask in (keeper.read, keeper.forget):
                with pytest.raises(StoreUnavailable):
                    ask("acme", "before")
        assert keeper.flush(30)
    found = rows(database)
    assert found.pop(("acme", "before")) == seen("a")
    assert found == {("acme", f"s{at}"): seen(180 + at, turn=180 + at) for at in range(20)}
    health = keeper.health()
    assert health["failing"] is None and health["waiting"] == 0 and health["waiting_s"] == 0
    logged = [record.message for record in caplog.records if record.message.startswith("sessions: ")]
    assert len(logged) == 2 and "failed, will try again" in logged[0]
    assert logged[1] == "sessions: succeeded again"


def test_a_store_that_hangs_holds_up_neither_who_notes_nor_who_reads(make, database_url, database):
    patient = Database.open(database_url, create=False, migrate=False, wait_s=60)
    keeper = make(SessionStore(patient))
    keeper.note("acme", "first", seen("a"))
    with locked(database_url):
        eventually(keeper._worker.lock.locked)  # it is being written, in vain
        for number in range(2_000):
            keeper.note("acme", f"s{number % 100}", seen(number))
        assert not keeper.flush(0.1)
        assert keeper.read("acme", "first").record == seen("a")
        assert keeper.read("acme", "s99").record == seen(1_999)
        keeper.health()
        keeper.close(timeout_s=0.1)
    end(keeper)
    patient.close()
    assert rows(database)["acme", "first"] == seen("a")  # the write that was under way


def test_a_save_of_an_event_loop_that_gets_no_thread_is_written_in_the_background(keeper, database):
    keeper._pool, let_go = CallPool(1, "toolroll-session", patience_s=0.01), threading.Event()

    async def main() -> None:
        hung = asyncio.ensure_future(keeper._pool.arun(let_go.wait))
        await asyncio.sleep(0.05)
        with pytest.raises(StoreUnavailable, match="this one was not begun") as raised:
            await keeper.asave("acme", "s", lambda: seen("a"))
        assert raised.value.retry_after_s
        let_go.set()
        await hung

    asyncio.run(main())
    assert keeper.flush(20)
    assert rows(database) == {("acme", "s"): seen("a")}
    assert keeper.health()["calls_refused"] == 1


def test_more_than_may_wait_are_dropped_the_ones_that_waited_longest_first(make, away, database, caplog):
    keeper = make(most=10)
    with caplog.at_level(logging.WARNING, "toolroll"), away():
        for number in range(25):
            keeper.note("acme", f"s{number}", seen(number))
        eventually(lambda: keeper.health()["failing"])
        assert keeper.health()["waiting"] == 10
    assert keeper.flush(30)
    assert rows(database) == {("acme", f"s{number}"): seen(number) for number in range(15, 25)}
    assert keeper.counts.dropped == 15
    assert sum("some are dropped" in record.message for record in caplog.records) == 1


def test_what_cannot_be_kept_is_counted_and_the_others_get_through(slow, make, database, caplog):
    def merge(one, other):
        if "odd" in other["seen"]:
            raise ValueError("odd")
        return union(one, other)

    other = make()
    other.note("acme", "unmergeable", seen("a"))
    assert other.flush(20)
    keeper = make(merge=merge)
    refused = {
        "large": {"x": "y" * MOST_BYTES},
        "nan": {"x": float("nan")},
        "surrogate": {"x": "\ud800"},
        "list": [1],
        "turn": {"turn": "first"},
        "raises": lambda: 1 / 0,
        "unmergeable": seen("odd"),
    }
    for number in range(300):
        keeper.note("acme", f"fine{number}", seen(number))
        if number % 40 == 0:
            keeper.note("acme", *list(refused.items())[number // 40 % len(refused)])
    for name, record in refused.items():
        keeper.note("acme", name, record)
    with caplog.at_level(logging.WARNING, "toolroll"):
        assert keeper.flush(20)
    expected = {("acme", f"fine{number}"): seen(number) for number in range(300)}
    assert rows(database) == {**expected, ("acme", "unmergeable"): seen("a")}
    assert keeper.counts.refused >= len(refused) and keeper.counts.written == 300
    assert sum("cannot be stored" in record.message for record in caplog.records) == 1


def test_a_mistake_over_one_session_does_not_hold_up_the_batch(slow, make, database):
    class Odd(SessionStore):
        def write_all(self, drafts, *arguments, **options):
            if any(one.key[1] == "s13" for one in drafts):
                raise ZeroDivisionError
            return super().write_all(drafts, *arguments, **options)

    keeper = make(Odd(database))
    for number in range(50):
        keeper.note("acme", f"s{number}", seen(number))
    assert keeper.flush(20)
    assert {session for _, session in rows(database)} == {f"s{number}" for number in range(50)} - {"s13"}
    assert keeper.counts.refused == 1


def test_records_that_cannot_be_merged_are_no_foreign_error(slow, make):
    keeper, other = make(merge=lambda one, other: 1 / 0), make()
    keeper.note("acme", "s", seen("a"))
    other.note("acme", "s", seen("b"))
    assert other.flush(20)
    with pytest.raises(InvalidInput, match="session 's': cannot be merged: ZeroDivisionError"):
        keeper.read("acme", "s")
    assert keeper.flush(20) and keeper.counts.refused == 1
    assert keeper.read("acme", "s").record == seen("b")


def test_an_empty_record_has_nothing_to_merge(slow, make, database):
    keeper = make(merge=lambda one, other: 1 / 0)
    SessionStore(database).write("acme", "s", {}, 0)
    keeper.note("acme", "s", seen("a"))
    assert keeper.read("acme", "s").record == seen("a")
    assert keeper.flush(20) and rows(database) == {("acme", "s"): seen("a")}


def test_where_there_are_no_more_threads_a_note_waits_for_the_next_one(keeper, database, monkeypatch):
    with monkeypatch.context() as patched:

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        patched.setattr(threading.Thread, "start", refuse)
        keeper.note("acme", "s", seen("a"))
        assert not keeper.flush(0.01)
    keeper.note("acme", "t", seen("a"))
    assert keeper.flush(20) and len(rows(database)) == 2


PROCESS = st.integers(0, 1)
STEP = st.one_of(
    st.tuples(st.just("add"), PROCESS),
    st.tuples(st.just("remove"), PROCESS, st.integers(0, 10)),
    st.tuples(st.just("read"), PROCESS),
    st.tuples(st.just("flush"), PROCESS),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=20))
def test_only_what_somebody_took_out_is_lost_whatever_the_order(slow, database, steps):
    session, store = uuid.uuid4().hex, SessionStore(database)
    keepers = [SessionWriter(store, union) for _ in range(2)]
    held: list[set[str]] = [set(), set()]  # what each process knows
    added, removed = set(), set()
    for number, (what, process, *rest) in enumerate([*steps, ("flush", 0), ("flush", 1)]):
        keeper, mine = keepers[process], held[process]
        if what == "add":
            mine.add(f"{number:02}")
            added.add(f"{number:02}")
        elif what == "remove" and mine:
            out = sorted(mine)[rest[0] % len(mine)]
            mine.discard(out)
            removed.add(out)
        elif what == "read" and (found := keeper.read("acme", session)) is not None:
            assert mine - removed <= {*found.record["seen"]}  # what it noted itself is there
            mine |= {*found.record["seen"]}
        elif what == "flush":
            assert keeper.flush(20)
        if what in ("add", "remove"):
            keeper.note("acme", session, seen(*sorted(mine), turn=number))
    end = store.read("acme", session)
    left = {*end.record["seen"]} if end is not None else set()
    assert added - removed <= left <= added
    if all(process == 0 for _, process, *_ in steps):
        assert left == held[0]  # alone, it is as it left it
    for keeper in keepers:
        keeper.close()


@pytest.mark.parametrize(("org", "session"), [("acme", ""), ("acme", None), ("a\0", "s"), (None, "s")])
def test_an_id_that_no_session_can_have_is_refused_at_once(keeper, org, session):
    for ask in (
        lambda: keeper.note(org, session, {}),
        lambda: keeper.read(org, session),
        lambda: keeper.forget(org, session),
    ):
        with pytest.raises(InvalidInput):
            ask()


@pytest.mark.parametrize("session", ["\0", "\ud800", "x" * 10**6, "line\nbreak", "날씨"])
def test_an_id_of_any_other_kind_is_kept(keeper, session):
    keeper.note("acme", session, seen("a"))
    assert keeper.flush(20)
    assert keeper.read("acme", session).record == seen("a")
    assert keeper.forget("acme", session) and keeper.read("acme", session) is None


def test_the_same_id_is_another_session_in_another_organisation(slow, keeper):
    for org in ("acme", "umbrella", ""):
        keeper.note(org, "s", seen(org))
    for flushed in (False, True):
        assert not flushed or keeper.flush(20)
        for org in ("acme", "umbrella", ""):
            assert keeper.read(org, "s").record == seen(org)
    assert keeper.forget("acme", "s")
    assert [keeper.read(org, "s") is None for org in ("acme", "umbrella", "")] == [True, False, False]


def test_what_is_forgotten_is_not_written_any_more(slow, keeper, other, database):
    keeper.note("acme", "s", seen("a"))
    assert keeper.flush(20)
    keeper.note("acme", "s", seen("b"))
    assert keeper.forget("acme", "s") and not keeper.forget("acme", "s")
    assert keeper.flush(20) and rows(database) == {}
    keeper.note("acme", "s", seen("c"))
    assert keeper.flush(20) and rows(database) == {("acme", "s"): seen("c")}
    assert other.forget("acme", "s")
    keeper.note("acme", "s", seen("d"))
    assert keeper.flush(20) and rows(database) == {("acme", "s"): seen("d")}


def test_what_is_noted_after_the_end_is_dropped_and_counted(keeper, database):
    keeper.note("acme", "s", seen("a"))
    keeper.close()
    keeper.close()
    keeper.note("acme", "s", seen("b"))
    assert keeper.counts.dropped == 1 and rows(database) == {("acme", "s"): seen("a")}
    assert keeper.read("acme", "s").record == seen("a")
    assert not threads()


def test_closing_while_the_store_is_away_comes_to_an_end(make, away, database):
    keeper = make()
    with away():
        keeper.note("acme", "s", seen("a"))
        keeper.close(timeout_s=0.2)
        assert not threads()
        assert keeper.health()["waiting"] == 1
    assert rows(database) == {}


def test_reads_and_those_that_took_too_long_are_counted(make, database):
    answers = threading.Event()

    class Slow(SessionStore):
        def read(self, org, session):
            answers.wait(10)
            return super().read(org, session)

    keeper = make(Slow(database))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            asyncio.run(keeper.aread("acme", "s", timeout_s=0.01))
    answers.set()
    assert keeper.read("acme", "s") is None
    health = keeper.health()
    assert (health["reads"], health["timeouts"]) == (3, 2)


def test_one_that_nobody_used_has_no_thread(keeper):
    assert keeper.flush(1) and not threads()
    assert keeper.health() == {
        "waiting": 0, "waiting_s": 0.0, "reads": 0, "timeouts": 0, "calls_refused": 0,
        "written": 0, "merged": 0, "dropped": 0, "refused": 0, "expired": 0, "failing": None,
    }  # fmt: skip


def test_flushing_waits_for_what_came_before_and_not_for_what_comes_after(keeper, database):
    stop = threading.Event()

    def go_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            keeper.note("acme", f"later{number % 50}", seen(number))
            time.sleep(0.0005)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        for number in range(5):
            keeper.note("acme", f"s{number}", seen(number))
            assert keeper.flush(20)
            assert rows(database)["acme", f"s{number}"] == seen(number)
    finally:
        stop.set()
        thread.join()


def test_threads_of_one_process_end_with_the_last_of_each_session(keeper, database):
    def work(part: int) -> None:
        for number in range(200):
            session = f"s{part}.{number % 10}"
            keeper.note("acme", session, seen(number, turn=number))
            if number % 50 == 0:
                assert keeper.read("acme", session).record == seen(number, turn=number)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keeper.flush(30)
    expected = {
        ("acme", f"s{part}.{at}"): seen(190 + at, turn=190 + at) for part in range(6) for at in range(10)
    }
    assert rows(database) == expected and keeper.counts.merged == 0


def test_who_notes_and_then_reads_finds_it_whatever_is_being_written(make, monkeypatch):
    monkeypatch.setattr(module, "WRITE_EVERY_S", 0.001)
    keeper = make()
    for number in range(150):
        keeper.note("acme", "s", seen(turn=number))
        assert keeper.read("acme", "s").record["turn"] == number
    assert keeper.counts.merged == 0


def test_expired_sessions_are_cleared_away_on_the_side(make, database, monkeypatch):
    monkeypatch.setattr(module, "_PRUNE_EVERY_S", 0)
    monkeypatch.setattr(module, "_PRUNED", 10)
    brief = SessionStore(database, lifetime_s=0.001)
    for number in range(25):
        brief.write("acme", f"old{number}", seen("a"), 0)
    keeper = make()
    keeper.note("acme", "s", seen("a"))
    assert keeper.flush(20)
    eventually(lambda: keeper.health()["expired"] == 25)
    assert list(rows(database)) == [("acme", "s")]


def test_versions_are_remembered_of_so_many_sessions(slow, keeper, database, monkeypatch):
    monkeypatch.setattr(module, "_MOST_READ", 10)
    for number in range(30):
        keeper.note("acme", f"s{number}", seen("a"))
    assert keeper.flush(20)
    for number in range(30):
        keeper.read("acme", f"s{number}")
    assert len(keeper._read) == 10
    for number in range(30):
        keeper.note("acme", f"s{number}", seen("b"))
    assert keeper.flush(20) and keeper.counts.merged == 0  # what it wrote itself it knows by its mark
    assert set(map(str, rows(database).values())) == {str(seen("b"))}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_notes_by_itself(slow, keeper, database):
    keeper.note("acme", "both", seen("a"))
    assert keeper.flush(20)
    keeper.note("acme", "both", seen("a", "parent"))
    keeper.note("acme", "parents", seen("a"))
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            assert keeper.health()["waiting"] == 0  # what the parent noted is the parent's to write
            keeper.note("acme", "both", seen("a", "child"))
            keeper.note("acme", "childs", seen("a"))
            status = 0 if keeper.flush(20) and keeper.read("acme", "childs") is not None else 2
            keeper.close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sorted(session for _, session in rows(database)) == ["both", "childs"]
    assert keeper.flush(20)
    assert rows(database) == {
        ("acme", "both"): seen("a", "child", "parent"),
        ("acme", "childs"): seen("a"),
        ("acme", "parents"): seen("a"),
    }


def test_a_keeper_that_nobody_holds_goes(make, database):
    kept = SessionWriter(SessionStore(database), union)
    gone = weakref.ref(kept)
    del kept
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("most", [0, -1])
def test_a_keeper_for_no_sessions_is_refused(database, most):
    with pytest.raises(InvalidInput, match="most"):
        SessionWriter(SessionStore(database), union, most=most)
