"""Random bytes of the operating system, read for many calls at once.

`os.urandom` releases the interpreter lock for less than a microsecond, but another Python thread that gets
the lock keeps it for the switch interval of 5 ms. This module calls it once in 256 times.
"""

from __future__ import annotations

import os

SIZE = 16
_AT_ONCE = 256

# By process: a child must not hand out what its parent will. `pop` and `extend` of a list are atomic, so each
# piece is handed out once.
_waiting: dict[int, list[bytes]] = {}


def random_bytes() -> bytes:
    """16 bytes that no other call returns. Safe to call from many threads, and after a fork."""
    try:
        return _waiting[os.getpid()].pop()
    except (KeyError, IndexError):
        fetched = os.urandom(SIZE * _AT_ONCE)
        pieces = [fetched[at : at + SIZE] for at in range(0, len(fetched), SIZE)]
        piece = pieces.pop()
        _waiting.setdefault(os.getpid(), []).extend(pieces)
        return piece
