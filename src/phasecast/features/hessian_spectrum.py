"""Where are the eigenvalues of the Hessian, and does one below the bulk point to the hidden directions?

For H = (1/n) Σ G_i x_i x_iᵀ with n/d → δ the Stieltjes transform α(z) of the bulk solves

.. math:: z = -\\frac1\\alpha + \\mathbb E\\frac{\\delta G}{\\delta + G\\alpha}

and an eigenvalue z below the bulk and below zero has an eigenvector along the hard directions where

.. math:: \\det\\Psi(z) = 0, \\qquad \\Psi(z) = -zI + \\mathbb E\\frac{\\delta G\\,V_HV_H^\\top}{\\delta + G\\alpha(z)}

(Wang & Montanari 2026, "Formulas for computing δ_NN"). We write both in u = α/δ and T = Gu/(1+Gu), so that

.. math:: z = \\frac{\\mathbb E T - 1/\\delta}{u}, \\qquad \\frac{dz}{du} = \\frac{1/\\delta - \\mathbb E T^2}{u^2},
          \\qquad u\\Psi = \\mathbb E[T V_HV_H^\\top] - (\\mathbb E T - 1/\\delta)I .

The edge of the bulk is at E T² = 1/δ. Every eigenvalue of Ψ falls in z, so there are as many outliers as Ψ has negative
eigenvalues at the edge (or at zero, if the edge is above it).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.features.curvature.curvature_law import CurvatureLaw

NEAR = 1e-12  # relative distance kept from the pole of T, above rounding
LARGEST = 1e12  # u beyond which T is 1 to rounding wherever G > 0
COARSE = 300  # points of the law of G from which the density is computed, enough for a smooth curve


@dataclass(frozen=True, eq=False)
class Outlier:
    """An eigenvalue below the bulk and below zero.

    ``direction`` is a unit vector, shape (r,), in the basis of the law's latents; ``overlap2`` the squared length of
    the projection of the eigenvector on them. ``informative`` is False for outliers of the other block.
    """

    value: float
    direction: np.ndarray
    overlap2: float
    informative: bool = True


@dataclass(frozen=True, eq=False)
class HessianSpectrum:
    """The bulk's left edge, the outliers below it, and ``margin``, the least eigenvalue of Ψ at min(0, edge).

    ``margin`` is negative exactly where there is an informative outlier. ``rest`` are outliers along other directions.
    """

    delta: float
    edge: float
    margin: float
    outliers: tuple[Outlier, ...]
    rest: tuple[Outlier, ...] = ()


def hessian_spectrum(law: CurvatureLaw, delta: float) -> HessianSpectrum:
    """Edge, margin and every outlier at δ = ``delta``.

    >>> law = CurvatureLaw(np.ones(2), np.array([[1.0], [-1.0]]))
    >>> round(hessian_spectrum(law, 4.0).edge, 12)  # Marchenko-Pastur: (1 − 1/√δ)²
    0.25
    """
    check_delta(delta)
    if law.lowest == -math.inf:
        return HessianSpectrum(delta, -math.inf, math.inf, ())
    at_edge = edge_place(law, delta)
    edge = bulk_point(law, delta, at_edge)
    start = at_edge if edge <= 0 else _place(law, delta, 0.0, at_edge)
    margin = _least(_shifted(law, law.hard, delta, start)) / start if math.isfinite(start) else _least(_far(law))
    outliers = _outliers(law, law.hard, delta, start, informative=True)
    rest = _outliers(law, law.rest, delta, start, informative=False)
    return HessianSpectrum(delta, edge, margin, outliers, rest)


def check_delta(delta: float) -> None:
    """Bad input unless δ is a positive number."""
    if not (isinstance(delta, int | float | np.floating) and math.isfinite(delta) and delta > 0):
        raise BadInput(f"invalid δ {delta}", "use n/d > 0")


def zero_between(function: Callable[[float], float], low: float, high: float, accuracy: float = 1e-14) -> float:
    """Where a function of one number vanishes, to a relative ``accuracy``, between two ends with opposite signs."""
    import scipy.optimize

    zero: Any = scipy.optimize.brentq(function, low, high, xtol=accuracy * low, rtol=np.float64(max(accuracy, 1e-15)))
    return float(zero)


def pole(law: CurvatureLaw) -> float:
    """The largest u for which 1 + Gu > 0 on the support of G; infinite where G ≥ 0."""
    lowest = min(law.lowest, float(law.G.min()))
    return -1 / lowest if lowest < 0 else math.inf


def bent(law: CurvatureLaw, u: float) -> np.ndarray:
    """T = Gu/(1+Gu) at the points of the law, shape (n,)."""
    weight = law.G * u
    return weight / (1 + weight)


def edge_place(law: CurvatureLaw, delta: float) -> float:
    """u at the left edge: E T² = 1/δ, or the pole where E T² stays below that."""
    last = min(pole(law) * (1 - NEAR), LARGEST)

    def excess(u: float) -> float:
        return float(law.mean(bent(law, u) ** 2)) - 1 / delta

    if excess(last) <= 0:
        return math.inf if last == LARGEST else last
    first = last
    while excess(first) > 0:
        first /= 4
    return zero_between(excess, first, min(4 * first, last))


def bulk_point(law: CurvatureLaw, delta: float, u: float) -> float:
    """z(u), the real z at which the transform is α = δu; zero for u = ∞."""
    if math.isinf(u):
        return 0.0
    return float(law.mean(bent(law, u)) - 1 / delta) / u


def stieltjes(law: CurvatureLaw, delta: float, z: float) -> float:
    """α(z) at a real z below the bulk.

    >>> law = CurvatureLaw(np.ones(1), np.zeros((1, 0)))
    >>> round(stieltjes(law, 4.0, 0.0), 6)  # E 1/λ = δ/(δ−1) of Marchenko-Pastur
    1.333333
    """
    at_edge = edge_place(law, delta)
    edge = bulk_point(law, delta, at_edge)
    if z >= edge:
        raise BadInput(f"z = {z:g} is not below the bulk", f"use z < {edge:.6g}")
    return delta * _place(law, delta, z, at_edge)


def density(law: CurvatureLaw, delta: float, points: np.ndarray, width: float | None = None) -> np.ndarray:
    """The bulk's density at real ``points``, Im α(x + i·width)/π, by iterating α ← 1/(E[δG/(δ+Gα)] − z).

    ``width`` defaults to a three-thousandth of the range of the points. The iteration starts at a large imaginary
    part, where it contracts, and follows the solution down.
    """
    check_delta(delta)
    points = np.asarray(points, dtype=float)
    smallest = float(np.ptp(points)) / 3000 if width is None else width
    G, share = _coarse(law)
    alpha: Any = np.full(points.shape, 1j)
    for height in smallest * 8.0 ** np.arange(4, -1, -1):
        z = points + 1j * height
        for _ in range(60 if height > smallest else 400):
            alpha = 0.5 * alpha + 0.5 / ((delta * share * G / (delta + G * alpha[:, None])).sum(-1) - z)
    return alpha.imag / np.pi


def _coarse(law: CurvatureLaw) -> tuple[np.ndarray, np.ndarray]:
    """The law of G on a few points, each the mean of an equal share."""
    order = np.argsort(law.G)
    place = np.minimum((np.cumsum(law.weights[order]) * COARSE).astype(int), COARSE - 1)
    share = np.bincount(place, law.weights[order], COARSE)
    total = np.bincount(place, law.weights[order] * law.G[order], COARSE)
    return total[share > 0] / share[share > 0], share[share > 0]


def _place(law: CurvatureLaw, delta: float, z: float, at_edge: float) -> float:
    """u with z(u) = z, for z below the edge."""

    def off(u: float) -> float:
        return bulk_point(law, delta, u) - z

    last = min(at_edge, LARGEST)
    first = last
    while off(first) > 0:
        first /= 4
    return zero_between(off, first, min(4 * first, last))


def _shifted(law: CurvatureLaw, latents: np.ndarray, delta: float, u: float) -> np.ndarray:
    """uΨ at u, shape (r, r)."""
    T = bent(law, u)
    along = (latents * (law.weights * T)[:, None]).T @ latents
    return along - (float(law.mean(T)) - 1 / delta) * np.eye(latents.shape[1])


def _far(law: CurvatureLaw) -> np.ndarray:
    return np.zeros((law.directions, law.directions))


def _least(matrix: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(matrix)[0]) if matrix.size else math.inf


def _outliers(
    law: CurvatureLaw, latents: np.ndarray, delta: float, start: float, *, informative: bool
) -> tuple[Outlier, ...]:
    """One for every negative eigenvalue of Ψ at ``start``; each is followed up to where it vanishes."""
    if not latents.shape[1] or math.isinf(start):
        return ()
    outliers = []
    for index, value in enumerate(np.linalg.eigvalsh(_shifted(law, latents, delta, start))):
        if value >= 0:
            break

        def level(u: float, index: int = index) -> float:
            return float(np.linalg.eigvalsh(_shifted(law, latents, delta, u))[index])

        first = start
        while level(first) < 0:
            first /= 4
        u = zero_between(level, first, min(4 * first, start))
        direction = np.linalg.eigh(_shifted(law, latents, delta, u))[1][:, index]
        direction = direction * (1.0 if direction[np.argmax(abs(direction))] > 0 else -1.0)
        squared = bent(law, u) ** 2
        slack = 1 / delta - float(law.mean(squared))
        stretch = float(law.mean(squared * (latents @ direction) ** 2))
        outliers.append(Outlier(bulk_point(law, delta, u), direction, slack / (slack + stretch), informative))
    return tuple(outliers)
