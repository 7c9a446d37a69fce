"""The targets that learning from outcomes is compared with."""

from __future__ import annotations

import pytest
from bench.quality.learning import targets

from toolroll.lab.simulation.simulation import SimulationPlan, simulate

pytestmark = pytest.mark.slow


def test_every_target_of_the_played_scenarios_is_compared() -> None:
    found = targets(simulate(SimulationPlan(messages=120, worlds=2, scenarios=("main", "null", "channel"))))
    compared = {(one.scenario, one.what) for one in found}
    assert {
        ("main", "regret, share of static's"),
        ("main", "regret, share of learned's"),
        ("null", "success, points above static"),
        ("channel", "success, points lost to the channel"),
    } <= compared
    assert len(compared) == len(found)
    assert all(one.verdict in ("ok", "close", "missed") for one in found)
