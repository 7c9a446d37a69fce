"""Events in Parquet, as `toolroll events export` writes them: one file, or a folder with partitions.

All events of a conversation are in one partition, because an organisation's are. Needs DuckDB (extra
`offline`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from toolroll.model.errors import InvalidInput, NotFound, ToolrollError, Unavailable
from toolroll.runtime.extras import needs_extra

with needs_extra("events in Parquet", "offline"):
    import duckdb

    from toolroll.runtime.locations import Location


@dataclass(frozen=True, slots=True)
class EventFiles:
    """Events of some files, of one organisation or all, from `since` to before `until`.

    files: paths for DuckDB, in order. options: of the storage.
    """

    files: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    org: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @contextmanager
    def query(self, threads: int | None = None) -> Iterator[Any]:
        """A connection with the view `events`, in the order of the files. threads: None for all processors.

        Raises:
            InvalidInput: a file is not what `toolroll events export` writes.
            Unavailable: a file cannot be read.
        """
        connection = duckdb.connect()
        try:
            connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
            if threads is not None:
                connection.execute(f"SET threads = {threads}")
            if "://" in self.files[0]:
                connection.register_filesystem(Location(self.files[0], self.options).storage())
            # Files of an older version have fewer columns.
            relation = connection.read_parquet(list(self.files), hive_partitioning=False, union_by_name=True)
            connection.register("every_event", relation)
            conditions = [
                f"{condition} {literal(value)}"
                for condition, value in (("org =", self.org), ('"at" >=', self.since), ('"at" <', self.until))
                if value is not None
            ]
            where = " AND ".join(conditions) or "true"
            connection.execute(f"CREATE TEMP VIEW events AS SELECT * FROM every_event WHERE {where}")
            yield connection
        except ToolrollError:
            raise
        except duckdb.IOException as error:
            raise Unavailable(f"events in Parquet: {_first_line(error)}") from error
        except duckdb.Error as error:
            raise InvalidInput(f"events in Parquet: {_first_line(error)}") from error
        finally:
            connection.close()


def literal(value: str | datetime) -> str:
    """A value in SQL: a view takes no parameters."""
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{value.isoformat()}'"
    return "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


def event_files(
    path: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    *,
    org: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[EventFiles, ...]:
    """The events of a file or folder, a part for each partition, in a fixed order.

    Raises:
        NotFound: there is no such file, or no Parquet file in the folder.
        Unavailable: the location does not answer.
    """
    place = Location.of(path, options)
    files, found = place.found(".parquet")
    if not found:
        raise NotFound(f"{place}: has no Parquet file; `toolroll events export` writes some")
    parts: dict[str, list[str]] = {}
    for name in found:
        top = name.removeprefix(files).strip("/").partition("/")[0]
        parts.setdefault(top if top.startswith(("org_hash=", "org_id=")) else "", []).append(name)
    scheme = place.url.partition("://")[0] + "://" if "://" in place.url else ""
    return tuple(
        EventFiles(tuple(scheme + name for name in sorted(names)), options or {}, org, since, until)
        for _, names in sorted(parts.items())
    )
