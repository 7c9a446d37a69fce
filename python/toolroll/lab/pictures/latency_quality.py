"""Draws recall over latency, with the Pareto front.

Needs matplotlib (extra `plot`); draws into memory, without a display.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolroll.lab.evaluation.quality import Evaluation
from toolroll.lab.evaluation.report import setups
from toolroll.lab.pictures.drawing import (
    BLUE,
    GREEN,
    INK,
    OCHRE,
    QUIET,
    RED,
    VIOLET,
    add_grid,
    blank,
    strip_frame,
    write,
)
from toolroll.model.errors import InvalidInput

_COLOURS = (BLUE, RED, GREEN, VIOLET, OCHRE, "#4a9aa8")
_MARKERS = "osD^vP"


@dataclass(frozen=True, slots=True)
class Point:
    """A profile and embedder, as means over the folders.

    Attributes:
        recall: at the k of the picture; interval: 95 %, for a single folder.
        p50, p99: microseconds of a whole selection.
    """

    profile: str
    embedder: str
    recall: float
    interval: tuple[float, float] | None
    p50: float
    p99: float


def draw(results: Sequence[Evaluation], file: str | os.PathLike[str]) -> None:
    """Writes a PNG. Raises InvalidInput if no message needs a tool, or the file cannot be written."""
    ks = results[0].figures.ks
    k = 5 if 5 in ks else ks[-1]
    points = _points(results, ks.index(k))
    if not points:
        raise InvalidInput("plot: no message that was asked needs a tool, so there is no recall to draw")
    figure = blank(10, 5)
    axes = figure.add_subplot()
    _dress(axes, results, k)
    _draw_front(axes, points)
    _draw_points(axes, points)
    _limits(axes, points)
    write(figure, file)


def front(points: Sequence[Point]) -> list[Point]:
    """The Pareto front: points with a higher recall than every faster point, fastest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.p50, -point.recall)):
        if not best or point.recall > best[-1].recall:
            best.append(point)
    return best


def _points(results: Sequence[Evaluation], at: int) -> list[Point]:
    points = []
    for (profile, embedder), group in setups(results).items():
        judged = [result for result in group if result.figures.answerable]
        if not judged:
            continue
        times = [result.latency.with_embedding for result in judged]
        points.append(
            Point(
                profile,
                embedder,
                sum(result.figures.recall[at] or 0.0 for result in judged) / len(judged),
                judged[0].figures.recall_interval[at] if len(judged) == 1 else None,
                sum(time.p50 for time in times) / len(times),
                sum(time.p99 for time in times) / len(times),
            )
        )
    return points


def _dress(axes: Any, results: Sequence[Evaluation], k: int) -> None:
    folders = list(dict.fromkeys(result.folder for result in results))
    what = folders[0] if len(folders) == 1 else f"mean of {len(folders)} sets"
    axes.set_title(f"Recall over latency: {what}", loc="left", color=INK, fontsize=13, weight="bold", pad=26)
    first = results[0]
    below = f"split {first.split}, examples {first.examples}"
    if len(folders) > 1:
        named = ", ".join(folders[:6]) + (f" and {len(folders) - 6} more" if len(folders) > 6 else "")
        below = f"{named}; {below}"
    axes.text(0, 1.03, below, transform=axes.transAxes, color=QUIET, fontsize=9)
    axes.set_xscale("log")
    axes.set_xlabel(
        "one selection with its embedding: dot p50, line to p99 (log scale); dashed: the front", color=QUIET
    )
    axes.set_ylabel(f"recall@{k}", color=QUIET)
    axes.xaxis.set_major_formatter(lambda microseconds, _: _time(microseconds))
    axes.xaxis.set_minor_formatter("")
    add_grid(axes)
    strip_frame(axes)


def _draw_front(axes: Any, points: Sequence[Point]) -> None:
    if len(points) > 1:
        best = front(points)
        x = [*(point.p50 for point in best), max(point.p99 for point in points) * 100]
        y = [*(point.recall for point in best), best[-1].recall]
        style = {"color": QUIET, "linewidth": 1.4, "linestyle": (0, (4, 3)), "zorder": 1}
        axes.plot(x, y, drawstyle="steps-post", **style)


def _draw_points(axes: Any, points: Sequence[Point]) -> None:
    embedders = list(dict.fromkeys(point.embedder for point in points))
    profiles = list(dict.fromkeys(point.profile for point in points))
    for point in sorted(points, key=lambda point: (-point.recall, point.p50)):
        colour = _COLOURS[embedders.index(point.embedder) % len(_COLOURS)]
        marker = _MARKERS[profiles.index(point.profile) % len(_MARKERS)]
        line = {"color": colour, "alpha": 0.35, "linewidth": 2, "zorder": 2}
        axes.plot([point.p50, point.p99], [point.recall] * 2, **line)
        if point.interval is not None:
            axes.plot([point.p50] * 2, point.interval, **line)
        label = f"{point.profile}, {point.embedder}: {point.recall:.3f}, {_time(point.p50)}"
        axes.plot(point.p50, point.recall, marker, color=colour, markersize=9, zorder=3, label=label)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, labelcolor=INK, fontsize=9)


def _limits(axes: Any, points: Sequence[Point]) -> None:
    """Axis limits of at least a decade, so that the axis has tick labels."""
    low, high = min(point.p50 for point in points), max(point.p99 for point in points)
    axes.set_xlim(low / 4, max(high * 3, low * 30))
    spans = [span for point in points for span in (point.interval or (point.recall,))]
    room = max(0.02, 0.18 * (max(spans) - min(spans)))
    axes.set_ylim(max(0.0, min(spans) - room), min(1.02, max(spans) + room))


def _time(microseconds: float) -> str:
    """Formats a time with three digits, in the unit that keeps it short."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} µs"
