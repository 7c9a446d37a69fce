"""A program that ends without `close` ends with status 0, and what it recorded counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolroll import Registry, Tool
from toolroll.model.tools import Definitions

RUNS = int(os.environ.get("TOOLROLL_TEST_EXITS", "8"))
TOGETHER = 4  # of these programs

# The threads fold, build and write when the program ends: that is when they are inside the core.
OVER_A_REGISTRY = """
import sys
from toolroll import Context, Follow, Recording, Toolroll

roll = Toolroll.open(sys.argv[1], follow=Follow(poll_s=0.05), recording=Recording(outbox=sys.argv[2]))
for number in range(400):
    picked = roll.select(f"does the thing of number {number}", Context(user=f"u{number}"))
    roll.record(picked, {picked.names[0]: True})
"""
IN_MEMORY = """
from toolroll import Context, Toolroll

roll = Toolroll.demo()
for number in range(200):
    picked = roll.select(f"Will it rain on day {number}?", Context(user=f"u{number}"))
    roll.record(picked, {picked.names[0]: True})
"""


def statuses(program: str, arguments: list[list[str]]) -> list[tuple[int, str]]:
    """How each of these runs ended: its status, and what it said if that is not 0."""
    found = []
    for at in range(0, len(arguments), TOGETHER):
        running = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", program, *one],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for one in arguments[at : at + TOGETHER]
        ]
        for process in running:
            said = process.communicate(timeout=120)[1]
            found.append((process.returncode, said if process.returncode else ""))
    return found


@pytest.mark.slow
def test_a_program_over_a_registry_that_does_not_close_it_ends_well(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tools.db"
    with Registry.open(url, create=True) as registry:
        registry.import_(
            Definitions(tuple(Tool(f"t{at}", f"does the thing of number {at}") for at in range(40)))
        )
    found = statuses(OVER_A_REGISTRY, [[url, f"{tmp_path}/outbox"] for _ in range(RUNS)])
    assert found == [(0, "")] * RUNS


def test_a_program_in_memory_that_does_not_close_it_ends_well() -> None:
    assert statuses(IN_MEMORY, [[] for _ in range(TOGETHER)]) == [(0, "")] * TOGETHER
