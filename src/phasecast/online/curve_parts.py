"""What does a computed curve show? The stretch in which it rests on a plateau, and the one in which it is a power law.

Theory says where both could be. A statement about a curve needs more: ε that stays where it is for one escape time τ,
and a local slope d log ε / d log α that is the exponent over a range of α.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.core.policy import Policy, rule
from phasecast.online.curve_result import Curve


@dataclass(frozen=True)
class CurvePartsPolicy(Policy):
    """From when on a part of a curve is called a plateau or a power law."""

    left_below: float = rule(0.9, "chosen, not derived: share of the plateau's height below which ε has left it")
    rests: float = rule(
        1.0,
        "in escape times τ: ε − ε* grows like e^(2α/τ), so over one τ it would grow sevenfold if it had begun to leave",
    )
    near: float = rule(2.0, "chosen: largest ratio of ε on the plateau to ε*; the second order in η is within 1 + η/2")
    fewest_points: int = rule(3, "two points cannot tell a flat stretch from two values that happen to be equal")
    same_slope: float = rule(0.1, "chosen: largest relative distance of the local slope from the exponent")
    long_enough: float = rule(
        10.0,
        "a decade: at the end of a window with 4096 modes the slope passes 1.33 times the exponent for a factor of 3.8",
    )


POLICY = CurvePartsPolicy()


@dataclass(frozen=True)
class Stretch:
    """A range of α in which a curve is flat or straight, or, if it has none, why."""

    first: float = math.nan
    last: float = math.nan
    level: float = math.nan
    missing: str = ""

    @property
    def present(self) -> bool:
        return not self.missing


def flat_stretch(curve: Curve, height: float, tau: float) -> Stretch:
    """The longest range of α in which ε keeps within ``left_below`` of its largest value there, near the height ε*.

    It is a plateau if it lasts for an escape time τ.
    """
    alpha, eps = curve.alpha, curve.eps
    best, at = (0, 0), 0
    for end in range(alpha.size):
        while eps[at : end + 1].min() < POLICY.left_below * eps[at : end + 1].max():
            at += 1
        level = float(np.median(eps[at : end + 1]))
        near = 1 / POLICY.near <= level / height <= POLICY.near
        if near and end - at + 1 >= POLICY.fewest_points and alpha[end] - alpha[at] > alpha[best[1]] - alpha[best[0]]:
            best = at, end
    first, last = float(alpha[best[0]]), float(alpha[best[1]])
    needed = POLICY.rests * tau
    if last - first < needed:
        steps = np.diff(alpha[: int(np.searchsorted(alpha, alpha[0] + 10 * tau)) + 1])
        if alpha[-1] - alpha[0] < needed:
            return Stretch(missing="the grid of α is shorter than one escape time")
        if steps.size and steps.max() * (POLICY.fewest_points - 1) > needed:
            return Stretch(missing="the grid of α is too coarse to resolve one escape time")
        return Stretch(missing="ε never rests near ε* for one escape time")
    return Stretch(first, last, float(np.median(eps[best[0] : best[1] + 1])))


def left_at(curve: Curve, rest: Stretch) -> float:
    """The α at which ε falls below ``left_below`` of a plateau's level, ∞ if it does not within the grid."""
    later = curve.alpha >= rest.first
    part = Curve(np.asarray(curve.estimate)[later], 0.0, alpha=curve.alpha[later])
    return part.first_below(POLICY.left_below * rest.level)


def straight_stretch(curve: Curve, exponent: float, expected: tuple[float, float]) -> Stretch:
    """The longest range of α inside the ``expected`` window in which the local slope is the exponent."""
    first, last = expected
    if not (math.isfinite(first) and math.isfinite(last)):
        return Stretch(missing="no window is known for this number of students and teachers")
    inside = np.flatnonzero((curve.alpha > first) & (curve.alpha < last))
    where = f"{first:.3g} ≪ α ≪ {last:.3g}"
    if last / first < POLICY.long_enough:
        return Stretch(missing=f"{where} is too short for a power law")
    if inside.size < POLICY.fewest_points or curve.alpha[inside[-1]] < POLICY.long_enough * curve.alpha[inside[0]]:
        return Stretch(missing=f"the grid of α has too little of {where}, where theory expects it")
    slope = curve.slope
    near = np.abs(slope[inside] - exponent) <= POLICY.same_slope * abs(exponent)
    best, at = (0, 0), 0
    for end, agrees in enumerate(near):
        if not agrees:
            at = end + 1
        elif end - at + 1 >= POLICY.fewest_points and _ratio(curve, inside, at, end) > _ratio(curve, inside, *best):
            best = at, end
    if _ratio(curve, inside, *best) < POLICY.long_enough:
        least, most = np.nanmax(slope[inside]), np.nanmin(slope[inside])
        return Stretch(missing=f"where theory expects it, {where}, the local slope goes from {least:.3g} to {most:.3g}")
    return Stretch(*_ends(curve, inside, *best))


def _ends(curve: Curve, inside: np.ndarray, first: int, last: int) -> tuple[float, float]:
    return float(curve.alpha[inside[first]]), float(curve.alpha[inside[last]])


def _ratio(curve: Curve, inside: np.ndarray, first: int, last: int) -> float:
    low, high = _ends(curve, inside, first, last)
    return high / low
