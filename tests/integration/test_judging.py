"""Profiles judged on what a registry's readers logged: decided again with what was known then."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from toolroll import Context, Follow, Tool, Toolroll
from toolroll.cli import main
from toolroll.embedders.named import embedder
from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.registry.analytics.off_policy_log import evaluate_off_policy
from toolroll.registry.analytics.redecide import Redecider
from toolroll.registry.analytics.window import Window, events
from toolroll.registry.events.details import read_events
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import profile

pytestmark = pytest.mark.slow

TURNS = 18
TOPICS = ("rain", "deals", "mail", "notes", "photos", "music")
TOOLS = [Tool(f"{verb}_{topic}", f"{verb}s {topic}") for topic in TOPICS for verb in ("find", "show", "list")]


def use(url):
    """Turns of a roll that learns as it goes: of each topic only `show` works."""
    with Registry.open(url, actor="test", create=False) as registry:
        for tool in TOOLS:
            registry.create(tool)
        registry.create(Tool("find_contracts", "finds contracts"), org="acme")
    with Toolroll.open(url, follow=Follow(poll_s=0.05, listens=False)) as roll:
        roll.warm_up(["acme"])
        for n in range(TURNS):
            context = Context(org="acme", user=f"u{n % 9}", page="home", session=f"s{n // 4}")
            picked = roll.select(f"please find the {TOPICS[n % len(TOPICS)]}", context, k=2)
            roll.record(picked, {name: name.startswith("show") for name in picked.names[:1]})
            assert roll.flush()
            roll.warm_up(["acme"])  # reads the outcome


def again_under(database, **parameters):
    return Redecider(database, PipelineBuilder(embedder("static"), profile("default").with_(**parameters)))


def rows_of(database):
    with database.reading() as connection:
        (rows,) = read_events(connection, (), (events.c.at,))
        return rows


def test_the_profile_that_served_is_judged_by_the_propensities_that_were_logged(database, database_url):
    use(database_url)
    again, rows = again_under(database), rows_of(database)
    assert len(rows) == TURNS and rows[-1].learned_revision == TURNS - 1
    for row in rows:
        found = again(row)
        logged = {name: propensity for name, *_, propensity in row.candidates}
        assert found is not None and sum(found.values()) == pytest.approx(2, abs=2e-3)
        assert set(found) == {name for name, propensity in logged.items() if propensity}
        for name, propensity in found.items():
            assert propensity == pytest.approx(logged[name], abs=1e-6), (row.learned_revision, name)
    judged = evaluate_off_policy(database, Window("acme"), again_under(database)).judgement
    assert judged is not None and (judged.events, judged.sessions) == (TURNS, 5)
    assert judged.unsupported < 1e-3
    assert judged.ips.low <= judged.logged.value <= judged.ips.high


@pytest.fixture
def used(new_database_url):
    url = new_database_url("sqlite")
    use(url)
    database = Database.open(url, create=False, migrate=False)
    yield database
    database.close()


def test_a_profile_is_given_what_was_reported_before_an_event_and_nothing_later(used):
    def by_message(again):
        found = {}
        for row in rows_of(used):
            found.setdefault(row.message, set()).add(tuple(sorted(again(row).items())))
        return [len(kinds) for kinds in found.values()]

    assert (
        max(by_message(again_under(used))) > 1
    )  # what was reported between two events counts for the second
    assert by_message(again_under(used, learning=None)) == [1] * len(TOPICS)
    for row in rows_of(used):
        assert set(again_under(used, learning=None)(row).values()) == {1.0}
    with used.recording() as connection:
        end = connection.execute(sa.select(sa.func.max(events.c.at))).scalar_one()
        connection.execute(sa.update(tables.outcomes).values(received_at=end))
    again = again_under(used)
    first = {row.message: again(row) for row in rows_of(used)[: len(TOPICS)]}
    assert all(again(row) == first[row.message] for row in rows_of(used)[len(TOPICS) : -1])


def test_an_event_whose_message_was_not_kept_cannot_be_decided_again(used):
    with used.recording() as connection:
        connection.execute(sa.update(events).values(message_form="hashed"))
    found = evaluate_off_policy(used, Window(), again_under(used))
    assert found.judgement is None and found.skipped == {"cannot be decided again": TURNS}


@pytest.fixture
def exported(used, new_database_url, tmp_path):
    """The events of two organisations with their messages, in partitions."""
    pytest.importorskip("duckdb")
    from toolroll.registry.analytics.parquet_stream import StreamOptions, export_stream
    from toolroll.runtime.locations import Location

    options = StreamOptions(by="org", messages=True)
    with used.recording() as connection:
        rest = sa.select(events.c.event_id).order_by(events.c.at).limit(6)
        connection.execute(sa.update(events).where(events.c.event_id.in_(rest)).values(org="globex"))
    end = datetime.now(timezone.utc) + timedelta(days=1)
    export_stream(used, Location(str(tmp_path / "lake")), options, now=end, settle_s=0)
    return tmp_path / "lake"


def test_exported_events_are_judged_as_the_registrys(used, exported):
    from toolroll.lab.offline.lake import event_files
    from toolroll.lab.offline.redeciding import Decider, judge_profile

    decider = Decider(used.url)
    for org in ("acme", "globex"):
        found = judge_profile(event_files(exported, org=org), decider)
        assert found.judgement is not None and found.judgement.events in (6, TURNS - 6)
        assert found.to_dict() == evaluate_off_policy(used, Window(org), again_under(used)).to_dict()
    judgement = judge_profile(event_files(exported), Decider(used.url, "learned")).judgement
    assert judgement is not None and judgement.events == TURNS


@pytest.mark.parametrize("on", ["here", "ray"])
def test_a_profile_is_judged_to_the_same_bits_wherever_it_is(used, exported, monkeypatch, tmp_path, on):
    from toolroll.lab.offline import redeciding
    from toolroll.lab.offline.lake import event_files

    if on == "ray":
        pytest.importorskip("ray")
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
    parts, decider, kept = event_files(exported), redeciding.Decider(used.url), str(tmp_path / "kept")
    alone = redeciding.judge_profile(parts, decider).to_dict()
    assert redeciding.judge_profile(parts, decider, on=on, jobs=2, kept=kept).to_dict() == alone

    def again(*_):
        raise AssertionError("what was kept is not decided again")

    again.__module__, again.__qualname__ = redeciding._decide.__module__, redeciding._decide.__qualname__
    monkeypatch.setattr(redeciding, "_decide", again)
    assert redeciding.judge_profile(parts, decider, kept=kept).to_dict() == alone


def test_the_command_judges_exported_events(used, exported, capsys):
    def run(*words, status=0):
        assert main(["lab", "judge", "--catalog", used.url, *words]) == status
        return capsys.readouterr()

    found = json.loads(run("--events", str(exported), "--jobs", "2", "--json").out)
    assert found["judgement"]["events"] == TURNS
    assert "as it was served" in run("--events", str(exported), "--org", "globex").out
    assert "--jobs: needs --events" in run("--jobs", "2", status=2).err
    assert "--most: is for events of the registry" in run("--events", "x", "--most", "9", status=2).err
    assert "no Parquet file" in run("--events", str(exported / "none"), status=1).err


def test_events_without_messages_and_a_registry_that_changes_are_said(used, exported, tmp_path):
    from toolroll.lab.offline import redeciding
    from toolroll.lab.offline.lake import event_files
    from toolroll.registry.analytics.parquet import export

    export(used, Window(), tmp_path / "without.parquet")
    with pytest.raises(InvalidInput, match="has no message; export events with --messages"):
        redeciding.judge_profile(event_files(tmp_path / "without.parquet"), redeciding.Decider(used.url))
    decider = redeciding.Decider(used.url, "small")
    with pytest.raises(Conflict, match="the registry changed from revision 0 to"):
        redeciding._decide(event_files(exported)[0], redeciding.Decider(used.url), 0)
    assert "password" not in repr(redeciding.Decider("postgresql://ann:password@host/tools"))
    with pytest.raises(NotFound, match="small"):
        redeciding.judge_profile(event_files(exported), decider)
