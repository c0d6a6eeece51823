"""What is in the arrays of a run, without its recipe? The columns of each table, drawn as they are stored."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from phasecast.figures.drawing import COLOURS, blank, label_text
from phasecast.lab.recipe import Captioned

if TYPE_CHECKING:
    import xarray as xr

MOST_TABLES = 8  # chosen: enough for every recipe we ship, and a page of a hostile store stays short
MOST_PANELS = 8  # per table
MOST_LINES = 6  # per panel: rows of a two-dimensional column
MOST_POINTS = 2000  # per line: more than a figure of this width can show
LONGEST_NAME = 40
CLOCKS = ("step", "alpha", "n", "time")
"""Columns that the others are drawn over, if a table has one."""


def stored_figures(results: xr.DataTree) -> Mapping[str, Captioned]:
    """One figure per table with rows: its numbers over the row, or over the step if there is such a column."""
    figures = {}
    for number, (name, node) in enumerate(list(results.children.items())[:MOST_TABLES]):
        drawn = _table(name, node.to_dataset())
        if drawn is not None:
            figures[f"table-{number}-{re.sub(r'[^a-z0-9]+', '-', name.lower())[:LONGEST_NAME]}"] = drawn
    return figures


def _table(name: str, table: xr.Dataset) -> Captioned | None:
    columns = {
        str(key): column
        for key, column in table.data_vars.items()
        if column.dtype.kind in "biuf" and column.ndim in (1, 2) and column.shape[0] > 1 and column.size
    }
    clock = next((key for key in CLOCKS if key in columns and columns[key].ndim == 1), None)
    shown = [key for key in columns if key != clock][:MOST_PANELS]
    if not shown:
        return None
    width = min(2, len(shown))
    lines = math.ceil(len(shown) / width)
    figure, axes = blank(lines, width, height=2.1 * lines + 0.4)
    for panel, key in zip(axes.ravel(), shown, strict=False):
        values = columns[key].values.astype(float)
        over = columns[clock].values.astype(float) if clock is not None else np.arange(len(values))
        if len(over) != len(values):
            over = np.arange(len(values))
        stride = max(1, len(values) // MOST_POINTS)
        rows = values[:, None] if values.ndim == 1 else values[:, :MOST_LINES]
        for number, line in enumerate(rows.T):
            panel.plot(over[::stride], line[::stride], "-", color=COLOURS[number % len(COLOURS)], lw=0.9)
        panel.set_title(_text(key), fontsize=9)
        panel.set_xlabel(clock or "row", fontsize=8)
    for panel in axes.ravel()[len(shown) :]:
        panel.set_visible(False)
    return Captioned(figure, f"The table “{_text(name)}” as it is stored: each column over the {clock or 'row'}.")


def _text(text: str) -> str:
    return label_text(text, LONGEST_NAME)
