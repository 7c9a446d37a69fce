"""More load than the service can answer: it refuses or lets wait, forgets nothing that it holds, and recovers.

TOOLROLL_LOAD_S is how many seconds the load lasts; tools/long_tier.sh has a minute.
"""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip("fastapi")

from bench.service.fairness import fairness
from bench.service.overload import overload

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process in /proc"),
]
LOAD_S = float(os.environ.get("TOOLROLL_LOAD_S", "3"))
MOST_BYTES = 150e6  # that the process may grow by, however long the load lasts


@pytest.mark.parametrize("key_rate", ["1000000/second", "100/second"], ids=["no limit", "limit"])
def test_four_times_the_load_is_answered_or_refused_and_the_service_is_well_afterwards(key_rate: str) -> None:
    found = overload(LOAD_S, key_rate=key_rate)
    load = found.load
    print(found.sustainable, load.statuses, found.recovered_s, found.grown_bytes, found.dropped)
    assert load.statuses.keys() <= {200, 429, 503} and load.broken == load.unannounced == 0
    assert load.statuses[200] > 0
    assert (load.statuses[429] > 0) == (key_rate == "100/second")
    assert found.grown_bytes < MOST_BYTES
    assert found.recovered_s is not None


def test_an_organisation_that_sends_four_times_the_load_is_refused_and_another_one_is_not() -> None:
    found = fairness(LOAD_S)
    print(found.sustainable, found.alone.statuses, found.beside.statuses, found.noisy.statuses)
    assert found.alone.statuses.keys() == found.beside.statuses.keys() == {200}
    assert found.noisy.statuses.keys() == {200, 503} and found.noisy.statuses[200] > 0
    assert found.noisy.broken == found.noisy.unannounced == found.beside.broken == 0
    assert found.refusals == found.noisy.statuses[503]
