"""Which numbers does a figure show? Everything drawn in it as one CSV table, in the order of its panels."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

COLUMNS = ("panel", "x_axis", "y_axis", "series", "kind", "x", "y", "low", "high", "value")
"""``low`` and ``high`` are the ends of an error bar or a band, ``value`` the colour of a cell."""

Item = tuple[str, str, float, float, float, float, float]
_NOTHING = math.nan


def figure_csv(figure: Figure) -> str:
    """The data of a figure: lines, points with their bars, bands, bars and coloured cells; texts are left out."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    for number, axes in enumerate(panels, 1):
        titles = (axes.get_title(loc) for loc in ("center", "left", "right"))
        name = next((text for text in titles if text), f"panel {number}")
        for series, kind, *numbers in _items(axes):
            words = [name, axes.get_xlabel(), axes.get_ylabel(), series, kind]
            writer.writerow([*words, *("" if math.isnan(x) else f"{x:.10g}" for x in numbers)])
    return file.getvalue()


def _items(axes: Axes) -> Iterator[Item]:
    with_bars = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    parts = {id(part) for one in with_bars for part in _parts(one)}
    for container in with_bars:
        yield from _points_with_bars(container)
    for line in axes.lines:
        if id(line) not in parts:
            yield from _line(axes, line)
    for collection in axes.collections:
        if id(collection) not in parts:
            yield from _collection(collection)
    for patch in axes.patches:
        if isinstance(patch, Rectangle):
            x, y = patch.get_xy()
            right, top = x + patch.get_width(), y + patch.get_height()
            yield _name(patch.get_label()), "bar", right, top, x, y, _NOTHING


def _parts(container: ErrorbarContainer) -> Iterator[object]:
    data, caps, bars = container.lines
    yield from (part for part in (data, *caps, *bars) if part is not None)


def _points_with_bars(container: ErrorbarContainer) -> Iterator[Item]:
    data, _, bars = container.lines
    if data is None:
        return
    x, y = _floats(data.get_xdata()), _floats(data.get_ydata())
    low, high = np.full(len(x), _NOTHING), np.full(len(x), _NOTHING)
    for bar in bars:
        segments = bar.get_segments()
        if len(segments) == len(x) and container.has_yerr:
            low, high = (np.array([_end(segment, place) for segment in segments]) for place in (0, -1))
    label = _name(container.get_label()) or _name(data.get_label())
    for place, height, bottom, top in zip(x.tolist(), y.tolist(), low.tolist(), high.tolist(), strict=True):
        yield label, "point", place, height, bottom, top, _NOTHING


def _end(segment: Any, place: int) -> float:
    return float(segment[place][1]) if len(segment) else _NOTHING


def _line(axes: Axes, line: Line2D) -> Iterator[Item]:
    label, x, y = _name(line.get_label()), _floats(line.get_xdata()), _floats(line.get_ydata())
    if line.get_transform() == axes.get_yaxis_transform(which="grid"):
        yield label, "horizontal line", _NOTHING, float(y[0]), _NOTHING, _NOTHING, _NOTHING
    elif line.get_transform() == axes.get_xaxis_transform(which="grid"):
        yield label, "vertical line", float(x[0]), _NOTHING, _NOTHING, _NOTHING, _NOTHING
    else:
        kind = "point" if line.get_linestyle() in ("None", "", " ") else "line"
        for one, other in zip(x, y, strict=False):
            yield label, kind, float(one), float(other), _NOTHING, _NOTHING, _NOTHING


def _collection(collection: Collection) -> Iterator[Item]:
    label = _name(collection.get_label())
    if isinstance(collection, QuadMesh):
        corners = np.asarray(collection.get_coordinates())
        centres = (corners[:-1, :-1] + corners[1:, 1:]) / 2
        values = np.ma.filled(np.ma.asarray(collection.get_array(), dtype=float), _NOTHING).ravel()
        for (x, y), value in zip(centres.reshape(-1, 2), values, strict=False):
            yield label, "cell", float(x), float(y), _NOTHING, _NOTHING, float(value)
    elif isinstance(collection, PathCollection):
        for x, y in np.ma.filled(np.ma.asarray(collection.get_offsets(), dtype=float), _NOTHING):
            yield label, "point", float(x), float(y), _NOTHING, _NOTHING, _NOTHING
    elif isinstance(collection, PolyCollection):
        for path in collection.get_paths():
            yield from _band(label, np.asarray(path.vertices, dtype=float))


def _band(label: str, vertices: np.ndarray) -> Iterator[Item]:
    """The outline of a filled band as its lowest and highest y at each x."""
    for x in np.unique(vertices[:, 0]):
        heights = vertices[vertices[:, 0] == x, 1]
        yield label, "band", float(x), _NOTHING, float(heights.min()), float(heights.max()), _NOTHING


def _floats(values: Any) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(values, dtype=float), _NOTHING).ravel()


def _name(label: object) -> str:
    """The label of a series; matplotlib's own names of nameless ones start with an underscore."""
    text = str(label)
    return "" if text.startswith("_") else text
