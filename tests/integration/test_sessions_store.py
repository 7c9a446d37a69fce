"""Sessions in the database: who has read one version writes the next, and nobody else's."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.registry.sessions import store as module
from toolroll.registry.sessions.keys import key_of
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
DAY_S = 86_400.0


@pytest.fixture
def store(database: Database) -> SessionStore:
    return SessionStore(database)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """What time it is; to be changed."""
    now = [NOW]
    monkeypatch.setattr(module, "_now", lambda: now[0])
    return now


def write(store: SessionStore, org: str, session: str, record: dict[str, Any], version: int) -> int | None:
    return store.write(key_of(org, session), record.get("turn", 0), json.dumps(record), version)


def read(store: SessionStore, org: str, session: str) -> Any:
    found = store.read(key_of(org, session))
    return None if found is None else found.record


def test_what_is_written_is_read_by_who_opens_the_store(store, database_url):
    record = {
        "turn": 3,
        "loaded": {"weather_tool": 1},
        "날씨": [None, True, 0.1, 2**60, "a\0b"],
        "z": 1,
        "a": 2,
    }
    version = write(store, "acme", "conversation-42", record, 0)
    other = Database.open(database_url, create=False, migrate=False)
    found = SessionStore(other).read(key_of("acme", "conversation-42"))
    assert (found.record, found.version) == (record, version)
    assert list(found.record) == list(record)  # in their order
    assert abs(found.updated_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert store.list("acme")[0].turn == 3
    other.close()


def test_one_that_moved_on_is_not_written_over(store):
    first = write(store, "acme", "s", {"turn": 1}, 0)
    second = write(store, "acme", "s", {"turn": 2}, first)
    assert first and second and second != first
    for version in (first, 0, second + 1):
        assert write(store, "acme", "s", {"turn": 9}, version) is None
    found = store.read(("acme", "s"))
    assert (found.record, found.version) == ({"turn": 2}, second)


def test_one_that_was_forgotten_is_gone_and_its_versions_are_not_its_successors(store):
    version = write(store, "acme", "s", {"turn": 1}, 0)
    assert store.forget(("acme", "s")) and not store.forget(("acme", "s"))
    assert store.read(("acme", "s")) is None
    assert write(store, "acme", "s", {"turn": 2}, version) is None
    assert write(store, "acme", "s", {"turn": 1}, 0)
    assert write(store, "acme", "s", {"turn": 2}, version) is None


def test_the_same_id_is_another_session_in_another_organisation(store):
    versions = {org: write(store, org, "s", {"of": org}, 0) for org in ("acme", "umbrella", "")}
    for org, version in versions.items():
        assert read(store, org, "s") == {"of": org}
        assert [one.session for one in store.list(org)] == ["s"]
        for other in versions.keys() - {org}:
            assert write(store, other, "s", {"of": org}, version) is None
    write(store, "acme", "only here", {}, 0)
    assert store.read(("umbrella", "only here")) is None
    assert not store.forget(("umbrella", "only here"))
    assert store.prune(0, org="umbrella") == 1
    assert store.forget(("acme", "s"))
    assert [(one.org, one.session) for one in store.list()] == [("acme", "only here"), ("", "s")]


HOSTILE = (
    "\0", "a\0b", "a\u2400b", "\ud800", "\udfff", "x\ud83d", "x" * 128, "x" * 129, "\U0001f600" * 128,
    "y" * 10**6, "y" * (10**6 - 1) + "\0", "'; DROP TABLE sessions; --", "%s %(a)s ?", "line\nbreak", " ", "..",
    "\u202eevil", "é", "e\u0301",
)  # fmt: skip


def test_ids_of_every_kind_are_kept_apart(store):
    for number, session in enumerate(HOSTILE):
        write(store, "acme", session, {"number": number}, 0)
    for number, session in enumerate(HOSTILE):
        assert read(store, "acme", session) == {"number": number}, session[:20]
    listed = store.list("acme", limit=100)
    assert len(listed) == len(HOSTILE)
    for one in listed:  # what is listed can be asked for
        assert store.read(key_of("acme", one.session)).version == one.version
    for session in HOSTILE:
        assert store.forget(key_of("acme", session))


@pytest.mark.parametrize("org", ["a\0", "\ud800", "x" * 5_000])
def test_an_organisation_that_cannot_be_kept_is_refused(store, org):
    for ask in (lambda: key_of(org, "s"), lambda: store.list(org), lambda: store.prune(org=org)):
        with pytest.raises(InvalidInput, match="org"):
            ask()


def test_an_organisation_of_the_longest_name_has_sessions(store):
    org = "".join(chr(0x4E00 + at * 7919 % 20_000) for at in range(4_096))
    write(store, org, "s", {"a": 1}, 0)
    assert read(store, org, "s") == {"a": 1}
    assert read(store, org[:-1], "s") is None
    assert len(store.list(org)) == 1 and store.prune(0, org=org) == 1


def test_threads_that_compare_and_set_count_exactly(store):
    def count() -> None:
        for _ in range(15):
            while True:
                found = store.read(("acme", "s"))
                turn, version = (found.record["turn"], found.version) if found else (0, 0)
                if write(store, "acme", "s", {"turn": turn + 1}, version):
                    break

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(store, "acme", "s") == {"turn": 90}


SESSIONS = ("a", "b", "c")
STEP = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(SESSIONS), st.integers(0, 2)),
    st.tuples(st.just("forget"), st.sampled_from(SESSIONS)),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 4.0, 9.0])),
    st.tuples(st.just("prune"), st.sampled_from([None, 0.0, 5.0])),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=25))
def test_it_is_a_dictionary_that_forgets(database, clock, steps):
    org, clock[0] = uuid.uuid4().hex, NOW
    store = SessionStore(database, lifetime_s=10.0)
    model: dict[str, tuple] = {}  # session → record, when it was written
    held: dict[str, list[int]] = {name: [0] for name in SESSIONS}  # versions that somebody has seen

    def alive(name):
        return name in model and model[name][1] + timedelta(seconds=10) > clock[0]

    for number, step in enumerate(steps, 1):
        if step[0] == "write":
            _, name, which = step
            version = held[name][-1 - min(which, len(held[name]) - 1)]
            now = store.read((org, name))
            assert (None if now is None else now.record) == (model[name][0] if alive(name) else None)
            if version == (0 if now is None else now.version):
                held[name].append(write(store, org, name, {"turn": number}, version))
                assert held[name][-1]
                model[name] = {"turn": number}, clock[0]
            elif now is not None:
                assert write(store, org, name, {}, version) is None
            if now is None:
                held[name].append(0)
        elif step[0] == "forget":
            assert store.forget((org, step[1])) == (model.pop(step[1], None) is not None)
        elif step[0] == "wait":
            clock[0] += timedelta(seconds=step[1])
        else:
            old = timedelta(seconds=10.0 if step[1] is None else min(10.0, step[1]))
            gone = {name for name, (_, at) in model.items() if at + old <= clock[0]}
            assert store.prune(step[1], org=org) == len(gone)
            model = {name: value for name, value in model.items() if name not in gone}
    found = {one.session: (one.turn, one.updated_at) for one in store.list(org)}
    assert found == {name: (record["turn"], at) for name, (record, at) in model.items()}


def test_one_that_has_expired_is_as_if_it_were_not_there(database, clock):
    store = SessionStore(database, lifetime_s=100.0)
    version = write(store, "acme", "s", {"turn": 5}, 0)
    clock[0] += timedelta(seconds=99)
    assert read(store, "acme", "s") == {"turn": 5}
    clock[0] += timedelta(seconds=1)
    assert store.read(("acme", "s")) is None
    begun = write(store, "acme", "s", {"turn": 1}, 0)
    assert begun != version and read(store, "acme", "s") == {"turn": 1}
    (kept,) = store.list()
    assert kept.created_at == kept.updated_at == clock[0]
    assert kept.expires_at == clock[0] + timedelta(seconds=100)


def test_one_that_never_expires_stays(database, clock):
    store = SessionStore(database, lifetime_s=None)
    write(store, "acme", "s", {}, 0)
    clock[0] += timedelta(days=3_000)
    assert store.prune() == 0 and store.read(("acme", "s")) is not None
    assert store.list()[0].expires_at is None


@each_row("lifetime_s", [0, -1, float("nan"), float("inf"), 1e30])
def test_a_lifetime_that_is_none_is_refused(database, lifetime_s):
    with pytest.raises(InvalidInput, match="lifetime_s"):
        SessionStore(database, lifetime_s)


def test_old_ones_are_cleared_away_some_at_a_time(store, clock, monkeypatch):
    monkeypatch.setattr(module, "_SOME_GONE", 10)
    for part in range(2):
        for at in range(25):
            write(store, "acme", f"{part}.{at}", {}, 0)
        clock[0] += timedelta(days=20)
    assert store.prune(most=7) == 7  # the first part has expired
    assert store.prune() == 18
    assert store.prune() == 0
    assert store.prune(30 * DAY_S) == 0
    assert store.prune(20 * DAY_S, org="umbrella") == 0
    assert store.prune(20 * DAY_S) == 25
    assert store.list() == ()


@each_row("age", [-1, float("nan"), float("inf"), 1e30, "7d"])
def test_an_age_that_is_none_is_refused(store, age):
    with pytest.raises(InvalidInput, match="older_than_s"):
        store.prune(age)


def test_a_list_has_the_session_that_was_used_last_first(store, clock):
    for at in range(20):
        write(store, ("acme", "umbrella")[at % 2], f"s{at * 7 % 20}", {"turn": at}, 0)
        if at % 3 == 0:  # many were written at the same instant
            clock[0] += timedelta(microseconds=1)
    every = store.list()
    assert len({(one.org, one.session) for one in every}) == len(every) == 20
    order = [(one.updated_at, one.org, one.session) for one in every]
    assert order == sorted(order, reverse=True)
    assert store.list(limit=7) == every[:7]
    assert store.list("acme") == tuple(one for one in every if one.org == "acme")
    middle = every[10].updated_at
    assert store.list(before=middle) == tuple(one for one in every if one.updated_at < middle)


@pytest.mark.parametrize(
    "options",
    [{"limit": 0}, {"limit": "x"}, {"before": datetime(2026, 1, 1)}, {"before": "yesterday"}],
    ids=repr,
)
def test_a_list_that_is_asked_for_wrongly_is_refused(store, options):
    with pytest.raises(InvalidInput, match="limit|before"):
        store.list(**options)


def test_a_store_that_is_closed_says_so(store, database):
    database.close()
    for ask in (
        lambda: store.read(("acme", "s")),
        lambda: write(store, "acme", "s", {}, 0),
        lambda: store.forget(("acme", "s")),
        lambda: store.prune(),
        lambda: store.list(),
    ):
        with pytest.raises(StoreUnavailable):
            ask()


def test_sessions_are_no_change_of_the_registry(store, database):
    before = database.revision()
    write(store, "acme", "s", {}, 0)
    store.forget(("acme", "s"))
    assert database.revision() == before
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tables.changes)) == 0
