"""When will a loss leave its plateau, if nothing but the loss is known? From the first visible part of its fall.

A loss leaves its plateau as L = L* − d, with d growing like e^{kα}. While d is below the noise of the loss nothing can
be said: no date, and no bound either, because k is unknown. Once it is visible, a line through ln d gives k and the
time at which d would reach half of L*. That is a lower bound and not a date: growth slows on the way, and slow
fluctuations of the loss look like its beginning (benchmarks/escape_clock.py: dates were early by 0.6 escape times).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.forecasting.result import Forecast


@dataclass(frozen=True)
class LoneLossPolicy(Policy):
    """When the fall of a loss is visible, and how far it is trusted."""

    fewest: int = rule(12, "rows: eight for the height of the plateau, and four for a line")
    bins: int = rule(40, "averages over equal stretches: each visible fall then has a few, and noise is lowered")
    flat: float = rule(0.25, "largest fall over the middle of the log, relative to the loss, that is a plateau")
    visible: float = rule(3.0, "standard deviations of the loss on the plateau: what is smaller is noise")
    points: int = rule(4, "of a line through ln d: two more than it has parameters")
    half: float = rule(0.5, "of the height: where it counts as left, as in the clock with overlaps")


POLICY = LoneLossPolicy()


def forecast_escape_of_loss(time: ArrayLike, loss: ArrayLike, coverage: float = 0.8) -> Forecast:
    """Before when a loss does not fall below half of its plateau, from its values so far; refused while it is flat.

    >>> steps = np.arange(400.0)
    >>> made = forecast_escape_of_loss(steps, 1 - 0.001 * np.exp(steps / 100))
    >>> bool(400 < made.low < 100 * np.log(500)), made.high is None
    (True, True)
    """
    t, y = np.asarray(time, dtype=float), np.asarray(loss, dtype=float)
    if t.ndim != 1 or t.shape != y.shape or not (np.isfinite(t).all() and np.isfinite(y).all()):
        raise BadInput(f"times of shape {t.shape}, losses of shape {y.shape}", "give two columns of finite numbers")
    if np.any(np.diff(t) <= 0):
        raise BadInput("the times do not increase", "sort the rows and leave out repeated ones")
    if not 0 < coverage < 1:
        raise BadInput(f"coverage is {coverage:g}", "use a number between 0 and 1, like 0.8")
    common = {"quantity": "escape", "coverage": coverage, "tier": "lone loss"}
    if len(t) < POLICY.fewest:
        return Forecast.refused(f"{len(t)} rows; log at least {POLICY.fewest}", **common)
    now = float(t[-1])
    common["made_at"] = now
    centres, means = _binned(t, y)
    height, noise = _height(centres, means)
    if height is None or not height > 0:
        return Forecast.refused("the loss has no plateau yet; forecast again when it rests", **common)
    depth = height - means
    if depth[-1] >= POLICY.half * height:
        return Forecast.refused("the loss is below half of its plateau: it has left; nothing is left to say", **common)
    seen = depth > POLICY.visible * noise
    first = len(seen) - int(np.argmin(seen[::-1])) if not seen.all() else 0  # the last stretch in which all are visible
    if len(seen) - first < POLICY.points:
        return Forecast.refused(
            f"the loss rests at {height:.4g} and has not visibly begun to fall; log overlaps, or forecast again later",
            **common,
        )
    x, z = centres[first:] - now, np.log(depth[first:])
    (rate, level), covariance = np.polyfit(x, z, 1, cov=True)
    error = math.sqrt(max(float(covariance[0, 0]), 0.0))
    if rate <= 2 * error:
        reason = "the loss does not fall faster and faster, as it does when it leaves a plateau: forecast again later"
        return Forecast.refused(reason, **common)
    left = max((math.log(POLICY.half * height) - level) / rate, 0.0)
    sigmas = NormalDist().inv_cdf(0.5 + coverage / 2)
    low = now + left * rate / (rate + sigmas * error)
    return Forecast(math.nan, f"the loss leaves {height:.4g} exponentially, and not faster", low=low, **common)


def _binned(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over equal numbers of rows."""
    parts = np.array_split(np.arange(len(t)), min(POLICY.bins, len(t)))
    return np.array([t[part].mean() for part in parts]), np.array([y[part].mean() for part in parts])


def _height(t: np.ndarray, y: np.ndarray) -> tuple[float | None, float]:
    """Height of the plateau and the noise around it, from the middle of the log; None if that is not flat."""
    middle = y[len(y) // 4 : max(len(y) * 5 // 8, len(y) // 4 + 4)]
    height = float(np.median(middle))
    if np.ptp(middle) > POLICY.flat * abs(height):
        return None, 0.0
    steps = np.diff(middle)
    return height, max(float(np.sqrt(np.mean(steps**2) / 2)), 1e-12 * abs(height))
