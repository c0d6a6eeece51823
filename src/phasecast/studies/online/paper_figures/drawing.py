"""How is a plan drawn? Theory dashed, what was computed solid, SGD as points, marks vertical."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from phasecast.figures.drawing import COLOURS
from phasecast.studies.online.paper_figures.lines import MARK, PREDICTED, PRINTED, SGD, SOLVED, WORDS, Line, Plan

STYLES = {
    PREDICTED: {"ls": "--", "lw": 1.4, "zorder": 3},
    PRINTED: {"ls": ":", "lw": 1.6, "zorder": 3},
    SOLVED: {"ls": "-", "lw": 1.2},
    SGD: {"ls": "", "marker": "o", "ms": 3},
    MARK: {"ls": "-.", "lw": 1.0},
}
THINNEST_BAND = 1e-3  # relative width of a band that is still visible beside its line
MOST_COLUMNS = 3  # panels per row, so that each is legible at half width


def draw(plan: Plan, lines: Sequence[Line]) -> Figure:
    """All panels, at most three per row, with a legend of groups in each and one of kinds above."""
    columns = 2 if len(plan.panels) == 4 else min(len(plan.panels), MOST_COLUMNS)
    rows = -(-len(plan.panels) // columns)
    figure = Figure(figsize=(7.4 if columns > 1 else 5.6, 3.1 * rows + 0.3), layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in every[len(plan.panels) :]:
        axes.set_visible(False)
    for at, panel in enumerate(plan.panels):
        axes, drawn = every[at], [line for line in lines if line.panel == at]
        for line in drawn:
            _line(axes, line)
        axes.set_xscale("log" if "x" in panel.log else "linear")
        axes.set_yscale("log" if "y" in panel.log else "linear")
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.set_title(panel.title, fontsize=8.5)
        used = [group for group in range(len(panel.groups)) if any(line.group == group for line in drawn)]
        handles = [Line2D([], [], color=_colour(group), label=panel.groups[group]) for group in used]
        if any(handle.get_label() for handle in handles):
            marked = any(line.kind == MARK for line in drawn)
            axes.legend(handles=handles, fontsize=7.5, frameon=False, loc="lower left" if marked else "best")
    kinds = [kind for kind in STYLES if kind != MARK and any(line.kind == kind and line.panel >= 0 for line in lines)]
    handles = [Line2D([], [], color="#666666", label=WORDS[kind], **_plain(STYLES[kind])) for kind in kinds]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8, frameon=False)
    return figure


def _line(axes: Axes, line: Line) -> None:
    style, colour = STYLES[line.kind], _colour(line.group)
    if line.kind == MARK:
        axes.axvline(float(np.asarray(line.x)[0]), color=colour, **style)
    elif line.kind == SGD:
        axes.errorbar(line.x, line.y, yerr=line.error, color=colour, elinewidth=0.8, **style)
    else:
        axes.plot(line.x, line.y, color=colour, **style)
        y, width = np.asarray(line.y, dtype=float), np.asarray(line.error, dtype=float)
        if line.kind == SOLVED and np.any(width > THINNEST_BAND * np.abs(y)):
            axes.fill_between(np.asarray(line.x), y - width, y + width, color=colour, alpha=0.15, lw=0)


def _colour(group: int) -> str:
    return COLOURS[group % len(COLOURS)]


def _plain(style: dict) -> dict:
    return {name: value for name, value in style.items() if name != "zorder"}
