"""What is λ here, by temperature? Follow nβ E[L − L*] as nβ grows, with integrals on a quadrature grid.

.. math:: \\lambda(n\\beta)
          = n\\beta\\,\\frac{\\int (L-L^*)\\,e^{-n\\beta (L-L^*)}\\,dw}{\\int e^{-n\\beta (L-L^*)}\\,dw}
          = \\lambda - \\frac{m-1}{\\log n\\beta + c} + \\dots

(Cullen et al. 2026, eq. 10, with the constant c due to the box). For two parameters the integrals are done by
Gauss-Legendre panels in the logarithm of each offset from w*, which resolve every power of every coordinate down to
10⁻²⁰ of the box. The distance between two grids is the error of the coarser one, so where it is large, as for high
powers, whose steps are steep in the logarithm, the grid is refined. Valleys that do not run along the coordinates are
resolved by no such grid; refinement does not bring the two together, and the result is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phasecast.coefficients.small_problems.neighbourhood import RADIUS, neighbourhood_of
from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status
from phasecast.core.types import Array

NBETAS = np.logspace(2, 18, 9)
"""The default inverse temperatures, two decades apart."""
NODES = 512  # per side and axis; the error is the distance to the grid with half as many
PANEL = 16  # nodes per Gauss-Legendre panel
REACH = 20 * math.log(10)
"""Offsets go down to 10⁻²⁰ of the radius; at nβ = 10¹⁸ a square is below 1/nβ from offsets of 10⁻⁹ on."""
SETTLED = 1e-13  # differences of λ(nβ) that are rounding noise in double precision


@dataclass(frozen=True)
class TemperaturePolicy(Policy):
    """When is a λ by temperature quadrature defended?"""

    largest_grid_difference: float = rule(
        1e-3,
        "chosen between what the six toy landscapes reach (5e-4 at most) and a valley across the grid (8e-2): see "
        "tests/truth/test_landscapes.py",
    )
    most_nodes: int = rule(2048, "per side and axis; (2·2048)² values of the loss take 134 MB")
    converging: float = rule(
        0.25,
        "largest ratio of the grid difference to the one before; where valleys are resolved it is 0.04 and less, from "
        "512 to 1024 nodes for even powers up to 8, and where they are not it stays near one",
    )
    clear_choice: float = rule(
        0.01,
        "largest ratio of the misses of the two convergence laws at which the worse one is ignored: 1e-9 for x²y², "
        "4e-4 for x²y⁴, from 0.1 on where the powers of nβ are slow",
    )
    undecided: float = rule(0.5, "chosen: misses of the two laws within a factor of two do not tell them apart")
    fewest_temperatures: int = rule(
        5, "three values determine a power law and a fourth tests it; the limit is fitted with and without the last"
    )


POLICY = TemperaturePolicy()
UNDECIDED = (
    "a power of nβ and 1/log nβ describe the approach to the limit equally well, so that the multiplicity is not "
    "determined; the error covers both limits: use larger nbetas, or the exact λ if the loss is a polynomial"
)


def temperature_quadrature(
    problem: Problem,
    *,
    radius: float = RADIUS,
    nbetas: np.ndarray = NBETAS,
    nodes: int = NODES,
    policy: TemperaturePolicy = POLICY,
) -> Measurement:
    """λ of a two-parameter problem from nβ E[L − L*] in a box of half-width ``radius``, extrapolated to nβ → ∞.

    ``nodes`` per side and axis are doubled, up to ``policy.most_nodes``, for as long as two grids differ by too much
    and doubling brings them together.

    >>> from phasecast.models import LANDSCAPES
    >>> print(temperature_quadrature(LANDSCAPES["x²y²"].problem()).diagnostics["multiplicity"])
    2
    """
    values, errors = scaled_losses(problem, radius=radius, nbetas=nbetas, nodes=nodes, policy=policy)
    while policy.largest_grid_difference < np.max(errors) and 2 * nodes <= policy.most_nodes:
        nodes *= 2
        finer = _quadrature(problem, radius, nbetas, nodes, policy)
        before, (values, errors) = np.max(errors), (finer, abs(finer - values))
        if not np.max(errors) <= policy.converging * before:
            break
    return extrapolate(values, errors, nbetas, policy)


temperature_ladder = temperature_quadrature
"""The former name, which keeps working."""


def scaled_losses(
    problem: Problem, *, radius: float, nbetas: np.ndarray, nodes: int, policy: TemperaturePolicy = POLICY
) -> tuple[np.ndarray, np.ndarray]:
    """nβ E[L − L*] at each nβ, and its quadrature error: the distance to the grid with half as many nodes."""
    fine = _quadrature(problem, radius, nbetas, nodes, policy)
    return fine, abs(fine - _quadrature(problem, radius, nbetas, nodes // 2, policy))


def extrapolate(
    values: np.ndarray, errors: np.ndarray, nbetas: np.ndarray, policy: TemperaturePolicy = POLICY
) -> Measurement:
    """λ at nβ → ∞ from λ(nβ) at geometrically spaced nβ.

    Two convergence laws, a power of nβ (m = 1) and 1/(log nβ + c) (m = 2), are fitted to all but the last value; the
    one that predicts the last value better is used. The error adds the quadrature error of the last value and
    :func:`_unsettled` of the limit and, unless the choice is clear, the distance to the limit of the other law times
    the ratio of their misses.
    """
    if len(nbetas) < policy.fewest_temperatures or not np.allclose(np.diff(np.log(nbetas), 2), 0, atol=1e-8):
        raise BadInput(
            f"nbetas must be at least {policy.fewest_temperatures} values with a constant ratio", "use np.logspace"
        )
    name = "λ by temperature quadrature"
    worst = float(np.max(errors))
    if not (worst <= policy.largest_grid_difference and np.isfinite(values).all()):
        return Measurement.refused(
            f"two grids differ by {worst:.1g}, the valley is not resolved: use more nodes, rotate the coordinates so "
            "that valleys run along them, or measure by volume scaling",
            estimate=float(values[-1]),
            error=worst if math.isfinite(worst) else math.nan,
            error_kind="quadrature",
            name=name,
            policy=policy.plain(),
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
    change = _unsettled([laws[multiplicity](logs[:end], values[:end])[0] for end in (-2, -1, None)], values)
    if not math.isfinite(change):  # one value less has no limit by this law
        change = abs(limit - float(values[-1]))
    other = 3 - multiplicity
    doubt = 0.0 if settled or not misses[other] > 0 else misses[multiplicity] / misses[other]
    distance = abs(laws[other](logs, values)[0] - limit)
    if doubt > policy.clear_choice and math.isfinite(distance):
        change = math.hypot(change, doubt * distance)
    undecided = doubt > policy.undecided
    return Measurement(
        limit,
        float(errors[-1] + change),
        Status.WARNING if undecided else Status.OK,
        diagnostics={"multiplicity": multiplicity, "last_value": float(values[-1])},
        error_kind="quadrature",
        reasons=[UNDECIDED] if undecided else (),
        name=name,
        policy=policy.plain(),
    )


def _unsettled(limits: Sequence[float], values: np.ndarray) -> float:
    """By how much the last limit may change: the larger of the last two changes, the earlier one as it would be now.

    Limits converge no slower than the values, so a change shrinks by at least the ratio of their steps. Where several
    powers of nβ are slow, limits can turn, and the last change alone is small while they do.
    """
    steps = np.abs(np.diff(values[-3:]))
    ratio = min(steps[1] / steps[0], 1.0) if steps[0] > 0 else 0.0
    with np.errstate(invalid="ignore"):  # ∞ − ∞, where a law has no limit
        earlier, last = np.abs(np.diff(limits))
    return float(np.maximum(last, ratio * earlier))


def _power(values: np.ndarray) -> tuple[float, float]:
    """The limit of λ + C·nβ^(−δ) and its next value, from the last three values (Aitken's Δ²)."""
    first, second = values[-2] - values[-3], values[-1] - values[-2]
    if abs(second) < SETTLED or abs(second) >= abs(first):
        return float(values[-1]), float(values[-1])
    ratio = second / first
    return float(values[-1] + second * ratio / (1 - ratio)), float(values[-1] + second * ratio)


def _logarithm(logs: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The limit of λ − 1/(log nβ + c) and its next value, from the last two values.

    With s = log nβ + c at the larger nβ and h the spacing, 1/(s−h) − 1/s = rise, so s² − hs − h/rise = 0.
    """
    spacing, rise = logs[-1] - logs[-2], values[-1] - values[-2]
    if rise <= 0:
        return math.inf, math.inf
    s = spacing / 2 + math.sqrt(spacing**2 / 4 + spacing / rise)
    limit = values[-1] + 1 / s
    return float(limit), float(limit - 1 / (s + spacing))


def _quadrature(
    problem: Problem, radius: float, nbetas: np.ndarray, nodes: int, policy: TemperaturePolicy
) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    if nodes < 2 * PANEL:
        raise BadInput(f"{nodes} nodes are too few", f"use at least {4 * PANEL}")
    near = neighbourhood_of(problem, radius)
    if near.size != 2:
        raise BadInput(f"the quadrature grid is for two parameters, not {near.size}", "measure by volume scaling")
    offsets, weights = _log_grid(nodes // PANEL)
    offsets = np.concatenate([-offsets[::-1], offsets]) * radius
    weights = np.concatenate([weights[::-1], weights])

    @jax.jit
    def on_grid(x: Array) -> Array:
        return jax.vmap(lambda a: jax.vmap(lambda b: near.excess(jnp.stack([a, b])))(x))(x)

    with float64():
        losses = np.asarray(on_grid(jnp.asarray(offsets)))
    near.check_minimum(float(losses.min()))
    if near.resolution * nbetas.max() > policy.largest_grid_difference:
        raise BadInput(
            f"the loss is not zero at params, so differences below {near.resolution:.1g} are rounding noise",
            "subtract the minimum inside the loss, or use smaller nbetas",
        )
    area = np.outer(weights, weights)
    values = []
    for nbeta in nbetas:
        mass = area * np.exp(-nbeta * losses)
        values.append(nbeta * np.sum(mass * losses) / np.sum(mass))
    return np.asarray(values)


def _log_grid(panels: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for ∫₀¹ f(u) du with u = e^(−s), s in equal Gauss-Legendre panels up to REACH."""
    nodes, weights = np.polynomial.legendre.leggauss(PANEL)
    edges = np.linspace(0.0, REACH, panels + 1)
    half = np.diff(edges)[:, None] / 2
    s = (edges[:-1, None] + half + half * nodes).ravel()
    return np.exp(-s), (half * weights).ravel() * np.exp(-s)
