"""Where does gradient descent end if it does not see the hard directions? The limit t → ∞, where there is one.

While the bulk of the Hessian stays above zero the start is forgotten and the weights settle, at a point that does not
depend on the learning rate. With f = ∂ℓ/∂V and G = ∂f/∂V of one unit,

.. math::
    V + \\tfrac{\\alpha}{\\delta} f(V, y) = W, \\quad W = b \\cdot V_{easy} + \\sqrt{q}\\,\\xi, \\qquad
    q = \\tfrac{\\alpha^2}{\\delta} E f^2, \\quad
    \\tfrac1\\alpha = E\\Bigl[\\frac{G}{1 + \\alpha G/\\delta}\\Bigr], \\quad E[f V_{easy}] = 0.

α is the sum of the responses R_θ, the Stieltjes transform of the Hessian's spectrum at z = 0; the last equation is a
gradient that vanishes along the easy directions. It is the stationary form of :mod:`phasecast.features.curvature.dmft`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.errors import OutsideRegime, Refused, whole_number
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import standard_error
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.per_example import (
    Origin,
    check_step,
    curvature_law,
    few_units,
    labels,
    loss_gradient,
    loss_hessian,
    mean_loss,
    nodes,
)
from phasecast.features.curvature.settling import settle
from phasecast.features.policy import POLICY
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as as_target

STARTS = ((3.0, 0.5), (1.0, 1.0), (10.0, 0.3), (30.0, 2.0))  # (α, q) from which the solver starts, in turn
NODES = 2**12  # per set; four sets give α to about 1e-4
EVALUATIONS = 60  # of the equations from one start, at most
WAY_OUT = "follow the descent with dmft or decoupled instead"


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The end of training.

    Parameters
    ----------
    alpha, q: α and the variance of W that is not easy overlap, with the spread over sets of nodes as their error.
    overlap: shape (k,), Θᵀ Θ_*: b on the easy directions, zero on the hard.
    train, test: losses, of shape (1,).
    """

    alpha: Measurement[float]
    q: Measurement[float]
    overlap: np.ndarray
    train: Measurement[np.ndarray]
    test: Measurement[np.ndarray]
    status: Status
    reasons: tuple[str, ...]
    points: CurvatureLaw | None = None

    @property
    def law(self) -> CurvatureLaw:
        """The law of G and the hard latents, if there is a fixed point."""
        if self.points is None:
            raise Refused(f"there is no fixed point: {'; '.join(self.reasons)}", WAY_OUT)
        return self.points


def fixed_point(network: Network, target: str | Target, delta: float, *, seeds: int = 4) -> FixedPoint:
    """The limit t → ∞ for a single unit, refused where the weights do not settle on a convex slope.

    ``seeds`` sets of quasi-random nodes give the error of the averages.

    >>> end = fixed_point(Network("softplus", "square"), "minimum(z**2, 3)", 12.0, seeds=2)
    >>> round(float(end.alpha.value), 2)
    4.75
    """
    check_step(delta, 1.0)
    target = as_target(target)
    if few_units(network) != 1:
        raise OutsideRegime(f"a fixed point of {network.size} units is not known", "use one unit, or decoupled descent")
    solved: list[_Solution] = []
    for seed in range(whole_number("seeds", seeds, 2)):
        solution = _solve(network, target, delta, seed)
        if isinstance(solution, str):
            reasons = (f"{solution}; {WAY_OUT}",)
            nothing: Measurement[Any] = Measurement.refused(*reasons, error_kind="quadrature", policy=POLICY.plain())
            nowhere = np.full(target.latents, math.nan)
            return FixedPoint(nothing, nothing, nowhere, nothing, nothing, Status.REFUSED, reasons)
        solved.append(solution)
    numbers = np.array([[one.alpha, one.q] for one in solved])
    means, errors = numbers.mean(axis=0), standard_error(numbers)
    alpha, q = (
        Measurement(float(value), float(error), error_kind="quadrature", name=name)
        for value, error, name in zip(means, errors, ("α", "q"), strict=True)
    )
    b = np.mean([one.b for one in solved], axis=0)
    latents, y, W = _fresh(target, means[1], b, nodes(target.latents + 2))
    V = settle(network, W, y, means[0] / delta, np.zeros_like(W))[:, None]
    law = curvature_law(network, target, V, y, latents, Origin("fixed-point", math.inf, float(delta)))
    train, test = mean_loss(network, V[None], y, "train loss"), mean_loss(network, W[None, :, None], y, "test loss")
    return FixedPoint(alpha, q, target.easy @ b, train, test, Status.OK, (), law)


def _fresh(target: Target, q: float, b: np.ndarray, normals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latents (n, k), labels (n,) and W (n,) of standard normals (n, k + 2)."""
    latents, noise, xi = np.split(normals, [target.latents, target.latents + 1], axis=1)
    W = latents @ target.easy @ b + math.sqrt(q) * xi[:, 0]
    return latents, labels(target, latents, noise[:, 0]), W


@dataclass(frozen=True, eq=False)
class _Solution:
    alpha: float
    q: float
    b: np.ndarray


def _solve(network: Network, target: Target, delta: float, seed: int) -> _Solution | str:
    """The solution on one set of nodes, or the reason why there is none."""
    from scipy.optimize import root

    k, easy = target.latents, target.easy
    normals = nodes(k + 2, seed, NODES)
    V = np.zeros((NODES, 1))  # kept between evaluations, to start Newton from

    def state(unknowns: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray]:
        alpha, q = np.exp(np.clip(unknowns[:2], -12, 12))
        _, y, W = _fresh(target, q, unknowns[2:], normals)
        V[:, 0] = settle(network, W, y, alpha / delta, V[:, 0])
        return alpha, q, W, loss_gradient(network, V, y)[:, 0], loss_hessian(network, V, y)[:, 0, 0]

    def residuals(unknowns: np.ndarray) -> np.ndarray:
        alpha, q, _, f, G = state(unknowns)
        response = alpha * np.mean(G / np.maximum(1 + alpha / delta * G, 1e-3)) - 1
        return np.array([response, alpha**2 * np.mean(f**2) / (delta * q) - 1, *(f @ normals[:, :k] @ easy / NODES)])

    for alpha, q in STARTS:
        V[:] = 0
        start = np.array([math.log(alpha), math.log(q), *np.full(easy.shape[1], 0.1)])
        solved = root(residuals, start, tol=1e-9, options={"maxfev": EVALUATIONS})
        if not np.isfinite(solved.fun).all() or np.max(abs(solved.fun)) > POLICY.unsolved:
            continue
        alpha, q, W, f, G = state(solved.x)
        if np.max(abs(V[:, 0] + alpha / delta * f - W)) > POLICY.unsettled or np.min(1 + alpha / delta * G) <= 0:
            return "an example has more than one fixed point"
        if 1 / alpha**2 <= np.mean(G**2 / (1 + alpha / delta * G) ** 2) / delta:
            return "the bulk of the Hessian extends below zero, so that the start is not forgotten"
        return _Solution(float(alpha), float(q), solved.x[2:])
    return "no fixed point of descent was found"
