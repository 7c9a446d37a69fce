"""A copy of a registry's database for reports, so that they do not burden the primary.

The copy may lag, refuse or be unreachable. Reports then fail instead of using the primary, which must not get
their load just when servers fail. See decision 83.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.registry.store import schema
from toolroll.registry.store.database import Database
from toolroll.registry.store.errors import DamagedRow
from toolroll.registry.store.revision import created_at
from toolroll.registry.store.url import Address

# A standby that has replayed everything it received, from a primary that still sends, is up to date. Any
# other standby is as old as its last commit or checkpoint.
_BEHIND = sa.text(
    "SELECT CASE WHEN NOT pg_is_in_recovery() THEN 0 "
    "WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() "
    "AND EXISTS (SELECT FROM pg_stat_wal_receiver) THEN 0 "
    "ELSE greatest(0, extract(epoch FROM clock_timestamp() - coalesce("
    "pg_last_xact_replay_timestamp(), (SELECT checkpoint_time FROM pg_control_checkpoint())))) END"
)


class ReadReplica(Database):
    """A PostgreSQL with a copy of the registry, such as a streaming standby. Connects with the first read.

    Attributes:
        failing: why the last read failed, or None.
    """

    def __init__(self, url: str, primary: Database | None = None) -> None:
        """Checks the URL. primary: the copied registry, for comparison.

        Raises InvalidInput if the URL has an unknown form, or one of the two databases is no PostgreSQL.
        """
        address = Address.of(url)
        if address.dialect != "postgresql" or (primary is not None and primary.dialect != "postgresql"):
            raise InvalidInput(
                f"read_replica: is {address.text!r}; registry and read replica must both be PostgreSQL"
            )
        super().__init__(address)
        self.failing: str | None = None
        self._primary, self._is_known = primary, False

    @contextmanager
    def reading(self, *, is_single: bool = False) -> Iterator[sa.Connection]:
        """A connection that sees one state of the registry, perhaps not the newest; see `behind_s`.

        Raises StoreUnavailable if it does not answer, has not caught up with an upgrade, stopped a query, or
        holds another registry.
        """
        made_at = self._made_at()
        try:
            with super().reading(is_single=is_single) as connection:
                if not self._is_known:
                    self._know(connection, made_at)
                self.behind_s = float(connection.execute(_BEHIND).scalar_one())
                self.failing = None
                yield connection
        except DamagedRow:
            raise
        except StoreUnavailable as error:
            self.failing = f"read replica {error}"
            raise StoreUnavailable(self.failing, retry_after_s=error.retry_after_s) from error

    def _translated(self, *, writes: bool = False) -> AbstractContextManager[None]:
        if writes:
            raise StoreUnavailable(f"read replica {self.url}: is never written to")
        return super()._translated()

    def _know(self, connection: sa.Connection, made_at: datetime | None) -> None:
        """Checks that the copy has this schema, and that copy and primary were made at the same time."""
        found, wanted = schema.revision_of(connection, self._address), schema.REVISIONS[-1]
        if found != wanted:
            has = "no registry" if found is None else f"schema {found}"
            raise StoreUnavailable(
                f"{self.url}: has {has}, this toolroll needs schema {wanted}; wait until it has caught up "
                "with the primary",
                retry_after_s=5.0,
            )
        if made_at is not None and created_at(connection) != made_at:
            raise StoreUnavailable(f"{self.url}: holds another registry; name a copy of this one")
        self._is_known = True

    def _made_at(self) -> datetime | None:
        """The time at which the primary's registry was made; None if no comparison is needed."""
        if self._primary is None or self._is_known:
            return None
        with self._primary.reading() as connection:
            return created_at(connection)
