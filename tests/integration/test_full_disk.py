"""A disk that is full for a while: selections go on, nothing acknowledged is lost, and no restart is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

ROOT = Path(__file__).parents[2]
FULL_S = float(os.environ.get("TOOLROLL_FAULT_S", "3"))


@pytest.fixture(params=["limit", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """How the disk is filled, and a folder on it."""
    if request.param == "limit":
        yield "limit", tmp_path
        return
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system")
    yield "tmpfs", folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limit to the size of a file")
def test_a_full_disk_loses_nothing_acknowledged_and_all_is_well_five_seconds_after(
    disk: tuple[str, Path],
) -> None:
    how, folder = disk
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.full_disk", how, str(folder), str(FULL_S)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=FULL_S + 120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    acknowledged, refused = found["acknowledged"], found["refused"]
    print(
        f"{how}: {len(acknowledged)} acknowledged, {len(refused)} refused; well after {found['well_s']:.1f} s, "
        f"cache after {found['cached_s']:.1f} s; meanwhile {found['meanwhile']}"
    )
    assert found["before"] and found["meanwhile"]["said"]  # it was full indeed
    assert found["meanwhile"]["degraded"]
    assert found["well_s"] <= 5 and found["cached_s"] <= 5

    database = Database.open(f"sqlite:///{folder / 'tools.db'}", create=False, migrate=False)
    with database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        counted = connection.scalars(sa.select(tables.outcomes.c.event_id)).all()
    database.close()
    assert len(counted) == len(set(counted))
    assert set(acknowledged) <= set(counted) <= {*acknowledged, *refused}
    with Registry.open(f"sqlite:///{folder / 'tools.db'}") as registry:
        for name in found["created"]:
            assert registry.tool(name).version == 1
