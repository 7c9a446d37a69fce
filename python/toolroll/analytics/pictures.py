"""The heatmap and the daily hit rate as pictures.

Needs matplotlib (extra `plot`); draws into memory, without a display.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolroll.analytics.usage import Heatmap, Hits
from toolroll.errors import InvalidInput, Unavailable

try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
except ImportError as missing:
    raise Unavailable(f'plot: matplotlib is missing ({missing}): pip install "toolroll[plot]"') from missing

_INK, _QUIET, _GRID, _LINE, _BAR = "#1f2933", "#66788a", "#e4e9ee", "#2463a6", "#b8c4cf"
_LONGEST = 40  # letters of a name
_TOLD = 400  # cells with their counts written into them; of more, a scale tells


def draw_heatmap(found: Heatmap, file: str | os.PathLike[str]) -> None:
    """Writes tools by page as a PNG: darker is more, on a logarithmic scale; nothing stays white.

    Raises:
        InvalidInput: there is nothing to draw, or the file cannot be written.
    """
    if not found.tools:
        raise InvalidInput(f"plot: no tool was {found.of} in this window, so there is nothing to draw")
    rows, columns = len(found.tools), len(found.pages)
    figure = _figure(min(20.0, 4 + 0.5 * columns), min(30.0, 2 + 0.24 * rows))
    axes = figure.add_subplot()
    greatest = max(map(max, found.counts))
    shown = [[count or float("nan") for count in row] for row in found.counts]
    image = axes.imshow(shown, cmap="Blues", aspect="auto", norm=LogNorm(0.6, max(greatest, 2)))
    axes.set_yticks(range(rows), [_short(tool) for tool in found.tools])
    axes.set_xticks(
        range(columns), [_short(page or "(none)") for page in found.pages], rotation=45, ha="right"
    )
    axes.set_title(f"Tools {found.of}, by page", loc="left", color=_INK, fontsize=13, weight="bold")
    if rows * columns > _TOLD:
        figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02).outline.set_visible(False)
    for y, row in enumerate(found.counts if rows * columns <= _TOLD else ()):
        for x, count in enumerate(row):
            if count:
                colour = "white" if count > greatest**0.6 else _INK
                axes.text(x, y, f"{count:,}", ha="center", va="center", fontsize=7, color=colour)
    _plain(axes)
    _write(figure, file)


def draw_hits(days: Sequence[Hits], file: str | os.PathLike[str]) -> None:
    """Writes the daily hit rate as a PNG, over the number of calls.

    Raises:
        InvalidInput: there is nothing to draw, or the file cannot be written.
    """
    if not days:
        raise InvalidInput("plot: nothing was called in this window, so there is no rate to draw")
    figure = _figure(9, 5)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    at = range(len(days))
    above.plot(at, [day.rate for day in days], "o-", color=_LINE, markersize=4)
    above.set_ylim(max(0.0, min(day.rate for day in days) - 0.05), 1.02)
    above.set_ylabel("share of called tools\nthat had been selected", color=_QUIET)
    above.set_title("Hit rate by day", loc="left", color=_INK, fontsize=13, weight="bold")
    below.bar(at, [day.calls for day in days], color=_BAR)
    below.set_ylabel("calls", color=_QUIET)
    step = max(1, len(days) // 10)
    below.set_xticks(list(at)[::step], [day.day for day in days][::step], rotation=30, ha="right")
    for axes in (above, below):
        axes.grid(True, axis="y", color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        _plain(axes)
    _write(figure, file)


def _figure(width: float, height: float) -> Any:
    figure = Figure(figsize=(width, height), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Any) -> None:
    axes.tick_params(colors=_QUIET, which="both", length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _short(name: str) -> str:
    name = "".join(letter if letter.isprintable() else "·" for letter in name).replace("$", r"\$")
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _write(figure: Any, file: str | os.PathLike[str]) -> None:
    content = io.BytesIO()
    figure.savefig(content, format="png")
    try:
        Path(file).write_bytes(content.getvalue())
    except OSError as error:
        raise InvalidInput(f"{os.fspath(file)}: cannot be written ({error.strerror or error})") from error
