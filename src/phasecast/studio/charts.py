"""How do curves look in the browser? One interactive picture per quantity, and our figures in the page's colours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.figures.drawing import COLOURS
from phasecast.figures.style import INK, style, to_svg
from phasecast.studio.inert import inert_text
from phasecast.studio.stored_curves import StoredLine, is_logarithmic, thinned

if TYPE_CHECKING:
    import altair as alt
    from matplotlib.figure import Figure

DARK_INK = "#e4eaf1"  # text and axes on dark pages, as in the reports
PALETTE = COLOURS[:6]  # without black, which is not seen on dark pages
DRAWING = threading.Lock()  # matplotlib's settings are those of the process, and every session is a thread
LONGEST_LABEL = 60  # characters in a legend
HEIGHT = 240  # pixels of a picture; two of them fit a laptop's screen


def picture(lines: Mapping[str, StoredLine], title: str = "") -> alt.LayerChart | alt.FacetChart:
    """Lines by their labels over a common axis; zoom with the wheel, values where the mouse is.

    Names from a store are data here, never field names or expressions of the chart.
    """
    import altair as alt
    import pandas as pd

    shown = {inert_text(label, 80): thinned(line) for label, line in lines.items()}
    rows = pd.concat(
        [
            pd.DataFrame(
                {"x": line.x, "y": line.y, "line": label, "low": line.y - _bars(line), "high": line.y + _bars(line)}
            )
            for label, line in shown.items()
        ]
        or [pd.DataFrame({"x": [], "y": [], "line": [], "low": [], "high": []})]
    )
    every = list(shown.values())
    logarithmic = is_logarithmic(every)
    scale = alt.Scale(type="log") if logarithmic else alt.Scale(zero=False)
    over = inert_text(every[0].axis, 40) if every else ""
    base = alt.Chart(rows, title=alt.TitleParams(inert_text(title, 120), anchor="start", fontSize=13)).encode(
        x=alt.X("x:Q", title=over, axis=alt.Axis(grid=False)),
        color=alt.Color(
            "line:N",
            title=None,
            scale=alt.Scale(domain=list(shown), range=[PALETTE[i % len(PALETTE)] for i in range(len(shown))]),
            legend=alt.Legend(orient="bottom", columns=1 if len(shown) > 4 else 4, labelLimit=420)
            if len(shown) > 1
            else None,
        ),
    )
    few = max((line.y.size for line in every), default=0) <= 60  # points of a measurement; more are a curve
    curve = base.mark_line(strokeWidth=1.8, point=alt.OverlayMarkDef(size=28) if few else False).encode(
        y=alt.Y("y:Q", title=None, scale=scale, axis=alt.Axis(format="~g", tickCount=5)),
        tooltip=[alt.Tooltip("line:N", title="line"), alt.Tooltip("x:Q", title="x", format="~g"),
                 alt.Tooltip("y:Q", title="y", format=".5g")],
    )  # fmt: skip
    layers: list[Any] = [curve.interactive(bind_y=False)]
    if any(line.error.size for line in every) and not logarithmic:
        layers.insert(0, base.mark_rule(opacity=0.5, strokeWidth=1.2).encode(y=alt.Y("low:Q", title=None), y2="high:Q"))
    return alt.layer(*layers).properties(height=HEIGHT)


def svg_of(figure: Figure, name: str, *, dark: bool) -> str:
    """A figure of the library as SVG, with its ink in the colour of the page."""
    svg = to_svg(figure, name)
    return svg.replace(INK, DARK_INK) if dark else svg


def drawn_svg(make: Callable[[], Figure], name: str, *, dark: bool) -> str:
    """What ``make`` draws, in our style, as SVG."""
    with DRAWING, style():
        return svg_of(make(), name, dark=dark)


def by_title(lines: Sequence[StoredLine]) -> dict[str, StoredLine]:
    """Lines of one picture by what they mean, or by the name of their column."""
    names = [line.meaning if 0 < len(line.meaning) <= LONGEST_LABEL else line.name.replace("_", " ") for line in lines]
    distinct = names if len(set(names)) == len(names) else [line.name for line in lines]
    return dict(zip(distinct, lines, strict=True))


def _bars(line: StoredLine) -> np.ndarray:
    return np.nan_to_num(line.error) if line.error.size else np.zeros(line.y.size)
