"""Experiments in the store: starts and stops them, and counts the rewards of their units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.learning.experiments import Experiment
from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.registry.analytics.comparison import VariantSums
from toolroll.registry.analytics.window import Window
from toolroll.registry.analytics.window_sums import WindowSums, total
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, checked_text
from toolroll.registry.store.json_values import as_json
from toolroll.registry.store.row_reader import Row, read_rows

_TABLE = tables.experiments


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """A stored experiment. org: the owner of the turns; "" for all. active: whether it runs."""

    experiment: Experiment
    org: str
    active: bool
    begun_at: datetime
    ended_at: datetime | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: as_json(value) for name, value in self._row().items()}

    def _row(self) -> dict[str, Any]:
        one = self.experiment
        row = {"name": one.name, "variants": dict(one.variants), "unit": one.unit, "salt": one.salt}
        return row | {name: getattr(self, name) for name in ("org", "active", "begun_at", "ended_at")}


@dataclass(frozen=True, slots=True)
class ExperimentCounts:
    """The units and rewards of an experiment.

    Attributes:
        tallies: variant → the rewards of its units.
        assigned: variant → its units, with or without outcomes.
        unknown: variant → events without a known outcome, including unlogged ones. If their share differs
            between variants, the rewards may be biased.
        strays: units with events in several variants; they do not count.
    """

    tallies: Mapping[str, VariantSums]
    assigned: Mapping[str, int]
    unknown: Mapping[str, int]
    strays: int


def start(
    database: Database, experiment: Experiment, *, actor: str, org: str = "", reason: str = ""
) -> StoredExperiment:
    """Starts an experiment.

    Raises:
        Conflict: the name was used before, or another experiment runs on some of the same turns.
    """
    checked_text(experiment.name, "experiment", 100)
    checked_text(experiment.salt, "salt", 100)
    with database.writing(actor, org) as write:
        for row in read_rows(write.connection, list(_TABLE.c)):
            if row["name"] == experiment.name:
                raise Conflict(
                    f"experiment {experiment.name!r}: the name was used before, and events "
                    "refer to it: choose another"
                )
            if row["active"] and (row["org"] == org or not row["org"] or not org):
                whose = f"of {row['org']!r}" if row["org"] else "of everybody"
                raise Conflict(
                    f"experiment {experiment.name!r}: {row['name']!r} {whose} is running; stop it first: "
                    "a turn takes part in one experiment"
                )
        started = StoredExperiment(experiment, org, True, write.at, None)
        write.connection.execute(sa.insert(_TABLE), started._row())
        details = {"variants": dict(experiment.variants), "unit": experiment.unit}
        write.log("experiment.start", experiment.name, details, reason)
        return started


def stop(database: Database, name: str, *, actor: str, reason: str = "") -> StoredExperiment:
    """Ends an experiment, unless it has ended. Raises NotFound."""
    org = find(database, name).org
    with database.writing(actor, org) as write:
        trial = _find(write.connection, name)
        if not trial.active:
            write.abandon()
            return trial
        write.connection.execute(
            sa.update(_TABLE).where(_TABLE.c.name == name).values(active=False, ended_at=write.at)
        )
        write.log("experiment.stop", name, reason=reason)
        return replace(trial, active=False, ended_at=write.at)


def find(database: Database, name: str) -> StoredExperiment:
    """The experiment of this name. Raises NotFound."""
    with database.reading() as connection:
        return _find(connection, checked_text(name, "experiment"))


def _find(connection: sa.Connection, name: str) -> StoredExperiment:
    for row in read_rows(connection, list(_TABLE.c), _TABLE.c.name == name):
        return _trial(row)
    raise NotFound(f"experiment {name!r:.120}: there is none of this name")


def list_experiments(database: Database, *, active: bool = False) -> tuple[StoredExperiment, ...]:
    """All experiments, or only those that run, the latest first."""
    where = [_TABLE.c.active] if active else []
    order = (_TABLE.c.begun_at.desc(), _TABLE.c.name)
    with database.reading() as connection:
        return tuple(map(_trial, read_rows(connection, list(_TABLE.c), *where, order_by=order)))


def _trial(row: Row) -> StoredExperiment:
    experiment = Experiment(row["name"], row["variants"], row["unit"], row["salt"])
    return StoredExperiment(experiment, row["org"], row["active"], row["begun_at"], row["ended_at"])


def counts(database: Database, trial: StoredExperiment) -> ExperimentCounts:
    """The units and rewards of an experiment. An event's reward is 1 if the called tool succeeded.

    Sums by unit and hour include events that were deleted since.
    """
    experiment = trial.experiment
    with database.reading() as connection:
        window = Window(trial.org or None, trial.begun_at)  # its organisation: against wrong events
        columns = WindowSums(connection, window).of(tables.unit_sums).c
        is_its = (columns.experiment == experiment.name, columns.variant.in_(list(experiment.variants)))
        unit = (
            sa.select(
                sa.func.min(columns.variant).label("variant"),
                (sa.func.min(columns.variant) != sa.func.max(columns.variant)).label("is_stray"),
                sa.cast(sa.func.sum(columns.answered), sa.Double).label("n"),
                sa.cast(sa.func.sum(columns.succeeded), sa.Double).label("r"),
            )
            .where(*is_its)
            .group_by(columns.org, columns.unit)
            .subquery()
        )
        n, r, is_stray = unit.c.n, unit.c.r, unit.c.is_stray
        sums = (sa.func.sum(sa.case((n > 0, 1), else_=0)), *map(sa.func.sum, (n, r, n * n, n * r, r * r)))
        query = sa.select(is_stray, unit.c.variant, sa.func.count(), *sums).group_by(is_stray, unit.c.variant)
        tallies = dict.fromkeys(experiment.variants, VariantSums())
        assigned, strays = dict.fromkeys(experiment.variants, 0), 0
        for stray, variant, number, *of_units in connection.execute(query):
            if stray:
                strays += number
            else:
                assigned[variant], tallies[variant] = number, VariantSums(*map(float, of_units))
        unknown = dict.fromkeys(experiment.variants, 0)
        counted = sa.select(columns.variant, total(columns.unknown)).where(*is_its).group_by(columns.variant)
        unknown.update({variant: round(number) for variant, number in connection.execute(counted)})
    return ExperimentCounts(tallies, assigned, unknown, strays)


def read_variants(pairs: list[tuple[str, float]]) -> dict[str, float]:
    """Variants from a command line. Raises InvalidInput if one is there twice."""
    found: dict[str, float] = {}
    for name, share in pairs:
        if name in found:
            raise InvalidInput(f"variant {name!r:.80}: is there twice")
        found[name] = share
    return found
