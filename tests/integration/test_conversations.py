"""Conversations over a registry: they survive a restart, move between replicas, and stay within an organisation."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.test_replay import builder_of
from toolroll import Context, Follow, Recording, Toolroll
from toolroll.formats.sources.folder import read_folder
from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.registry.events.replay import replay
from toolroll.registry.registry import Registry
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

DEMO = Path(__file__).parents[2] / "python" / "toolroll" / "demo" / "toolkits"
KITS = ("base", "calendar", "email", "files", "notes", "weather", "web")


@pytest.fixture
def url(database_url: str) -> str:
    """A registry with a part of the demonstration catalog, on each kind of database."""
    database = Database.open(database_url, create=False, migrate=False)
    demo = read_folder(DEMO)
    Registry(database, actor="ann").import_(
        replace(
            demo,
            tools=tuple(tool for tool in demo.tools if tool.toolkit in KITS),
            toolkits=tuple(kit for kit in demo.toolkits if kit.name in KITS),
            routes=tuple(route for route in demo.routes if {*route.toolkits} <= {*KITS}),
        )
    )
    database.close()
    return database_url


def opened(url: str, tmp_path: Path, name: str = "") -> Toolroll:
    return Toolroll.open(
        url, follow=Follow(poll_s=0.05), recording=Recording(outbox=tmp_path / f"outbox{name}")
    )


def test_a_released_conversation_leaves_memory_and_goes_on_from_the_store(url, tmp_path):
    with opened(url, tmp_path) as roll:
        session = roll.session("talk")
        session.load("get_forecast")
        before = session.conversation
        assert roll.health()["sessions"]["held"] == 1
        roll.release_session("talk")
        assert roll.health()["sessions"]["held"] == 0
        assert roll.session("talk").conversation == before
        roll.release_session("never opened")
        with pytest.raises(InvalidInput):
            roll.release_session("")


def test_a_conversation_goes_on_after_a_restart(url, tmp_path):
    context = Context(user="ann", settings=("weather_key",))
    with opened(url, tmp_path) as roll:
        session = roll.session("talk", context)
        session.select("What's on my calendar tomorrow?", k=5)
        session.load("get_forecast")
        session.used({"list_events": True})
        session.search("write a note")
        session.end_turn()
        before = session.conversation
        listed = session.select("and on Friday?", k=5, turn=2).names
    with opened(url, tmp_path) as roll:
        session = roll.session("talk", context)
        assert session.turn == 2
        assert session.loaded == ("get_forecast",)
        assert session.conversation.called == before.called
        assert session.conversation.found == before.found
        picked = session.select("the second one to Monday", k=5, turn=3)
        assert picked.names[: len(listed)] == listed
        assert {"list_events", "get_forecast"} <= set(picked.names)


def test_a_conversation_moves_between_replicas_and_back(url, tmp_path):
    with opened(url, tmp_path, "a") as here, opened(url, tmp_path, "b") as there:
        for turn, roll in enumerate((here, there, here, there), 1):
            session = roll.session("moving")
            assert session.turn == turn - 1
            session.select("Read my mail", k=3, turn=turn)
            session.load(["create_event", "read_email", "web_search", "create_note"][turn - 1])
            assert len(session.loaded) == turn
            assert roll.flush()


def test_two_replicas_at_once_lose_no_load(url, tmp_path):
    with opened(url, tmp_path, "a") as here, opened(url, tmp_path, "b") as there:
        one, other = here.session("both"), there.session("both")
        one.select("Read my mail", k=3, turn=1)
        other.select("Read my mail", k=3, turn=1)
        one.load("create_event")
        other.load("web_search")
        assert here.flush() and there.flush()
        assert set(here.session("both").loaded) == {"create_event", "web_search"}


def test_a_session_of_one_organisation_is_not_anothers(url, tmp_path):
    with opened(url, tmp_path) as roll:
        roll.session("same", Context(org="acme")).load("create_event")
        assert roll.flush()
        assert roll.session("same", Context(org="globex")).loaded == ()
        assert roll.session("same").loaded == ()


def test_a_session_can_be_forgotten(url, tmp_path):
    with opened(url, tmp_path) as roll:
        roll.session("gone").load("create_event")
        assert roll.flush()
        assert roll.session("gone").delete()
        assert not roll.session("gone").delete()
        assert roll.session("gone").loaded == ()


def test_a_record_that_cannot_be_read_begins_a_new_conversation(url, tmp_path, caplog):
    with opened(url, tmp_path) as roll:
        roll.session("odd").load("create_event")
        assert roll.flush()
        with roll._home._database.recording() as connection:
            connection.execute(sa.update(tables.sessions).values(record={"form": 9, "turn": 1}))
        roll._home.conversations._live.pop(("", "odd"))
        session = roll.session("odd")
        assert session.loaded == ()
        assert "begins again" in caplog.text
        assert session.select("Read my mail").degraded == ("sessions",)
        assert session.select("Read my mail").degraded == ()
        session.load("web_search")
        assert roll.flush()
        roll._home.conversations._live.pop(("", "odd"))
        assert roll.session("odd").loaded == ("web_search",)


def test_while_the_store_is_away_a_conversation_goes_on_with_what_is_known_here(url, tmp_path, monkeypatch):
    with opened(url, tmp_path) as roll:
        roll.session("here").load("create_event")
        assert roll.flush()

        def away(*_):
            raise StoreUnavailable("the database is away")

        with monkeypatch.context() as broken:
            for name in ("read", "write"):
                broken.setattr(SessionStore, name, away)
            session = roll.session("here")
            assert session.loaded == ("create_event",)
            assert roll.session("new").loaded == ()
            assert len(session.select("Read my mail", k=3)) > 3
            session.load("web_search")
            session.used(["web_search"])
            assert not roll.flush(0.3)
            assert "away" in roll.health()["sessions"]["failing"]
            assert "sessions" in roll.health()["degraded"]
            assert roll.health()["sessions"]["waiting"] == 1
        assert roll.flush()
        assert set(roll.session("here").loaded) == {"create_event", "web_search"}
        assert roll.health()["sessions"]["failing"] is None


def test_what_waited_for_the_store_is_written_beside_what_others_wrote_meanwhile(url, tmp_path, monkeypatch):
    with opened(url, tmp_path, "a") as here, opened(url, tmp_path, "b") as there:
        rows = here._home.conversations._rows
        session = here.session("both")

        def away(*_):
            raise StoreUnavailable("the database is away")

        with monkeypatch.context() as broken:
            for name in ("read", "write"):
                broken.setattr(rows, name, away)
            session.load("create_event")
            there.session("both").load("web_search")
            assert session.loaded == ("create_event",)
        assert here.flush()
        assert set(there.session("both").loaded) == {"create_event", "web_search"} == set(session.loaded)


def test_a_write_of_which_nobody_heard_that_it_was_committed_counts_once(url, tmp_path, monkeypatch):
    with opened(url, tmp_path) as roll:
        rows, session = roll._home.conversations._rows, roll.session("deaf")
        session.select("Read my mail", k=3)
        write, heard = rows.write, []

        def deaf(*arguments):
            written = write(*arguments)
            if not heard:
                heard.append(written)
                raise StoreUnavailable("the connection is lost")
            return written

        monkeypatch.setattr(rows, "write", deaf)
        session.load("create_event")
        session.end_turn()
        assert roll.flush()
        before = session.conversation
        roll.release_session("deaf")
        again = roll.session("deaf")
        assert heard and again.conversation == before and again.loaded == ("create_event",)
        assert not again.is_open


def test_more_than_may_wait_are_dropped_those_that_waited_longest_first(url, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("toolroll.registry.sessions.conversations.MOST_WAITING", 3)
    with opened(url, tmp_path) as roll:
        rows, write = roll._home.conversations._rows, roll._home.conversations._rows.write

        def away(*_):
            raise StoreUnavailable("the database is away")

        monkeypatch.setattr(rows, "write", away)
        for number in range(5):
            roll.session(f"s{number}").load("create_event")
        health = roll.health()["sessions"]
        assert (health["waiting"], health["dropped"]) == (3, 2) and "changes are lost" in caplog.text
        monkeypatch.setattr(rows, "write", write)
        assert roll.flush()
        assert {one.session for one in rows.list()} == {"s2", "s3", "s4"}


def test_a_conversation_that_another_process_has_deleted_begins_again(url, tmp_path):
    with opened(url, tmp_path, "a") as here, opened(url, tmp_path, "b") as there:
        session = here.session("gone")
        session.select("Read my mail", k=3)
        session.load("create_event")
        assert there.session("gone").delete()
        session.load("web_search")
        assert session.loaded == ("web_search",) == there.session("gone").loaded


def test_calls_that_do_not_wait_in_an_event_loop_reach_the_store_a_moment_later(url, tmp_path, monkeypatch):
    async def talk(roll):
        session = await roll.asession("looped")
        monkeypatch.setattr(roll._home.conversations._rows, "write", lambda *_: pytest.fail("waits"))
        session.load("create_event")
        monkeypatch.undo()

    with opened(url, tmp_path, "a") as here, opened(url, tmp_path, "b") as there:
        asyncio.run(talk(here))
        deadline = time.monotonic() + 60
        while there.session("looped").loaded != ("create_event",):
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_goes_on_from_the_store(url, tmp_path):
    with opened(url, tmp_path) as roll:
        session = roll.session("forked")
        called = session.select("Read my mail", k=3).names[-1]
        session.used([called])  # waits for the end of the turn: that is for the parent to write
        child = os.fork()
        if child == 0:  # pragma: no cover
            status = 1
            try:
                if roll.health()["sessions"]["waiting"] == 0:
                    roll.session("forked").load("create_event")
                    status = 0 if roll.flush(20) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        session.end_turn()
        assert session.loaded == ("create_event",) and session.conversation.called[0][1] == (called,)


def test_expired_sessions_are_deleted_on_the_side(url, tmp_path, monkeypatch):
    monkeypatch.setattr("toolroll.registry.sessions.conversations._PRUNE_EVERY_S", 0.0)
    database = Database.open(url, create=False, migrate=False)
    brief = SessionStore(database, lifetime_s=0.001)
    for number in range(25):
        brief.write(("acme", f"old{number}"), 0, "{}", 0)
    with opened(url, tmp_path):
        deadline = time.monotonic() + 60
        while brief.list():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    database.close()


def test_an_event_loop_may_ask_for_a_conversation(url, tmp_path):
    with opened(url, tmp_path) as roll:
        roll.session("looped").load("create_event")
        session = asyncio.run(asyncio.to_thread(roll.session, "looped", Context(user="ann"), learns=False))
        assert session.loaded == ("create_event",)


def test_health_says_how_many_conversations_wait(url, tmp_path):
    with opened(url, tmp_path) as roll:
        roll.session("well").load("create_event")
        assert roll.flush()
        said = roll.health()["sessions"]
        assert (said["held"], said["waiting"], said["failing"]) == (1, 0, None)


def test_a_turn_of_a_session_is_decided_again_bit_for_bit(url, tmp_path):
    with opened(url, tmp_path) as roll:
        session = roll.session("logged", Context(user="ann"))
        events = []
        for message in ("What's on my calendar tomorrow?", "move the second one", "Write it down as a note"):
            events.append(session.select(message, k=5).event_id)
            session.load("web_search")
            session.used({session.selection.names[-1]: True})
            session.end_turn()
        session.fallback()
        events.append(session.select("and all the rest").event_id)
        assert roll.flush()
        database = Database.open(url, create=False, migrate=False)
        for event_id in events:
            replayed = replay(database, event_id, builder_of)
            assert replayed.missing == () and replayed.differences == (), event_id
        database.close()


def test_what_a_session_reports_counts_once_in_the_store(url, tmp_path):
    with opened(url, tmp_path) as roll:
        session = roll.session("counted", Context(user="ann"))
        picked = session.select("What's on my calendar tomorrow?", k=5)
        session.used({"list_events": True})
        session.used({"list_events": True})
        session.search("write a note")
        session.used({"create_note": True})
        session.end_turn()
        session.end_turn()
        assert roll.flush()
        with roll._home._database.reading() as connection:
            row = connection.execute(
                sa.select(tables.selection_events.c.called).where(
                    tables.selection_events.c.event_id == picked.event_id
                )
            ).one()
        assert row.called == {"list_events": "succeeded", "create_note": "wanted_succeeded"}


KILLED = """
import sys, time
from toolroll import Recording, Toolroll
roll = Toolroll.open(sys.argv[1], recording=Recording(outbox=sys.argv[2]))
session = roll.session("killed")
session.select("Read my mail", k=3)
session.load("create_event")
roll.flush()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_its_conversations(url, tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, url, str(tmp_path / "killed")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    with opened(url, tmp_path) as roll:
        assert roll.session("killed").loaded == ("create_event",)


def test_a_name_that_looks_shortened_is_refused_since_it_may_be_anothers(url, tmp_path):
    with opened(url, tmp_path) as roll:
        long = "x" * 300
        roll.session(long, Context(org="acme" * 60)).load("create_event")
        assert roll.flush()
        kept = roll._home.conversations._rows.list()[0]
        for session, org in ((kept.session, "acme" * 60), (long, kept.org)):
            with pytest.raises(InvalidInput, match="shortened"):
                roll.session(session, Context(org=org))
        roll._home.conversations._live.pop(("acme" * 60, long))
        assert roll.session(long, Context(org="acme" * 60)).loaded == ("create_event",)


def test_a_conversation_with_long_names_is_kept_all_the_same(url, tmp_path):
    with opened(url, tmp_path) as roll:
        conversations, name = roll._home.conversations, ("", "long")
        live = conversations.open(name, roll._home.engine.snapshot.pipeline("").retention)
        names = [f"{'🙂' * 120}{at}" for at in range(128)]
        live.apply(lambda state: state.changed(lambda now: now.load(names)))
        conversations.save(live)
        assert roll.flush()
        roll.release_session("long")
        kept = conversations.open(name, live.retention).state.conversation.loaded
        assert kept and kept == live.state.conversation.loaded[: len(kept)]
