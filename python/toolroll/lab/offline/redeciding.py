"""Judges a profile on events in Parquet: decides each event again, with today's tools and earlier outcomes.

A partition contains whole organisations, so partitions are decided separately, with the same result to the
last bit. Tools and outcomes come from the registry, which every process must reach.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from toolroll.embedders import named
from toolroll.lab.offline.lake import EventFiles
from toolroll.lab.offline.work import On, Progress, Task, run
from toolroll.model.errors import Conflict, InvalidInput
from toolroll.registry.analytics.off_policy import CLIP, Log, judge
from toolroll.registry.analytics.off_policy_log import LogColumns, OffPolicyResult
from toolroll.registry.analytics.redecide import Redecider
from toolroll.registry.store.database import Database
from toolroll.selection import profiles
from toolroll.selection.pipeline_builder import PipelineBuilder

_COLUMNS = (
    *("event_id", "org", "at", "session", "page", "tier", "category", "selected", "candidates"),
    *("propensity_error", "called", "outcome", "variant", "seed", "degraded", "space"),
)
_WITH_MESSAGES = ("message", "message_form", "context", "limits")
_ROWS = 10_000  # in memory at a time
_THREADS = 1  # of DuckDB in a task: tasks run side by side


@dataclass(frozen=True, slots=True)
class Decider:
    """The registry (a URL), and the names of the profile to judge and of the embedder."""

    catalog: str = field(repr=False)  # it may hold a password
    profile: str = "default"
    embedder: str = "static"


def judge_profile(
    parts: Sequence[EventFiles],
    decider: Decider,
    *,
    clip: float = CLIP,
    on: On = "here",
    jobs: int = 1,
    kept: str | None = None,
    progress: Progress | None = None,
) -> OffPolicyResult:
    """Decides the events of all parts again. on, jobs, kept: as for `work.run`.

    Raises:
        Conflict: the registry's tools changed meanwhile.
        InvalidInput: the events were exported without messages; see also `EventFiles.query`.
        StoreUnavailable, Unavailable, NotFound: the registry or the files cannot be read.
    """
    database = Database.open(decider.catalog, create=False, migrate=False)
    try:
        revision = database.revision()
    finally:
        database.close()
    tasks = [Task(repr((part, decider, revision)), _decide, (part, decider, revision)) for part in parts]
    logs, skipped, events = list[Log](), Counter[str](), 0
    for result in run(tasks, on=on, jobs=jobs, kept=kept, progress=progress):
        with np.load(io.BytesIO(result), allow_pickle=False) as arrays:
            counts = json.loads(str(arrays["counts"]))
            logs.append(Log(**{name: arrays[name] for name in Log.__slots__}))
        events += counts["events"]
        skipped.update(counts["skipped"])
    log = _joined(logs)
    return OffPolicyResult(judge(log, clip) if len(log.session) else None, events, skipped)


def _decide(part: EventFiles, decider: Decider, revision: int) -> bytes:
    """The log of a part, with the counts of all and of unusable events."""
    again = _redecider(decider)
    if again.revision != revision:
        raise Conflict(f"the registry changed from revision {revision} to {again.revision}; judge again")
    again.restart()
    columns, events = LogColumns(), 0
    for row in _rows(part):
        events += 1
        columns.add(row, again)
    log = columns.log()
    out = io.BytesIO()
    counts = json.dumps({"events": events, "skipped": columns.skipped})
    arrays = {name: getattr(log, name) for name in Log.__slots__}
    np.savez(out, allow_pickle=False, counts=np.array(counts), **arrays)
    return out.getvalue()


@lru_cache(maxsize=1)
def _redecider(decider: Decider) -> Redecider:
    """The redecider with its catalog, made once in each process."""
    database = Database.open(decider.catalog, create=False, migrate=False)
    builder = PipelineBuilder(named.embedder(decider.embedder), profiles.profile(decider.profile))
    return Redecider(database, builder)


def _rows(part: EventFiles) -> Iterator[SimpleNamespace]:
    """The events in the form of the registry's reader, oldest first."""
    with part.query(_THREADS) as connection:
        there = {name for name, *_ in connection.execute("DESCRIBE events").fetchall()}
        if lacking := [name for name in _WITH_MESSAGES if name not in there]:
            raise InvalidInput(
                f"{part.files[0]}: has no {lacking[0]}; export events with --messages to decide them again"
            )
        columns = ", ".join(f'"{name}"' for name in (*_COLUMNS, *_WITH_MESSAGES))
        reader = connection.sql(f'SELECT {columns} FROM events ORDER BY "at", event_id').to_arrow_reader(
            _ROWS
        )
        for batch in reader:
            for values in batch.to_pylist():
                yield _row(values)


def _row(values: dict[str, Any]) -> SimpleNamespace:
    row = SimpleNamespace(**values, vector=None)
    row.candidates = [tuple(each.values()) for each in row.candidates]
    row.called = None if row.called is None else dict(row.called)
    if row.context is None or row.limits is None:  # of a file that was written without messages
        row.message_form = "dropped"
    else:
        row.context, row.limits = json.loads(row.context), json.loads(row.limits)
    return row


def _joined(logs: Sequence[Log]) -> Log:
    """The logs as one. Each conversation must be in only one of them."""
    column = {name: np.concatenate([getattr(log, name) for log in logs]) for name in Log.__slots__}
    events = np.cumsum([0, *(len(log.session) for log in logs)])
    sessions = np.cumsum([0, *(log.session.max(initial=-1) + 1 for log in logs)])
    column["event"] = np.concatenate([log.event + at for log, at in zip(logs, events, strict=False)])
    column["session"] = np.concatenate([log.session + at for log, at in zip(logs, sessions, strict=False)])
    return Log(**column)
