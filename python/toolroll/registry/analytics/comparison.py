"""Compares the variants of an A/B test, with intervals that stay valid however often they are read.

The intervals hold at all times together, so it is sound to stop as soon as `compare` names a winner. Units
are assigned to variants, and events belong to units. Events of one unit depend on each other, so the variance
is taken between units.

Source: Robbins, "Statistical Methods Related to the Law of the Iterated Logarithm", Ann. Math. Statist.
41(5), 1970 (the boundary, a normal mixture); Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, "Time-uniform
central limit theory and asymptotic confidence sequences", Ann. Statist. 52(6), 2024 (with an estimated
variance); Lindon & Malek, "Anytime-Valid Inference for Multinomial Count Data", NeurIPS 2022 (the check of
the shares). Units that come back make neighbouring looks more alike than independent observations would. The
chance to cross a boundary is then smaller (Slepian's inequality), so the stated error is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from toolroll.learning.experiments import Experiment
from toolroll.model.errors import InvalidInput

ERROR = 0.05  # chance of naming a winner where there is none, over all looks
WORTH = 0.02  # the smallest difference that matters; the boundary is narrowest for it
LEAST_UNITS = 50  # of each variant, before there is an interval
_LARGEST_GROWTH = 2.0**20  # of the number of units, in the answer to how many are missing
_UNSOUND = 1_000.0  # evidence against the shares: an error of 1 in 1,000 over all looks
_PRIOR = 200.0  # weight, in units, of the belief that the shares are right


@dataclass(frozen=True, slots=True)
class VariantSums:
    """Sums over the units of one variant. Sums of disjoint sets of units can be added.

    Attributes:
        units: the number of units with events.
        events, reward: totals; the reward of one event is at most 1.
        events_squared, crossed, reward_squared: sums of n², n·r and r² over the units.
    """

    units: float = 0.0
    events: float = 0.0
    reward: float = 0.0
    events_squared: float = 0.0
    crossed: float = 0.0
    reward_squared: float = 0.0

    @classmethod
    def of(cls, events: npt.ArrayLike, reward: npt.ArrayLike) -> VariantSums:
        """From the number of events and the reward of each unit."""
        n, r = np.asarray(events, np.float64), np.asarray(reward, np.float64)
        if n.shape != r.shape or n.ndim != 1:
            raise InvalidInput(f"tally: events {n.shape} and reward {r.shape} must be two columns")
        if not bool(((n > 0) & (r >= 0) & (r <= n + 1e-9)).all()):
            raise InvalidInput("tally: a unit needs an event, and a reward from 0 to its number of events")
        sums = (len(n), n.sum(), r.sum(), (n * n).sum(), (n * r).sum(), (r * r).sum())
        return cls(*map(float, sums))

    def __add__(self, other: VariantSums) -> VariantSums:
        return VariantSums(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def mean(self) -> float:
        """Reward of an event."""
        return self.reward / self.events if self.events else 0.0


@dataclass(frozen=True, slots=True)
class Contrast:
    """The difference of two variants' means. low, high: valid for all looks and pairs together."""

    variant: str
    against: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result so far.

    Attributes:
        state: "winner", "equal" (no two differ by more than `worth`), "undecided", or "unsound" (the numbers
            of units contradict the shares: units are lost, and no result can be trusted).
        winner: the best variant.
        contrasts: every pair; against the control first.
        shares_error: the chance, over all looks, that the shares give such numbers of units.
        worth: the smallest difference that matters.
        missing: while undecided: variant → estimated number of further units until a decision.
    """

    state: Literal["winner", "equal", "undecided", "unsound"]
    winner: str | None
    tallies: Mapping[str, VariantSums]
    contrasts: tuple[Contrast, ...]
    shares_error: float
    worth: float
    missing: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; an interval that does not exist yet is null."""
        return {
            "state": self.state,
            "winner": self.winner,
            "variants": [
                {"name": name, "units": int(tally.units), "events": int(tally.events), "mean": tally.mean}
                for name, tally in self.tallies.items()
            ],
            "contrasts": [
                {
                    name: None if isinstance(value, float) and not math.isfinite(value) else value
                    for name, value in asdict(contrast).items()
                }
                for contrast in self.contrasts
            ],
            "shares_error": self.shares_error,
            "worth": self.worth,
            "missing": dict(self.missing),
        }


