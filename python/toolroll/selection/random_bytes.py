"""Random bytes of the operating system without asking it each time.

`os.urandom` releases the interpreter for less than a microsecond; another Python thread that gets it keeps it
for the switch interval of 5 ms. Here it is called once in 256 times.
"""

from __future__ import annotations

import os

SIZE = 16
_AT_ONCE = 256

_waiting: list[bytes] = []  # `pop` and `extend` of a list are atomic: each piece is handed out once


def random_bytes() -> bytes:
    """16 bytes that nobody else gets. Safe to call from many threads, and after a fork."""
    try:
        return _waiting.pop()
    except IndexError:
        fetched = os.urandom(SIZE * _AT_ONCE)
        pieces = [fetched[at : at + SIZE] for at in range(0, len(fetched), SIZE)]
        piece = pieces.pop()
        _waiting.extend(pieces)
        return piece


if hasattr(os, "register_at_fork"):  # a child must not hand out what its parent will
    os.register_at_fork(after_in_child=_waiting.clear)
