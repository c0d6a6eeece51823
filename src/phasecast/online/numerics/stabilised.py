"""How does learning go on for very long? A Runge-Kutta-Chebyshev method for stiff equations with real, negative rates.

Near its end learning is slow, but the steps of an explicit method stay as short as the fastest mode demands. Stages
that follow Chebyshev polynomials widen the stable range of real rates to 0.65 s² for s stages, so that a step that is a
thousand times longer costs thirty times as much (Sommeijer, Shampine & Verwer 1998, RKC of second order). First-order
curves are a gradient flow, whose rates are real.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from phasecast.core.errors import BadInput, Refused

DAMPING = 2 / 13  # of Sommeijer, Shampine & Verwer, for the second order
SAFETY = 0.8  # of a proposed step; the same paper
MOST_GROWTH, LEAST_GROWTH = 5.0, 0.1  # of a step from one to the next: usual values
RADIUS_SAFETY, RADIUS_AGE = 1.1, 25  # of the power iteration for the fastest rate, and steps after which it is repeated
POWER_ITERATIONS, POWER_CHANGE = 50, 0.01  # at most, and the relative change at which it ends
MOST_REFUSED = 100  # steps one after another, before the solution counts as lost

Slope = Callable[[np.ndarray], np.ndarray]


def follow(
    slope: Slope, y: np.ndarray, times: Sequence[float] | np.ndarray, *, rtol: float = 1e-5, atol: float = 1e-10
) -> Iterator[np.ndarray]:
    """y at each of the increasing times, for y' = slope(y) from time 0; y may have any shape.

    >>> rates = np.array([1.0, 1e6])
    >>> [y] = follow(lambda y: -rates * y, np.ones(2), [2.0])
    >>> round(float(y[0] * np.exp(2)), 3), bool(abs(y[1]) < 1e-6)
    (1.0, True)
    """
    if not np.all(np.diff(times) > 0) or not times[0] >= 0:
        raise BadInput("times must be ≥ 0 and rise", "sort them and give each once")
    f = slope(y)
    fastest, direction = _fastest_rate(slope, y, f, f)
    t, h, age = 0.0, 0.25 / max(fastest, 1e-300), 0
    refused = 0
    for end in times:
        while t < end * (1 - 1e-13):
            if age >= RADIUS_AGE:
                (fastest, direction), age = _fastest_rate(slope, y, f, direction), 0
            step = min(h, end - t)
            new = chebyshev_step(slope, y, f, step, stages_for(step * fastest))
            ahead = slope(new)
            with np.errstate(over="ignore", invalid="ignore"):
                wrong = (0.8 * (y - new) + 0.4 * step * (f + ahead)) / (atol + rtol * np.maximum(abs(y), abs(new)))
                error = float(np.sqrt(np.mean(wrong**2)))
            if not math.isfinite(error):
                error = math.inf
            factor = min(MOST_GROWTH, max(LEAST_GROWTH, SAFETY * max(error, 1e-12) ** (-1 / 3)))
            if error <= 1:
                t, y, f, refused = t + step, new, ahead, 0
                age += 1
                h = max(h, step * factor) if step < h else step * factor
            else:
                h, age, refused = step * min(factor, SAFETY), RADIUS_AGE, refused + 1
                if refused > MOST_REFUSED:
                    raise Refused(f"the steps at time {t:.4g} vanish: the solution diverges or its rates are not real")
        yield y


def stages_for(size: float) -> int:
    """How many stages are stable for a step times the fastest rate: 0.65 s² must exceed it."""
    return max(2, 1 + int(math.sqrt(1 + 1.54 * size)))


def chebyshev_step(slope: Slope, y: np.ndarray, f: np.ndarray, step: float, stages: int) -> np.ndarray:
    """One step of second order; ``f`` is the slope at ``y``."""
    w0 = 1 + DAMPING / stages**2
    T, first, second = _chebyshev(w0, stages)
    w1 = first[-1] / second[-1]
    b = np.concatenate([np.zeros(2), second[2:] / first[2:] ** 2])
    b[:2] = b[2]
    a = 1 - b * T
    before, now = y, y + b[1] * w1 * step * f
    for j in range(2, stages + 1):
        mu, nu, scaled = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], 2 * b[j] * w1 / b[j - 1]
        change = slope(now) - a[j - 1] * f
        before, now = now, (1 - mu - nu) * y + mu * now + nu * before + scaled * step * change
    return now


def _chebyshev(w: float, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T_j(w) and its first and second derivatives for j = 0 to ``count``."""
    T, first, second = np.zeros((3, count + 1))
    T[:2], first[1] = (1, w), 1
    for j in range(2, count + 1):
        T[j] = 2 * w * T[j - 1] - T[j - 2]
        first[j] = 2 * T[j - 1] + 2 * w * first[j - 1] - first[j - 2]
        second[j] = 4 * first[j - 1] + 2 * w * second[j - 1] - second[j - 2]
    return T, first, second


def _fastest_rate(slope: Slope, y: np.ndarray, f: np.ndarray, direction: np.ndarray) -> tuple[float, np.ndarray]:
    """The largest rate at y by a power iteration on differences of slopes, enlarged, and its direction."""
    length = float(np.linalg.norm(direction))
    if length == 0:
        direction, length = np.ones_like(y), math.sqrt(y.size)
    small = 1e-7 * max(float(np.linalg.norm(y)), 1e-8)
    rate = 0.0
    for _ in range(POWER_ITERATIONS):
        direction = (slope(y + small / length * direction) - f) / small
        length = float(np.linalg.norm(direction))
        if not math.isfinite(length) or length == 0:
            break
        last, rate = rate, length
        if abs(rate - last) < POWER_CHANGE * rate:
            break
    return RADIUS_SAFETY * rate, direction
