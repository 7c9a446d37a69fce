"""What one process writes, another one selects: by notifications, and by polling alone."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest

from toolroll import Tool
from toolroll.registry.registry import Registry

pytestmark = pytest.mark.slow

# Says when each new tool is the first that it selects. CLOCK_MONOTONIC is the same in all processes of a machine.
FOLLOWER = """
import sys, time
from toolroll import Follow, Toolroll

follow = Follow(poll_s=float(sys.argv[2]), listens=sys.argv[3] == "listens")
with Toolroll.open(sys.argv[1], follow=follow) as roll:
    print("ready", flush=True)
    for line in sys.stdin:
        while roll.select(line, k=1).names != (line.strip(),):
            time.sleep(0.001)
        print(time.monotonic(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="clocks of two processes do not compare there")
@pytest.mark.parametrize(("listens", "poll_s"), [("listens", "5"), ("deaf", "0.5")])
def test_a_change_in_one_process_is_selected_in_the_other_within_a_second(database_url, listens, poll_s):
    with Registry.open(database_url, actor="ada") as registry:
        for at in range(20):
            registry.create(Tool(f"tool_{at}", f"does the thing of number {at}"))
        with subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, database_url, poll_s, listens],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as follower:
            assert follower.stdin is not None and follower.stdout is not None
            assert follower.stdout.readline() == "ready\n"
            took = []
            for at in range(9):
                name = f"crane_{'abcdefghi'[at]}"
                print(name, file=follower.stdin, flush=True)
                registry.create(Tool(name, f"folds the {name}"))
                written = time.monotonic()
                took.append(float(follower.stdout.readline()) - written)
            follower.stdin.close()
    print(f"median {statistics.median(took) * 1e3:.0f} ms, longest {max(took) * 1e3:.0f} ms")
    assert statistics.median(took) < 1.0
