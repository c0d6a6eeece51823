"""Which basin wins at which n? Local free energies of a memorising and a generalising point, and where they cross.

.. math:: F(n) = nL(w^*) + \\int_0^n E_t[L - L^*]\\,dt, \\qquad
          F_1(n) - F_2(n) \\approx n\\,\\Delta L + \\Delta\\lambda\\log n + \\Delta c

λ alone does not locate the crossing: with equal losses Δλ log n and the constant Δc decide, and Δc, the difference of
log-volumes, is only measured by integrating over temperatures. The prior of each F is the localisation γ around its own
point; a prior common to both adds the difference of its −log density at the two points, ``shift``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.coefficients.llc.studies.local_free_energy import local_free_energy
from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status
from phasecast.core.types import PyTree

DRAWS = 500  # of both curves from their errors: the spread of the crossing is then known to 3%
FINE = 400  # points at which the joined curve is searched for sign changes, far more than the n of a study


@dataclass(frozen=True)
class CrossingPolicy(Policy):
    """When the crossing of two free energies counts as found."""

    least_crossing: float = rule(0.95, "the usual 5% level: the share of drawn curves that must cross at all")


POLICY = CrossingPolicy()
NAME = "n at which the basins cross"


def free_energies(
    loss: Callable[..., Any],
    params: PyTree,
    data: PyTree = None,
    *,
    ns: Sequence[float],
    gamma: float,
    target: float = 0.02,
    chains: int = 8,
    seed: int = 0,
) -> list[Measurement]:
    """F of one basin at each n in ``ns``, by thermodynamic integration of the same mean loss up to nβ = n.

    The loss is held fixed, so this is the free energy of n observations that all look like ``data``.
    """
    return [
        local_free_energy(
            loss, params, data, gamma=gamma, nbeta=float(n), target=target, chains=chains, seed=seed + number
        )
        for number, n in enumerate(ns)
    ]


def basin_crossing(
    ns: Sequence[float],
    first: Sequence[Measurement],
    second: Sequence[Measurement],
    *,
    losses: tuple[float, float] = (0.0, 0.0),
    shift: float = 0.0,
    seed: int = 0,
    policy: CrossingPolicy = POLICY,
) -> Measurement:
    """The n at which two basins have the same free energy, from F of both at several n.

    With ``losses`` L(w*) of both, F₁ − F₂ − nΔL is nearly a straight line in log n; it is interpolated by a monotone
    cubic, and the crossing is where the sum with nΔL and ``shift`` is zero. Its error combines the spread over curves
    drawn from the errors and the distance to the crossing of straight lines. Refused if one basin wins at all n
    measured, if a free energy is refused, or if noise moves the crossing out of the range; ``diagnostics`` name the
    winner below and above.
    """
    x = np.log(np.asarray(ns, dtype=float))
    if len(x) < 2 or len(first) != len(x) or len(second) != len(x) or not np.all(np.diff(x) > 0):
        raise BadInput(
            f"{len(x)} n, {len(first)} and {len(second)} free energies", "give equally many, with increasing n"
        )
    gap = np.array([float(one.estimate) - float(two.estimate) for one, two in zip(first, second, strict=True)]) + shift
    error = np.array([math.hypot(float(a.error), float(b.error)) for a, b in zip(first, second, strict=True)])
    judged: dict[str, Any] = {"error_kind": "mcse", "name": NAME, "policy": policy.plain()}
    facts: dict[str, Any] = {"gap": gap, "gap_error": error}
    refused = [one for one in (*first, *second) if one.status is Status.REFUSED]
    if refused:
        return Measurement.refused(f"a free energy is refused: {refused[0].reasons[0]}", diagnostics=facts, **judged)
    slope = losses[0] - losses[1]
    roots = _crossings(x, gap, slope)
    if not roots:
        winner = "first" if gap[0] < 0 else "second"
        reason = f"the {winner} basin wins at every n from {ns[0]:g} to {ns[-1]:g}: give other n"
        return Measurement.refused(reason, diagnostics=facts, **judged)
    rng = np.random.default_rng(seed)
    nearest = []
    for _ in range(DRAWS):
        again = _crossings(x, gap + error * rng.standard_normal(len(x)), slope)
        if again:
            nearest.append(min(again, key=lambda root: abs(root - roots[-1])))
    facts |= {
        "all_crossings": [math.exp(root) for root in roots],
        "below": "first" if gap[0] < 0 else "second",
        "above": "first" if gap[-1] < 0 else "second",
        "kept": len(nearest) / DRAWS,
    }
    if len(nearest) < policy.least_crossing * DRAWS:
        reason = "the errors leave open whether the basins cross: measure with a smaller target"
        return Measurement.refused(reason, diagnostics=facts, **judged)
    value = math.exp(roots[-1])
    lines = _crossings(x, gap, slope, straight=True)
    coarse = min((abs(root - roots[-1]) for root in lines), default=float(x[-1] - x[0]))
    spread = math.hypot(float(np.std(nearest, ddof=1)), coarse)
    return Measurement(value, value * spread, Status.OK, facts, **judged)


def _crossings(x: np.ndarray, gap: np.ndarray, slope: float, straight: bool = False) -> list[float]:
    """The zeros in x = log n of n·slope plus a monotone interpolation of gap − n·slope."""
    from scipy.interpolate import PchipInterpolator

    rest = gap - slope * np.exp(x)
    fine = np.union1d(np.linspace(x[0], x[-1], FINE), x)
    between = np.interp(fine, x, rest) if straight else PchipInterpolator(x, rest)(fine)
    height = between + slope * np.exp(fine)
    places = np.flatnonzero(height[:-1] * height[1:] < 0)
    rise = height[places + 1] - height[places]
    return list(fine[places] - height[places] * (fine[places + 1] - fine[places]) / rise)
