"""What a process has learnt follows the store's outcomes, whoever reported them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.outcomes import DIM, NOW, Tape, eventually, exposure, rows_of, said
from toolroll.errors import StoreUnavailable
from toolroll.registry.events import follower as module
from toolroll.registry.events.fold import fold, outcomes_of
from toolroll.registry.events.follower import Follower, LearnedFactory
from toolroll.registry.events.ingest import ingest
from toolroll.registry.events.maintenance import OutcomeFilter, forget
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

MAKING = LearnedFactory(Tape, Tape.from_bytes, DIM, "hash@1", "these rates")


def report(database: Database, *events: str, org: str = "acme", **kinds: str) -> None:
    reports = [
        said(exposure(event, "mail", "rain", org=org), kinds or {"mail": "succeeded"}) for event in events
    ]
    assert ingest(database, [], reports).refused == []


def whole(database: Database, org: str = "acme") -> Tape:
    with database.reading() as connection:
        return fold(Tape(), list(outcomes_of(connection, org)), DIM, "hash@1")


@pytest.fixture
def follower(database: Database) -> Iterator[Follower[Tape]]:
    made = Follower(database, MAKING, {}, poll_s=0.05)
    yield made
    made.close()


def test_what_is_reported_is_learnt_once_and_in_its_order(
    database: Database, follower: Follower[Tape]
) -> None:
    follower.follow(["acme", "umbrella"])
    assert follower.learned == {}  # nobody has said anything
    for at in range(5):
        report(database, f"e{at}a", f"e{at}b")
        follower.follow()
        assert follower.learned["acme"] == whole(database)
    assert follower.learned.keys() == {"acme"}
    assert follower.seq_of("acme", follower.learned["acme"]) == 10
    assert follower.seq_of("acme", Tape()) == -1
    same = follower.learned["acme"]
    follower.follow()
    assert follower.learned["acme"] is same


def test_it_follows_by_itself_from_the_first_selection_on(
    database: Database, follower: Follower[Tape]
) -> None:
    report(database, "e1")
    follower.ask("acme", 1.0)
    eventually(lambda: "acme" in follower.learned)
    report(database, "e2")
    eventually(lambda: follower.learned["acme"] == whole(database))
    follower.ask("umbrella", 2.0)
    report(database, "e3", org="umbrella")
    eventually(lambda: "umbrella" in follower.learned)


def test_organisations_that_nobody_asks_for_are_not_followed(
    database: Database, follower: Follower[Tape]
) -> None:
    report(database, "e1")
    report(database, "e2", org="umbrella")
    follower.follow(["umbrella"])
    assert follower.learned.keys() == {"umbrella"}


def test_beyond_the_limit_the_one_that_asked_longest_ago_is_let_go(database: Database) -> None:
    for org in ("a", "b", "c"):
        report(database, f"e{org}", org=org)
    follower = Follower(database, MAKING, {}, most=2)
    for at, org in enumerate(("a", "b")):
        follower.asked[org] = float(at)
    follower.follow()
    follower.asked |= {"a": 5.0, "c": 6.0}
    follower.follow()
    assert follower.learned.keys() == {"a", "c"}
    follower.close()


def test_a_checkpoint_spares_the_beginning_and_changes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 10)
    first = Follower(database, MAKING, {})
    for at in range(8):
        report(database, *(f"e{at}_{part}" for part in range(7)))
        first.follow(["acme"])
    kept = rows_of(database, tables.learned_checkpoints)
    assert 1 <= len(kept) <= 2 and kept[-1].seq > 40
    asked: list[int] = []
    real = module.outcomes_of
    monkeypatch.setattr(
        module,
        "outcomes_of",
        lambda connection, org, above, up_to: (
            asked.append(above),
            real(connection, org, above, up_to),
        )[1],
    )
    second, third = Follower(database, MAKING, {}), Follower(database, replace(MAKING, rates="others"), {})
    second.follow(["acme"])
    third.follow(["acme"])
    assert asked == [kept[-1].seq, 0]
    assert first.learned == second.learned == third.learned == {"acme": whole(database)}
    for one in (first, second, third):
        one.close()


def test_a_checkpoint_that_cannot_be_read_costs_time_and_no_more(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 2)
    report(database, "e1", "e2", "e3")
    first = Follower(database, MAKING, {})
    first.follow(["acme"])
    with database.recording() as connection:
        connection.execute(sa.update(tables.learned_checkpoints).values(learned=b"damaged"))
    second = Follower(database, MAKING, {})
    second.follow(["acme"])
    assert second.learned == first.learned
    first.close()
    second.close()


def test_what_is_taken_back_is_unlearnt_everywhere(
    database: Database, follower: Follower[Tape], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 2)
    report(database, "e1", "e2")
    before = whole(database)
    follower.follow(["acme"])
    report(database, "e3", "e4")
    follower.follow()
    assert forget(database, "acme", OutcomeFilter(event_id="e3"), actor="ada") == 1
    assert forget(database, "acme", OutcomeFilter(event_id="e4"), actor="ada") == 1
    follower.follow()
    assert follower.learned["acme"] == before == whole(database)
    report(database, "e5")
    follower.follow()
    assert follower.learned["acme"] == whole(database)


def test_a_backup_that_was_restored_is_followed_from_its_beginning(
    database: Database, follower: Follower[Tape]
) -> None:
    report(database, "e1", "e2", "e3")
    follower.follow(["acme"])
    with database.recording() as connection:
        connection.execute(sa.delete(tables.outcomes).where(tables.outcomes.c.seq > 1))
        connection.execute(sa.update(tables.learning_state).values(seq=1))
    follower.follow()
    assert follower.learned["acme"] == whole(database)


def test_what_was_learnt_stays_while_the_store_is_away(
    database: Database, follower: Follower[Tape], monkeypatch: pytest.MonkeyPatch
) -> None:
    report(database, "e1")
    follower.ask("acme", 1.0)
    eventually(lambda: "acme" in follower.learned)
    known = follower.learned["acme"]
    real = database.reading

    def away(**_: object) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(database, "reading", away)
    eventually(lambda: follower.health()["failing"])
    assert follower.learned["acme"] is known
    with pytest.raises(StoreUnavailable):
        follower.follow()
    monkeypatch.setattr(database, "reading", real)
    report(database, "e2")
    eventually(lambda: follower.learned["acme"] == whole(database))
    eventually(lambda: follower.health()["failing"] is None)
    health = follower.health()
    assert 0 <= health.pop("age_s") < 10
    assert health == {"organisations": 1, "outcomes": 2, "failing": None}


def test_vectors_of_another_embedder_pull_nothing(database: Database) -> None:
    report(database, "e1")
    other = Follower(database, replace(MAKING, space="other@2"), {})
    other.follow(["acme"])
    (mine,) = [fold(Tape(), list(rows(database)), DIM, "other@2")]
    assert other.learned["acme"] == mine != whole(database)
    other.close()


def rows(database: Database):
    with database.reading() as connection:
        yield from outcomes_of(connection, "acme")


FOLLOWS = """
import json, sys
sys.path.insert(0, sys.argv[2])
from tests.integration.test_learning_follows import MAKING
from toolroll.registry.events.follower import Follower
from toolroll.registry.store.database import Database

follower = Follower(Database.open(sys.argv[1], create=False, migrate=False), MAKING, {})
follower.follow(["acme"])
print(json.dumps([follower.learned["acme"].digest.hex(), follower.learned["acme"].count]))
"""


@pytest.mark.slow
def test_every_process_comes_to_the_same_bits(
    database: Database, database_url: str, follower: Follower[Tape]
) -> None:
    for at in range(9):
        report(database, f"e{at}", mail=("succeeded", "failed", "called")[at % 3])
        follower.follow(["acme"])
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWS, database_url, root],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    )
    mine = follower.learned["acme"]
    assert json.loads(done.stdout) == [mine.digest.hex(), mine.count]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_follows_by_itself(database: Database, follower: Follower[Tape]) -> None:
    report(database, "e1")
    follower.ask("acme", NOW)
    eventually(lambda: "acme" in follower.learned)
    report(database, "e2")
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            follower.ask("acme", NOW + 1)
            eventually(lambda: follower.learned["acme"].count == 4)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
