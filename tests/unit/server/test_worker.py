"""What a worker process sets up before it serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from toolroll import Registry, Tool

_WORKER = """
import gc, json, sys
from toolroll.server.worker import create_from_environment

before = gc.get_threshold()
application = create_from_environment()
print(json.dumps({
    "before": before,
    "threshold": gc.get_threshold(),
    "frozen": gc.get_freeze_count(),
    "visited": len(gc.get_objects()),
    "switch_s": sys.getswitchinterval(),
}))
"""


@pytest.mark.parametrize("upstream", [False, True], ids=["service", "drop-in"])
def test_collections_of_garbage_leave_the_catalog_alone_and_are_rare(tmp_path: Path, upstream: bool) -> None:
    url = f"sqlite:///{tmp_path}/tools.db"
    with Registry.open(url) as registry:
        registry.create(Tool("ping", "asks whether a host is there"))
    variables = {"CATALOG": url, **({"UPSTREAM": "http://127.0.0.1:9"} if upstream else {})}
    environment = {**os.environ, **{f"TOOLROLL_SERVER_{name}": value for name, value in variables.items()}}
    done = subprocess.run([sys.executable, "-c", _WORKER], env=environment, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["frozen"] > 50_000  # modules, the framework's routes and the catalog
    assert found["visited"] < found["frozen"] / 10
    assert found["threshold"][0] > 10 * found["before"][0]
    assert found["threshold"][1:] == found["before"][1:]
    assert found["switch_s"] < 0.005
