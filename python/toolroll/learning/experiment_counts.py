"""The units and rewards of an experiment, from its events wherever they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toolroll.learning.experiments import Experiment, VariantSums

# The outcomes with a known reward: 1 if the called tool succeeded, else 0, also if nothing was called.
ANSWERED = ("succeeded", "failed", "corrected", "wanted", "unused")


class UnitRow(NamedTuple):
    """The events of one unit in one variant.

    Attributes:
        variant: its name.
        org, unit: who the unit is; org is "" where the unit is the organisation.
        unknown: events without a known outcome, with those that sampling left out.
        answered, reward: events with one, and how many of them succeeded.
    """

    variant: str
    org: str
    unit: str
    unknown: float
    answered: int
    reward: int


@dataclass(frozen=True, slots=True)
class ExperimentCounts:
    """The units and rewards of an experiment.

    Attributes:
        tallies: variant → the rewards of its units.
        assigned: variant → the number of its units, with or without outcomes.
        unknown: variant → events without a known outcome, with those that sampling left out. If their share
            differs between variants, the rewards may be biased.
        strays: units with events in several variants, which are left out.
    """

    tallies: Mapping[str, VariantSums]
    assigned: Mapping[str, int]
    unknown: Mapping[str, int]
    strays: int

    @classmethod
    def of(cls, experiment: Experiment, rows: Iterable[UnitRow]) -> ExperimentCounts:
        """From the rows of all units; rows of other variants are left out."""
        units: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
        unknown = dict.fromkeys(experiment.variants, 0)
        for row in rows:
            if row.variant in unknown:
                said = (row.variant, int(row.answered), int(row.reward))
                units.setdefault((row.org, row.unit), []).append(said)
                unknown[row.variant] += round(row.unknown)
        mine: dict[str, list[tuple[int, int]]] = {name: [] for name in experiment.variants}
        for of_unit in units.values():
            if len(of_unit) == 1:
                ((variant, answered, reward),) = of_unit
                mine[variant].append((answered, reward))
        tallies = {}
        for name, each in mine.items():
            known = [(n, r) for n, r in each if n]
            tallies[name] = VariantSums.of(np.array([n for n, _ in known]), np.array([r for _, r in known]))
        strays = sum(len(of_unit) > 1 for of_unit in units.values())
        return cls(tallies, {name: len(each) for name, each in mine.items()}, unknown, strays)
