"""Does λ̂ mirror the validation loss? Rank correlation of two curves on a common log-time grid, with the best lag.

Spearman's ρ between λ̂(t) and a second curve, with an error from blocks of neighbouring points (Künsch 1989) and from
the errors of λ̂ itself, and the chance that a shifted curve does as well (Cullen et al. 2026, section 6.3).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status

FEWEST = 8
GRID = 64
DRAWS = 400


def mirror(
    times: Any,
    values: Any,
    other_times: Any,
    other_values: Any,
    *,
    errors: Any = None,
    longest_lag: float = 0.25,
    seed: int = 0,
) -> Measurement:
    """Spearman's ρ of ``values`` with ``other_values`` at lag zero; +1 where they rise and fall together.

    Parameters
    ----------
    times, other_times: positive and rising; both curves are read at ``times`` thinned to an even grid in log time.
    errors: standard errors of ``values``, which enter the error of ρ.
    longest_lag: how far, in shares of the log-time range, the first curve may be moved against the second.

    ``diagnostics``: ``lag`` (a factor in time; above 1 the first curve comes later), ``at_lag`` (ρ there), ``chance``
    (share of circular shifts of the second curve that correlate at least as strongly).
    """
    t, y = _curve(times, values, "the first curve")
    u, z = _curve(other_times, other_values, "the second curve")
    spread = np.zeros_like(y) if errors is None else np.asarray(errors, dtype=float)
    if spread.shape != y.shape or not np.all(spread >= 0):
        raise BadInput(f"errors have shape {spread.shape}", f"give {len(y)} of them, none negative")
    if not 0 <= longest_lag < 1:
        raise BadInput(f"the longest lag is {longest_lag:g}", "use a share of the range, from 0 to below 1")
    low, high = max(t[0], u[0]), min(t[-1], u[-1])
    inside = int(np.sum((t >= low) & (t <= high)))
    if inside < FEWEST:
        raise BadInput(f"only {inside} points of the first curve lie where the second does", f"give at least {FEWEST}")
    if np.ptp(y) == 0 or np.ptp(z) == 0:
        return _refused("one of the curves is constant, so ranks mean nothing: use another")
    x = np.linspace(low, high, min(GRID, inside))
    first, second = np.interp(x, t, y), np.interp(x, u, z)
    noise = np.interp(x, t, spread)
    value = _spearman(first, second)
    rng = np.random.default_rng(seed)
    length = _block_length(first, second)
    draws = np.array([_resampled(rng, first, second, noise, length) for _ in range(DRAWS)])
    shifts = np.array([_spearman(first, np.roll(second, k)) for k in range(1, len(x))])
    lag, at_lag = _best_lag(first, second, int(longest_lag * len(x)))
    found = {
        "lag": math.exp(lag * (x[1] - x[0])),
        "at_lag": at_lag,
        "chance": float((1 + np.sum(abs(shifts) >= abs(value))) / (1 + len(shifts))),
        "points": len(x),
        "block": length,
    }
    reasons = []
    if len(x) / length < 4:
        reasons = [f"only {len(x) / length:.1f} independent stretches: the error is rough; take a longer time"]
    error = float(np.nanstd(draws, ddof=1))
    status = Status.WARNING if reasons else Status.OK
    return Measurement(value, error, status, found, error_kind="quadrature", reasons=reasons, name="rank correlation")


def _resampled(
    rng: np.random.Generator, first: np.ndarray, second: np.ndarray, noise: np.ndarray, length: int
) -> float:
    """ρ of stretches of both curves drawn with replacement, the first one with its noise again."""
    m = len(first)
    starts = rng.integers(0, m - length + 1, math.ceil(m / length))
    rows = (starts[:, None] + np.arange(length)).ravel()[:m]
    return _spearman((first + noise * rng.standard_normal(m))[rows], second[rows])


def _best_lag(first: np.ndarray, second: np.ndarray, most: int) -> tuple[int, float]:
    """The shift, in grid steps, at which |ρ| of the common part is largest; positive where ``first`` comes later."""
    m, found = len(first), []
    for lag in range(-most, most + 1):
        one, two = (first[lag:], second[: m - lag]) if lag >= 0 else (first[:lag], second[-lag:])
        if len(one) >= FEWEST:
            found.append((abs(_spearman(one, two)), -abs(lag), lag, _spearman(one, two)))
    found = [row for row in found if math.isfinite(row[0])] or [(0.0, 0, 0, _spearman(first, second))]
    return max(found)[2], max(found)[3]


def _block_length(first: np.ndarray, second: np.ndarray) -> int:
    """How far points remember each other: the first lag at which both autocorrelations are below 1/e."""
    m = len(first)
    for lag in range(1, m // 3):
        if max(_spearman(c[lag:], c[:-lag]) for c in (first, second)) < math.exp(-1):
            return lag
    return max(1, m // 3)


def _spearman(one: np.ndarray, two: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks = [rankdata(c) - (len(c) + 1) / 2 for c in (one, two)]
    size = math.sqrt(float(ranks[0] @ ranks[0]) * float(ranks[1] @ ranks[1]))
    return float(ranks[0] @ ranks[1]) / size if size > 0 else math.nan


def _curve(times: Any, values: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    t, y = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    if t.ndim != 1 or y.shape != t.shape or len(t) < FEWEST:
        raise BadInput(f"{what} has shapes {t.shape} and {y.shape}", f"give equal ones, at least {FEWEST} points")
    if not (np.all(t > 0) and np.all(np.diff(t) > 0) and np.all(np.isfinite(y))):
        raise BadInput(f"{what} has times that do not rise from above 0, or values not finite", "leave those out")
    return np.log(t), y


def _refused(reason: str) -> Measurement:
    return Measurement(
        math.nan, math.nan, Status.REFUSED, error_kind="quadrature", reasons=[reason], name="rank correlation"
    )
