"""A process that loads tools into one conversation until it is done or killed; run by test_sessions_processes.py.

Says on its standard output which of its loads are in the store.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from toolroll.model.conversation import Retention
from toolroll.registry.sessions.conversations import StoredConversations
from toolroll.registry.store.database import Database
from toolroll.runtime.threads import CallPool
from toolroll.sessions.state import ConversationState

NAME = "acme", "conversation-42"


def load(name: str, state: ConversationState) -> ConversationState:
    """The state with this tool loaded, and room for it."""
    old = {one.name for one in state.conversation.loaded[:-100]}
    return state.changed(lambda now: now.unload(old).load([name]))


def main(url: str, who: str, loads: int, read_every: int) -> None:
    database = Database.open(url, create=False, migrate=False)
    conversations = StoredConversations(database, CallPool(1, "calls"), 10, None)
    live = conversations.open(NAME, Retention())
    os.write(1, b"ready\n")
    sys.stdin.readline()
    for number in range(loads):
        if read_every and number % read_every == 0:
            live = conversations.open(NAME, Retention())
        live.apply(partial(load, f"{who}{number}"))
        conversations.save(live)
        # A busy store may not answer in time; then the change waits, and is written by the next call that is answered.
        assert conversations.flush(60), conversations.health()
        os.write(1, b"%d\n" % number)
    os.write(1, b"%d conflicts\n" % conversations.health()["conflicts"])
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
