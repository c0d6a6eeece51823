"""How does λ̂ depend on nβ and γ? λ̂ on a grid of both, and its limit nβ → ∞ by the regression of a paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from phasecast.coefficients.llc.estimate import Estimator
from phasecast.coefficients.llc.options import LLCKeywords, LLCOptions
from phasecast.coefficients.llc.problems import as_problem, on_backend
from phasecast.coefficients.llc.report import ProgressOption
from phasecast.coefficients.llc.result import LLC
from phasecast.core.display import Displayed, grid_html
from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status, show
from phasecast.core.types import PyTree
from phasecast.figures.style import styled

if TYPE_CHECKING:
    import pandas as pd

    from phasecast.figures.drawing import Drawing


def llc_sweep(
    loss: Callable[..., Any] | Problem,
    params: PyTree = None,
    data: PyTree = None,
    *,
    nbetas: Sequence[float],
    gammas: Sequence[float],
    progress: ProgressOption = True,
    **options: Unpack[LLCKeywords],
) -> LLCSweep:
    """λ̂ at every pair of nβ and γ; the other options are those of :func:`phasecast.llc`."""
    if not nbetas or not gammas:
        raise BadInput("there is nothing to sweep over", "give at least one nβ and one γ")
    for name in ("nbeta", "gamma"):
        if name in options:
            raise BadInput(f"llc_sweep has no option {name}", f"list the values in {name}s")
    settings = LLCOptions(**options)
    sampled = on_backend(as_problem(loss, params, data, settings.n), settings)

    def at(nbeta: float, gamma: float) -> LLC:
        estimator = Estimator(sampled, LLCOptions(**{**options, "nbeta": nbeta, "gamma": gamma}))
        result = estimator.run(progress)
        if estimator.interrupted:
            raise KeyboardInterrupt
        return result

    rows = tuple(tuple(at(nbeta, gamma) for gamma in gammas) for nbeta in nbetas)
    return LLCSweep(tuple(nbetas), tuple(gammas), rows)


@dataclass(frozen=True)
class LLCSweep(Displayed):
    """λ̂ on a grid: ``results[i][j]`` at ``nbetas[i]`` and ``gammas[j]``."""

    nbetas: tuple[float, ...]
    gammas: tuple[float, ...]
    results: tuple[tuple[LLC, ...], ...]

    def _html_table(self) -> str:
        columns = ("nβ", *(f"γ = {gamma:.3g}" for gamma in self.gammas))
        rows = [
            (f"{nbeta:.4g}", *(f"{show(one.estimate, one.error)}, {one.status}" for one in row))
            for nbeta, row in zip(self.nbetas, self.results, strict=True)
        ]
        return grid_html("λ̂ over nβ and γ", columns, rows)

    def table(self) -> pd.DataFrame:
        """One line per pair of nβ and γ: λ̂ as ``estimate`` with its error, status."""
        import pandas as pd

        rows = [
            (nbeta, gamma, float(one.estimate), float(one.error), str(one.status))
            for nbeta, row in zip(self.nbetas, self.results, strict=True)
            for gamma, one in zip(self.gammas, row, strict=True)
        ]
        return pd.DataFrame(rows, columns=["nbeta", "gamma", "estimate", "error", "status"])

    @styled
    def figure(self) -> Drawing:
        """λ̂ over γ, a line for each nβ; hollow points are not ok."""
        from phasecast.figures.drawing import blank, legend, points

        figure, ((axes,),) = blank(width=6.4, height=3.8)
        for number, (nbeta, row) in enumerate(zip(self.nbetas, self.results, strict=True)):
            points(axes, self.gammas, *drawable(row), number=number, label=f"nβ = {nbeta:.3g}", hollow=not_ok(row))
        axes.set_xscale("log")
        axes.set_xlabel("localisation γ")
        axes.set_ylabel("nβ E[L − L*]")
        legend(axes)
        return figure

    plot = figure

    def intercept(self, gamma: float | None = None) -> Measurement:
        """λ̂ at nβ → ∞ by the regression of Cullen et al. 2026, appendix B: the line of λ̂(γ) over 1/log nβ, at zero.

        Right where λ̂ approaches λ like 1/log nβ, as x²y² with its multiplicity of two does; where the multiplicity is
        one the approach is a power of nβ, and the line overshoots (x²y⁴). So it always comes with a warning. γ defaults
        to the smallest of the sweep.
        """
        gamma = min(self.gammas) if gamma is None else gamma
        if gamma not in self.gammas or len(set(self.nbetas)) < 3:
            swept = ", ".join(f"{g:g}" for g in self.gammas)
            raise BadInput("a line needs more points", f"sweep over at least three nβ, and give one γ of {swept}")
        column = [row[self.gammas.index(gamma)] for row in self.results]
        values, errors = np.array([(float(np.asarray(one.estimate)), float(one.error)) for one in column]).T
        lines = np.stack([np.ones(len(values)), 1 / np.log(self.nbetas)], axis=1)
        weights = lines / errors[:, None] ** 2
        covariance = np.linalg.inv(weights.T @ lines)
        line = covariance @ weights.T @ values
        misfit = float(np.sum(((values - lines @ line) / errors) ** 2) / (len(values) - 2))
        error = math.sqrt(covariance[0, 0] * max(1.0, misfit))
        refusals = [
            f"nβ = {nbeta:.3g}: {reason}"
            for nbeta, one in zip(self.nbetas, column, strict=True)
            for reason in one.reasons
            if one.status is Status.REFUSED
        ]
        warning = "an intercept in 1/log nβ is right for multiplicity two, and overshoots for one: compare `results`"
        status = Status.REFUSED if refusals else Status.WARNING
        name = f"λ̂ at 1/log nβ → 0, γ = {gamma:g}"
        return Measurement(line[0], error, status, {"misfit": misfit}, reasons=[*refusals, warning], name=name)


def drawable(results: Sequence[Measurement]) -> tuple[list[float], list[float]]:
    """Estimates and errors for a figure; an infinite error is not drawn."""
    errors = [float(result.error) if np.isfinite(result.error) else 0.0 for result in results]
    return [float(np.asarray(result.estimate)) for result in results], errors


def not_ok(results: Sequence[Measurement]) -> list[bool]:
    """Which results are drawn hollow."""
    return [result.status is not Status.OK for result in results]