def compare(
    experiment: Experiment,
    tallies: Mapping[str, VariantSums],
    assigned: Mapping[str, int] | None = None,
    *,
    error: float = ERROR,
    worth: float = WORTH,
) -> Comparison:
    """The result so far. May be called as often as you like.

    assigned: how many units got each variant, including units without events; None to use the tallies'
        numbers. error: the chance of ever naming a winner although all variants are equally good. worth: the
        smallest difference that matters. Set both before the first look and keep them.

    Raises:
        InvalidInput: a tally has an unknown variant, or a number is out of range.
    """
    if not 0 < error < 0.5 or not 0 < worth < 1:
        raise InvalidInput(f"compare: error {error} must be in (0, 0.5), worth {worth} in (0, 1)")
    if unknown := sorted(tallies.keys() - experiment.variants.keys()):
        raise InvalidInput(
            f"experiment {experiment.name!r}: has no variant {unknown[0]!r}; "
            f"it has {', '.join(experiment.variants)}"
        )
    found = {name: tallies.get(name, VariantSums()) for name in experiment.variants}
    names = list(found)
    pairs = [(b, a) for at, a in enumerate(names) for b in names[at + 1 :]]
    contrasts = tuple(
        _contrast(b, a, found[b], found[a], error / len(pairs), worth) for b, a in pairs
    )  # one in `error`, over all pairs
    units = [tally.units for tally in found.values()]
    if assigned is not None:
        units = [assigned.get(name, 0) for name in names]
    doubt = _shares_error(units, list(experiment.variants.values()), _PRIOR)
    better = {(c.variant, c.against) for c in contrasts if c.low > 0}
    better |= {(c.against, c.variant) for c in contrasts if c.high < 0}
    winner = next((a for a in names if all((a, b) in better for b in names if b != a)), None)
    if doubt <= 1 / _UNSOUND:
        return Comparison("unsound", None, found, contrasts, doubt, worth)
    if winner is not None:
        return Comparison("winner", winner, found, contrasts, doubt, worth)
    are_equal = all(-worth < contrast.low and contrast.high < worth for contrast in contrasts)
    if are_equal:
        return Comparison("equal", None, found, contrasts, doubt, worth)
    missing = dict.fromkeys(names, 0)
    for contrast in contrasts:
        if (-worth < contrast.low and contrast.high < worth) or contrast.low > 0 or contrast.high < 0:
            continue
        b, a = found[contrast.variant], found[contrast.against]
        growth = _growth(b, a, error / len(pairs), worth)
        for name, tally in ((contrast.variant, b), (contrast.against, a)):
            more = LEAST_UNITS if growth is None else math.ceil(growth * tally.units)
            missing[name] = max(missing[name], more - int(tally.units))
    return Comparison("undecided", None, found, contrasts, doubt, worth, missing)


def _contrast(
    variant: str, against: str, b: VariantSums, a: VariantSums, error: float, worth: float
) -> Contrast:
    value = b.mean - a.mean
    if min(a.units, b.units) < LEAST_UNITS:
        return Contrast(variant, against, value, -math.inf, math.inf)
    radius = float(_radius(_variance(a) + _variance(b), error, worth))
    return Contrast(variant, against, value, value - radius, value + radius)


def _growth(b: VariantSums, a: VariantSums, error: float, worth: float) -> float | None:
    """The factor by which the units must grow until the pair is decided; None without an interval.

    A pair is decided when its interval excludes 0 or lies within `worth`.
    """
    if min(a.units, b.units) < LEAST_UNITS:
        return None
    difference, variance = abs(b.mean - a.mean), float(_variance(a) + _variance(b))
    enough = max(difference, worth - difference)
    low, high = 1.0, 2.0
    while _radius(variance / high, error, worth) >= enough and high < _LARGEST_GROWTH:
        low, high = high, 2 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        is_enough = _radius(variance / middle, error, worth) < enough
        low, high = (low, middle) if is_enough else (middle, high)
    return high


def _variance(tally: VariantSums) -> Any:
    """Variance of the mean, from the differences between units; at least the variance for independent events.

    The lower bound matters for rare failures, which the first few units may not have seen.
    """
    mean = tally.reward / tally.events
    between = tally.reward_squared - 2 * mean * tally.crossed + mean * mean * tally.events_squared
    robust = between / tally.events**2 * tally.units / (tally.units - 1)
    cautious = (tally.reward + 1) / (tally.events + 2)
    return np.maximum(robust, cautious * (1 - cautious) / tally.events)


def _radius(variance: Any, error: float, worth: float) -> Any:
    """Half the interval's width, for all looks. Narrowest where `worth` is just distinguishable from 0."""
    level = 2 * math.log(1 / error)
    ratio = level + math.log(1 + level)  # of that information over the mixture's
    mixture = (1 + 1 / ratio) * (math.log(1 + ratio) + level) / worth**2 / ratio
    information = 1 / variance
    spent = np.log((information + mixture) / mixture) + level
    return np.sqrt((information + mixture) * spent) / information


def _shares_error(units: Sequence[float], shares: Sequence[float], prior: float) -> float:
    """The chance, over all looks, that numbers of units deviate as far from their shares."""
    total = sum(units)
    found = math.lgamma(prior) - math.lgamma(prior + total)
    for count, share in zip(units, shares, strict=True):
        found += math.lgamma(prior * share + count) - math.lgamma(prior * share) - count * math.log(share)
    return math.exp(-max(0.0, min(found, 700.0)))
