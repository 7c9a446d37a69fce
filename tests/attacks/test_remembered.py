"""What a process remembers of its last selections holds no old catalog."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace

import pytest
from bench.service.servers import resident_bytes

from tests.attacks import bounded
from toolroll import NotFound, Tool, Toolroll
from toolroll.catalog.catalog import Catalog

MB = 1e6


def catalogs() -> int:
    gc.collect()
    return sum(isinstance(one, Catalog) for one in gc.get_objects())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process in /proc")
def test_changes_of_a_large_catalog_with_selections_between_take_150_megabytes_at_the_most() -> None:
    """Before: + 2.4 GB after 140 changes of one of 10,000 tools, since the last 128 selections held catalogs."""
    count = bounded(4_000, 10_000)
    tools = [
        Tool(f"tool_{at}", f"Does thing {at} with a bill, a lamp or the weather.") for at in range(count)
    ]
    with Toolroll.from_tools(tools) as roll:
        roll.select("Should I bring an umbrella?")
        begun, most = resident_bytes(os.getpid()), 0
        for at in range(bounded(30, 1_000)):
            tools[7] = replace(tools[7], description=f"Opens the umbrella of day {at}.")
            roll.refresh(tools)
            roll.select("Should I bring an umbrella?")
            most = max(most, resident_bytes(os.getpid()) - begun)
        print(f"{count:,} tools: + {most / MB:.0f} MB")
        assert most <= 150 * MB


def test_different_lists_of_requests_leave_few_catalogs_behind_and_events_are_still_known() -> None:
    """Before: 24 requests with different lists left 24 catalogs, however large."""
    lists = [
        [{"name": f"tool_{of}_{at}", "description": "word " * 1_000} for at in range(1_000)]
        for of in range(16)
    ]
    with Toolroll.from_tools([]) as roll:
        before = catalogs()
        events = [roll.with_tools(one).select("a word", k=3) for one in lists]
        names = [picked.names[0] for picked in events]
        ids = [picked.event_id for picked in events]
        del events
        lists.clear()
        assert catalogs() - before <= 12  # of the lists that are kept, two each
        for event_id, name in zip(ids, names, strict=True):
            assert roll.record(event_id, {name: True}).counted == 1
        with pytest.raises(NotFound):
            roll.record("none of these", {"a": True})
