"""A wall clock that jumps: nothing but what expires by the calendar changes."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.outcomes import eventually
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.model.errors import Denied
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

DAY_S = 86_400.0
ANN = Context(user="ann")
TOOLS = Definitions(tuple(Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(20)))


def jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Has the wall clock of this process say another time; what counts intervals goes on."""
    real = time.time

    class Jumped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=seconds)

    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    for name, module in list(sys.modules.items()):
        if name.startswith("toolroll.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Jumped)


@pytest.mark.parametrize("jump_s", [30 * DAY_S, -30 * DAY_S, -3 * DAY_S, 1.0])
def test_after_a_jump_of_the_clock_a_roll_selects_follows_talks_learns_and_is_well(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    with Registry.open(database_url, actor="ada") as registry:
        registry.import_(TOOLS)
    with Toolroll.open(
        database_url, follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:
        before = roll.select("number 7", ANN, k=5)
        roll.record(before, ["tool_7"])
        receipt = roll.receipt(roll.select("number 8", ANN, k=5))
        roll.session("talk", ANN).select("number 3", k=3)
        assert roll.flush(20)

        jump(monkeypatch, jump_s)
        monkeypatch.setattr(roll._home.engine, "_clock", time.time)
        after = roll.select("number 7", ANN, k=5)
        assert "tool_7" in after.names and after.degraded == ()
        assert after.turn.at == pytest.approx(before.turn.at + jump_s, abs=60)
        assert roll.record(after, ["tool_7"]).counted == 1
        assert roll.session("talk", ANN).select("number 4", k=3).names
        with Registry.open(database_url, actor="ben") as registry:
            registry.create(Tool("whistle", "whistles a melody"))
        eventually(lambda: "whistle" in roll.select("whistles a melody", ANN, k=1).names, 10)
        if jump_s == 1.0:
            assert roll.record(receipt, ["tool_8"]).counted == 1
        else:  # by the calendar it has expired, or is from the future
            with pytest.raises(Denied, match="its time is over"):
                roll.record(receipt, ["tool_8"])
        assert roll.flush(20)
        assert roll.health()["degraded"] == []
        counted = roll.counters().reports
    database = Database.open(database_url, create=False, migrate=False)
    with database.reading() as connection:
        stored = connection.scalar(sa.select(sa.func.count()).select_from(tables.outcomes))
    database.close()
    assert stored == counted == (3 if jump_s == 1.0 else 2)
