"""`toolroll serve --demo`: the data that it writes, and its refusals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.ports import free_port
from toolroll.cli import main
from toolroll.registry.analytics.comparison import LEAST_UNITS
from toolroll.registry.analytics.experiments import counts, list_experiments
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.timeline import timeline
from toolroll.registry.analytics.tools import arms, broken
from toolroll.registry.analytics.window import Window
from toolroll.registry.registry import Registry
from toolroll.server.demonstration import BROKEN, DAYS, write_demonstration

_OUTCOMES = {"succeeded", "failed", "corrected", "wanted"}


@pytest.mark.slow
def test_the_demonstration_has_selections_on_each_day_and_a_tool_that_breaks(tmp_path: Path) -> None:
    url, end = f"sqlite:///{tmp_path}/tools.db", datetime(2026, 3, 23, tzinfo=timezone.utc)
    write_demonstration(url, now=end.timestamp())
    with Registry.open(url) as registry:
        database = registry.database
        points = timeline(database, Window(), "day")["points"]
        assert len(points) == DAYS and all(point["selections"] > 10 for point in points)
        found = metrics(database, Window())
        assert 0.6 < found["success"] < 1 and found["degraded"] == {}
        assert {outcome for outcome, count in found["outcomes"].items() if count >= 10} >= _OUTCOMES
        assert [each.tool for each in broken(database, Window())] == [BROKEN]
        assert arms(database, Window(), end)[0].called > 5
        assert registry.tool("close_ticket").review == "pending"
        (trial,) = list_experiments(database)
        assert all(number > LEAST_UNITS for number in counts(database, trial).assigned.values())


@pytest.mark.parametrize(
    "words",
    [["--catalog", "sqlite:///x.db"], ["--check"], ["--config", "x.toml"], ["--authentication", "keys"]],
)
def test_the_demonstration_takes_no_other_registry(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--demo", *words]) == 2
    assert words[0] in capsys.readouterr().err


def test_the_demonstration_is_not_written_for_a_port_that_is_in_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert main(["serve", "--demo", "--port", port]) == 1
    found = capsys.readouterr().err
    assert f"127.0.0.1:{port}: cannot be listened on" in found
    assert "writing" not in found


def test_the_demonstration_is_not_served_to_other_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--demo", "--host", "0.0.0.0"]) == 1
    assert "address of this machine" in capsys.readouterr().err


def read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return json.loads(answer.read())


def is_ready(base: str) -> bool:
    try:
        return bool(read(f"{base}/readyz")["ready"])
    except urllib.error.URLError as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
@pytest.mark.parametrize("workers", [1, 2])
def test_the_demonstration_is_served_without_a_key_and_leaves_nothing_behind(
    tmp_path: Path, workers: int
) -> None:
    port = free_port()
    temporary, base = tmp_path / "temporary", f"http://127.0.0.1:{port}"
    temporary.mkdir()
    command = [
        sys.executable,
        "-m",
        "toolroll",
        "serve",
        "--demo",
        "--port",
        str(port),
        "--workers",
        str(workers),
    ]
    with (tmp_path / "log.txt").open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, "TMPDIR": str(temporary)}
        )
    try:
        deadline = time.monotonic() + 240
        while not is_ready(base):
            assert process.poll() is None, (tmp_path / "log.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert read(f"{base}/internal/tool-registry/analytics/metrics")["total"] > 500
        assert read(f"{base}/internal/tool-registry/plugins")["plugins"][0]["name"] == "helpdesk"
        assert any(temporary.iterdir())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()
    assert f"{base}/admin/" in (tmp_path / "log.txt").read_text()
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
def test_the_demonstration_leaves_nothing_behind_if_it_is_stopped_while_it_writes(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "toolroll", "serve", "--demo", "--port", str(free_port())],
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        assert b"writing" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    assert list(tmp_path.iterdir()) == []
