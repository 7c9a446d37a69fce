"""What a process has learnt follows the store's rows, whoever wrote them, and has the bits of one fold.

TOOLROLL_FOLDS says how many random histories are tried; tools/long_tier.sh tries more.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.ingesting import ingest
from tests.integration.outcomes import DIM, NOW, Width, eventually, exposure, said, tool
from toolroll._core import Learned
from toolroll.learning.exposure import Exposure
from toolroll.model.errors import StoreUnavailable
from toolroll.registry.events import row_fold
from toolroll.registry.events.fold import fold, outcomes_of
from toolroll.registry.events.follower import Follower
from toolroll.registry.events.logged_tools import signed
from toolroll.registry.events.rows import ReceivedReport
from toolroll.registry.keeper.maintenance import OutcomeFilter, forget, rebuild
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.runtime.threads import Worker

EMBEDDER = Width()
FOLDS = int(os.environ.get("TOOLROLL_FOLDS", "2"))


def report(database: Database, *events: str, org: str = "acme", **kinds: str) -> None:
    reports = [
        said(exposure(event, "mail", "rain", org=org), kinds or {"mail": "succeeded"}) for event in events
    ]
    assert ingest(database, [], reports).refused == []


def whole(database: Database, org: str = "acme", embedder: Width | None = EMBEDDER) -> bytes:
    """All outcomes from the first, in their order, in one fold."""
    space, dim = ("", 0) if embedder is None else (embedder.identity, embedder.dim)
    with database.reading() as connection:
        return fold(Learned(dim), list(outcomes_of(connection, org)), dim, space).to_bytes()


@pytest.fixture
def follower(database: Database) -> Iterator[Follower]:
    """Whose steps a thread takes."""
    made = Follower(database, EMBEDDER, {}, poll_s=0.05)
    worker = Worker(made.step, "follower", subject="")
    made.ask = lambda org, at: (Follower.ask(made, org, at), worker.wake())[0]  # type: ignore[method-assign]
    yield made
    worker.stop()


def test_what_is_reported_is_learnt_once_and_in_its_order(database: Database, follower: Follower) -> None:
    follower.follow(["acme", "umbrella"])
    assert follower.learned == {}  # nobody has said anything
    for at in range(5):
        report(database, f"e{at}a", f"e{at}b")
        follower.follow()
        assert follower.learned["acme"].to_bytes() == whole(database)
    assert follower.learned.keys() == {"acme"}
    assert follower.seq_of("acme", follower.learned["acme"]) == 10
    assert follower.seq_of("acme", Learned(DIM)) == -1
    same = follower.learned["acme"]
    follower.follow()
    assert follower.learned["acme"] is same


def test_it_follows_by_itself_from_the_first_selection_on(database: Database, follower: Follower) -> None:
    report(database, "e1")
    follower.ask("acme", 1.0)
    eventually(lambda: "acme" in follower.learned)
    report(database, "e2")
    eventually(lambda: follower.learned["acme"].to_bytes() == whole(database))
    follower.ask("umbrella", 2.0)
    report(database, "e3", org="umbrella")
    eventually(lambda: "umbrella" in follower.learned)


def test_organisations_that_nobody_asks_for_are_not_followed(database: Database, follower: Follower) -> None:
    report(database, "e1")
    report(database, "e2", org="umbrella")
    follower.follow(["umbrella"])
    assert follower.learned.keys() == {"umbrella"}


def test_beyond_the_limit_the_one_that_asked_longest_ago_is_let_go(database: Database) -> None:
    for org in ("a", "b", "c"):
        report(database, f"e{org}", org=org)
    follower = Follower(database, EMBEDDER, {}, most=2)
    for at, org in enumerate(("a", "b")):
        follower.asked[org] = float(at)
    follower.follow()
    follower.asked |= {"a": 5.0, "c": 6.0}
    follower.follow()
    assert follower.learned.keys() == {"a", "c"}


def random_reports(draw: random.Random, part: int, count: int = 25) -> list[ReceivedReport]:
    """Reports of two organisations: revised, late, beyond quotas, of tools that break, of three embedders."""
    reports = []
    for at in range(count):
        names = [f"tool-{place}" for place in draw.sample(range(6), 3)]
        event: Exposure = exposure(
            f"e{part}-{at}",
            *names,
            org=draw.choice(["acme", "globex"]),
            reporter=draw.choice(["", "ann", "bob", "eve", "joe", "kim"]),
            at=NOW + 3_600 * part + draw.choice([at, -9_000.5, at / 7]),
            page=draw.choice(["home", "crm"]),
            tier=draw.choice(["free", "team"]),
        )
        if (space := draw.choice(["hash@1", "hash@1", "wide@1", ""])) != "hash@1":
            other = np.frombuffer(hashlib.sha256(event.event_id.encode()).digest()[:12], np.uint8)
            event = replace(event, space=space, vector=other.astype(np.float16) if space else None)
        if draw.random() < 0.5:  # tools of one group
            event = replace(
                event, shown=tuple(each._replace(key=each.key._replace(group=7)) for each in event.shown)
            )
        works = draw.random() < (0.05 if names[0] == "tool-1" else 0.9)
        kind = draw.choice(["called", "corrected", *["succeeded" if works else "failed"] * 6])
        late = draw.choice([1.0] * 9 + [1e9])
        reports.append(said(event, {names[0]: kind}, after=late, final=draw.random() < 0.9))
        if draw.random() < 0.3:
            reports.append(said(event, {names[0]: draw.choice(["corrected", "called"])}, after=late + 1))
        if draw.random() < 0.1:
            reports.append(said(event, {"found": "wanted_failed"}, found=["found"], after=late + 2))
    return reports


@pytest.mark.parametrize("seed", range(FOLDS))
def test_every_host_has_the_bits_of_one_fold_whatever_the_batches_and_voids(
    database: Database, seed: int
) -> None:
    """Also one that joins late, one of another embedder, one without, and one that misses batches."""
    draw = random.Random(seed)
    embedders = [EMBEDDER, EMBEDDER, Width("wide@1", 12), None]
    hosts = [Follower(database, embedder, {}) for embedder in embedders]
    for part in range(8):
        reports = random_reports(draw, part)
        while reports:
            size = draw.choice([1, 3, 40])
            assert ingest(database, [], reports[:size]).refused == []
            reports = reports[size:]
            if draw.random() < 0.3:
                hosts[0].follow(["acme", "globex"])
        if part == 4:
            assert forget(database, "acme", OutcomeFilter(reporter="eve"), actor="ada") > 0
        hosts.append(Follower(database, EMBEDDER, {}))
        for host, embedder in zip(hosts, [*embedders, *[EMBEDDER] * 8], strict=False):
            if host is not hosts[1] or part in (2, 7):
                host.follow(["acme", "globex"])
                for org in ("acme", "globex"):
                    assert host.learned[org].to_bytes() == whole(database, org, embedder)
    assert rebuild(database) == {"acme": 0, "globex": 0}


def test_a_batch_reads_and_writes_the_rows_of_its_tools_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(database, [], [report for part in range(4) for report in random_reports(random.Random(5), part)])
    report(database, *(f"e{at}" for at in range(6)))
    with database.reading() as connection:
        number = connection.execute(sa.select(tables.learning_state.c.seq).filter_by(org="acme")).scalar_one()
    asked: list[tuple[int, int]] = []
    real = row_fold.places_of
    monkeypatch.setattr(
        row_fold, "places_of", lambda outcomes: asked.extend(real(outcomes)) or real(outcomes)
    )
    report(database, "one more")
    keys = {signed(number) for name in ("mail", "rain") for number in tool(name).key[:2]}
    assert {key for key, _ in asked} < keys  # not by its name, of a tool that was only shown
    assert len(asked) == 5 + 5 + 4  # each in its contexts and its state; and a vector
    with database.reading() as connection:
        changed = sa.select(tables.learned.c.tool, sa.func.count()).where(
            tables.learned.c.org == "acme", tables.learned.c.revision > number
        )
        found = dict(connection.execute(changed.group_by(tables.learned.c.tool)).all())
    assert found.keys() == {"mail", "rain"} and sum(found.values()) < 20


def test_what_is_taken_back_is_unlearnt_everywhere(database: Database, follower: Follower) -> None:
    report(database, "e1", "e2")
    before = whole(database)
    follower.follow(["acme"])
    report(database, "e3", "e4")
    follower.follow()
    assert forget(database, "acme", OutcomeFilter(event="e3"), actor="ada") == 1
    assert forget(database, "acme", OutcomeFilter(event="e4"), actor="ada") == 1
    follower.follow()
    assert follower.learned["acme"].to_bytes() == before == whole(database)
    report(database, "e5")
    follower.follow()
    assert follower.learned["acme"].to_bytes() == whole(database)


def test_a_backup_that_was_restored_is_followed_from_its_beginning(
    database: Database, follower: Follower
) -> None:
    report(database, "e1")
    backup = {}
    with database.reading() as connection:
        for table in (tables.learned, tables.learning_state, tables.outcomes):
            backup[table] = [row._asdict() for row in connection.execute(sa.select(table))]
    report(database, "e2", "e3")
    follower.follow(["acme"])
    with database.recording() as connection:
        for table, rows in backup.items():
            connection.execute(sa.delete(table))
            connection.execute(sa.insert(table), rows)
    follower.follow()
    assert follower.learned["acme"].to_bytes() == whole(database)


def test_what_was_learnt_stays_while_the_store_is_away(
    database: Database, follower: Follower, monkeypatch: pytest.MonkeyPatch
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
    eventually(lambda: follower.learned["acme"].to_bytes() == whole(database))
    eventually(lambda: follower.health()["failing"] is None)
    health = follower.health()
    assert 0 <= health.pop("age_s") < 10
    assert health == {"organisations": 1, "outcomes": 2, "failing": None}


def test_a_damaged_row_is_named_and_the_other_organisations_go_on(
    database: Database, follower: Follower
) -> None:
    report(database, "e1")
    report(database, "e2", org="umbrella")
    follower.follow(["acme", "umbrella"])
    known = follower.learned["acme"]
    report(database, "e3")
    report(database, "e4", org="umbrella")
    table = tables.learned
    broken = sa.update(table).where(table.c.org == "acme", table.c.level == "vector").values(state=b"damaged")
    with database.recording() as connection:
        connection.execute(broken)
    follower.follow()
    assert follower.learned["acme"] is known
    assert follower.learned["umbrella"].to_bytes() == whole(database, "umbrella")
    (found,) = follower.failures().items()
    assert found[0] == "acme" and "a vector is too short" in str(found[1].error)
    report(database, "e5")  # whoever writes outcomes makes the rows again
    follower.follow()
    assert follower.learned["acme"].to_bytes() == whole(database)
    assert follower.failures() == {}
    assert rebuild(database) == {"acme": 0, "umbrella": 0}


def test_the_vector_of_one_message_is_the_same_in_no_other_space(database: Database) -> None:
    report(database, "e1")
    other = Follower(database, Width("other@2"), {})
    other.follow(["acme"])
    assert other.learned["acme"].vectors == 0
    assert other.learned["acme"].to_bytes() == whole(database, embedder=Width("other@2")) != whole(database)
    intent = tool("mail").key.intent
    assert other.learned["acme"].vector(intent) is None


FOLLOWS = """
import json, sys
sys.path.insert(0, sys.argv[2])
from tests.integration.test_learning_follows import EMBEDDER
from toolroll.registry.events.follower import Follower
from toolroll.registry.store.database import Database

follower = Follower(Database.open(sys.argv[1], create=False, migrate=False), EMBEDDER, {})
follower.follow(["acme"])
print(json.dumps(follower.learned["acme"].to_bytes().hex()))
"""


@pytest.mark.slow
def test_every_process_comes_to_the_same_bits(
    database: Database, database_url: str, follower: Follower
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
    assert json.loads(done.stdout) == follower.learned["acme"].to_bytes().hex()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_follows_by_itself(database: Database, follower: Follower) -> None:
    report(database, "e1")
    follower.ask("acme", NOW)
    eventually(lambda: "acme" in follower.learned)
    report(database, "e2")
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            follower.ask("acme", NOW + 1)
            eventually(lambda: follower.learned["acme"].revision == 4)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
