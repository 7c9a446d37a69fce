"""What is remembered of selections and conversations holds ids and keys, never a catalog."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace

import pytest

from toolroll import Context, Tool, Toolroll
from toolroll.catalog.catalog import Catalog

CHANGES = int(os.environ.get("TOOLROLL_CHANGES", "40"))  # the long tier: 1,000, of 10,000 tools
TOOLS = 10_000 if CHANGES >= 1_000 else 500
MOST_BYTES = 150_000_000  # that 1,000 changes may leave


def tools() -> list[Tool]:
    return [
        Tool(f"tool_{at}", f"does the thing of number {at} in room {at % 17}", toolkit=f"kit_{at % 40}")
        for at in range(TOOLS)
    ]


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(7_200)
def test_old_catalogs_go_whatever_was_selected_from_them():
    gc.collect()
    others = sum(type(one) is Catalog for one in gc.get_objects())  # of other tests
    given = tools()
    with Toolroll.from_tools(given, embedder="none") as roll:
        events = []
        sessions = [roll.session(f"talk-{at}", Context(org="acme")) for at in range(3)]
        before = 0
        for change in range(CHANGES):
            given[change % TOOLS] = replace(given[change % TOOLS], description=f"was changed, {change}")
            roll.refresh(given)
            picked = roll.select(f"the thing of number {change}", k=5)
            roll.record(picked, {picked.names[0]: True})
            events.append((picked.event_id, picked.names))
            selection = sessions[change % 3].select(f"room {change}", k=5)
            sessions[change % 3].used({selection.names[0]: True})
            sessions[change % 3].end_turn()
            del picked, selection
            if change == 19 and sys.platform == "linux":
                gc.collect()
                before = resident()
        gc.collect()
        alive = sum(type(one) is Catalog for one in gc.get_objects()) - others
        assert alive <= 2, f"{alive} of {CHANGES} catalogs are held"
        if CHANGES >= 1_000:
            grown = resident() - before
            print(f"{CHANGES} changes of {TOOLS} tools: {grown / 1e6:+.0f} MB")
            assert grown <= MOST_BYTES
        for event_id, names in events[-20:]:  # what it showed is known all the same
            assert roll.record(event_id, {names[1]: True}).counted == 1
