"""Learning curves as a picture: success, regret and recall over time, and how tools go and come back.

Needs matplotlib (extra `plot`); draws into memory, without a display.
"""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from toolroll.errors import InvalidInput, Unavailable
from toolroll.evaluation.run_file import replace_file
from toolroll.evaluation.simulation import Simulation
from toolroll.evaluation.simulation_report import curves_of
from toolroll.evaluation.worlds import Reals

try:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError as missing:
    raise Unavailable(f'plot: matplotlib is missing ({missing}): pip install "toolroll[plot]"') from missing

_INK, _QUIET, _GRID = "#1f2933", "#66788a", "#e4e9ee"
_COLOURS = ("#66788a", "#c8553d", "#2463a6", "#3a7d44", "#8a5a9e", "#b07d12")
_COLUMNS = 3  # of panels; the sixth place of a scenario says what the colours are
_SMOOTH = 5  # points of a curve that are averaged

# Panel → title, what its x axis counts, and its y axis.
_PANELS = (
    ("success", "Success of the first call", "messages", "%"),
    ("regret", "Regret so far", "messages", "calls"),
    ("recall", "A right tool is shown", "messages", "%"),
    ("after_break", "A tool breaks", "messages for it since", "shown, %"),
    ("after_repair", "It works again", "messages for it since", "shown, %"),
)


def draw(simulation: Simulation, file: str | os.PathLike[str]) -> None:
    """Writes the picture as a PNG: five panels for each scenario.

    Raises:
        InvalidInput: the file cannot be written.
    """
    scenarios = list(simulation.played)
    if not scenarios:
        raise InvalidInput("plot: nothing was played")
    rows = 2 * len(scenarios)
    figure = Figure(figsize=(11, 0.7 + 2.9 * rows), dpi=130, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, _COLUMNS, squeeze=False).reshape(len(scenarios), -1)
    for scenario, cells in zip(scenarios, grid, strict=True):
        for (name, title, x_label, y_label), axes in zip(_PANELS, cells, strict=False):
            _dress(axes, title, x_label, y_label)
            _draw(axes, simulation, scenario, name)
        _explain(cells[-1], scenario, *cells[0].get_legend_handles_labels())
    plan = simulation.plan
    figure.suptitle(
        f"{simulation.name}: {simulation.tools} tools, {plan.worlds} worlds, {plan.messages:,} messages, "
        f"{plan.k} tools shown",
        x=0.005,
        ha="left",
        color=_INK,
        fontsize=13,
        weight="bold",
    )
    content = io.BytesIO()
    figure.savefig(content, format="png")
    replace_file(file, content.getvalue())


def _explain(axes: Any, scenario: str, handles: Any, labels: Any) -> None:
    """What the colours of a scenario's panels are, in the place behind them."""
    axes.set_axis_off()
    axes.legend(
        handles,
        labels,
        title=f"scenario: {scenario}",
        loc="center left",
        frameon=False,
        labelcolor=_INK,
        fontsize=11,
        alignment="left",
    )


def smoothed(curve: Reals) -> Reals:
    """A running mean that is shorter at the ends, so that nothing is made up there."""
    reach = _SMOOTH // 2
    return np.array([curve[max(0, at - reach) : at + reach + 1].mean() for at in range(len(curve))])


def _draw(axes: Any, simulation: Simulation, scenario: str, name: str) -> None:
    messages = simulation.plan.messages
    for (policy, measures), colour in zip(simulation.played[scenario].items(), _COLOURS, strict=False):
        curve = curves_of(measures)[name]
        x: Reals = np.arange(1, len(curve) + 1, dtype=np.float64)
        if not name.startswith("after"):
            x *= messages / len(curve)
        y = smoothed(curve) if name in ("success", "recall") else curve
        axes.plot(x, y, color=colour, linewidth=1.8, label=policy)
    if name.startswith("after"):
        axes.set_ylim(-3, 103)
        if not axes.lines or not len(axes.lines[0].get_xdata()):
            axes.text(
                0.5,
                0.5,
                "nothing of the kind here",
                transform=axes.transAxes,
                ha="center",
                color=_QUIET,
                fontsize=9,
            )


def _dress(axes: Any, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title, loc="left", color=_INK, fontsize=10)
    axes.set_xlabel(x_label, color=_QUIET, fontsize=9)
    axes.set_ylabel(y_label, color=_QUIET, fontsize=9)
    axes.grid(True, color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_QUIET, length=0, labelsize=8)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
