"""The common part of all pictures: colours, an empty figure, and writing to a file.

Needs matplotlib (extra `plot`); draws without a display.
"""

from __future__ import annotations

import io
import os
from typing import Any

from toolroll.model.errors import Unavailable
from toolroll.runtime.files import replace_file

try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError as missing:
    raise Unavailable(f'plot: matplotlib is missing ({missing}): pip install "toolroll[plot]"') from missing

INK, QUIET, GRID = "#1f2933", "#66788a", "#e4e9ee"
BLUE, RED, GREEN, VIOLET, OCHRE = "#2463a6", "#c8553d", "#3a7d44", "#8a5a9e", "#b07d12"


def blank(width: float, height: float, dpi: int = 150) -> Any:
    """An empty figure, in inches."""
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def add_grid(axes: Any, axis: str = "both") -> None:
    """Adds grid lines behind the data."""
    axes.grid(True, which="major", axis=axis, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def strip_frame(axes: Any) -> None:
    """Removes the frame and the ticks; tick labels stay."""
    axes.tick_params(colors=QUIET, which="both", length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def write(figure: Any, file: str | os.PathLike[str]) -> None:
    """Writes the figure as a PNG, whole or not at all. Raises InvalidInput."""
    content = io.BytesIO()
    figure.savefig(content, format="png")
    replace_file(file, content.getvalue())
