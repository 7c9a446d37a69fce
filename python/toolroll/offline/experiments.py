"""Counts an experiment's units and rewards from events in Parquet, as the registry counts them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from toolroll.learning.experiment_counts import ANSWERED, ExperimentCounts, UnitRow
from toolroll.learning.experiments import Experiment
from toolroll.offline.lake import EventFiles, literal

_UNITS = {"user": "reporter", "session": "session", "org": "org"}


def counts(parts: Sequence[EventFiles], experiment: Experiment, begun_at: datetime) -> ExperimentCounts:
    """Counts the events of an experiment since it began. A partition has whole units.

    Raises:
        InvalidInput, Unavailable: as `EventFiles.query`.
    """
    answered = ", ".join(map(literal, ANSWERED))
    whose = "''" if experiment.unit == "org" else "org"
    query = f"""
        SELECT variant, {whose} AS whose, {_UNITS[experiment.unit]} AS unit,
            sum(CASE WHEN outcome IN ({answered}) THEN 0 ELSE 1 END / share),
            count(*) FILTER (WHERE outcome IN ({answered})), count(*) FILTER (WHERE outcome = 'succeeded')
        FROM events WHERE experiment = {literal(experiment.name)} AND "at" >= {literal(begun_at)}
        GROUP BY ALL ORDER BY ALL"""
    rows: list[UnitRow] = []
    for part in parts:
        with part.query() as connection:
            rows += (UnitRow(*row) for row in connection.execute(query).fetchall())
    return ExperimentCounts.of(experiment, rows)
