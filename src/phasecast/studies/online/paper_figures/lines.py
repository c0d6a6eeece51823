"""What is a figure of a paper made of? Lines in panels, some of them compared with each other.

A :class:`Plan` describes what a figure shows and how to compute it piece by piece; :func:`answers_of` compares the
predictions with what was computed or simulated. Numbers without a panel are lines of one point in panel ``NUMBERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.answers import Answer, Parameter
from phasecast.core.results import Comparison, Measurement, Prediction

if TYPE_CHECKING:
    import xarray as xr

NUMBERS = -1  # the panel of a line that is a single number: no place in the figure
PREDICTED, PRINTED, SOLVED, SGD, MARK = range(5)
"""Kinds of lines: our closed form, the paper's as printed, what was computed, SGD, and a vertical mark."""

WORDS = {PREDICTED: "theory", PRINTED: "as printed", SOLVED: "computed", SGD: "SGD", MARK: ""}
THEORY = {PREDICTED: "ours", PRINTED: "printed", SOLVED: "computed"}
"""The parameter ``theory`` of an answer: which line was compared with the measurement."""

COMPUTED = ("quadrature", "exact")  # kinds of error of numbers that come from equations, not from SGD

ALPHA, EPS = "examples per input α", "generalisation error ε"


@dataclass(frozen=True)
class Settings:
    """What a plan depends on: the size, the first seed, and the data matrix with its number of columns."""

    paper: bool
    seed: int
    data: str | None = None
    features: int = 0


@dataclass(frozen=True)
class Panel:
    """Axes: title, labels, which axes are logarithmic, and one label per group of lines.

    Groups that are compared become answers with the ``id`` of the panel and the parameters ``where`` of the group.
    """

    title: str
    x: str
    y: str
    groups: tuple[str, ...]
    log: str = "xy"
    id: str = ""
    where: tuple[Mapping[str, Parameter], ...] = ()
    error_kind: str = "quadrature"

    def quantity(self, group: int) -> Quantity:
        """The answer that a group of lines becomes."""
        label = ", ".join(part for part in (self.title, self.groups[group]) if part)
        return Quantity(self.id, label, self.where[group], self.error_kind)


@dataclass(frozen=True)
class Quantity:
    """What a number or a compared curve is: the id, parameters and label of its answer, and the kind of its error.

    ``averaged`` tells that a formula was averaged over seeds: it is theory although its error is that of the seeds.
    """

    id: str
    label: str
    where: Mapping[str, Parameter] = field(default_factory=dict)
    error_kind: str = "quadrature"
    averaged: bool = False

    @property
    def theory(self) -> bool:
        """Whether the number is computed from theory, and nothing is measured."""
        return self.averaged or self.error_kind in COMPUTED


@dataclass(frozen=True)
class Line:
    """One line of a panel, in the colour of its group.

    ``error`` is one standard error (or the numerical one), ``systematic`` what theory leaves out; ``compared`` lines of
    one group and panel are compared point by point.
    """

    panel: int
    group: int
    kind: int
    x: ArrayLike
    y: ArrayLike
    error: ArrayLike = 0.0
    systematic: ArrayLike = 0.0
    compared: bool = False


Piece = Callable[[], list[Line]]
"""One step of the work on a figure."""


@dataclass(frozen=True)
class Plan:
    """A figure: its panels, its pieces, the largest number of points of a line, its numbers, and its parameters.

    ``setting`` states every parameter in words: who reads the page can compute the figure again.
    """

    panels: tuple[Panel, ...]
    pieces: Sequence[Piece]
    points: int
    numbers: tuple[Quantity, ...] = ()
    setting: str = ""


class _Compared(TypedDict):
    panel: int
    group: int
    x: list[float]
    compared: bool


def number(group: int, predicted: float, measured: float, *, error: float = 0.0, systematic: float = 0.0) -> list[Line]:
    """A predicted number and a measured one, to be compared."""
    common: _Compared = {"panel": NUMBERS, "group": group, "x": [0.0], "compared": True}
    return [
        Line(kind=PREDICTED, y=[predicted], systematic=systematic, **common),
        Line(kind=SOLVED, y=[measured], error=error, **common),
    ]


