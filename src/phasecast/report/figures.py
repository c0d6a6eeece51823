"""How does a quantity vary over the runs of a sweep? Figures that do not belong to one recipe."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phasecast.core.results import Status
from phasecast.figures.drawing import COLOURS
from phasecast.lab.recipe import Captioned, Row

MOST_PANELS = 12  # chosen: six rows of two still fit a screen
MOST_LABELS = 12  # chosen: more labels below an axis overlap


def across_runs(tables: list[list[Row]], labels: list[str]) -> Captioned:
    """Every quantity over the runs of a sweep, one panel each: measured with its error, predicted dashed."""
    quantities = by_quantity(tables)[:MOST_PANELS]
    columns = min(2, len(quantities)) or 1
    figure = Figure(figsize=(8.0, 2.1 * math.ceil(len(quantities) / columns) + 0.9), layout="constrained")
    panels = np.atleast_1d(figure.subplots(math.ceil(len(quantities) / columns) or 1, columns, sharex=True)).ravel()
    for panel, rows in zip(panels, quantities, strict=False):
        for place, table in enumerate(tables):
            for row in (row for row in table if row.address == rows[0].address):
                _draw(panel, place, row)
        panel.set_title(rows[0].name, fontsize=9)
        panel.set_xticks(range(len(labels)), labels if len(labels) <= MOST_LABELS else [""] * len(labels),
                         rotation=30, ha="right", fontsize=7)  # fmt: skip
        panel.set_xlim(-0.6, len(labels) - 0.4)
    for panel in panels[len(quantities) :]:
        panel.set_visible(False)
    return Captioned(
        figure,
        "Each quantity in each run, with bars of one standard error; dashed: predicted; hollow: refused.",
    )


def by_quantity(tables: list[list[Row]]) -> list[list[Row]]:
    """The rows of several runs, grouped by the id and the parameters of their answers."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in (row for table in tables for row in table):
        groups.setdefault(row.address, []).append(row)
    return list(groups.values())


def _draw(panel: Axes, place: int, row: Row) -> None:
    if row.prediction is not None and np.size(np.asarray(row.prediction.value)) == 1:
        panel.plot([place - 0.4, place + 0.4], [float(row.prediction.value)] * 2, "--", color="#888888", lw=1.2)
    measurement = row.measurement
    if measurement is not None and np.size(np.asarray(measurement.estimate)) == 1:
        colour = COLOURS[0]
        panel.errorbar(
            place,
            float(np.asarray(measurement.estimate)),  # also of a refused one, drawn hollow
            yerr=float(np.asarray(measurement.error)),
            fmt="o",
            color=colour,
            mfc="none" if measurement.status is Status.REFUSED else colour,
            ms=4,
            capsize=2,
        )
