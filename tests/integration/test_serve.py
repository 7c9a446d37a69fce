"""`toolroll serve` as processes: several workers on one port, and a stop that loses nothing."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from toolroll import Registry, Tool

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A running service, ready; and its process."""
    url = f"sqlite:///{folder}/tools.db"
    with Registry.open(url) as registry:
        registry.create(Tool("ping", "asks whether a host is there"))
    base = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "toolroll", "serve", "--catalog", url, "--port", str(port), *options]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 240
        while True:
            try:
                assert get(f"{base}/readyz")["ready"]
                break
            except urllib.error.URLError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield base, process
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_that_is_asked_to_stop_stops_within_its_grace(tmp_path, workers):
    with serving(tmp_path, "--workers", str(workers), "--grace", "20") as (base, process):
        assert get(f"{base}/healthz") == {"status": "ok"}
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=25)
        assert time.monotonic() - begun < 20
        with pytest.raises(urllib.error.URLError):
            get(f"{base}/healthz")
