"""What another selection would have reached, judged from the log of the one that served.

Every logged event says how probable it was that a tool was shown. A call that the other selection would have
made possible too counts for it, divided by that probability: what was shown rarely stands for all the times
when it was not. That is fair where a tool's success depends on whether it is shown and not on what else is,
and where the log showed, now and then, whatever the other selection would show; `Judgement` says how far the
second holds. The first is an assumption: among seven tools a model is not much swayed by the other six.

Source: item-position importance weights for slates, Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay & Wen,
"Offline Evaluation of Ranking Policies with Click Models", KDD 2018; self-normalised weights, Swaminathan &
Joachims, NeurIPS 2015; doubly robust, Dudík, Langford & Li, ICML 2011.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll.errors import InvalidInput

Floats: TypeAlias = npt.NDArray[np.float64]

CLIP = 10.0  # a weight counts no more than this in the clipped estimate
LEVEL = 0.95
_BINS = 8  # of the outcome model: how well a tool fitted
_RARELY = (0.01, 0.05, 0.25, 0.75, 0.95)  # and how probable it was that it was shown
_FOLDS = 5  # a session's own outcomes say nothing about what the model expects of it
_DOUBTFUL = 2.0  # observations' worth of "no success" in every bin of the model


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Logged events, one row for each tool that was shown, or that the other selection would show.

    Attributes:
        event: int[m] in 0..n-1: which event a row is of.
        propensity: float[m] in [0, 1]: how probable it was that the tool was shown.
        shown: bool[m]: whether it was.
        reward: float[m] in [0, 1]: what its call brought, 0 for most; of one event at most 1 in all.
        target: float[m] in [0, 1]: how probable it is that the other selection shows it, mostly 0 or 1.
        session: int[n], events of one conversation have one number: they are no independent evidence.
        fit: float[m]: how well the tool fitted the message, on any scale that is the same in all events:
            with the propensity, what the outcome model reads. None: no doubly robust estimate.
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
            raise InvalidInput("log: a tool was shown whose propensity is 0; what was shown was possible")
        if bool((self.reward[~self.shown] > 0).any()):
            raise InvalidInput("log: a tool that was not shown has a reward, must have 0")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean reward of an event, with its interval.

    Attributes:
        value: the estimate.
        low, high: 95 % interval, within [0, 1].
        gain: the estimate less what the log itself reached; gain_low, gain_high: its interval, narrower than
            the two taken apart, since both are of the same events.
    """

    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float

    def to_dict(self) -> dict[str, float]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the other selection would have reached, by four estimators, and how far to trust them.

    Attributes:
        events, sessions: how many were judged.
        logged: what the log itself reached.
        ips: inverse propensity scores. Right on average wherever there is support.
        clipped: the same with no weight above `clip`: steadier, and too low by what was cut.
        snips: ips divided by what the weights came to over what they should have: steadier where all events
            count about alike, and not where some weights are great.
        doubly_robust: a model of the outcome, put right by the weighted outcomes: as right as ips and
            steadier, so the one to read; of what has no support it says what the model does. None without
            `fit`.
        effective_events: as how many events without weights these count.
        overlap: share of the other selection's tools that were shown.
        unsupported: share of its tools that the log could not show, whose successes no estimate knows: ips,
            clipped and snips take them for none.
        rare: share of them with a weight above `clip`.
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
        """Whether the log says enough: a fifth of the events' worth, and at most a tenth out of reach."""
        return self.effective_events >= 0.2 * self.events and self.unsupported <= 0.1

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        found: dict[str, object] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            found[name] = value.to_dict() if isinstance(value, Estimate) else value
        return {**found, "is_supported": self.is_supported}


