"""Figures that do not belong to one recipe."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phasecast.core.results import Status
from phasecast.lab.recipe import Captioned, Row

MOST_PANELS = 12
MOST_LABELS = 12


def across_runs(tables: list[list[Row]], labels: list[str]) -> Captioned:
    """Every quantity over the runs of a sweep, a panel each: measured with its error, predicted dashed."""
    names = list(dict.fromkeys(row.name for table in tables for row in table))[:MOST_PANELS]
    columns = min(2, len(names)) or 1
    figure = Figure(figsize=(8.0, 2.1 * math.ceil(len(names) / columns) + 0.9), layout="constrained")
    panels = np.atleast_1d(figure.subplots(math.ceil(len(names) / columns) or 1, columns, sharex=True)).ravel()
    for panel, name in zip(panels, names, strict=False):
        for place, table in enumerate(tables):
            for row in (row for row in table if row.name == name):
                _draw(panel, place, row)
        panel.set_title(name, fontsize=9)
        panel.set_xticks(range(len(labels)), labels if len(labels) <= MOST_LABELS else [""] * len(labels),
                         rotation=30, ha="right", fontsize=7)  # fmt: skip
        panel.set_xlim(-0.6, len(labels) - 0.4)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    return Captioned(
        figure,
        "Each quantity in each run, with bars of one standard error; dashed: predicted; hollow: refused.",
    )


def _draw(panel: Axes, place: int, row: Row) -> None:
    if row.prediction is not None and np.size(np.asarray(row.prediction.value)) == 1:
        panel.plot([place - 0.4, place + 0.4], [float(row.prediction.value)] * 2, "--", color="#888888", lw=1.2)
    measurement = row.measurement
    if measurement is not None and np.size(np.asarray(measurement.estimate)) == 1:
        colour = "#0072B2"
        panel.errorbar(
            place,
            float(np.asarray(measurement.estimate)),
            yerr=float(np.asarray(measurement.error)),
            fmt="o",
            color=colour,
            mfc="none" if measurement.status is Status.REFUSED else colour,
            ms=4,
            capsize=2,
        )
