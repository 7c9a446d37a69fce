"""Draws recall over latency, with the Pareto front.

Needs matplotlib (extra `plot`); draws into memory, without a display.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    """One profile and embedder, the mean over the folders.

    Attributes:
        recall: at the k of the picture.
        interval: 95 %, for a single folder.
        p50, p99: microseconds of a whole selection.
    """

    profile: str
    embedder: str
    recall: float
    interval: tuple[float, float] | None
    p50: float
    p99: float


def draw(results: Sequence[Evaluation], file: str | os.PathLike[str]) -> None:
    """Writes the picture as a PNG.

    Raises:
        InvalidInput: no message needs a tool, so there is no recall; or the file cannot be written.
    """
    ks = results[0].figures.ks
    k = 5 if 5 in ks else ks[-1]
    points = _points(results, ks.index(k))
    if not points:
        raise InvalidInput("plot: no message that was asked needs a tool, so there is no recall to draw")
    figure = blank(8, 5)
    axes = figure.add_subplot()
    _dress(axes, results, k)
    _draw_front(axes, points)
    _draw_points(axes, points)
    _limits(axes, points)
    _label(figure, axes, points)
    write(figure, file)


def front(points: Sequence[Point]) -> list[Point]:
    """The Pareto front: points that no faster point beats in recall, fastest first."""
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
        x, y = _steps(points)
        axes.plot(x, y, color=QUIET, linewidth=1.4, linestyle=(0, (4, 3)), zorder=1)


def _steps(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """The corners of the front, extended to the right of every point."""
    x: list[float] = []
    y: list[float] = []
    for point in front(points):
        x += [point.p50, point.p50] if y else [point.p50]
        y += [y[-1], point.recall] if y else [point.recall]
    return [*x, max(point.p99 for point in points) * 100], [*y, y[-1]]


def _draw_points(axes: Any, points: Sequence[Point]) -> None:
    embedders = list(dict.fromkeys(point.embedder for point in points))
    profiles = list(dict.fromkeys(point.profile for point in points))
    for point in points:
        colour = _COLOURS[embedders.index(point.embedder) % len(_COLOURS)]
        marker = _MARKERS[profiles.index(point.profile) % len(_MARKERS)]
        axes.plot([point.p50, point.p99], [point.recall] * 2, color=colour, alpha=0.35, linewidth=2, zorder=2)
        if point.interval is not None:
            axes.plot([point.p50] * 2, point.interval, color=colour, alpha=0.35, linewidth=2, zorder=2)
        axes.plot(point.p50, point.recall, marker, color=colour, markersize=9, zorder=3)


def _limits(axes: Any, points: Sequence[Point]) -> None:
    """Leaves room for labels, and at least a decade, so that the axis has tick labels."""
    low, high = min(point.p50 for point in points), max(point.p99 for point in points)
    axes.set_xlim(low / 4, max(high * 3, low * 30))
    spans = [span for point in points for span in (point.interval or (point.recall,))]
    room = max(0.02, 0.18 * (max(spans) - min(spans)))
    axes.set_ylim(max(0.0, min(spans) - room), min(1.02, max(spans) + room))


def _label(figure: Any, axes: Any, points: Sequence[Point]) -> None:
    """Places each label where it overlaps no other label, point or line."""
    several_profiles = len({point.profile for point in points}) > 1
    several_embedders = len({point.embedder for point in points}) > 1
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    taken = []
    for point in points:
        x, y = axes.transData.transform((point.p50, point.recall))
        taken.append((x - 10, y - 10, x + 10, y + 10))
        end, _ = axes.transData.transform((point.p99, point.recall))
        taken.append((x, y - 2, end, y + 2))
        if point.interval is not None:
            low, high = (axes.transData.transform((point.p50, edge))[1] for edge in point.interval)
            taken.append((x - 2, low, x + 2, high))
    if len(points) > 1:
        corners = axes.transData.transform(list(zip(*_steps(points), strict=True)))
        for (x, y), (to_x, to_y) in pairwise(corners):
            taken.append((x - 2, y - 2, to_x + 2, to_y + 2))
    for point in sorted(points, key=lambda point: (-point.recall, point.p50)):
        name = point.embedder if several_embedders else point.profile
        if several_embedders == several_profiles:
            name = f"{point.profile}, {point.embedder}"
        text = axes.annotate(
            f"{name}\n{point.recall:.3f}, {_time(point.p50)}",
            (point.p50, point.recall),
            xytext=(0, 0),
            textcoords="offset points",
            color=INK,
            fontsize=9,
            linespacing=1.35,
        )
        for dx, dy, horizontal, vertical in _PLACES:
            text.set(position=(dx, dy), ha=horizontal, va=vertical)
            box = text.get_window_extent(renderer)
            found = (box.x0, box.y0, box.x1, box.y1)
            if not any(_overlap(found, other) for other in taken) and _inside(found, axes.bbox):
                break
        taken.append(found)


# Offsets of a label from its dot, in points, nearest first.
_PLACES = tuple(
    (dx, dy, horizontal, vertical)
    for far in (9, 20, 34, 50)
    for dx, dy, horizontal, vertical in (
        (far, far / 2, "left", "bottom"),
        (-far, far / 2, "right", "bottom"),
        (far, -far / 2, "left", "top"),
        (-far, -far / 2, "right", "top"),
        (0, far, "center", "bottom"),
        (0, -far, "center", "top"),
    )
)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(box: tuple[float, ...], frame: Any) -> bool:
    return bool(frame.x0 <= box[0] and box[2] <= frame.x1 and frame.y0 <= box[1] and box[3] <= frame.y1)


def _time(microseconds: float) -> str:
    """Three figures with the unit that keeps them short."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} µs"