def judge(log: Log, clip: float = CLIP) -> Judgement:
    """Estimates what the target of the log would have reached. O(rows).

    Raises:
        InvalidInput: there are no events, or `clip` is below 1.
    """
    events = len(log.session)
    if not events:
        raise InvalidInput("judge: the log has no event that says what was shown and what came of it")
    if not clip >= 1:
        raise InvalidInput(f"clip: is {clip}, must be at least 1")
    _, session = np.unique(log.session, return_inverse=True)
    shown, target = log.shown, log.target
    weight = np.zeros(len(target))
    np.divide(target, log.propensity, out=weight, where=shown)

    def by_event(values: Floats) -> Floats:
        return np.bincount(log.event, values, minlength=events).astype(np.float64)

    logged = by_event(log.reward)
    ips = by_event(weight * log.reward)
    clipped = by_event(np.minimum(weight, clip) * log.reward)
    # What the weights of an event come to, and what they do on average: the tools that could be shown.
    came, should = by_event(weight), by_event(np.where(log.propensity > 0, target, 0.0))
    wanted = float(target.sum())
    robust = None
    if log.fit is not None:
        expected = _expected(log, session, clip)
        robust = by_event(target * expected + weight * (log.reward - expected) * shown)

    def estimate(of_event: Floats) -> Estimate:
        return _estimate(of_event, logged, session)

    total = float(came.sum())
    return Judgement(
        events,
        int(session.max()) + 1,
        estimate(logged),
        estimate(ips),
        estimate(clipped),
        estimate(_ratio(ips, came, should)),
        None if robust is None else estimate(robust),
        total**2 / float((came**2).sum()) if total else 0.0,
        float(target[shown].sum()) / wanted if wanted else 0.0,
        float(target[log.propensity == 0].sum()) / wanted if wanted else 0.0,
        float(target[(log.propensity > 0) & (target > clip * log.propensity)].sum()) / wanted
        if wanted
        else 0.0,
        float(weight.max(initial=0.0)),
    )


def _ratio(ips: Floats, came: Floats, should: Floats) -> Floats:
    """What each event adds to mean(ips) · mean(should) / mean(came), to first order.

    Their mean is the estimate itself. The usual form divides by the weights alone, as if everything had
    support: where a part has none, it gives that part the successes of the rest.
    """
    top, bottom, level = float(ips.mean()), float(came.mean()), float(should.mean())
    if not top or not bottom:
        return np.zeros_like(ips)
    value = top * level / bottom
    moves: Floats = value * (1 + ips / top - came / bottom + (should / level - 1))
    return moves


def _expected(log: Log, session: npt.NDArray[np.int64], clip: float) -> Floats:
    """What a tool of this fit brings when it is shown, learnt from other sessions than its own."""
    assert log.fit is not None
    shown = log.shown
    if not shown.any():
        return np.zeros(len(log.event))
    edges = np.unique(np.quantile(log.fit[shown], np.arange(1, _BINS) / _BINS))
    cell = np.searchsorted(edges, log.fit, side="right")
    # What was rarely shown is there for a reason, which the propensity knows and the fit does not.
    cell = cell * (len(_RARELY) + 1) + np.searchsorted(_RARELY, log.propensity)
    fold = session[log.event] % _FOLDS
    # A tool that was rarely shown stands for those of its fit that were not.
    counts = np.where(shown, np.minimum(1 / np.maximum(log.propensity, 1e-9), clip), 0.0)
    shape = (_FOLDS, (len(edges) + 1) * (len(_RARELY) + 1))
    at = fold * shape[1] + cell
    seen = np.bincount(at, counts, minlength=math.prod(shape)).reshape(shape)
    brought = np.bincount(at, counts * log.reward, minlength=math.prod(shape)).reshape(shape)
    seen, brought = seen.sum(0) - seen, brought.sum(0) - brought
    mean: Floats = brought / (seen + _DOUBTFUL)
    found: Floats = mean[fold, cell]
    return found


def _estimate(of_event: Floats, logged: Floats, session: npt.NDArray[np.int64]) -> Estimate:
    value, low, high = interval(of_event, session)
    gain, gain_low, gain_high = interval(of_event - logged, session)
    if of_event is logged:  # nothing was gained, and that is certain
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
    """Mean of the values and its interval, where those of one cluster (0, 1, …) may depend on each other.

    Weighted outcomes are skewed: many zeros, few large. The usual interval lies too low then; this one is
    moved by Hall's transformation. Of one cluster nothing is known: the interval is (-inf, inf).

    Source: Hall, "On the Removal of Skewness by Transformation", JRSS B 54(1), 1992.
    """
    sums = np.bincount(cluster, values)
    sizes = np.bincount(cluster, minlength=len(sums))
    groups = int((sizes > 0).sum())
    mean = float(values.mean())
    if groups < 2:
        return mean, -math.inf, math.inf
    off = (sums - mean * sizes)[sizes > 0] * (groups / len(values))  # of mean 0, as the clusters' own means
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
    """The quantile of a t statistic of skewed data, from that of a symmetric one."""
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
