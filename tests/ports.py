"""Ports of this machine for tests that start servers, and for those that need one without a server."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

# Below the ports that systems give to outgoing connections and to sockets bound to port 0. One of those could be
# taken by any other process between the moment when it is found free and the moment when the server listens.
_PORTS = range(20_000, 32_000)
_choose = random.SystemRandom().choice


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    while True:
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port := _choose(_PORTS)))
                return port
            except OSError:
                continue


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port that refuses connections while the context is open: it is taken, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])
