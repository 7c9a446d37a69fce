"""The simulation of bench/scale/replicas.py, small."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.scale import replicas


@pytest.mark.db
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_replicas_lose_nothing_count_nothing_twice_and_show_nothing_denied(new_database_url, tmp_path: Path):
    found = replicas.run(new_database_url("postgresql"), 4, tmp_path)
    assert {name: found[name] for name in replicas.MUST_BE_ZERO} == dict.fromkeys(replicas.MUST_BE_ZERO, 0)
    assert found["outcomes acknowledged"] > 0
