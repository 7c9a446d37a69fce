"""Sessions in the database: who has read one version writes the next, and nobody else's."""

from __future__ import annotations

import threading
import uuid
from datetime import datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolroll.errors import Conflict, InvalidInput, StoreUnavailable
from toolroll.registry.sessions import store as module
from toolroll.registry.sessions.records import MOST_BYTES, SessionSummary, key_of
from toolroll.registry.sessions.store import Draft, SessionStore, WriteResult
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


def union(one, other):
    return {"turn": max(one["turn"], other["turn"]), "seen": sorted({*one["seen"], *other["seen"]})}


def draft(org, session, record, version=None, at=None):
    return Draft(key_of(org, session), record, version, at or datetime.now(timezone.utc))


def test_what_is_written_is_read_by_who_opens_the_store(store, database_url):
    record = {
        "turn": 3,
        "loaded": {"weather_tool": 1},
        "날씨": [None, True, 0.1, 2**60, "a\0b"],
        "z": 1,
        "a": 2,
    }
    version = store.write("acme", "conversation-42", record, 0)
    other = Database.open(database_url, create=False, migrate=False)
    found = SessionStore(other).read("acme", "conversation-42")
    assert (found.record, found.version) == (record, version)
    assert list(found.record) == list(record)  # in their order
    assert abs(found.updated_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert store.list("acme")[0].turn == 3
    other.close()


def test_one_that_moved_on_is_not_written_over(store):
    first = store.write("acme", "s", {"turn": 1}, 0)
    second = store.write("acme", "s", {"turn": 2}, first)
    assert second != first
    for version in (first, 0, second + 1):
        with pytest.raises(Conflict, match=r"session 's' of organisation 'acme': is not at version"):
            store.write("acme", "s", {"turn": 9}, version)
    assert store.read("acme", "s").record == {"turn": 2}
    assert store.read("acme", "s").version == second


def test_one_that_was_forgotten_is_gone_and_its_versions_are_not_its_successors(store):
    version = store.write("acme", "s", {"turn": 1}, 0)
    assert store.forget("acme", "s") and not store.forget("acme", "s")
    assert store.read("acme", "s") is None
    with pytest.raises(Conflict):
        store.write("acme", "s", {"turn": 2}, version)
    store.write("acme", "s", {"turn": 1}, 0)
    with pytest.raises(Conflict):
        store.write("acme", "s", {"turn": 2}, version)


def test_the_same_id_is_another_session_in_another_organisation(store):
    versions = {org: store.write(org, "s", {"of": org}, 0) for org in ("acme", "umbrella", "")}
    for org, version in versions.items():
        assert store.read(org, "s").record == {"of": org}
        assert [one.session for one in store.list(org)] == ["s"]
        for other in versions.keys() - {org}:
            with pytest.raises(Conflict):
                store.write(other, "s", {"of": org}, version)
    store.write("acme", "only here", {}, 0)
    assert store.read("umbrella", "only here") is None
    assert not store.forget("umbrella", "only here")
    assert store.prune(0, org="umbrella") == 1
    assert store.forget("acme", "s")
    assert [(one.org, one.session) for one in store.list()] == [("acme", "only here"), ("", "s")]


HOSTILE = (
    "\0", "a\0b", "a\u2400b", "\ud800", "\udfff", "x\ud83d", "x" * 128, "x" * 129, "\U0001f600" * 128,
    "y" * 10**6, "y" * (10**6 - 1) + "\0", "'; DROP TABLE sessions; --", "%s %(a)s ?", "line\nbreak", " ", "..",
    "\u202eevil", "é", "e\u0301",
)  # fmt: skip


def test_ids_of_every_kind_are_kept_apart(store):
    for number, session in enumerate(HOSTILE):
        store.write("acme", session, {"number": number}, 0)
    for number, session in enumerate(HOSTILE):
        assert store.read("acme", session).record == {"number": number}, session[:20]
    listed = store.list("acme", limit=100)
    assert len(listed) == len(HOSTILE)
    for one in listed:  # what is listed can be asked for
        assert store.read("acme", one.session).version == one.version
    for session in HOSTILE:
        assert store.forget("acme", session)


@pytest.mark.parametrize("org", ["a\0", "\ud800", "x" * 5_000, None])
def test_an_organisation_that_cannot_be_kept_is_refused_by_every_call(store, org):
    asks = [
        lambda: store.read(org, "s"),
        lambda: store.write(org, "s", {}, 0),
        lambda: store.forget(org, "s"),
        *([lambda: store.list(org), lambda: store.prune(org=org)] if org is not None else []),
    ]
    for ask in asks:
        with pytest.raises(InvalidInput, match="org"):
            ask()


def test_an_organisation_of_the_longest_name_has_sessions(store):
    org = "".join(chr(0x4E00 + at * 7919 % 20_000) for at in range(4_096))
    store.write(org, "s", {"a": 1}, 0)
    assert store.read(org, "s").record == {"a": 1}
    assert store.read(org[:-1], "s") is None
    assert len(store.list(org)) == 1 and store.prune(0, org=org) == 1


@pytest.mark.parametrize(
    "record",
    [{"x": "y" * MOST_BYTES}, {"x": float("nan")}, {"turn": -1}, [1]],
    ids=["large", "nan", "turn", "list"],
)
def test_a_record_that_cannot_be_kept_is_refused_and_nothing_changes(store, record):
    version = store.write("acme", "s", {"turn": 1}, 0)
    with pytest.raises(InvalidInput, match="session 's'"):
        store.write("acme", "s", record, version)
    with pytest.raises(InvalidInput, match="session 'new'"):
        store.write("acme", "new", record, 0)
    assert [(one.session, one.version) for one in store.list()] == [("s", version)]


def test_in_a_batch_each_session_fares_for_itself(store):
    same = store.write("acme", "same", {"turn": 1, "seen": ["a"]}, 0)
    old = store.write("acme", "moved", {"turn": 1, "seen": ["a"]}, 0)
    store.write("acme", "moved", {"turn": 2, "seen": ["a", "b"]}, old)
    store.write("acme", "odd", {"nothing": "to merge by"}, 0)
    mine = {"turn": 5, "seen": ["c"]}
    done = store.write_all(
        [
            draft("acme", "same", mine, same),
            draft("acme", "moved", mine, old),
            draft("acme", "odd", mine),
            draft("acme", "new", mine, 0),
            draft("acme", "gone", mine, old),
            draft("acme", "large", {"x": "y" * MOST_BYTES}),
        ],
        union,
    )
    merged = {name: done["acme", name].is_merged for name in ("same", "moved", "new", "gone")}
    assert merged == {"same": False, "moved": True, "new": False, "gone": False}
    assert all(isinstance(done["acme", name], InvalidInput) for name in ("odd", "large"))
    assert isinstance(done["acme", "odd"].__cause__, KeyError)
    for name, seen in {"same": ["c"], "moved": ["a", "b", "c"], "new": ["c"], "gone": ["c"]}.items():
        found = store.read("acme", name)
        assert (found.record["seen"], found.version) == (seen, done["acme", name].version)
    assert store.read("acme", "odd").record == {"nothing": "to merge by"}
    assert store.read("acme", "large") is None
    assert {one.session: one.turn for one in store.list()} == {
        "same": 5, "moved": 5, "new": 5, "gone": 5, "odd": 0,
    }  # fmt: skip


def test_without_a_merge_those_that_moved_on_are_left_and_missing_from_the_answer(store):
    old = store.write("acme", "moved", {"turn": 1}, 0)
    store.write("acme", "moved", {"turn": 2}, old)
    done = store.write_all(
        [draft("acme", "moved", {}, old), draft("acme", "gone", {}, old), draft("acme", "new", {})]
    )
    assert list(done) == [("acme", "new")]
    assert [one.session for one in store.list()] == ["new", "moved"] and store.read(
        "acme", "moved"
    ).record == {"turn": 2}


def test_who_wrote_last_need_not_know_its_version_to_go_on(store):
    mine = [draft("acme", "s", {"turn": turn, "seen": [turn]}) for turn in (1, 2, 3)]
    for one in mine[:2]:
        assert not store.write_all([one], union, mark=7)["acme", "s"].is_merged
    assert store.read("acme", "s").record["seen"] == [2]
    assert store.write_all([draft("acme", "s", {"turn": 1, "seen": [8]})], union, mark=8)[
        "acme", "s"
    ].is_merged
    # The other has merged what both know: that is nobody's alone.
    assert store.write_all([mine[2]], union, mark=7)["acme", "s"].is_merged
    assert store.read("acme", "s").record["seen"] == [2, 3, 8]


def test_threads_that_compare_and_set_count_exactly(store):
    def count() -> None:
        for _ in range(15):
            while True:
                found = store.read("acme", "s")
                record, version = (found.record, found.version) if found else ({"turn": 0}, 0)
                try:
                    store.write("acme", "s", {"turn": record["turn"] + 1}, version)
                    break
                except Conflict:
                    continue

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read("acme", "s").record == {"turn": 90}


def test_batches_that_meet_wait_for_each_other_and_lose_nothing(store):
    """Every thread writes the same sessions, in an order of its own, and all are new to all at first."""
    failures: list[BaseException] = []

    def work(part: int) -> None:
        try:
            for turn in range(6):
                record = {"turn": turn, "seen": [f"{part}.{turn}"]}
                names = [f"s{(at * (2 * part + 1)) % 41}" for at in range(41)]
                left = [draft("acme", name, record) for name in names]
                while left:
                    done = store.write_all(left, union)
                    assert all(isinstance(one, WriteResult) for one in done.values())
                    left = [one for one in left if one.key not in done]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    everything = sorted(f"{part}.{turn}" for part in range(4) for turn in range(6))
    for at in range(41):
        assert store.read("acme", f"s{at}").record["seen"] == everything


SESSIONS = ("a", "b", "c")
STEP = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(SESSIONS), st.integers(0, 2)),
    st.tuples(st.just("forget"), st.sampled_from(SESSIONS)),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 4.0, 9.0])),
    st.tuples(st.just("prune"), st.sampled_from([None, 0.0, 5.0])),
    st.tuples(st.just("batch"), st.sets(st.sampled_from(SESSIONS), min_size=1)),
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
            now = store.read(org, name)
            assert (None if now is None else now.record) == (model[name][0] if alive(name) else None)
            if version == (0 if now is None else now.version):
                held[name].append(store.write(org, name, {"turn": number, "seen": [number]}, version))
                model[name] = {"turn": number, "seen": [number]}, clock[0]
            elif now is not None:
                with pytest.raises(Conflict):
                    store.write(org, name, {}, version)
            if now is None:
                held[name].append(0)
        elif step[0] == "forget":
            assert store.forget(org, step[1]) == (model.pop(step[1], None) is not None)
        elif step[0] == "wait":
            clock[0] += timedelta(seconds=step[1])
        elif step[0] == "prune":
            old = timedelta(seconds=10.0 if step[1] is None else min(10.0, step[1]))
            gone = {name for name, (_, at) in model.items() if at + old <= clock[0]}
            assert store.prune(step[1], org=org) == len(gone)
            model = {name: value for name, value in model.items() if name not in gone}
        else:
            drafts = [draft(org, name, {"turn": 0, "seen": [-number]}, None, clock[0]) for name in step[1]]
            for (_, name), done in store.write_all(drafts, union).items():
                assert done.is_merged == alive(name)
                mine = {"turn": 0, "seen": [-number]}
                model[name] = (union(model[name][0], mine) if alive(name) else mine), clock[0]
                held[name].append(done.version)
    found = {one.session: (one.turn, one.updated_at) for one in store.list(org)}
    assert found == {name: (record["turn"], at) for name, (record, at) in model.items()}


