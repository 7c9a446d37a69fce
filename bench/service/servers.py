"""The servers that are measured, as processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import toolroll
from toolroll import Registry, read_folder

UNLIMITED = "1000000/second"
MESSAGES = (
    "Should I bring an umbrella?",
    "pay the invoice of last month",
    "who is my biggest customer",
    "lights off",
)
DROPPED = 'toolroll_events_total{result="dropped"}'


@contextmanager
def running(port: int, *command: str, **settings: object) -> Iterator[int]:
    """A service with these settings that answers; yields the id of its process."""
    settings = {"key_rate": UNLIMITED, **settings}
    variables = {f"TOOLROLL_SERVER_{name.upper()}": str(value) for name, value in settings.items()}
    environment = {**os.environ, **variables}
    process = subprocess.Popen([sys.executable, *command], env=environment)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except urllib.error.HTTPError as error:
                error.close()
                break  # it answers
            except urllib.error.URLError:
                assert process.poll() is None
                time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def serving(url: str, **settings: object) -> Iterator[tuple[int, int]]:
    """`toolroll serve` over a registry, with these settings; yields its port and the id of its process."""
    port = free_port()
    command = ("-m", "toolroll", "serve", "--catalog", url, "--port", str(port))
    with running(port, *command, **settings) as pid:
        yield port, pid


def fill(url: str) -> str:
    """Writes the demonstration catalog into a new registry. Returns a key that selects, reports and reads."""
    with Registry.open(url) as registry:
        registry.import_(read_folder(Path(toolroll.__file__).with_name("demo") / "toolkits"))
        return registry.keys.add("bench", roles=["select", "report", "read"], org=None)[1]


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


def request(path: str, key: str, body: bytes) -> bytes:
    """A POST as it stands on the wire."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}X-Service-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def metric(port: int, key: str, series: str) -> float:
    """The value of a series in the service's metrics."""
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"X-Service-Key": key})
    with urllib.request.urlopen(asked) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in use (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
