"""Draws learning curves: success, regret and recall over time, and how tools disappear and return.

Needs matplotlib (extra `plot`); draws into memory, without a display.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

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
from toolroll.lab.simulation.report import curves_of
from toolroll.lab.simulation.simulation import Simulation
from toolroll.lab.simulation.worlds import Reals
from toolroll.model.errors import InvalidInput

_COLOURS = (QUIET, RED, BLUE, GREEN, VIOLET, OCHRE)
_COLUMNS = 3  # of panels; the sixth place of a scenario explains the colours
_SMOOTH = 5  # points of a curve that are averaged

# Panel → title, unit of the x axis, and unit of the y axis.
_PANELS = (
    ("success", "Success of the first call", "messages", "%"),
    ("regret", "Regret so far", "messages", "calls"),
    ("recall", "A right tool is shown", "messages", "%"),
    ("after_break", "A tool breaks", "messages for it since", "shown, %"),
    ("after_repair", "It works again", "messages for it since", "shown, %"),
)


def draw(simulation: Simulation, file: str | os.PathLike[str]) -> None:
    """Writes a PNG with five panels for each scenario. Raises InvalidInput if it cannot be written."""
    scenarios = list(simulation.played)
    if not scenarios:
        raise InvalidInput("plot: nothing was played")
    rows = 2 * len(scenarios)
    figure = blank(11, 0.7 + 2.9 * rows, dpi=130)
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
        color=INK,
        fontsize=13,
        weight="bold",
    )
    write(figure, file)


def _explain(axes: Any, scenario: str, handles: Any, labels: Any) -> None:
    """Draws the legend of a scenario's panels, in the sixth place."""
    axes.set_axis_off()
    style = {"loc": "center left", "frameon": False, "labelcolor": INK, "fontsize": 11, "alignment": "left"}
    axes.legend(handles, labels, title=f"scenario: {scenario}", **style)


def smoothed(curve: Reals) -> Reals:
    """A running mean, over fewer values at the ends."""
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
            place = {"transform": axes.transAxes, "ha": "center", "color": QUIET, "fontsize": 9}
            axes.text(0.5, 0.5, "nothing of the kind here", **place)


def _dress(axes: Any, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=10)
    axes.set_xlabel(x_label, color=QUIET, fontsize=9)
    axes.set_ylabel(y_label, color=QUIET, fontsize=9)
    axes.tick_params(labelsize=8)
    add_grid(axes)
    strip_frame(axes)
