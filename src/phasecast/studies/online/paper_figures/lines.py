"""What a figure of a paper is made of: lines in panels, some of them compared with each other.

A :class:`Plan` says what a figure shows and how to compute it piece by piece; :func:`comparisons` puts what is
predicted beside what was computed or simulated. Numbers that have no place in a panel are lines of one point in panel
``NUMBERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.results import Comparison, Measurement, Prediction, Result

NUMBERS = -1
PREDICTED, PRINTED, SOLVED, SGD, MARK = range(5)
"""Kinds of lines: our closed form, the paper's as printed, what was computed, SGD, and a vertical mark."""

WORDS = {PREDICTED: "theory", PRINTED: "as printed", SOLVED: "computed", SGD: "SGD", MARK: ""}


@dataclass(frozen=True)
class Panel:
    """Axes: what they show, their labels, which are logarithmic, and a name for each group of lines."""

    title: str
    x: str
    y: str
    groups: tuple[str, ...]
    log: str = "xy"


@dataclass(frozen=True)
class Line:
    """One line of a panel, in the colour of its group.

    ``error`` is one standard error (or the numerical one), ``systematic`` what theory leaves out; ``compared`` lines of
    one group and panel are put beside each other point by point.
    """

    panel: int
    group: int
    kind: int
    x: Any
    y: Any
    error: Any = 0.0
    systematic: Any = 0.0
    compared: bool = False


@dataclass(frozen=True)
class Plan:
    """A figure: its panels, the names of its numbers, how many points its lines have at most, and its pieces."""

    panels: tuple[Panel, ...]
    pieces: Sequence[Callable[[], list[Line]]]
    points: int
    numbers: tuple[str, ...] = ()


def number(group: int, predicted: float, measured: float, *, error: float = 0.0, systematic: float = 0.0) -> list[Line]:
    """A predicted number beside a measured one."""
    common = {"panel": NUMBERS, "group": group, "x": [0.0], "compared": True}
    return [
        Line(kind=PREDICTED, y=[predicted], systematic=systematic, **common),
        Line(kind=SOLVED, y=[measured], error=error, **common),
    ]


VARIABLES: Mapping[str, tuple[str, ...]] = {
    "panel": (), "group": (), "kind": (), "compared": (),
    "x": ("point",), "y": ("point",), "error": ("point",), "systematic": ("point",),
}  # fmt: skip


def rows(lines: Sequence[Line], points: int) -> dict[str, np.ndarray]:
    """Lines as rows of a table, filled up with NaN to one length."""

    def padded(values: Any, size: int) -> np.ndarray:
        out = np.full(points, np.nan)
        out[:size] = values
        return out

    columns: dict[str, np.ndarray] = {
        name: np.array([float(getattr(line, name)) for line in lines]) for name, dims in VARIABLES.items() if not dims
    }
    for name in ("x", "y", "error", "systematic"):
        columns[name] = np.stack([padded(getattr(line, name), len(line.x)) for line in lines])
    return columns


def lines(node: Any) -> Iterator[Line]:
    """The lines of a stored table."""
    values = {name: node[name].values for name in VARIABLES}
    for at in range(len(values["panel"])):
        kept = ~np.isnan(values["x"][at])
        arrays = {name: values[name][at][kept] for name in ("x", "y", "error", "systematic")}
        whole = {name: int(values[name][at]) for name in ("panel", "group", "kind")}
        yield Line(**whole, **arrays, compared=bool(values["compared"][at]))


def comparisons(plan: Plan, found: Sequence[Line]) -> dict[str, Result]:
    """Every prediction, ours and the printed one, beside SGD where there is any, else beside what was computed.

    Numbers that nothing is predicted for are measurements.
    """
    answers: dict[str, Result] = {}
    compared = [line for line in found if line.compared]
    for place in dict.fromkeys((line.panel, line.group) for line in compared):
        by_kind = {line.kind: line for line in compared if (line.panel, line.group) == place}
        order = [kind for kind in (SGD, SOLVED, PREDICTED) if kind in by_kind]
        measured = by_kind[order[0]]
        for kind in (PREDICTED, PRINTED, SOLVED):
            if kind not in by_kind or kind == measured.kind:
                continue
            theory = by_kind[kind]
            prediction = Prediction(_one(theory.y), WORDS[kind], systematic=_one(theory.systematic))
            error_kind = "seeds" if measured.kind == SGD else "quadrature"
            measurement = Measurement(_one(measured.y), _one(measured.error), error_kind=error_kind)
            answers[_name(plan, place, kind)] = Comparison(prediction, measurement)
    for line in found:
        if line.panel == NUMBERS and not line.compared:
            answers[plan.numbers[line.group]] = Measurement(_one(line.y), _one(line.error), error_kind="quadrature")
    return answers


def _one(values: np.ndarray) -> Any:
    return float(values[0]) if len(values) == 1 else values


def _name(plan: Plan, place: tuple[int, int], kind: int) -> str:
    panel, group = place
    if panel == NUMBERS:
        what = plan.numbers[group]
    else:
        shown = plan.panels[panel]
        what = ", ".join(part for part in (shown.title, shown.groups[group]) if part)
    return f"{what} ({WORDS[kind]})" if kind != PREDICTED else what
