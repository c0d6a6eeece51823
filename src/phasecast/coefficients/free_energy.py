"""What does λ imply? Combined coefficients, free energy, generalisation error, and which basin wins at which n.

.. math:: F(n) = nL + \\lambda \\log n - (m-1) \\log\\log n + O(1)

(Watanabe 2009; Cullen et al. 2026, section 2.1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Prediction

SMALLEST_N, LARGEST_N = 3.0, 1e15  # log log n is positive from n = e on; no data set is larger than 10¹⁵
STEPS = 4000  # of the search for crossings in log n: 0.8% in n per step
PRECISION = 1e-9  # relative, of n at a crossing; the root in log n is found to 1e-13


def add(*parts: Coefficient) -> Coefficient:
    """λ of a sum K₁(x) + K₂(y) + … in separate variables: λ add, and so do the m − 1."""
    return _combined(
        parts, sum((c.fraction for c in parts), Fraction(0)), 1 + sum(c.multiplicity - 1 for c in parts), "sum"
    )


def product(*parts: Coefficient) -> Coefficient:
    """λ of a product K₁(x)·K₂(y)·… in separate variables: the smallest λ; the m of the parts that share it add."""
    smallest = min(c.fraction for c in parts)
    return _combined(parts, smallest, sum(c.multiplicity for c in parts if c.value == smallest), "product")


def union(*points: Coefficient) -> Coefficient:
    """λ of a region with several minima of one loss: the smallest λ, and the largest m of the points that share it."""
    smallest = min(c.fraction for c in points)
    return _combined(points, smallest, max(c.multiplicity for c in points if c.value == smallest), "union of points")


def free_energy(n: float, loss: float, coefficient: Coefficient) -> Prediction:
    """nL + λ log n − (m−1) log log n, without the term of order one.

    >>> round(free_energy(1000, 0.5, Coefficient(2)).value, 3)
    513.816
    """
    _check_n(n)
    value = n * loss + float(coefficient.value) * math.log(n) - (coefficient.multiplicity - 1) * math.log(math.log(n))
    return Prediction(value, regime=f"n = {n:g}, up to a constant", source="Watanabe 2009", name="free energy")


def generalisation_error(coefficient: Coefficient, n: float) -> Prediction:
    """The mean Bayes generalisation error λ/n, at inverse temperature one (Watanabe 2009)."""
    _check_n(n)
    return Prediction(
        float(coefficient.value) / n,
        regime=f"n = {n:g}, realisable, leading order",
        source="Watanabe 2009",
        kind=coefficient.kind,
        name="generalisation error",
    )


@dataclass(frozen=True)
class Basin:
    """A phase: its loss, its coefficient and, if known, the constant (log-volume) term of its free energy."""

    loss: float
    coefficient: Coefficient
    constant: float | None = None

    def free_energy(self, n: float) -> float:
        return float(free_energy(n, self.loss, self.coefficient)) + (self.constant or 0.0)


def critical_sample_size(a: Basin, b: Basin) -> Measurement:
    """The n at which two basins have the same free energy: the roots of nΔL = Δλ log n − Δ(m−1) log log n + Δc.

    ``diagnostics`` say which basin wins below and above each root. With different losses the basin of smaller λ wins
    below n_c if its loss is the larger one. With equal losses λ alone does not decide: the constants do, and without
    them the result is refused.
    """
    if a.loss == b.loss and (a.constant is None or b.constant is None):
        return Measurement.refused(
            "both losses are equal, so the constants of the free energies decide: measure and give them",
            error_kind="quadrature",
            name="critical sample size",
        )

    def gap(log_n: float) -> float:
        return a.free_energy(math.exp(log_n)) - b.free_energy(math.exp(log_n))

    roots = _roots(gap, math.log(SMALLEST_N), math.log(LARGEST_N))
    edges = [math.log(SMALLEST_N), *roots, math.log(LARGEST_N)]
    winners = ["a" if gap((low + high) / 2) < 0 else "b" for low, high in itertools.pairwise(edges)]
    crossings = [math.exp(root) for root in roots]
    if not crossings:
        return Measurement.refused(
            f"basin {winners[0]} wins at every n from {SMALLEST_N:g} to {LARGEST_N:g}: there is no crossing",
            diagnostics={"winners": winners},
            error_kind="quadrature",
            name="critical sample size",
        )
    return Measurement(
        crossings[-1],
        crossings[-1] * PRECISION,
        diagnostics={"all_crossings": crossings, "winners": winners},
        error_kind="quadrature",
        name="critical sample size",
    )


def _roots(function: Callable[[float], float], low: float, high: float, steps: int = STEPS) -> list[float]:
    from scipy.optimize import brentq

    grid = [low + (high - low) * i / steps for i in range(steps + 1)]
    values = [function(x) for x in grid]
    return [
        float(brentq(function, grid[i], grid[i + 1], xtol=1e-13))  # pyright: ignore[reportArgumentType]
        for i in range(steps)
        if values[i] * values[i + 1] < 0
    ]


def _combined(parts: tuple[Coefficient, ...], value: Fraction, multiplicity: int, name: str) -> Coefficient:
    kinds = {part.kind for part in parts} - {"exact"}
    if len(kinds) > 1:
        raise BadInput("upper and lower bounds cannot be combined", "combine bounds of one side")
    return Coefficient(
        value,
        regime="; ".join(dict.fromkeys(part.regime for part in parts if part.regime)),
        source="; ".join(dict.fromkeys(part.source for part in parts if part.source)),
        kind=kinds.pop() if kinds else "exact",
        name=name,
        multiplicity=multiplicity,
    )


def _check_n(n: float) -> None:
    if not n >= SMALLEST_N:
        raise BadInput(f"n = {n:g} is too small for an asymptotic form", f"use n ≥ {SMALLEST_N:g}")
