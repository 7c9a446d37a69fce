"""Processes that are forked, spawned or started by a server: a roll works in them, or says why not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.start_methods import CHILDREN, TOOLS
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry

ROOT = Path(__file__).parents[2]
METHODS = ("fork", "spawn", "forkserver", "preload")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("store", ["memory", "sqlite", "postgresql"])
def test_a_roll_works_in_every_child_within_five_seconds_a_step(
    store: str, method: str, new_database_url: Callable[[str], str], tmp_path: Path
) -> None:
    if method.replace("preload", "forkserver") not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    url = "memory"
    if store != "memory":
        url = new_database_url(store)
        with Registry.open(url, actor="ada") as registry:
            registry.import_(Definitions(tuple(TOOLS)))
    environment = {
        **os.environ,
        "ROLL_URL": url,
        "ROLL_OUTBOX": str(tmp_path / "outbox"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of forks in a process with threads
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.start_methods", method],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = sorted(ran.stdout.splitlines())
    works = [f"{method}{at} works" for at in range(CHILDREN)]
    if method == "preload":
        assert said == sorted([*works, "server works"]), ran.stderr
    else:
        (refusal,) = [line for line in said if "pickled" in line]
        assert "open it in the other process" in refusal
        assert [line for line in said if line != refusal] == sorted([*works, *["parent works"] * 2]), (
            ran.stderr
        )
