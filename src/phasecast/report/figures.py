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
        address = rows[0].address
        _draw(panel, [(place, row) for place, table in enumerate(tables) for row in table if row.address == address])
        panel.set_title(rows[0].name, fontsize=9)
        few = len(labels) <= MOST_LABELS  # a thousand ticks without labels would take most of the time of a page
        panel.set_xticks(range(len(labels)) if few else [], labels if few else [],
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


def _draw(panel: Axes, placed: list[tuple[int, Row]]) -> None:
    """All runs at once: an artist per run would take seconds for a thousand of them."""
    predicted = [
        (place, float(np.asarray(row.prediction.value).item()))
        for place, row in placed
        if row.prediction is not None and np.size(np.asarray(row.prediction.value)) == 1
    ]
    if predicted:
        places, values = np.array(predicted).T
        panel.hlines(values, places - 0.4, places + 0.4, linestyles="--", colors="#888888", linewidths=1.2)
    for hollow in (False, True):  # also refused ones are drawn
        measured = [
            (place, float(np.asarray(row.measurement.estimate).item()), float(np.asarray(row.measurement.error).item()))
            for place, row in placed
            if row.measurement is not None
            and np.size(np.asarray(row.measurement.estimate)) == 1
            and (row.measurement.status is Status.REFUSED) == hollow
        ]
        if measured:
            places, values, errors = np.array(measured).T
            colour = COLOURS[0]
            panel.errorbar(
                places, values, yerr=errors, fmt="o", color=colour, mfc="none" if hollow else colour, ms=4, capsize=2
            )
