"""Ports of this machine for tests that start servers, and for those that need one without a server."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

# Below the ports that any system gives to outgoing connections and to sockets bound to port 0: those could be taken
# between the moment when a port is found free and the moment when the server listens. Each worker of pytest-xdist
# has its own share and returns a port once, so that two tests never wait for the same one.
_SHARES = 16
_SHARE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SHARES
_PORTS = list(range(10_000 + _SHARE, 16_000, _SHARES))
random.SystemRandom().shuffle(_PORTS)


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    while True:
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port := _PORTS.pop()))
                return port
            except OSError:
                continue


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port that refuses connections while the context is open: it is taken, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])
