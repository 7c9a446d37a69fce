"""Estimates from events in Parquet the success of another rule over the logged candidates.

An event has its ranked candidates, with scores and the probability that each was shown. The rules need no
    catalog, message or registry, so DuckDB judges ten million events in two scans: for the outcome model, and
    for the estimates (`registry.analytics.off_policy`). Partitions are judged separately and merged in order,
    so the result is the same to the last bit, wherever they were judged.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from toolroll.lab.offline.lake import EventFiles
from toolroll.lab.offline.work import On, Progress, Task, run
from toolroll.model.errors import InvalidInput, quoted
from toolroll.registry.analytics.off_policy import CLIP, Log, OutcomeModel, SessionSums, estimates
from toolroll.registry.analytics.off_policy_log import RAREST, OffPolicyResult

Rule = Literal["mean", "score", "logged"]
RULES = ("mean", "score", "logged")
_ROWS = 2_000_000  # of candidates in memory at a time
_THREADS = 1  # of DuckDB in a task: several would add up in another order each time; tasks run side by side

# One row for each event that can be judged; `ran` are the called tools that worked or failed.
_USABLE = """
CREATE OR REPLACE TEMP VIEW usable AS
SELECT CASE WHEN session = '' THEN hash('event', event_id) ELSE hash(org, session) END AS session,
    selected, candidates, coalesce(map_entries(called), []) AS said,
    coalesce(len(list_filter(map_entries(called), lambda e: e.value IN ('corrected', 'meant'))) > 0, false)
        AS is_corrected,
    len(list_filter(map_entries(called), lambda e: e.value IN ('succeeded', 'failed', 'corrected'))) AS ran,
    list_transform(candidates, lambda c: c.name) AS names,
    coalesce(list_max(list_transform(candidates, lambda c: c.score)), 0) AS best,
    coalesce(list_min(list_transform(candidates, lambda c: c.score)), 0) AS worst
FROM events
WHERE outcome IS NOT NULL AND propensity_error IS NOT NULL
    AND NOT list_contains(coalesce(map_values(called), []), 'called')
"""

# A row for each shown tool and each tool that the rule would show (`top`), in the order of the candidates.
# Shown tools that are no candidates follow, without a score, and then a row without a name if an event may
# have no other row. Functions on rows are faster than on structs in lists.
_COLUMNS = """
WITH numbered AS (
    SELECT row_number() OVER () - 1 AS event, session, ran, best, worst, selected, candidates, {top} AS top,
        list_filter(selected, lambda n: NOT list_contains(names, n)) AS others,
        CASE WHEN is_corrected THEN []
            ELSE list_transform(list_filter(said, lambda e: e.value = 'succeeded'), lambda e: e.key)
            END AS worked
    FROM usable),
listed AS (
    SELECT event, session, ran, best, worst, selected, top, worked, unnest(
        CASE WHEN len(selected) > 0 AND len(others) = 0 THEN candidates
        ELSE list_concat(candidates, list_transform(others, lambda n: {{
            'name': n, 'score': NULL::DOUBLE, 'mean': NULL::DOUBLE, 'sd': NULL::DOUBLE, 'show': NULL::DOUBLE,
            'propensity': 1.0::DOUBLE}}), [NULL]) END) AS c
    FROM numbered),
named AS (
    SELECT * EXCLUDE c, c.name AS name, c.score AS score, c.propensity AS propensity,
        list_contains(selected, c.name) AS shown, c.score IS NULL OR list_contains(top, c.name) AS target
    FROM listed)
SELECT event, session, shown, target, coalesce(score, worst) - best AS fit,
    CASE WHEN name IS NOT NULL THEN coalesce(propensity, CASE WHEN shown THEN 1 ELSE 0 END) END AS propensity,
    CASE WHEN shown AND list_contains(worked, name) THEN 1 / ran ELSE 0 END AS reward
