"""What do all figures share? Colours, markers, points that are hollow where refused, legends."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from phasecast.figures.style import check_target

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
EXACT = {"color": "#666666", "ls": "--", "lw": 1.2}


class Drawing(Figure):
    """A matplotlib figure that a notebook shows also where pyplot was not imported, with :meth:`save` for papers."""

    def save(self, path: str | Path) -> None:
        """Write it to a .pdf, .svg or .png file; ``savefig`` of matplotlib has more options."""
        check_target(Path(path))
        self.savefig(path)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=144)  # two pixels per point
        width, height = self.get_size_inches()
        return file.getvalue(), {"width": round(96 * width), "height": round(96 * height)}  # CSS pixels per inch


def blank(rows: int = 1, columns: int = 1, *, width: float = 7.4, height: float = 3.2, **more: Any) -> Any:
    """A figure and its axes, (rows, columns)."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **more)
    for one in axes.ravel():
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def points(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    error: ArrayLike | None = None,
    *,
    number: int,
    label: str = "",
    hollow: ArrayLike | None = None,
    line: bool = True,
) -> None:
    """Points with bars of one standard error, in the colour of a number; hollow where ``hollow`` is true."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    bars = np.zeros_like(y) if error is None else np.nan_to_num(np.asarray(error, dtype=float))
    empty = np.zeros(len(y), dtype=bool) if hollow is None else np.asarray(hollow, dtype=bool)
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    if line:
        axes.plot(x, y, "-", color=colour, lw=0.8, alpha=0.5)
    for part, face in ((~empty, colour), (empty, "none")):
        if part.any():
            axes.errorbar(
                x[part], y[part], yerr=bars[part], fmt=marker, ms=4.5, color=colour, mfc=face, capsize=2, lw=1
            )
    axes.plot([], [], marker=marker, ls="-" if line else "", lw=0.8, color=colour, label=label)


def log_axis(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic horizontal axis with a tick at each value."""
    axes.set_xscale("log")
    axes.set_xticks(list(values), [f"{value:g}" for value in values], rotation=45, fontsize=8)
    axes.set_xticks([], minor=True)


def legend(axes: Axes, **more: Any) -> None:
    axes.legend(frameon=False, fontsize=8, **more)


def legend_above(figure: Figure, *axes: Axes) -> None:
    """One legend for the whole figure, from the labels of some of its axes."""
    found = [one.get_legend_handles_labels() for one in axes]
    handles = [handle for part, _ in found for handle in part]
    labels = [label for _, part in found for label in part]
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)


def label_text(text: str, longest: int) -> str:
    """A text from elsewhere as a label: one line, not too long, nothing unprintable, no formula."""
    line = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in " ".join(text.split()))
    return (line if len(line) <= longest else line[: longest - 1] + "…").replace("$", r"\$")


def named(values: Sequence[Any], name: str) -> list[str]:
    """Labels such as ``K = 128``."""
    return [f"{name} = {value:g}" for value in values]
