"""Failures are evidence whatever the quotas: every process and the analytics find the same broken tools."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.integration.ingesting import ingest
from tests.integration.outcomes import DIM, NOW, Width, eventually, exposure, said, tool
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll._core import Learned, ToolKeys, Weights
from toolroll.registry.analytics.tools import Break, broken
from toolroll.registry.analytics.window import Window
from toolroll.registry.events.fold import fold, outcomes_of
from toolroll.registry.events.follower import Follower
from toolroll.registry.events.learned_rows import arm_statistics
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.keeper.maintenance import OutcomeFilter, forget, rebuild
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database

WEIGHTS = Weights(
    reliability=1.0,
    lift=1.0,
    exploration_scale=0.0,
    sd_max=2.0,
    most_up=1.0,
    most_down=4.0,
    protected_leaders=0,
    reliability_in_order=0.0,
    explore=0.0,
)


def learnt(database: Database) -> Learned:
    with database.reading() as connection:
        return fold(Learned(DIM), list(outcomes_of(connection, "acme")), DIM, "hash@1")


def is_hidden(learned: Learned, name: str) -> bool:
    keys = ToolKeys(*(np.array([part], np.uint64) for part in tool(name).key))
    row, flag = np.zeros(1, np.int32), np.zeros(1, np.uint8)
    score = np.ones(1, np.float32)
    show = learned.rank(keys, row, score, row[:0], flag, (1, 2, 3), NOW, 1, 1, 1.0, WEIGHTS)[4]
    return bool(show[0] < 1)


def call(database: Database, number: int, works: bool, users: int = 5, after: float = 1.0) -> None:
    event = exposure(f"e{number}", "mail", reporter=f"user-{number % users}", at=NOW + number)
    ingest(database, [], [said(event, {"mail": "succeeded" if works else "failed"}, after=after)])


@pytest.mark.parametrize(
    ("users", "successes"), [(10, 0), (5, 0), (4, 0), (5, 1), (5, 15), (5, 20), (10, 40)]
)
def test_a_failing_tool_is_hidden_within_eight_calls_whatever_quotas_are_used_up(
    database: Database, users: int, successes: int
) -> None:
    for number in range(successes):
        call(database, number, True, users)
    assert not is_hidden(learnt(database), "mail")
    failures = 0
    while not is_hidden(learnt(database), "mail"):
        call(database, successes + failures, False, users)
        failures += 1
        assert failures <= 8
    (found,) = broken(database, Window("acme"))
    assert (found.tool, found.back) == ("mail", None) and found.reporters >= 4


def test_the_estimates_keep_their_quotas(database: Database) -> None:
    for number in range(40):
        call(database, number, number < 20)
    with database.reading() as connection:
        query = sa.select(arm_statistics).where(arm_statistics.c.level == "seed")
        mail = connection.execute(query).one()
    assert (mail.successes, mail.failures) == (15, 0)
    assert (mail.called, mail.succeeded) == (40, 20)
    assert rebuild(database) == {"acme": 0}


def test_late_failures_hide_nothing(database: Database) -> None:
    for number in range(20):
        call(database, number, False, after=LIFETIME_S + 60)
    assert not is_hidden(learnt(database), "mail")
    assert broken(database, Window("acme")) == ()


def test_the_analytics_list_the_tools_that_every_process_hides(database: Database) -> None:
    """Tools break and are repaired; users report too often, too late, and revise."""
    names = [f"tool-{at}" for at in range(8)]
    first = Follower(database, Width(), {})
    rng = np.random.default_rng(5)
    seen = set[str]()
    found = list[Break]()
    for part in range(12):
        reports = []
        for at in range(60):
            place = int(rng.integers(len(names)))
            is_broken = place % 4 == part // 3 or place == 7
            event = exposure(
                f"e{part}-{at}",
                names[place],
                reporter=f"user-{rng.integers(6)}",
                at=NOW + 600 * part + at,
                page=str(rng.choice(["home", "crm"])),
            )
            kind = "succeeded" if rng.random() < (0.03 if is_broken else 0.95) else "failed"
            late = LIFETIME_S + 9 if rng.random() < 0.1 else 1.0
            reports.append(said(event, {names[place]: kind}, after=late))
            if rng.random() < 0.1:
                reports.append(said(event, {names[place]: "called"}, after=late + 1))
        assert ingest(database, [], reports).refused == []
        first.follow(["acme"])
        learned = first.learned["acme"]
        hidden = {name for name in names if is_hidden(learned, name)}
        breaks = broken(database, Window("acme"))
        assert {each.tool for each in breaks if each.back is None} == hidden
        assert {each.alarm for each in found} <= {each.alarm for each in breaks}
        found = [*breaks]
        seen |= hidden
    assert len(seen) >= 3 and any(each.back for each in found)
    assert forget(database, "acme", OutcomeFilter(reporter="user-1"), actor="ann") > 0
    again = broken(database, Window("acme"))
    assert rebuild(database) == {"acme": 0} and len(again) > 0
    first.follow()
    learned = first.learned["acme"]
    assert {each.tool for each in again if each.back is None} == {
        name for name in names if is_hidden(learned, name)
    }
    second = Follower(database, Width(), {})
    second.follow(["acme"])
    assert second.learned["acme"].to_bytes() == learned.to_bytes() == learnt(database).to_bytes()


def test_a_tool_that_the_analytics_call_broken_is_out_of_the_selections_of_all_processes(
    database_url: str, tmp_path: Path
) -> None:
    with Registry.open(database_url, actor="ada") as registry:
        for at in range(14):
            registry.create(Tool(f"report_{at}", f"Exports the report about subject {at}"))
        registry.create(Tool("export_contacts", "Exports the contacts to a file"))
    with (
        Toolroll.open(
            database_url, follow=Follow(poll_s=0.05), recording=Recording(outbox=tmp_path / "one")
        ) as roll,
        Toolroll.open(
            database_url, follow=Follow(poll_s=0.05), recording=Recording(outbox=tmp_path / "two")
        ) as other,
    ):

        def shown(of: Toolroll, turns: int = 40) -> int:
            context = [Context(session=f"s{at}") for at in range(turns)]
            picks = [of.select("export the contacts", each, k=5) for each in context]
            return sum("export_contacts" in picked for picked in picks)

        assert shown(other, 5) == 5
        for number in range(28):
            picked = roll.select("export the contacts", Context(user=f"u{number % 5}"), k=5)
            if "export_contacts" in picked:
                roll.record(picked, {"export_contacts": number < 20})
        assert roll.flush(20)
        eventually(lambda: shown(roll) <= 16)
        eventually(lambda: shown(other) <= 16)
        with closing(Database.open(database_url, create=False, migrate=False)) as database:
            (found,) = broken(database, Window(""))
        assert (found.tool, found.back) == ("export_contacts", None)