FROM named WHERE shown OR target
"""


@dataclass(frozen=True, slots=True)
class TargetRule:
    """The rule to judge.

    Attributes:
        rule: "mean" shows the candidates with the best expected score, as if there were no exploration;
            "score" those with the best score, as if there were no learning; "logged" the candidates that were
            shown.
        k: how many candidates; None for as many as the event shows.
        clip: the greatest weight in the clipped estimate.
    """

    rule: Rule = "mean"
    k: int | None = None
    clip: float = CLIP

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InvalidInput(f"rule: is {quoted(self.rule)}, must be one of {', '.join(RULES)}")
        if self.k is not None and self.k < 1:
            raise InvalidInput(f"k: is {self.k}, must be at least 1")

    @property
    def top(self) -> str:
        """SQL for the names of the candidates that the rule shows."""
        if self.rule == "logged":
            return "selected"
        score = "c.score" if self.rule == "score" else "coalesce(c.mean, c.score)"
        places = self.k or "len(list_filter(names, lambda n: list_contains(selected, n)))"
        ranked = f"list_reverse_sort(list_transform(candidates, lambda c: {{'s': {score}, 'name': c.name}}))"
        return f"list_transform({ranked}[1:{places}], lambda c: c.name)"


def judge(
    parts: Sequence[EventFiles],
    target: TargetRule,
    *,
    on: On = "here",
    jobs: int = 1,
    kept: str | None = None,
    progress: Progress | None = None,
) -> OffPolicyResult:
    """Judges the events of all parts. on, jobs, kept: as for `work.run`.

    Raises:
        NotFound, InvalidInput, Unavailable: as `EventFiles.query` and `work.run`.
    """
    report = progress or (lambda done, of: None)
    of = 2 * len(parts)

    def of_all(call: Any, begin: int, *arguments: Any) -> list[bytes]:
        said = [each.tobytes().hex() for each in arguments]
        tasks = [Task(repr((part, target, said)), call, (part, target, *arguments)) for part in parts]
        return run(tasks, on=on, jobs=jobs, kept=kept, progress=lambda done, _: report(begin + done, of))

    scans = [_FirstScan.read(result) for result in of_all(_learn, 0)]
    model = OutcomeModel.of(
        *(np.sum([getattr(each, name) for each in scans], axis=0) for name in ("seen", "brought"))
    )
    skipped = sum((Counter(each.skipped) for each in scans), Counter[str]())  # drops reasons without events
    results = of_all(_sum, len(parts), model.bins, model.mean)
    sums = SessionSums.joined([_read_sums(result) for result in results])
    return OffPolicyResult(
        estimates(sums) if sums.events else None,
        sum(each.events for each in scans),
        skipped,
    )


@dataclass(frozen=True, slots=True)
class _FirstScan:
    """The counts from the first scan of a part."""

    events: int
    skipped: dict[str, int]
    seen: npt.NDArray[np.float64]
    brought: npt.NDArray[np.float64]

    @classmethod
    def read(cls, result: bytes) -> _FirstScan:
        with np.load(io.BytesIO(result)) as arrays:
            return cls(**json.loads(str(arrays["counts"])), seen=arrays["seen"], brought=arrays["brought"])


def _learn(part: EventFiles, target: TargetRule) -> bytes:
    """Counts events, and rewards of shown tools by fit and propensity."""
    seen, brought = OutcomeModel.nothing(), OutcomeModel.nothing()
    with part.query(_THREADS) as connection:
        events, no_outcome, no_chance, unknown = connection.execute(
            """SELECT count(*), count(*) FILTER (WHERE outcome IS NULL),
                count(*) FILTER (WHERE outcome IS NOT NULL AND propensity_error IS NULL),
                count(*) FILTER (WHERE outcome IS NOT NULL AND propensity_error IS NOT NULL
                    AND list_contains(coalesce(map_values(called), []), 'called')) FROM events"""
        ).fetchone()
        connection.execute(_USABLE)
        shown = TargetRule("logged")
        for log in _logs(connection, shown):
            OutcomeModel.count(log, target.clip, seen, brought)
    skipped = {"no outcome": no_outcome, "no propensities": no_chance, "no known reward": unknown}
    out = io.BytesIO()
    counts = json.dumps({"events": events, "skipped": skipped})
    np.savez(out, seen=seen, brought=brought, counts=np.array(counts))
    return out.getvalue()


def _sum(
    part: EventFiles, target: TargetRule, bins: npt.NDArray[np.int64], mean: npt.NDArray[np.float64]
) -> bytes:
    """The sums of each conversation of a part."""
    model = OutcomeModel(bins, mean)
    with part.query(_THREADS) as connection:
        connection.execute(_USABLE)
        sums = SessionSums.joined(
            [SessionSums.of(log, target.clip, model.expected(log)) for log in _logs(connection, target)]
        )
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **sums.arrays())
    return out.getvalue()


def _read_sums(result: bytes) -> SessionSums:
    with np.load(io.BytesIO(result)) as arrays:
        return SessionSums(**arrays)


def _logs(connection: Any, target: TargetRule) -> Any:
    """The events as columns, in batches of whole events."""
    query = _COLUMNS.format(top=target.top)
    reader = connection.sql(query).to_arrow_reader(_ROWS)
    left: dict[str, npt.NDArray[Any]] | None = None
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            break
        columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}
        if left is not None:
            columns = {name: np.concatenate([left[name], column]) for name, column in columns.items()}
        last = int(np.searchsorted(columns["event"], columns["event"][-1])) if len(columns["event"]) else 0
        left = {name: column[last:] for name, column in columns.items()}
        if last:
            yield _log({name: column[:last] for name, column in columns.items()})
    if left is not None and len(left["event"]):
        yield _log(left)


def _log(columns: dict[str, npt.NDArray[Any]]) -> Log:
    """A batch as a log. An event without tools has one row with the propensity NaN."""
    begins = np.r_[True, np.diff(columns["event"]) > 0]
    event = np.cumsum(begins) - 1
    has_tool = ~np.isnan(columns["propensity"].astype(np.float64))
    propensity, reward, target, fit = (
        columns[name][has_tool].astype(np.float64) for name in ("propensity", "reward", "target", "fit")
    )
    shown = columns["shown"][has_tool].astype(np.bool_)
    return Log(
        event[has_tool],
        np.where(shown, np.maximum(propensity, RAREST), propensity),
        shown,
        reward,
        target,
        columns["session"][begins].view(np.int64),
        fit,
    )
