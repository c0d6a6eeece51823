"""How long is the plateau of one given start? The printed estimate with its procedure spelled out, and ours.

Printed (eq. 12, 117): α_P − α₀ = τ'(D − ½ ln σ_J² + ½ ln N), D = ln(B/c), with

- α₀ a point on the plateau, chosen by eye; B = |R(α_P) − R(α₀)| with R(α_P) = e·R*, so B = (e−1)R*;
- σ_P the spread of R^(1) over students at α₀, taken from a solution of the equations; c = σ_P/σ_J;
- τ' = τ/2, the escape time of ε and not that of R (the paper's 239 is half of eq. 15's 478).

For two or three teachers e·R* is beyond or near what an overlap can reach, so the printed end is never reached.

Ours: the differences between students at α₀ grow by dr/dα = (η/K) T^(2) W r (see
:mod:`phasecast.online.plateau`), with M−1 rates that are nearly equal; the plateau ends when the largest has
grown to B or to half of what specialised students have, whichever is less. The only choice is α₀, and it
cancels. It is a lower bound: growth slows before that end, like a logistic one by up to τ ln 2. In all seven cases
of Figure 19 and in Figure 4 the plateau is longer, by 0.18 to 0.61 τ or 3 to 7%.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.online.curve_result import Curve
from phasecast.online.dynamics import solve
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import plateau, response
from phasecast.online.spectrum import Spectrum


@dataclass(frozen=True)
class PlateauLengthPolicy(Policy):
    """When α₀ counts as a point on the plateau."""

    farthest_from_plateau: float = rule(0.2, "chosen, not derived: relative difference of ε(α₀) from the fixed point")


POLICY = PlateauLengthPolicy()


@dataclass(frozen=True)
class PlateauLength:
    """Lengths α_P − α₀ of one plateau, and what they come from."""

    ours: float
    printed: float
    printed_with_tau: float
    tau: float
    start: float
    reach: float  # how far R^(1) has moved at our end of the plateau
    printed_reach: float  # B
    fluctuation: float  # σ_P


def plateau_length(
    state: OrderParameters, spectrum: Spectrum, lr: float, *, start: float, inputs: int
) -> PlateauLength:
    """The length of the plateau that follows from ``state`` at α = 0, counted from α₀ = ``start`` on it."""
    students = state.shape[1]
    if students < 2:
        raise BadInput("a single student has no plateau to leave", "use two or more students")
    curve = solve(state, spectrum, lr, [start])
    R = curve.R1[0]
    T1, T2 = state.moment(1, spectrum).T, state.moment(2, spectrum).T
    at = plateau(T1)
    if abs(curve.eps[0] / at.eps - 1) > POLICY.farthest_from_plateau:
        raise BadInput(
            f"at α = {start:g} ε is {curve.eps[0]:.4g}, not on the plateau of {at.eps:.4g}", "choose another start"
        )
    rates, vectors = np.linalg.eig(lr / students * T2 @ response(T1, at))
    apart = R - R.mean(axis=0)
    along = apart @ np.linalg.inv(vectors).T

    def largest(length: float) -> float:
        return float(np.abs((along * np.exp(rates * length)) @ vectors.T).max())

    tau, printed_reach = 1 / float(np.real(rates).max()), float((math.e - 1) * at.R.mean())
    reach = min(printed_reach, float(np.trace(T1)) / students * (1 - 1 / students) / 2)
    if not largest(0.0) > 0:
        raise BadInput("the students are exactly alike, so the plateau never ends", "draw finite weights")
    low, high = 0.0, tau
    while largest(high) < reach:
        low, high = high, 2 * high
    for _ in range(60):  # bisection to 2^−60 of the interval, the rounding of float64
        low, high = (low, (low + high) / 2) if largest((low + high) / 2) > reach else ((low + high) / 2, high)
    fluctuation = float(np.sqrt(np.mean(apart**2)))
    sigma = float(np.sqrt(np.trace(state.moment(0, spectrum).Q) / students))
    bracket = math.log(printed_reach * sigma / fluctuation) - math.log(sigma) + math.log(inputs) / 2
    return PlateauLength(
        ours=high,
        printed=tau / 2 * bracket,
        printed_with_tau=tau * bracket,
        tau=tau,
        start=start,
        reach=reach,
        printed_reach=printed_reach,
        fluctuation=fluctuation,
    )


def measured_length(curve: Curve, start: float, reach: float) -> float:
    """α − α₀ at which the largest overlap R^(1) of a solved curve has moved by ``reach`` from the students' mean.

    Its logarithm is interpolated linearly between grid points; ∞ if the curve never moves that far.
    """
    apart = np.abs(curve.R1 - curve.R1.mean(axis=1, keepdims=True)).max(axis=(1, 2))
    beyond = np.flatnonzero((curve.alpha > start) & (apart > reach))
    if not beyond.size:
        return math.inf
    ends = slice(max(int(beyond[0]) - 1, 0), int(beyond[0]) + 1)
    return float(np.interp(math.log(reach), np.log(apart[ends]), curve.alpha[ends]) - start)
