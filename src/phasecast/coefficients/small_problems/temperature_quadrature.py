"""What is λ here, by temperature? Follow nβ E[L − L*] up a ladder of nβ, on a quadrature grid.

.. math:: \\lambda(n\\beta)
          = n\\beta\\,\\frac{\\int (L-L^*)\\,e^{-n\\beta (L-L^*)}\\,dw}{\\int e^{-n\\beta (L-L^*)}\\,dw}
          = \\lambda - \\frac{m-1}{\\log n\\beta + c} + \\dots

(Cullen et al. 2026, eq. 10, with the constant c that the box brings). For two parameters the integrals are done
by Gauss-Legendre panels in the logarithm of each offset from w*, which resolve every power of every coordinate
down to 10⁻²⁰ of the box. Valleys that do not run along the coordinates are not resolved; two grids then disagree
and the result is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from phasecast.coefficients.small_problems.neighbourhood import RADIUS, near
from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status

NBETAS = np.logspace(2, 18, 9)
NODES = 512
REACH = 20 * math.log(10)
PANEL = 16  # nodes of one Gauss-Legendre panel
RESOLVED = 1e-3  # the largest difference between two grids that still counts as a quadrature error


def temperature_ladder(
    problem: Problem, *, radius: float = RADIUS, nbetas: np.ndarray = NBETAS, nodes: int = NODES
) -> Measurement:
    """λ of a two-parameter problem from nβ E[L − L*] in a box of half-width ``radius``, taken to nβ → ∞.

    >>> from phasecast.models import LANDSCAPES
    >>> print(temperature_ladder(LANDSCAPES["x²y²"].problem()).diagnostics["multiplicity"])
    2
    """
    return fit_ladder(*ladder(problem, radius=radius, nbetas=nbetas, nodes=nodes), nbetas)


def ladder(problem: Problem, *, radius: float, nbetas: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """λ(nβ) at each nβ, and its quadrature error: the distance to the grid with half as many nodes."""
    fine = _quadrature(problem, radius, nbetas, nodes)
    return fine, abs(fine - _quadrature(problem, radius, nbetas, nodes // 2))


def fit_ladder(values: np.ndarray, errors: np.ndarray, nbetas: np.ndarray) -> Measurement:
    """λ at nβ → ∞ from λ(nβ) on a geometric ladder.

    Two ways of approach are tried, a power of nβ (m = 1) and 1/(log nβ + c) (m = 2); the one that, fitted to
    the rungs before, foretells the last rung better is taken. The error adds the quadrature error of the last
    rung and the change that the last rung made to the limit.
    """
    if len(nbetas) < 5 or not np.allclose(np.diff(np.log(nbetas), 2), 0, atol=1e-8):
        raise BadInput("the ladder needs five or more nβ, each the same factor above the one before", "use logspace")
    name = "λ by temperature ladder"
    worst = float(np.max(errors))
    if not (worst <= RESOLVED and np.isfinite(values).all()):
        return Measurement(
            float(values[-1]),
            worst if math.isfinite(worst) else math.nan,
            Status.REFUSED,
            error_kind="quadrature",
            reasons=(
                f"two grids differ by {worst:.1g}, the valley is not resolved: use more nodes, turn the "
                "coordinates so that valleys run along them, or measure by volume scaling",
            ),
            name=name,
        )
    logs = np.log(nbetas)
    laws: dict[int, Callable[[np.ndarray, np.ndarray], tuple[float, float]]] = {
        1: lambda _, v: _power(v),
        2: _logarithm,
    }
    misses = {m: abs(law(logs[:-1], values[:-1])[1] - values[-1]) for m, law in laws.items()}
    settled = abs(values[-1] - values[-2]) <= errors[-1] + errors[-2]
    multiplicity = 1 if settled else min(misses, key=lambda m: misses[m])
    limit = laws[multiplicity](logs, values)[0]
    moved = abs(limit - laws[multiplicity](logs[:-1], values[:-1])[0])
    return Measurement(
        limit,
        float(errors[-1] + moved),
        diagnostics={"multiplicity": multiplicity, "last_rung": float(values[-1])},
        error_kind="quadrature",
        name=name,
    )


def _power(values: np.ndarray) -> tuple[float, float]:
    """The limit of λ + C·nβ^(−δ) and its next rung, from the last three rungs (Aitken's Δ²)."""
    first, second = values[-2] - values[-3], values[-1] - values[-2]
    if abs(second) < 1e-13 or abs(second) >= abs(first):
        return float(values[-1]), float(values[-1])
    ratio = second / first
    return float(values[-1] + second * ratio / (1 - ratio)), float(values[-1] + second * ratio)


def _logarithm(logs: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The limit of λ − 1/(log nβ + c) and its next rung, from the last two rungs.

    With s = log nβ + c at the upper rung and h the spacing, 1/(s−h) − 1/s = rise, so s² − hs − h/rise = 0.
    """
    spacing, rise = logs[-1] - logs[-2], values[-1] - values[-2]
    if rise <= 0:
        return math.inf, math.inf
    s = spacing / 2 + math.sqrt(spacing**2 / 4 + spacing / rise)
    limit = values[-1] + 1 / s
    return float(limit), float(limit - 1 / (s + spacing))


def _quadrature(problem: Problem, radius: float, nbetas: np.ndarray, nodes: int) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    if nodes < 2 * PANEL:
        raise BadInput(f"{nodes} nodes are too few", f"use at least {4 * PANEL}")
    place = near(problem, radius)
    if place.size != 2:
        raise BadInput(f"the quadrature grid is for two parameters, not {place.size}", "measure by volume scaling")
    offsets, weights = _log_grid(nodes // PANEL)
    offsets = np.concatenate([-offsets[::-1], offsets]) * radius
    weights = np.concatenate([weights[::-1], weights])

    @jax.jit
    def on_grid(x: jax.Array) -> jax.Array:
        return jax.vmap(lambda a: jax.vmap(lambda b: place.excess(jnp.stack([a, b])))(x))(x)

    with float64():
        losses = np.asarray(on_grid(jnp.asarray(offsets)))
    place.check_minimum(float(losses.min()))
    if place.resolution * nbetas.max() > RESOLVED:
        raise BadInput(
            f"the loss is not zero at params, so differences below {place.resolution:.1g} are rounding noise",
            "subtract the minimum inside the loss, or use smaller nbetas",
        )
    area = np.outer(weights, weights)
    rungs = []
    for nbeta in nbetas:
        mass = area * np.exp(-nbeta * losses)
        rungs.append(nbeta * np.sum(mass * losses) / np.sum(mass))
    return np.asarray(rungs)


def _log_grid(panels: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for ∫₀¹ f(u) du with u = e^(−s), s in equal Gauss-Legendre panels up to REACH."""
    nodes, weights = np.polynomial.legendre.leggauss(PANEL)
    edges = np.linspace(0.0, REACH, panels + 1)
    half = np.diff(edges)[:, None] / 2
    s = (edges[:-1, None] + half + half * nodes).ravel()
    return np.exp(-s), (half * weights).ravel() * np.exp(-s)
