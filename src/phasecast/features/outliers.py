"""For which δ = n/d does the Hessian have an eigenvector that points to the hard directions?

.. math:: \\delta^*(t) = \\inf\\{\\delta > 0 : \\det\\Psi(z) = 0 \\text{ for some } z < \\min(0, \\text{edge})\\}

(Wang & Montanari 2026). The set of such δ need not be an interval that extends to infinity, so all of it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from phasecast.core.errors import OutsideRegime
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.hessian_spectrum import NEAR, bent, hessian_spectrum, pole, zero_between

PLACES = 32  # values of u on each side of half the pole
SMALLEST, LARGEST = 1e-2, 1e4  # range of δ that is searched where the law does not depend on δ

Interval = tuple[float, float]


def outlier_set(law: CurvatureLaw) -> tuple[Interval, ...]:
    """All δ between 0.01 and 10⁴ with an informative outlier, for a law that is the same at every δ (t = 0).

    Along u = α/δ everything is explicit. The point from which outliers are counted, the edge or zero if that is lower,
    is at :math:`1/\\delta = \\max(E T^2, E T)`, and there is one where the least eigenvalue of
    :math:`E[TV_HV_H^\\top] - E T + 1/\\delta` is negative. An interval that ends at 10⁴ ends at infinity as far as the
    search goes.

    >>> G = np.array([2.0, -1.0])
    >>> outlier_set(CurvatureLaw(np.repeat(G, 2), np.array([[0.6], [-0.6], [1.28], [-1.28]])))[0][1]
    10000.0
    """
    last = pole(law) * (1 - NEAR)
    if law.lowest == -math.inf or not law.directions or not math.isfinite(last):
        return ()  # no edge to be below of, nothing to see, or a Hessian without negative directions
    low, high = np.geomspace(1e-6, 0.5, PLACES), 1 - np.geomspace(0.5, 1e-8, PLACES)
    places = last * np.unique(np.concatenate([low, high, [1.0]]))
    moments = _Moments(law)
    points = [moments.at(u) for u in places]
    inside = [index for index, (delta, _) in enumerate(points) if delta <= LARGEST]
    first = max(inside[0] - 1, 0) if inside else len(points) - 1
    ends: list[float] = [LARGEST] if points[first][1] < 0 else []
    for before, after in pairwise(range(first, len(points))):
        if (points[before][1] < 0) != (points[after][1] < 0):
            place = zero_between(lambda u: moments.at(u)[1], places[before], places[after])
            ends.append(min(moments.at(place)[0], LARGEST))
    if len(ends) % 2:  # an outlier up to the pole: there 1/δ alone changes on
        mean, _, least = moments(places[-1])
        ends.append(max(1 / (mean - least), SMALLEST))
    return tuple((low, high) for high, low in zip(ends[::2], ends[1::2], strict=True))[::-1]


class _Moments:
    """E T, E T² and E[T V_HV_Hᵀ] along u, with all that does not depend on u computed once."""

    def __init__(self, law: CurvatureLaw):
        self.law = law
        self.pairs = np.triu_indices(law.directions)
        products = law.hard[:, self.pairs[0]] * law.hard[:, self.pairs[1]]
        self.columns = law.weights[:, None] * np.hstack([np.ones((len(products), 1)), products])

    def __call__(self, u: float) -> tuple[float, float, float]:
        """E T, E T² and the least eigenvalue of E[T V_HV_Hᵀ]."""
        T = bent(self.law, u)
        first = T @ self.columns
        along = np.zeros((self.law.directions,) * 2)
        along[self.pairs] = first[1:]
        least = np.linalg.eigvalsh(along, UPLO="U")[0]
        return float(first[0]), float((T * T) @ self.law.weights), float(least)

    def at(self, u: float) -> tuple[float, float]:
        """δ whose edge (or zero, if lower) is at u, and u times the least eigenvalue of Ψ there."""
        mean, square, least = self(u)
        return 1 / max(square, mean), least - mean + max(square, mean)


def scalar_threshold(law: CurvatureLaw) -> float:
    """δ* = 1/E T² where E T² + E[T(V_H² − 1)] = 0, for one hard direction and an edge below zero.

    The same threshold without spectrum, edge or outlier: a check. Outside the regime where there is no such u, or where
    the edge there is above zero.
    """
    last = pole(law) * (1 - 1e-9)
    if law.directions != 1 or not math.isfinite(last):
        raise OutsideRegime("the scalar equation is for one hard direction and G below zero", "use outlier_set")

    def level(u: float) -> float:
        T = bent(law, u)
        return float(law.mean(T * (T + law.hard[:, 0] ** 2 - 1)))

    grid = last * np.linspace(1e-3, 1, 400)
    signs = np.array([level(u) for u in grid]) < 0
    changes = np.nonzero(signs[:-1] != signs[1:])[0]
    if not changes.size:
        raise OutsideRegime("the scalar equation has no solution", "use outlier_set")
    u = zero_between(level, float(grid[changes[-1]]), float(grid[changes[-1] + 1]))
    T = bent(law, u)
    if law.mean(T) > law.mean(T**2):
        raise OutsideRegime("the edge is above zero where the scalar equation is solved", "use outlier_set")
    return 1 / float(law.mean(T**2))


@dataclass(frozen=True)
class Scan:
    """The least margin over the blocks at each δ of a grid, and the intervals of the grid where its sign changes."""

    deltas: tuple[float, ...]
    margins: tuple[float, ...]

    @property
    def brackets(self) -> tuple[Interval, ...]:
        """Pairs of neighbouring δ between which an outlier appears or disappears."""
        steps = zip(pairwise(self.deltas), pairwise(self.margins), strict=True)
        return tuple(deltas for deltas, (before, after) in steps if (before < 0) != (after < 0))

    @property
    def first(self) -> Interval | None:
        """The bracket of δ*: the first in which an outlier appears, or None."""
        steps = zip(pairwise(self.deltas), pairwise(self.margins), strict=True)
        return next((deltas for deltas, (before, after) in steps if before >= 0 > after), None)

    def intervals(self, refined: float | None = None) -> tuple[Interval, ...]:
        """The δ with an outlier, ends to the accuracy of the grid, the first end being ``refined`` if given."""
        intervals, start = [], self.deltas[0] if self.margins[0] < 0 else None
        for (before, after), (low, high) in zip(pairwise(self.margins), pairwise(self.deltas), strict=True):
            if before >= 0 > after:
                start = math.sqrt(low * high)
            elif before < 0 <= after and start is not None:
                intervals.append((start, math.sqrt(low * high)))
                start = None
        if start is not None:
            intervals.append((start, self.deltas[-1]))
        if refined is not None and intervals and self.first is not None:
            place = next(i for i, (low, _) in enumerate(intervals) if self.first[0] <= low <= self.first[1])
            intervals[place] = (refined, max(intervals[place][1], refined))
        return tuple(intervals)


def scan(margin: Callable[[float], float], deltas: Sequence[float]) -> Scan:
    """The margin at every δ of a grid."""
    return Scan(tuple(map(float, deltas)), tuple(margin(float(delta)) for delta in deltas))


def least_margin(laws: Sequence[CurvatureLaw], delta: float) -> float:
    """The least margin over the blocks: negative where any of them has an informative outlier."""
    return min(hessian_spectrum(law, delta).margin for law in laws)


def crossing_delta(
    margin: Callable[[float], float], bracket: Interval, accuracy: float = 0.01, tries: int = 8
) -> float:
    """δ between the ends of a bracket at which the margin vanishes, by the secant rule in log δ, kept inside it.

    Where noise has moved the crossing out of the bracket, the straight line through the margins at its ends is
    followed outside, by at most the bracket's own width.
    """
    low, high = (math.log(end) for end in bracket)
    at_low, at_high = margin(bracket[0]), margin(bracket[1])
    if at_low * at_high > 0:
        if at_low == at_high:
            return math.nan
        outside = low - at_low * (high - low) / (at_high - at_low)
        return math.exp(outside) if 2 * low - high <= outside <= 2 * high - low else math.nan
    for _ in range(tries):
        place = low - at_low * (high - low) / (at_high - at_low)
        place = min(max(place, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        level = margin(math.exp(place))
        if (level < 0) == (at_low < 0):
            near, low, at_low = place - low, place, level
        else:
            near, high, at_high = high - place, place, level
        if min(near, high - low) < accuracy or level == 0:
            break
    return math.exp(low - at_low * (high - low) / (at_high - at_low))