def test_one_that_has_expired_is_as_if_it_were_not_there(database, clock):
    store = SessionStore(database, lifetime_s=100.0)
    version = store.write("acme", "s", {"turn": 5}, 0)
    clock[0] += timedelta(seconds=99)
    assert store.read("acme", "s").record == {"turn": 5}
    clock[0] += timedelta(seconds=1)
    assert store.read("acme", "s") is None
    begun = store.write("acme", "s", {"turn": 1}, 0)
    assert begun != version and store.read("acme", "s").record == {"turn": 1}
    (kept,) = store.list()
    assert kept.created_at == kept.updated_at == clock[0]
    assert kept.expires_at == clock[0] + timedelta(seconds=100)


def test_one_that_never_expires_stays(database, clock):
    store = SessionStore(database, lifetime_s=None)
    store.write("acme", "s", {}, 0)
    clock[0] += timedelta(days=3_000)
    assert store.prune() == 0 and store.read("acme", "s") is not None
    assert store.list()[0].expires_at is None


@pytest.mark.parametrize("lifetime_s", [0, -1, float("nan"), float("inf"), 1e30])
def test_a_lifetime_that_is_none_is_refused(database, lifetime_s):
    with pytest.raises(InvalidInput, match="lifetime_s"):
        SessionStore(database, lifetime_s)


