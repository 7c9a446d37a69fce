"""The simulation of bench/scale/replicas, small."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("cryptography")
from bench.scale.replicas.server import server
from bench.scale.replicas.simulation import MUST_BE_ZERO, run

from tests.integration.conftest import HAS_WHEEL


@pytest.mark.db
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(not HAS_WHEEL, reason="it crashes a server of its own")
def test_replicas_lose_nothing_count_nothing_twice_and_show_nothing_denied(tmp_path: Path) -> None:
    with server(4) as postgresql:
        found = run(postgresql, tmp_path, 4, rate=3.0, seconds=0.5)
    assert {name: found[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0), found
    assert found["outcomes acknowledged"] > 20
    assert found["notifications for a change"] == 1
    assert found["reads of a change by each"] == 1
