"""What a played world says: success, regret, recall, and how fast tools go and come back.

Success is expected success, given what was shown: the luck of single calls is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll.evaluation.material import Ints
from toolroll.evaluation.model_user import CALLS_RIGHT
from toolroll.evaluation.playing import NOBODY, Course
from toolroll.evaluation.worlds import CONTEXTS, Flags, Reals, World

POINTS = 60  # of a curve over time
AFTER = 40  # messages after a break or repair that a curve shows
FIRST = 10  # messages of a context that count as its start
_WINDOW = 5  # messages by which a tool is judged to be out, or back
_BEFORE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """One world under one policy.

    Attributes:
        values: name → value; shares are in points of 100. As many as `NAMES`.
        out: for each tool that broke while it was shown: calls of it until it was out; inf for never.
        back: for each tool that was out and works again: messages for it until it was back.
        curves: float64[2, POINTS], success and recall over time; regret: float64[POINTS], its sum so far.
        after_break, after_repair: float64[2, AFTER]: by the n-th message for such a tool, how often it was
            shown and how many there were.
    """

    values: Mapping[str, float]
    out: tuple[float, ...]
    back: tuple[float, ...]
    curves: Reals
    regret: Reals
    after_break: Reals
    after_repair: Reals


def measure(world: World, course: Course, static: Course, best: Reals) -> Measures:
    """Judges a course by the world's truth. static: the same world under static selection. best: `oracle`."""
    seen = _Seen.of(world, course)
    before = seen if course is static else _Seen.of(world, static)
    success = seen.success
    regret = best - success
    is_start = _firsts(world)
    steady = slice(int(0.35 * len(world)), len(world) // 2)
    lost = before.recall & ~seen.recall
    lost_working = lost & before.works
    out, back, after_break, after_repair = _recovery(world, seen, course)
    values = {
        "success": 100 * success.mean(),
        "oracle": 100 * best.mean(),
        "regret": regret.sum(),
        "recall": 100 * seen.recall.mean(),
        "steady_success": 100 * success[steady].mean(),
        "steady_recall": 100 * seen.recall[steady].mean(),
        "lost": 100 * lost.mean(),
        "lost_working": 100 * lost_working.mean(),
        "lost_first": 100 * (before.first & ~seen.recall).mean(),
        "start": 100 * success[is_start].mean(),
        "first_200": 100 * success[:200].mean(),
        "shown": (course.shown != NOBODY).sum(1).mean(),
        "select_us": course.select_us,
        "record_us": course.record_us,
    }
    return Measures(
        {name: float(value) for name, value in values.items()},
        out,
        back,
        100 * np.array([_points(success), _points(seen.recall)]),
        np.cumsum(regret)[_ends(len(world)) - 1],
        after_break,
        after_repair,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """float64 or bool, one a message: `is_right` one for each tool shown."""

    is_right: Flags
    success: Reals
    recall: Flags
    works: Flags  # whether a right tool that is shown is not broken
    first: Flags  # whether the first tool shown is a right one

    @classmethod
    def of(cls, world: World, course: Course) -> _Seen:
        at = np.arange(len(world))[:, None]
        tools = np.maximum(course.shown, 0)
        is_right = _rightness(world)[world.message[:, None], tools] & (course.shown != NOBODY)
        places = np.arange(course.shown.shape[1])
        weights = np.where(is_right, np.exp(world.taste[tools] - world.scenario.position * places), 0.0)
        total = weights.sum(1)
        shares = weights / np.where(total > 0, total, 1)[:, None]
        success = CALLS_RIGHT * (shares * world.works(at, tools)).sum(1)
        is_broken = (at >= world.breaks[tools]) & (at < world.repairs[tools])
        return cls(is_right, success, is_right.any(1), (is_right & ~is_broken).any(1), is_right[:, 0])


def _rightness(world: World) -> Flags:
    """bool[m, n]: which tools will do for which message of the material."""
    table = np.zeros((len(world.right), len(world.tools)), np.bool_)
    for message, tools in enumerate(world.right):
        table[message, list(tools)] = True
    return table


def _firsts(world: World) -> Flags:
    """Which messages are among the first of their context."""
    is_first = np.zeros(len(world), np.bool_)
    for context in range(CONTEXTS):
        is_first[np.flatnonzero(world.context == context)[:FIRST]] = True
    return is_first


def _recovery(
    world: World, seen: _Seen, course: Course
) -> tuple[tuple[float, ...], tuple[float, ...], Reals, Reals]:
    out: list[float] = []
    back: list[float] = []
    after_break, after_repair = np.zeros((2, 2, AFTER))
    for tool in np.flatnonzero(world.breaks < len(world)).tolist():
        breaks, repairs = int(world.breaks[tool]), int(world.repairs[tool])
        asked = np.flatnonzero([tool in world.right[message] for message in world.message.tolist()])
        is_shown = (course.shown[asked] == tool).any(1)
        then, during, later = (
            (asked < breaks),
            (asked >= breaks) & (asked < repairs),
            (asked >= repairs),
        )
        if is_shown[then][-_BEFORE:].mean() < 0.8 if then.any() else True:
            continue  # it was hardly shown before: there is nothing to see
        _add(after_break, is_shown[during])
        gone = _begins(~is_shown[during])
        calls = int((course.called[breaks:repairs] == tool).sum())
        if gone is not None:
            until = asked[during][gone]
            out.append(float((course.called[breaks:until] == tool).sum()))
        elif calls > _WINDOW:
            out.append(np.inf)
        else:
            continue  # too few messages to say
        if gone is None or is_shown[during][-_WINDOW:].sum() > 1 or not later.any():
            continue
        _add(after_repair, is_shown[later])
        again = _begins(is_shown[later])
        if again is not None:
            back.append(float(again))
        elif later.sum() > 2 * _WINDOW:
            back.append(np.inf)
    return tuple(out), tuple(back), after_break, after_repair


def _begins(flags: Flags) -> int | None:
    """Where the first window begins in which at most one flag is missing."""
    if len(flags) < _WINDOW:
        return None
    inside = np.convolve(flags, np.ones(_WINDOW), "valid")
    found = np.flatnonzero(inside >= _WINDOW - 1)
    return int(found[0]) if len(found) else None


def _add(curve: Reals, is_shown: Flags) -> None:
    n = min(AFTER, len(is_shown))
    curve[0, :n] += is_shown[:n]
    curve[1, :n] += 1


def _ends(length: int) -> Ints:
    return np.linspace(0, length, POINTS + 1).round().astype(np.int64)[1:]


def _points(values: npt.NDArray[np.float64] | Flags) -> Reals:
    """Means over equal parts of the time."""
    ends = _ends(len(values))
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    starts = np.concatenate([[0], ends[:-1]])
    return np.asarray((sums[ends] - sums[starts]) / np.maximum(ends - starts, 1), np.float64)
