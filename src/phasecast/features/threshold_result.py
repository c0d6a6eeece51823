"""What a threshold comes with: the number, how it was found, the spectrum at one δ, and what a simulation measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core import codec
from phasecast.core.results import Measurement, Status, show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888888"


@dataclass(frozen=True, eq=False, kw_only=True)
class Threshold(Measurement):
    """δ*(t), the least n/d from which on the Hessian has an informative outlier.

    Parameters
    ----------
    method: ``quadrature``, ``dmft``, ``decoupled`` or ``fixed-point``.
    time: t.
    intervals: the δ with an outlier, as pairs; the last may end where the search ended.
    searched: the δ between which was looked.
    spectrum: at one δ: ``delta``, ``edge``, ``outlier``, ``overlap2``, ``margin``, ``outliers``, ``rest`` and errors.
    unbounded: where G has no lower bound: ``raw``, ``clipped`` and ``finite_d`` values, side by side.
    simulation: what gradient descent in d dimensions measured at the same δ.
    curves: for the figure: margins over δ, and the density of the bulk.
    """

    method: str = ""
    time: float = 0.0
    intervals: tuple[tuple[float, float], ...] = ()
    searched: tuple[float, float] = (0.0, math.inf)
    spectrum: dict[str, Any] = field(default_factory=dict)
    unbounded: dict[str, Any] = field(default_factory=dict)
    simulation: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, Any] = field(default_factory=dict)

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
        if not self.unbounded and self.status is not Status.REFUSED:
            rows.append(("δ*", f"{show(float(self.estimate), self.error)} ({self.error_kind})"))  # pyright: ignore[reportArgumentType]
        rows += [("time", "∞" if math.isinf(self.time) else f"{self.time:g}"), ("method", self.method)]
        if self.intervals:
            rows.append(("outlier for δ in", ", ".join(self._interval(*pair) for pair in self.intervals)))
        rows += [(name.replace("_", " "), _words(part)) for name, part in self.unbounded.items()]
        if self.spectrum and not self.unbounded:
            rows.append((f"at δ = {self.spectrum['delta']:.6g}", _words(self.spectrum)))
        if self.simulation:
            rest = {name: value for name, value in self.simulation.items() if name != "dimension"}
            rows.append((f"measured, d = {self.simulation['dimension']}", _words(rest)))
        return [*rows, ("status", str(self.status)), *(("reason", reason) for reason in self.reasons)]

    def _interval(self, low: float, high: float) -> str:
        end = "…" if high >= self.searched[1] * (1 - 1e-9) else f"{high:.5g}"
        return f"({low:.5g}, {end})"

    def figure(self) -> Figure:
        """Left the bulk with its edge and outliers at one δ, right the margin over δ."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.0, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        self._draw_spectrum(left)
        self._draw_margins(right)
        return figure

    def _draw_spectrum(self, axes: Any) -> None:
        axes.set_xlabel("eigenvalue z of the Hessian")
        axes.set_ylabel("density of the bulk")
        if "density" not in self.curves:
            axes.text(0.5, 0.5, "no spectrum (see reasons)", ha="center", transform=axes.transAxes)
            return
        points, density = (np.asarray(part) for part in self.curves["density"])
        axes.fill_between(points, density, color=BLUE, alpha=0.3, lw=0)
        axes.plot(points, density, color=BLUE, label=f"bulk, δ = {self.spectrum['delta']:.3g}")
        edge = self.spectrum["edge"]
        if math.isfinite(edge):
            axes.axvline(edge, ls="--", lw=1, color=GREY, label=f"edge {edge:.3g}")
        for number, found in enumerate(self.spectrum["outliers"]):
            label = f"outlier {found['value']:.3g}, overlap² {found['overlap2']:.2g}"
            axes.plot(
                [found["value"]], [0], "v", ms=9, color=ORANGE, clip_on=False, label=label if number < 2 else None
            )
        for number, found in enumerate(self.spectrum["rest"]):
            axes.plot([found["value"]], [0], "v", ms=9, mfc="none", color=GREY, clip_on=False,
                      label=None if number else "uninformative outlier")  # fmt: skip
        measured = self.simulation.get("outlier")
        if measured is not None and math.isfinite(measured):
            axes.errorbar([measured], [0.05 * density.max()], xerr=[self.simulation["outlier_error"]], fmt="o", ms=4,
                          color="black", label=f"measured, d = {self.simulation['dimension']}")  # fmt: skip
        axes.set_ylim(0, 1.45 * density.max())  # room for the legend
        axes.legend(fontsize=8, loc="upper right")

    def _draw_margins(self, axes: Any) -> None:
        axes.set_xlabel("examples per dimension δ = n/d")
        axes.set_ylabel("margin ψ at min(0, edge)")
        axes.axhline(0, lw=0.8, color=GREY)
        lines = {k: line for k, line in self.curves.get("margins", {}).items() if np.isfinite(line[1]).any()}
        if not lines:
            axes.text(0.5, 0.6, "no margin (see reasons)", ha="center", transform=axes.transAxes)
        for name, (deltas, margins) in lines.items():
            style = "s:" if name.startswith("d =") else "o-" if len(deltas) < 30 else "-"
            axes.plot(deltas, margins, style, ms=3, label=name)
        estimate = float(self.estimate)  # pyright: ignore[reportArgumentType]
        if math.isfinite(estimate):
            axes.axvline(estimate, ls="--", lw=1, color=ORANGE, label=f"δ* = {estimate:.4g}")
            if np.isfinite(self.error) and float(np.max(self.error)) > 1e-3 * estimate:
                axes.axvspan(estimate - float(self.error), estimate + float(self.error), color=ORANGE, alpha=0.15, lw=0)
        axes.set_xscale("log")
        shown = [m for _, margins in self.curves.get("margins", {}).values() for m in margins if math.isfinite(m)]
        if shown and min(shown) < 0:  # what is far above the threshold would squeeze what is near it
            axes.set_ylim(1.2 * min(shown), min(max(shown), -4 * min(shown)))
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)


def _words(part: Any, error: float | None = None) -> str:
    """A small table in one line, numbers with their errors; of tables in it, each row."""
    if part is None:
        return "none"
    if not isinstance(part, dict):
        return show(part, error) if error else f"{part:.6g}"
    pairs = [
        f"{name}: ({_words(value)})"
        if isinstance(value, dict)
        else f"{name} {_words(value, part.get(f'{name}_error'))}"
        for name, value in part.items()
        if (value is None or isinstance(value, int | float | dict)) and not name.endswith("_error") and name != "delta"
    ]
    return ", ".join(pairs)
