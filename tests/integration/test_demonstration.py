"""`toolroll serve --demo`: the data that it writes, and its refusals."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from toolroll.cli import main
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.timeline import timeline
from toolroll.registry.analytics.tools import arms, broken
from toolroll.registry.analytics.window import Window
from toolroll.registry.registry import Registry
from toolroll.server.demonstration import BROKEN, DAYS, write_demonstration


@pytest.mark.slow
def test_the_demonstration_has_selections_on_each_day_and_a_tool_that_breaks(tmp_path: Path) -> None:
    url, end = f"sqlite:///{tmp_path}/tools.db", datetime(2026, 3, 23, tzinfo=timezone.utc)
    write_demonstration(url, now=end.timestamp())
    with Registry.open(url) as registry:
        database = registry.database
        points = timeline(database, Window(), "day")["points"]
        assert len(points) == DAYS and all(point["selections"] > 10 for point in points)
        found = metrics(database, Window())
        assert 0.6 < found["success"] < 1 and found["degraded"] == {}
        assert [each.tool for each in broken(database, Window())] == [BROKEN]
        assert arms(database, Window(), end)[0].called > 5
        assert registry.tool("close_ticket").review == "pending"


@pytest.mark.parametrize(
    "words",
    [["--catalog", "sqlite:///x.db"], ["--check"], ["--config", "x.toml"], ["--authentication", "keys"]],
)
def test_the_demonstration_takes_no_other_registry(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--demo", *words]) == 2
    assert words[0] in capsys.readouterr().err


def test_the_demonstration_is_not_served_to_other_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--demo", "--host", "0.0.0.0"]) == 1
    assert "address of this machine" in capsys.readouterr().err
