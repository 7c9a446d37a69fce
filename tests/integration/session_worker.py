"""A process that notes sessions until it is done or killed; run as a script by test_sessions_processes.py.

Says on its standard output which of its notes are in the store.
"""

from __future__ import annotations

import os
import sys
import time

from toolroll.registry.sessions import writer as module
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.sessions.writer import SessionWriter
from toolroll.registry.store.database import Database


def union(one, other):
    """A merge that loses nothing."""
    seen = sorted({*one["seen"], *other["seen"]})
    return {"turn": max(one["turn"], other["turn"]), "seen": seen}


def main(url: str, who: str, notes: int, read_every: int, flush_every: int) -> None:
    module.WRITE_EVERY_S = 0.005  # type: ignore[misc]
    database = Database.open(url, create=False, migrate=False)
    keeper = SessionWriter(SessionStore(database), union)
    record = {"turn": 0, "seen": []}
    os.write(1, b"ready\n")
    sys.stdin.readline()
    for number in range(notes):
        if read_every and number % read_every == 0:
            found = keeper.read("acme", "conversation-42")
            if found is not None:
                record = union(record, found.record)
        record = union(record, {"turn": number, "seen": [f"{who}{number}"]})
        keeper.note("acme", "conversation-42", record)
        if number % flush_every == 0:
            assert keeper.flush(60)
            os.write(1, b"%d\n" % number)
        time.sleep(0.0005)
    keeper.close(60)
    assert keeper.health()["waiting"] == 0
    os.write(1, b"%d merged\n" % keeper.counts.merged)
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
