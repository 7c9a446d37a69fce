"""Conversations that could not be read in the last hour.

A damaged record is replaced when its conversation goes on, so the store soon shows nothing of it. Health
checks name it for an hour: long enough for an alert, which then goes away by itself.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from toolroll._threads import survive_forks
from toolroll.registry.sessions.records import Key

NAMED_S = 3_600.0
_MOST = 1_000  # sessions
_SHOWN = 5  # of each organisation


class DamagedSessions:
    """Names of sessions, by organisation. Safe to share between threads."""

    def __init__(self) -> None:
        """None yet."""
        self._at: OrderedDict[Key, float] = OrderedDict()  # monotonic seconds
        self._lock = threading.Lock()
        survive_forks(self, lambda own: (own._lock,), lambda own: None)

    def put(self, org: str, session: str) -> bool:
        """Adds a session; whether it is new."""
        with self._lock:
            is_new = (org, session) not in self._at
            self._at[org, session] = time.monotonic()
            self._at.move_to_end((org, session))
            if len(self._at) > _MOST:
                self._at.popitem(last=False)
            return is_new

    def of_orgs(self) -> dict[str, list[str]]:
        """Organisation → some of its sessions, the last first."""
        since, found = time.monotonic() - NAMED_S, dict[str, list[str]]()
        with self._lock:
            while self._at and next(iter(self._at.values())) < since:
                self._at.popitem(last=False)
            for org, session in reversed(self._at):
                names = found.setdefault(org, [])
                if len(names) < _SHOWN:
                    names.append(session)
        return dict(sorted(found.items()))
