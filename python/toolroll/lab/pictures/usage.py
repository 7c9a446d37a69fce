"""Draws the heatmap and the daily hit rate.

Needs matplotlib (extra `plot`); draws into memory, without a display.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from toolroll.lab.pictures.drawing import BLUE, INK, QUIET, add_grid, blank, strip_frame, write
from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.usage import Heatmap, Hits

_BAR = "#b8c4cf"
_LONGEST = 40  # letters of a name
_TOLD = 400  # cells with counts; a larger picture gets a colour bar


def draw_heatmap(found: Heatmap, file: str | os.PathLike[str]) -> None:
    """Writes tools by page as a PNG: darker is more, on a logarithmic scale; zero is white.

    Raises:
        InvalidInput: there is nothing to draw, or the file cannot be written.
    """
    if not found.tools:
        raise InvalidInput(f"plot: no tool was {found.of} in this window, so there is nothing to draw")
    rows, columns = len(found.tools), len(found.pages)
    figure = blank(min(20.0, 4 + 0.5 * columns), min(30.0, 2 + 0.24 * rows))
    axes = figure.add_subplot()
    greatest = max(map(max, found.counts))
    shown = [[count or float("nan") for count in row] for row in found.counts]
    image = axes.imshow(shown, cmap="Blues", aspect="auto", norm="log", vmin=0.6, vmax=max(greatest, 2))
    axes.set_yticks(range(rows), [_short(tool) for tool in found.tools])
    axes.set_xticks(
        range(columns), [_short(page or "(none)") for page in found.pages], rotation=45, ha="right"
    )
    axes.set_title(f"Tools {found.of}, by page", loc="left", color=INK, fontsize=13, weight="bold")
    if rows * columns > _TOLD:
        figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02).outline.set_visible(False)
    for y, row in enumerate(found.counts if rows * columns <= _TOLD else ()):
        for x, count in enumerate(row):
            if count:
                colour = "white" if count > greatest**0.6 else INK
                axes.text(x, y, f"{count:,}", ha="center", va="center", fontsize=7, color=colour)
    strip_frame(axes)
    write(figure, file)


def draw_hits(days: Sequence[Hits], file: str | os.PathLike[str]) -> None:
    """Writes the daily hit rate as a PNG, over the number of calls.

    Raises:
        InvalidInput: there is nothing to draw, or the file cannot be written.
    """
    if not days:
        raise InvalidInput("plot: nothing was called in this window, so there is no rate to draw")
    figure = blank(9, 5)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    at = range(len(days))
    above.plot(at, [day.rate for day in days], "o-", color=BLUE, markersize=4)
    above.set_ylim(max(0.0, min(day.rate for day in days) - 0.05), 1.02)
    above.set_ylabel("share of called tools\nthat had been selected", color=QUIET)
    above.set_title("Hit rate by day", loc="left", color=INK, fontsize=13, weight="bold")
    below.bar(at, [day.calls for day in days], color=_BAR)
    below.set_ylabel("calls", color=QUIET)
    step = max(1, len(days) // 10)
    below.set_xticks(list(at)[::step], [day.day for day in days][::step], rotation=30, ha="right")
    for axes in (above, below):
        add_grid(axes, "y")
        strip_frame(axes)
    write(figure, file)


def _short(name: str) -> str:
    name = "".join(letter if letter.isprintable() else "·" for letter in name).replace("$", r"\$")
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
