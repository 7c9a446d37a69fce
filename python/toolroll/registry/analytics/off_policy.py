"""Off-policy evaluation: estimates the success of another selection from the log.

Every logged event has the probability (propensity) with which each tool was shown. A successful call of a
tool that the other selection would show too counts for it, divided by that probability. The estimate is
unbiased under two conditions: a tool's success depends only on whether it is shown, not on the other tools;
and the log sometimes showed every tool that the other selection would show. The first is an assumption;
`Judgement` measures the second.

Source: item-position importance weights for slates, Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay & Wen,
"Offline Evaluation of Ranking Policies with Click Models", KDD 2018; self-normalised weights, Swaminathan &
Joachims, NeurIPS 2015; doubly robust, Dudík, Langford & Li, ICML 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll.model.errors import InvalidInput

Floats: TypeAlias = npt.NDArray[np.float64]

CLIP = 10.0  # the highest weight in the clipped estimate
LEVEL = 0.95
_BINS = 8  # of the outcome model, by how well a tool fits
_RARELY = (0.01, 0.05, 0.25, 0.75, 0.95)  # and bins by its propensity
_FOLDS = 5  # cross-fitting: the model predicts a session without its own outcomes
_DOUBTFUL = 2.0  # pseudo-observations of "no success" in every bin of the model


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Logged events, one row for each tool that was shown, or that the other selection would show.

    Attributes:
        event: int[m] in 0..n-1: which event a row is of.
        propensity: float[m] in [0, 1]: the probability with which the tool was shown.
        shown: bool[m]: whether it was shown.
        reward: float[m] in [0, 1]: of its call, 0 for most; at most 1 for a whole event.
        target: float[m] in [0, 1]: the probability that the other selection shows it, mostly 0 or 1.
        session: int[n], one number for the events of a conversation, which are not independent.
        fit: float[m], at most 0: how much worse the tool fits than the event's best one, for the outcome
            model. None: no doubly robust estimate.
    """

    event: npt.NDArray[np.int64]
    propensity: Floats
    shown: npt.NDArray[np.bool_]
    reward: Floats
    target: Floats
    session: npt.NDArray[np.int64]
    fit: Floats | None = None

    def __post_init__(self) -> None:
        rows, events = len(self.event), len(self.session)
        for name in ("propensity", "shown", "reward", "target", "fit"):
            column = getattr(self, name)
            if column is not None and column.shape != (rows,):
                raise InvalidInput(f"log: {name} has shape {column.shape}, must be ({rows},) as event has")
        for name in ("propensity", "reward", "target"):
            column = getattr(self, name)
            if not bool(((column >= 0) & (column <= 1)).all()):
                raise InvalidInput(f"log: {name} must be in [0, 1]")
        if self.fit is not None and not bool(np.isfinite(self.fit).all()):
            raise InvalidInput("log: fit must be finite")
        if rows and not 0 <= int(self.event.min()) <= int(self.event.max()) < events:
            raise InvalidInput(f"log: event must be from 0 to {events - 1}, the number of sessions less one")
        if bool((self.shown & (self.propensity == 0)).any()):
            raise InvalidInput("log: a tool with propensity 0 was shown, must be above 0")
        if bool((self.reward[~self.shown] > 0).any()):
            raise InvalidInput("log: a tool that was not shown has a reward, must have 0")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean reward of an event, with its interval.

    Attributes:
        low, high: 95 % interval, within [0, 1].
        gain: the estimate minus the mean reward of the log itself.
        gain_low, gain_high: its interval, paired by event and so narrower than for two independent means.
    """

    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float

    def to_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Four estimates of the other selection's success, and how far to trust them.

    Attributes:
        events, sessions: how many the estimates are from.
        logged: the mean reward of the log itself.
        ips: inverse propensity scoring; unbiased wherever there is support.
        clipped: the same with no weight above `clip`: less variance, biased towards 0.
        snips: self-normalised ips, divided by the sum of the weights over its expectation: less variance if
            the weights are similar, not if a few are large.
        doubly_robust: an outcome model corrected by the weighted outcomes: unbiased like ips with less
            variance, so read this one first. Without support it is the model's prediction. None without
            `fit`.
        effective_events: the number of unweighted events with the same information.
        overlap: share of the other selection's tools that were shown.
        unsupported: share of its tools that the log never shows: ips, clipped and snips count no success for
            them.
        rare: share of its tools with a weight above `clip`.
        greatest_weight: of a tool that was shown.
    """

    events: int
    sessions: int
    logged: Estimate
    ips: Estimate
    clipped: Estimate
    snips: Estimate
    doubly_robust: Estimate | None
    effective_events: float
    overlap: float
    unsupported: float
    rare: float
    greatest_weight: float

    @property
    def is_supported(self) -> bool:
        """Whether a fifth of the events are effective and at most a tenth of the tools unsupported."""
        return self.effective_events >= 0.2 * self.events and self.unsupported <= 0.1

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "is_supported": self.is_supported}


