"""Profiles judged on what a registry's readers logged: decided again with what was known then."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from toolroll import Context, Tool, Toolroll
from toolroll.embedders.named import embedder
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
    with Toolroll.open(url, poll_s=0.05, listens=False) as roll:
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