def test_old_ones_are_cleared_away_some_at_a_time(store, clock, monkeypatch):
    monkeypatch.setattr(module, "_SOME_GONE", 10)
    for part in range(2):
        store.write_all([draft("acme", f"{part}.{at}", {}, 0, clock[0]) for at in range(25)])
        clock[0] += timedelta(days=20)
    assert store.prune(most=7) == 7  # the first part has expired
    assert store.prune() == 18
    assert store.prune() == 0
    assert store.prune(30 * DAY_S) == 0
    assert store.prune(20 * DAY_S, org="umbrella") == 0
    assert store.prune(20 * DAY_S) == 25
    assert store.list() == ()


@pytest.mark.parametrize("age", [-1, float("nan"), float("inf"), 1e30, "7d"])
def test_an_age_that_is_none_is_refused(store, age):
    with pytest.raises(InvalidInput, match="older_than_s"):
        store.prune(age)


@pytest.mark.parametrize("limit", [1, 3, 7, 20])
def test_pages_of_a_list_hold_each_session_once_the_one_used_last_first(store, clock, limit):
    for at in range(20):
        store.write(("acme", "umbrella")[at % 2], f"s{at * 7 % 20}", {"turn": at}, 0)
        if at % 3 == 0:  # many were written at the same instant
            clock[0] += timedelta(microseconds=1)
    pages: list[SessionSummary] = []
    while page := store.list(limit=limit, before=pages[-1] if pages else None):
        assert len(page) <= limit
        pages += page
    assert len({(one.org, one.session) for one in pages}) == len(pages) == 20
    order = [(one.updated_at, one.org, one.session) for one in pages]
    assert order == sorted(order, reverse=True)
    assert store.list("acme") == tuple(one for one in pages if one.org == "acme")
    middle = pages[10].updated_at
    assert store.list(before=middle) == tuple(one for one in pages if one.updated_at < middle)


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
        lambda: store.read("acme", "s"),
        lambda: store.write("acme", "s", {}, 0),
        lambda: store.forget("acme", "s"),
        lambda: store.prune(),
        lambda: store.list(),
    ):
        with pytest.raises(StoreUnavailable):
            ask()


def test_sessions_are_no_change_of_the_registry(store, database):
    before = database.revision()
    store.write("acme", "s", {}, 0)
    store.forget("acme", "s")
    assert database.revision() == before
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tables.changes)) == 0
