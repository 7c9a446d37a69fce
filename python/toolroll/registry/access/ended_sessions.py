"""Sessions of the service's page that people have ended by signing out, until they would have expired.

Sessions are signed and not stored (decision 55). The end of a session is stored, as a line of the audit log
that names who signed out. Services read the new lines together with keys and accounts.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.row_reader import read_rows

_SUBJECT = "page session"  # of all lines: an index finds them by it
_CLOCKS = timedelta(hours=1)  # the greatest difference of clocks of services
_LOG = tables.changes.c


class EndedSessions:
    """The ended sessions of a registry, as one process knows them. For one thread at a time.

    Attributes:
        found: session → the time of its end, until the session would have expired.
    """

    def __init__(self, database: Database, lifetime: timedelta) -> None:
        """Reads nothing yet. lifetime: of a session."""
        self._database, self._lifetime = database, lifetime
        self._seq = 0  # of the last line that was read
        self.found: dict[str, datetime] = {}

    def end(self, session: str, actor: str) -> None:
        """Ends a session for all services over the registry. Raises StoreUnavailable."""
        with self._database.writing(actor) as write:
            write.log("session.end", _SUBJECT, {"session": session})

    def read(self) -> frozenset[str]:
        """The ended sessions. Reads the new lines of the audit log. Raises StoreUnavailable."""
        oldest = datetime.now(timezone.utc) - self._lifetime - _CLOCKS
        of_sessions = (_LOG.org == "", _LOG.subject == _SUBJECT)
        new = _LOG.seq > self._seq if self._seq else _LOG.at > oldest
        columns = (_LOG.seq, _LOG.at, _LOG.details)
        with self._database.reading() as connection:
            for row in read_rows(connection, columns, *of_sessions, new, order_by=(_LOG.seq,)):
                self._seq = max(self._seq, row["seq"])
                self.found[str(row["details"].get("session"))] = row["at"]
        self.found = {session: at for session, at in self.found.items() if at > oldest}
        return frozenset(self.found)
