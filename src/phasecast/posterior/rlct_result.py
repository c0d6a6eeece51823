"""What does :func:`phasecast.posterior.rlct` return? λ̂ with its curve, diagnostics, table and figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput
from phasecast.core.results import NOT_STORED, Measurement, Status, show
from phasecast.figures.style import styled

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from phasecast.figures.drawing import Drawing

COLUMNS = ("beta", "value", "error", "energy", "energy_error")


def _empty() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True, eq=False, kw_only=True)
class RLCT(Measurement[float]):
    """λ̂ of a model, a truth and a prior, from tempered posteriors.

    ``variance`` is β²Var_β[nL] and ``slope`` that of E_β[nL] over 1/β, both over the grid; λ̂ is one of them, by the
    method. ``curve`` has one row (β, β²Var, its error, E_β[nL], its error) per β, ``in_grid`` marks those that enter
    λ̂, and ``of_datasets`` has one λ̂ per data set. ``size`` is d; a regular model has λ = d/2. ``excess`` is
    β(E_β[nL] − nL(best)), which is near λ̂ if the posterior is around the best known parameters; ``live_units`` and
    ``predictive_r2`` describe the network there (NaN for models that do not provide them). ``rhat``, ``ess``,
    ``swapped`` and ``starts_apart`` (in standard errors) are the worst over all β. ``draws`` are kept in memory only.

    About the limit n → ∞: ``trend`` is dλ(β)/d log β; ``distance`` is how far the limit may be and ``other_data`` how
    much λ̂ of one data set varies, both part of ``error``. At the mode of the posterior ``identified`` directions change
    the likelihood (−1 if this was not computed), ``seen`` are the shares of the data, against the prior, in the
    curvature along them, and ``gaussian`` is what λ̂ would be if the posterior were a Gaussian around it.
    """

    variance: float
    variance_error: float
    slope: float
    slope_error: float
    curve: np.ndarray
    in_grid: np.ndarray
    of_datasets: np.ndarray
    n: int
    size: int
    excess: float
    live_units: float
    predictive_r2: float
    rhat: float
    ess: float
    divergences: float
    swapped: float
    starts_apart: float
    sampler: str
    seconds: float
    trend: float = math.nan
    trend_error: float = math.nan
    distance: float = 0.0
    other_data: float = 0.0
    identified: int = -1
    seen: np.ndarray = field(default_factory=_empty)
    gaussian: float = math.nan
    draws: xr.DataTree | None = field(default=None, repr=False, compare=False, metadata=NOT_STORED)

    def plain(self) -> dict[str, Any]:
        """For other programs: everything but the draws."""
        skipped = {"curve", "in_grid", "draws", *(entry.name for entry in fields(Measurement))}
        names = [entry.name for entry in fields(self)]
        own = {name: codec.plain(getattr(self, name)) for name in names if name not in skipped}
        curve = [
            dict(zip(COLUMNS, map(codec.plain, row.tolist()), strict=True)) | {"in_grid": bool(inside)}
            for row, inside in zip(self.curve, self.in_grid, strict=True)
        ]
        return {**super().plain(), **own, "curve": curve}

    def datatree(self) -> xr.DataTree:
        """The draws, with dimensions (dataset, beta, chain, draw)."""
        if self.draws is None:
            raise BadInput("this result was read without its draws", "use the one that rlct returned")
        return self.draws

    def table(self) -> pd.DataFrame:
        """One line per β: β²Var_β[nL] and E_β[nL] with their errors, and whether it enters λ̂."""
        import pandas as pd

        return pd.DataFrame(self.curve, columns=list(COLUMNS)).assign(in_grid=self.in_grid).set_index(COLUMNS[0])

    @styled
    def figure(self) -> Drawing:
        """E_β[nL] over 1/β with the fitted line, and the local λ(β); hollow if λ̂ is refused."""
        from matplotlib.ticker import LogLocator, NullLocator

        from phasecast.figures.drawing import COLOURS, EXACT, blank

        blue, orange, grey = COLOURS[0], COLOURS[1], EXACT["color"]
        figure, axes = blank(columns=2, width=8.0, height=3.4)
        left, right = axes[0]
        beta, value, error, energy, energy_error = self.curve.T
        base, inside = energy.min(), np.asarray(self.in_grid)
        fill = "none" if self.status is Status.REFUSED else blue
        left.errorbar(1 / beta, energy - base, yerr=energy_error, fmt="o", ms=4, color=blue, mfc=fill, label="sampled")
        middle = np.mean(1 / beta[inside]), np.mean(energy[inside] - base)
        ends = np.array([np.min(1 / beta[inside]), np.max(1 / beta[inside])])
        slope = f"slope {show(self.slope, self.slope_error)}"
        left.plot(ends, middle[1] + self.slope * (ends - middle[0]), "--", color=orange, label=slope)
        left.set_xlabel("temperature 1/β")
        left.set_ylabel("mean loss E[nL] above its minimum")
        right.errorbar(beta, value, yerr=error, fmt="o-", lw=1, ms=4, color=blue, mfc=fill, label="β² Var[nL]")
        centre, width = float(self.estimate), float(np.nan_to_num(self.error, posinf=0.0))
        right.axhspan(centre - width, centre + width, color=grey, alpha=0.2, lw=0)
        right.axhline(centre, color=grey, ls="--", lw=1, label=f"λ̂ = {show(self.estimate, self.error)}")
        right.axvspan(beta[inside].min(), beta[inside].max(), color=orange, alpha=0.08, lw=0)
        right.set_xscale("log")
        right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        right.xaxis.set_major_formatter("{x:g}")
        right.xaxis.set_minor_locator(NullLocator())
        right.set_ylim(bottom=0)
        right.set_xlabel("inverse temperature β")
        right.set_ylabel("local λ(β)")
        for one in (left, right):
            one.legend(frameon=False, fontsize=8.5)
        return figure

    plot = figure

    def _rows(self) -> list[tuple[str, str]]:
        first, last = self.curve[0, 0], self.curve[-1, 0]
        inside = self.curve[np.asarray(self.in_grid), 0]
        rows = [
            *super()._rows(),
            ("β² Var[nL]", show(self.variance, self.variance_error)),
            ("slope", show(self.slope, self.slope_error)),
            ("β", f"{inside[0]:.4g} to {inside[-1]:.4g}; λ(β) from {first:.4g} to {last:.4g}"),
            ("regular", f"d/2 = {self.size / 2:g} for {self.size} parameters, n = {self.n}"),
        ]
        if np.isfinite(self.trend):
            words = f"dλ(β)/d log β = {show(self.trend, self.trend_error)}, so the limit is within {self.distance:.2g}"
            rows.append(("n → ∞", words))
        if self.identified >= 0:
            rows.append(("best point", self._best_point()))
        if np.isfinite(self.excess):
            details = [f"β(E[nL] − nL(best)) = {self.excess:.3g}"]
            details += [f"live units {self.live_units:.2g}"] if np.isfinite(self.live_units) else []
            details += [f"predictive R² {self.predictive_r2:.2g}"] if np.isfinite(self.predictive_r2) else []
            rows.append(("phase", ", ".join(details)))
        cost = f"{self.sampler}, {self.of_datasets.size} data sets, {self.seconds:.3g} s"
        return [*rows, ("chains", f"R-hat {self.rhat:.3f}, ESS {self.ess:.0f}"), ("cost", cost)]

    def _best_point(self) -> str:
        """How many directions the likelihood and the data decide at the mode of the posterior."""
        words = f"the likelihood changes in {self.identified} of {self.size} directions"
        if not np.isfinite(self.gaussian):
            return f"{words}, not as a Gaussian"
        return f"{words}, data share at least {self.seen.min():.2g}; Gaussian prediction {self.gaussian:.3g}"