def judge(log: Log, clip: float = CLIP) -> Judgement:
    """Estimates the success of the log's target selection. O(rows).

    Raises:
        InvalidInput: there are no events, or `clip` is below 1.
    """
    if not len(log.session):
        raise InvalidInput("judge: the log has no event with both what was shown and its outcome")
    if not clip >= 1:
        raise InvalidInput(f"clip: is {clip}, must be at least 1")
    expected = None
    if log.fit is not None:
        seen, brought = OutcomeModel.nothing(), OutcomeModel.nothing()
        OutcomeModel.count(log, clip, seen, brought)
        expected = OutcomeModel.of(seen, brought).expected(log)
    return estimates(SessionSums.of(log, clip, expected))


@dataclass(frozen=True, slots=True, eq=False)
class SessionSums:
    """Sums of a log, over the events of each conversation and over all: the input of the estimates.

    Attributes:
        session: int64[s], the conversations; one may occur several times.
        sizes: float64[s], their events.
        logged, ips, clipped: float64[s], sums of rewards: logged, weighted, with clipped weights.
        came, should: float64[s], sums of the weights, and their expectations.
        robust: float64[s], sums of doubly robust rewards; NaN without an outcome model.
        totals: float64[6]: the target's tools; of these the shown, the impossible and the rare ones; squares
            of the events' weights; the greatest weight.
    """

    session: npt.NDArray[np.int64]
    sizes: Floats
    logged: Floats
    ips: Floats
    clipped: Floats
    came: Floats
    should: Floats
    robust: Floats
    totals: Floats

    @classmethod
    def of(cls, log: Log, clip: float, expected: Floats | None) -> SessionSums:
        """Sums one log. expected: the mean reward of each row's tool, if shown, by an outcome model."""
        events = len(log.session)
        known, session = np.unique(log.session, return_inverse=True)
        shown, target = log.shown, log.target
        weight = np.zeros(len(target))
        np.divide(target, log.propensity, out=weight, where=shown)

        def by_event(values: Floats) -> Floats:
            return np.bincount(log.event, values, minlength=events).astype(np.float64)

        def by_session(values: Floats) -> Floats:
            return np.bincount(session, by_event(values), minlength=len(known)).astype(np.float64)

        came = by_event(weight)
        robust = np.full(len(known), np.nan)
        if expected is not None:
            robust = by_session(target * expected + weight * (log.reward - expected) * shown)
        is_rare = (log.propensity > 0) & (target > clip * log.propensity)
        return cls(
            known,
            np.bincount(session, minlength=len(known)).astype(np.float64),
            by_session(log.reward),
            by_session(weight * log.reward),
            by_session(np.minimum(weight, clip) * log.reward),
            np.bincount(session, came, minlength=len(known)).astype(np.float64),
            # The expected weights: the tools that could be shown.
            by_session(np.where(log.propensity > 0, target, 0.0)),
            robust,
            np.array(
                [
                    target.sum(),
                    target[shown].sum(),
                    target[log.propensity == 0].sum(),
                    target[is_rare].sum(),
                    (came**2).sum(),
                    weight.max(initial=0.0),
                ]
            ),
        )

    @classmethod
    def joined(cls, several: Sequence[SessionSums]) -> SessionSums:
        """The sum of several logs: each conversation once, in ascending order."""
        if not several:
            none = np.zeros(0)
            return cls(np.zeros(0, np.int64), none, none, none, none, none, none, none, np.zeros(6))
        known, session = np.unique(np.concatenate([each.session for each in several]), return_inverse=True)

        def summed(name: str) -> Floats:
            column = np.concatenate([getattr(each, name) for each in several])
            return np.bincount(session, column, minlength=len(known)).astype(np.float64)

        totals = np.array([each.totals for each in several])
        return cls(
            session=known,
            totals=np.r_[totals[:, :5].sum(0), totals[:, 5].max()],
            **{name: summed(name) for name in cls.__slots__ if name not in ("session", "totals")},
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """By name."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def events(self) -> int:
        """The number of events."""
        return int(self.sizes.sum())


def estimates(sums: SessionSums) -> Judgement:
    """The estimates from the sums of at least one event."""
    events, sizes, logged = sums.events, sums.sizes, sums.logged

    def estimate(of_session: Floats) -> Estimate:
        return _estimate(of_session, logged, sizes)

    wanted, shown, unsupported, rare, squares, greatest = sums.totals.tolist()
    total = float(sums.came.sum())
    return Judgement(
        events,
        len(sizes),
        estimate(logged),
        estimate(sums.ips),
        estimate(sums.clipped),
        estimate(_ratio(sums)),
        None if np.isnan(sums.robust).any() else estimate(sums.robust),
        total**2 / squares if total else 0.0,
        shown / wanted if wanted else 0.0,
        unsupported / wanted if wanted else 0.0,
        rare / wanted if wanted else 0.0,
        greatest,
    )


def _ratio(sums: SessionSums) -> Floats:
    """Each conversation's part of mean(ips) · mean(should) / mean(came), to first order.

    The mean of the parts is the estimate. The usual form divides by the weights alone: a tool that the log
    never shows would then get the success of the other tools.
    """
    events = sums.events
    top, bottom, level = (float(column.sum()) / events for column in (sums.ips, sums.came, sums.should))
    if not top or not bottom:
        return np.zeros_like(sums.ips)
    value = top * level / bottom
    moves: Floats = value * (sums.ips / top - sums.came / bottom + sums.should / level)
    return moves


_GRID, _LEAST_FIT = 1_024, -16.0  # steps of fit, equal ones from the least to 0


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeModel:
    """The mean reward of a shown tool, by its fit and propensity, learnt from other sessions than its own.

    Besides the fit, the propensity matters: a rarely shown tool was shown for a reason that the fit does not
    contain. Bins of fit end at steps of a grid, so that counts of separate logs can be added.

    Attributes:
        bins: int64[_GRID]: the bin of each step of fit.
        mean: float64[folds, bins, bins of propensity]: mean reward in the other folds.
    """

    bins: npt.NDArray[np.int64]
    mean: Floats

    @staticmethod
    def nothing() -> Floats:
        """Empty counts: float64[folds, steps of fit, bins of propensity]."""
        return np.zeros((_FOLDS, _GRID, len(_RARELY) + 1))

    @staticmethod
    def count(log: Log, clip: float, seen: Floats, brought: Floats) -> None:
        """Adds a log's shown tools to the counts. Rare ones weigh more: they stand for unshown tools."""
        shown = log.shown
        counts = np.minimum(1 / np.maximum(log.propensity[shown], 1e-9), clip)
        fold, step, rarely = _cells(log)
        at = np.ravel_multi_index((fold[shown], step[shown], rarely[shown]), seen.shape)
        seen += np.bincount(at, counts, minlength=seen.size).reshape(seen.shape)
        brought += np.bincount(at, counts * log.reward[shown], minlength=seen.size).reshape(seen.shape)

    @classmethod
    def of(cls, seen: Floats, brought: Floats) -> OutcomeModel:
        """The model of these counts: bins of about equal counts."""
        steps = seen.sum((0, 2))
        before = np.cumsum(steps) - steps / 2
        bins = np.minimum((before / max(steps.sum(), 1e-9) * _BINS).astype(np.int64), _BINS - 1)
        of_bin = np.eye(_BINS)[bins].T  # float64[bins, steps]
        seen, brought = (np.einsum("bs,fsr->fbr", of_bin, counts) for counts in (seen, brought))
        seen, brought = seen.sum(0) - seen, brought.sum(0) - brought
        return cls(bins, brought / (seen + _DOUBTFUL))

    def expected(self, log: Log) -> Floats:
        """float64[m]: the mean reward of each row's tool, if shown."""
        fold, step, rarely = _cells(log)
        found: Floats = self.mean[fold, self.bins[step], rarely]
        return found


def _cells(log: Log) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Three indexes for each row: its fold, its step of fit and its bin of propensity."""
    assert log.fit is not None
    step = np.clip((log.fit - _LEAST_FIT) * (_GRID / -_LEAST_FIT), 0, _GRID - 1).astype(np.int64)
    return log.session[log.event] % _FOLDS, step, np.searchsorted(_RARELY, log.propensity)


def _estimate(sums: Floats, logged: Floats, sizes: Floats) -> Estimate:
    """The estimate from each conversation's sum. sizes: their events."""
    value, low, high = _interval(sums, sizes, LEVEL)
    gain, gain_low, gain_high = _interval(sums - logged, sizes, LEVEL)
    if sums is logged:  # nothing was gained, and that is certain
        gain_low = gain_high = 0.0
    return Estimate(
        value,
        max(0.0, min(low, 1.0)),
        min(1.0, max(high, 0.0)),
        gain,
        max(-1.0, gain_low),
        min(1.0, gain_high),
    )


def interval(
    values: Floats, cluster: npt.NDArray[np.int64], level: float = LEVEL
) -> tuple[float, float, float]:
    """Mean of the values and its interval; values of one cluster (0, 1, …) may depend on each other.

    Weighted outcomes are skewed: many zeros, few large values. The usual interval then lies too low, so
    Hall's transformation moves it. For a single cluster the interval is (-inf, inf).

    Source: Hall, "On the Removal of Skewness by Transformation", JRSS B 54(1), 1992.
    """
    sums = np.bincount(cluster, values).astype(np.float64)
    sizes = np.bincount(cluster, minlength=len(sums)).astype(np.float64)
    return _interval(sums[sizes > 0], sizes[sizes > 0], level)


def _interval(sums: Floats, sizes: Floats, level: float) -> tuple[float, float, float]:
    """`interval`, from each cluster's sum and its number of values (at least 1)."""
    groups, total = len(sums), float(sizes.sum())
    mean = float(sums.sum()) / total
    if groups < 2:
        return mean, -math.inf, math.inf
    off = (sums - mean * sizes) * (groups / total)  # of mean 0, as the clusters' own means
    spread = math.sqrt(float((off**2).sum()) / (groups - 1))
    if spread == 0.0:
        # Nothing ever differed: all that is known is that something else is rare (the "rule of three").
        room = 1 - (0.5 * (1 - level)) ** (1 / groups)
        return mean, mean - room, mean + room
    skew = float((off**3).mean()) / float((off**2).mean()) ** 1.5
    # As many clusters as carry the variance: of zeros with a few large values among them, the few.
    carry = float((off**2).sum()) ** 2 / float((off**4).sum())
    quantile = _student(0.5 * (1 + level), max(2.0, min(groups - 1, carry)))
    error = spread / math.sqrt(groups)
    return (
        mean,
        mean - error * _unskewed(quantile, skew, groups),
        mean - error * _unskewed(-quantile, skew, groups),
    )


def _unskewed(x: float, skew: float, n: int) -> float:
    """The quantile of the t statistic of skewed data, from the quantile of a symmetric distribution."""
    root = math.sqrt(n)
    if abs(skew) < 1e-6:
        return x
    cube = 1 + skew * (x / root - skew / (6 * n))
    return 3 * root / skew * (math.copysign(abs(cube) ** (1 / 3), cube) - 1)


def _student(p: float, freedom: float) -> float:
    """Quantile of Student's distribution; within 1 % from 4 degrees on.

    Source: Abramowitz & Stegun, 26.7.5.
    """
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / freedom**at for at, term in enumerate(terms, 1))
