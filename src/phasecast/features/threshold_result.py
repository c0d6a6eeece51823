"""What does a threshold come with? The number and its method, the spectrum at one δ, and what a simulation measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from phasecast.core import codec
from phasecast.core.results import Measurement, Status, show
from phasecast.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from phasecast.figures.drawing import Drawing

Curve: TypeAlias = "tuple[list[float], list[float]]"
"""δ and the margin there."""


class OutlierTable(TypedDict):
    """One eigenvalue below the bulk."""

    value: float
    overlap2: float
    direction: list[float]
    informative: bool


class SpectrumTable(TypedDict, total=False):
    """The spectrum at one δ: means over draws with standard errors, None where there is no outlier."""

    delta: float
    edge: float | None
    edge_error: float | None
    margin: float | None
    margin_error: float | None
    outlier: float | None
    outlier_error: float | None
    overlap2: float | None
    overlap2_error: float | None
    outliers: list[OutlierTable]
    rest: list[OutlierTable]


class SimulationTable(TypedDict, total=False):
    """The spectrum that gradient descent in ``dimension`` dimensions meets: means over draws with standard errors."""

    dimension: int
    steps: int
    seeds: int
    edge: float | None
    edge_error: float | None
    outlier: float | None
    outlier_error: float | None
    overlap2: float | None
    overlap2_error: float | None
    cosine: float | None
    cosine_error: float | None
    diverged: list[str]


class UnboundedTable(TypedDict, total=False):
    """δ* where G has no lower bound: of the formula, by quantile of G, and by dimension; and the spectra at one δ."""

    raw: dict[str, float | None]
    clipped: dict[str, float | None]
    finite_d: dict[str, float | None]
    clipped_spectrum: dict[str, dict[str, float | None]]
    finite_d_spectrum: dict[str, dict[str, float | None]]


class Curves(TypedDict, total=False):
    """What a figure shows: margins over δ by name, and points and density of the bulk."""

    margins: dict[str, Curve]
    density: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Threshold(Measurement[float]):
    """δ*(t), the smallest n/d from which on the Hessian has an informative outlier.

    Parameters
    ----------
    method: ``quadrature``, ``dmft``, ``decoupled`` or ``fixed-point``.
    time: t.
    intervals: the δ with an outlier, as pairs; the last may end where the search ended.
    searched: the range of δ that was searched.
    spectrum: at one δ: ``delta``, ``edge``, ``outlier``, ``overlap2``, ``margin``, ``outliers``, ``rest`` and errors.
    unbounded: where G has no lower bound: ``raw``, ``clipped`` and ``finite_d`` values, side by side.
    simulation: what gradient descent in d dimensions measured at the same δ.
    curves: for the figure: margins over δ, and the density of the bulk.
    """

    method: str = ""
    time: float = 0.0
    intervals: tuple[tuple[float, float], ...] = ()
    searched: tuple[float, float] = (0.0, math.inf)
    spectrum: SpectrumTable = field(default_factory=SpectrumTable)
    unbounded: UnboundedTable = field(default_factory=UnboundedTable)
    simulation: SimulationTable = field(default_factory=SimulationTable)
    curves: Curves = field(default_factory=Curves)

    def plain(self) -> dict[str, Any]:
        whole = super().plain()
        shown = {
            "delta_star": whole["value"],
            "method": self.method,
            "time": "inf" if math.isinf(self.time) else self.time,
            "intervals": [list(pair) for pair in self.intervals],
            "searched": list(self.searched),
            **self.spectrum,
            "unbounded": self.unbounded or None,
            "simulation": self.simulation or None,
        }
        return {**whole, **{name: codec.plain(part) for name, part in shown.items()}}

    def _rows(self) -> list[tuple[str, str]]:
        rows = []
        unbounded: dict[str, Any] = {**self.unbounded}
        if not self.unbounded and self.status is not Status.REFUSED:
            rows.append(("δ*", f"{show(float(self), self.error)} ({self.error_kind})"))
        rows += [("time", "∞" if math.isinf(self.time) else f"{self.time:g}"), ("method", self.method)]
        if self.intervals:
            rows.append(("outlier for δ in", ", ".join(self._interval(*pair) for pair in self.intervals)))
        rows += [(name.replace("_", " "), _in_one_line(part)) for name, part in unbounded.items()]
        if self.spectrum and not self.unbounded:
            rows.append((f"at δ = {self.spectrum.get('delta'):.6g}", _in_one_line({**self.spectrum})))
        if self.simulation:
            rest = {name: value for name, value in self.simulation.items() if name != "dimension"}
            rows.append((f"measured, d = {self.simulation.get('dimension')}", _in_one_line(rest)))
        return [*rows, ("status", str(self.status)), *(("reason", reason) for reason in self.reasons)]

    def _interval(self, low: float, high: float) -> str:
        end = "…" if high >= self.searched[1] * (1 - 1e-9) else f"{high:.5g}"
        return f"({low:.5g}, {end})"

    @styled
    def figure(self) -> Drawing:
        """Left the bulk with its edge and outliers at one δ, right the margin over δ."""
        from phasecast.figures.drawing import blank

        figure, ((left, right),) = blank(1, 2, width=8.0, height=3.6)
        self._draw_spectrum(left)
        self._draw_margins(right)
        return figure

    def _draw_spectrum(self, axes: Axes) -> None:
        from phasecast.figures.drawing import COLOURS, EXACT

        axes.set_xlabel("eigenvalue z of the Hessian")
        axes.set_ylabel("density of the bulk")
        if "density" not in self.curves:
            axes.text(0.5, 0.5, "no spectrum (see reasons)", ha="center", transform=axes.transAxes)
            return
        points, density = (np.asarray(part) for part in self.curves["density"])
        axes.fill_between(points, density, color=COLOURS[0], alpha=0.3, lw=0)
        axes.plot(points, density, color=COLOURS[0], label=f"bulk, δ = {self.spectrum.get('delta'):.3g}")
        edge = self.spectrum.get("edge")
        if edge is not None and math.isfinite(edge):
            axes.axvline(edge, **EXACT, label=f"edge {edge:.3g}")
        for number, one in enumerate(self.spectrum.get("outliers", [])):
            label = f"outlier {one['value']:.3g}, overlap² {one['overlap2']:.2g}"
            axes.plot(
                [one["value"]], [0], "v", ms=9, color=COLOURS[1], clip_on=False, label=label if number < 2 else None
            )
        for number, one in enumerate(self.spectrum.get("rest", [])):
            axes.plot([one["value"]], [0], "v", ms=9, mfc="none", color=EXACT["color"], clip_on=False,
                      label=None if number else "uninformative outlier")  # fmt: skip
        measured = self.simulation.get("outlier")
        if measured is not None and math.isfinite(measured):
            error = self.simulation.get("outlier_error") or 0.0
            axes.errorbar([measured], [0.05 * density.max()], xerr=[error], fmt="o", ms=4, color="black",
                          label=f"measured, d = {self.simulation.get('dimension')}")  # fmt: skip
        axes.set_ylim(0, 1.45 * density.max())  # room for the legend
        axes.legend(fontsize=8, loc="upper right")

    def _draw_margins(self, axes: Axes) -> None:
        from phasecast.figures.drawing import COLOURS, EXACT

        axes.set_xlabel("examples per dimension δ = n/d")
        axes.set_ylabel("margin ψ at min(0, edge)")
        axes.axhline(0, lw=0.8, color=EXACT["color"])
        curves = self.curves.get("margins", {})
        lines = {name: line for name, line in curves.items() if np.isfinite(line[1]).any()}
        if not lines:
            axes.text(0.5, 0.6, "no margin (see reasons)", ha="center", transform=axes.transAxes)
        for name, (deltas, margins) in lines.items():
            style = "s:" if name.startswith("d =") else "o-" if len(deltas) < 30 else "-"
            axes.plot(deltas, margins, style, ms=3, label=name)
        estimate, error = float(np.asarray(self.estimate)), float(np.asarray(self.error))
        if math.isfinite(estimate):
            axes.axvline(estimate, ls="--", lw=1, color=COLOURS[1], label=f"δ* = {estimate:.4g}")
            if math.isfinite(error) and error > 1e-3 * estimate:
                axes.axvspan(estimate - error, estimate + error, color=COLOURS[1], alpha=0.15, lw=0)
        axes.set_xscale("log")
        shown = [margin for _, margins in curves.values() for margin in margins if math.isfinite(margin)]
        if shown and min(shown) < 0:  # what is far above the threshold would squeeze what is near it
            axes.set_ylim(1.2 * min(shown), min(max(shown), -4 * min(shown)))
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)


def _in_one_line(part: float | dict[str, Any] | None, error: float | None = None) -> str:
    """A small table in one line, numbers with their errors; of tables in it, each row."""
    if part is None:
        return "none"
    if not isinstance(part, dict):
        return show(part, error) if error else f"{part:.6g}"
    pairs = [
        f"{name}: ({_in_one_line(value)})"
        if isinstance(value, dict)
        else f"{name} {_in_one_line(value, part.get(f'{name}_error'))}"
        for name, value in part.items()
        if (value is None or isinstance(value, int | float | dict)) and not name.endswith("_error") and name != "delta"
    ]
    return ", ".join(pairs)