def single(group: int, value: float, error: float = 0.0) -> Line:
    """A measured number without a prediction."""
    return Line(NUMBERS, group, SOLVED, [0.0], [value], error)


def printed_number(group: int, value: float, systematic: float) -> Line:
    """The printed value of a number, to be compared with the measured one."""
    return Line(NUMBERS, group, PRINTED, [0.0], [value], systematic=systematic, compared=True)


def width_of_bound(bound: ArrayLike) -> np.ndarray:
    """The systematic width of a strict bound: what is beyond it differs by more than the tolerance of a comparison."""
    return np.asarray(bound) / Comparison.tolerance


VARIABLES: Mapping[str, tuple[str, ...]] = {
    "panel": (), "group": (), "kind": (), "compared": (),
    "x": ("point",), "y": ("point",), "error": ("point",), "systematic": ("point",),
}  # fmt: skip


def rows(lines: Sequence[Line], points: int) -> dict[str, np.ndarray]:
    """Lines as rows of a table, padded with NaN to one length."""

    def padded(values: ArrayLike, size: int) -> np.ndarray:
        out = np.full(points, np.nan)
        out[:size] = values
        return out

    columns: dict[str, np.ndarray] = {
        name: np.array([float(getattr(line, name)) for line in lines]) for name, dims in VARIABLES.items() if not dims
    }
    for name in ("x", "y", "error", "systematic"):
        columns[name] = np.stack([padded(getattr(line, name), np.size(line.x)) for line in lines])
    return columns


def stored_lines(node: xr.Dataset) -> Iterator[Line]:
    """The lines of a stored table."""
    values = {name: node[name].values for name in VARIABLES}
    for at in range(len(values["panel"])):
        present = ~np.isnan(values["x"][at])
        x, y, error, systematic = (values[name][at][present] for name in ("x", "y", "error", "systematic"))
        panel, group, kind = (int(values[name][at]) for name in ("panel", "group", "kind"))
        yield Line(panel, group, kind, x, y, error, systematic, bool(values["compared"][at]))


def answers_of(plan: Plan, lines: Sequence[Line], **where: Parameter) -> list[Answer]:
    """Every prediction, ours and the printed one, compared with SGD if it was run, else with what was computed.

    The parameter ``theory`` of an answer names the prediction. Numbers without a prediction are measurements. ``where``
    is added to the parameters of every answer.
    """
    answers: list[Answer] = []
    compared = [line for line in lines if line.compared]
    for panel, group in dict.fromkeys((line.panel, line.group) for line in compared):
        by_kind = {line.kind: line for line in compared if (line.panel, line.group) == (panel, group)}
        measured = next(by_kind[kind] for kind in (SGD, SOLVED, PREDICTED) if kind in by_kind)
        quantity = plan.numbers[group] if panel == NUMBERS else plan.panels[panel].quantity(group)
        error_kind = "seeds" if measured.kind == SGD else quantity.error_kind
        for kind in (PREDICTED, PRINTED, SOLVED):
            if kind not in by_kind or kind == measured.kind:
                continue
            theory = by_kind[kind]
            prediction = Prediction(_values(theory.y), WORDS[kind], systematic=_values(theory.systematic))
            measurement = Measurement(_values(measured.y), _values(measured.error), error_kind=error_kind)
            label = quantity.label if kind == PREDICTED else f"{quantity.label} ({WORDS[kind]})"
            parameters = {**where, **quantity.where, "theory": THEORY[kind]}
            computed = quantity.theory and measured.kind != SGD
            answers.append(Answer(quantity.id, Comparison(prediction, measurement), label, parameters, computed))
    for line in lines:
        if line.panel == NUMBERS and not line.compared:
            quantity = plan.numbers[line.group]
            measurement = Measurement(_values(line.y), _values(line.error), error_kind=quantity.error_kind)
            parameters = {**where, **quantity.where}
            answers.append(Answer(quantity.id, measurement, quantity.label, parameters, quantity.theory))
    return answers


def listed(numbers: Sequence[float]) -> str:
    """Numbers in a sentence."""
    return ", ".join(f"{one:g}" for one in numbers)


def _values(values: ArrayLike) -> float | np.ndarray:
    """An array, or its only element."""
    array = np.asarray(values, dtype=float)
    return float(array[0]) if len(array) == 1 else array
