"""Does λ̂ mirror the validation loss? Rank correlation of two curves on a common log-time grid, with the best lag.

Spearman's ρ between λ̂(t) and a second curve (Cullen et al. 2026, section 6.3). Its error is a bootstrap of blocks of
neighbouring points (Künsch 1989) that includes the errors of λ̂ itself; ``chance`` is the probability that a shifted
curve correlates as well. One rise and fall says little; ``joint_mirror`` tests many trainings at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status

GRID = 64  # most points of the common grid; more than the checkpoints of a run carry no information
FEWEST_DRAWS = 80  # for percentiles: two draws beyond each end of the central 95%
DRAWS = 400  # of the bootstrap: its error is then known to 1/√800, 4%
NULL_DRAWS = 4000  # of the nulls of many trainings: a chance of 1% is then known to ±0.16%


@dataclass(frozen=True)
class MirrorPolicy(Policy):
    """When a rank correlation of two curves is defended."""

    fewest_points: int = rule(8, "chosen, not derived: with eight points the least chance of a shift is 1/8")
    fewest_blocks: float = rule(4.0, "chosen, not derived: a bootstrap of fewer blocks repeats the same few curves")


POLICY = MirrorPolicy()


def mirror_correlation(
    times: ArrayLike,
    values: ArrayLike,
    other_times: ArrayLike,
    other_values: ArrayLike,
    *,
    errors: ArrayLike | None = None,
    longest_lag: float = 0.25,
    seed: int = 0,
    policy: MirrorPolicy = POLICY,
) -> Measurement:
    """Spearman's ρ of ``values`` with ``other_values`` at lag zero; +1 if they rise and fall together.

    Parameters
    ----------
    times, other_times: positive and increasing; both curves are read on a grid even in log time.
    errors: standard errors of ``values``, which enter the error of ρ.
    longest_lag: how far the first curve may be shifted against the second, as a fraction of the log-time range.

    ``diagnostics``: ``low`` and ``high`` (the ends of a 95% interval, percentiles of the bootstrap that stay within ±1,
    where ± the error need not), ``lag`` (a factor in time; above 1 the first curve comes later), ``at_lag`` (ρ at that
    lag), ``chance`` (fraction of circular shifts of the second curve that correlate at least as strongly).
    """
    fewest = policy.fewest_points
    t, y = _curve(times, values, "the first curve", fewest)
    u, z = _curve(other_times, other_values, "the second curve", fewest)
    spread = np.zeros_like(y) if errors is None else np.asarray(errors, dtype=float)
    if spread.shape != y.shape or not np.all(spread >= 0):
        raise BadInput(f"errors have shape {spread.shape}", f"give {len(y)} numbers, none negative")
    if not 0 <= longest_lag < 1:
        raise BadInput(f"longest_lag is {longest_lag:g}", "use a fraction of the range, from 0 to below 1")
    low, high = max(t[0], u[0]), min(t[-1], u[-1])
    inside = int(np.sum((t >= low) & (t <= high)))
    if inside < fewest:
        raise BadInput(f"only {inside} points of the first curve lie within the second", f"give at least {fewest}")
    if np.ptp(y) == 0 or np.ptp(z) == 0:
        return refused_correlation("one of the curves is constant, so its ranks are undefined: use another", policy)
    x = np.linspace(low, high, min(GRID, inside))
    first, second = np.interp(x, t, y), np.interp(x, u, z)
    noise = np.interp(x, t, spread)
    value = _spearman(first, second)
    rng = np.random.default_rng(seed)
    length = _block_length(first, second)
    draws = np.array([_resampled(rng, first, second, noise, length) for _ in range(DRAWS)])
    shifts = np.array([_spearman(first, np.roll(second, k)) for k in range(1, len(x))])
    lag, at_lag = _best_lag(first, second, int(longest_lag * len(x)), fewest)
    low, high = rank_percentiles(draws, value)
    diagnostics = {
        "low": low,
        "high": high,
        "lag": math.exp(lag * (x[1] - x[0])),
        "at_lag": at_lag,
        "chance": float((1 + np.sum(abs(shifts) >= abs(value))) / (1 + len(shifts))),
        "points": len(x),
        "block": length,
    }
    reasons = []
    if len(x) / length < policy.fewest_blocks:
        reasons = [f"only {len(x) / length:.1f} independent blocks, so the error is rough: train for longer"]
    return Measurement(
        value,
        float(np.nanstd(draws, ddof=1)),
        Status.WARNING if reasons else Status.OK,
        diagnostics,
        error_kind="bootstrap",
        reasons=reasons,
        name="rank correlation",
        policy=policy.plain(),
    )


@dataclass(frozen=True)
class JointMirror:
    """Rank correlations of many pairs of curves, and how often pairs that cannot belong together do as well.

    Parameters
    ----------
    each: ρ of every pair. rho: their mean, with ``low`` and ``high`` (95%, Student's t of atanh ρ over the pairs).
    shifted: the chance that pairs correlate as well on average when each second curve is shifted in time, at random
        and around the end. Curves that share nothing but a trend pass this one.
    exchanged: the same when the second curves change partners. Pairs that share only the shape which all of them have
        fail this one, and so do pairs that all turn at the same time.
    """

    each: np.ndarray
    rho: float
    low: float
    high: float
    shifted: float
    exchanged: float


def joint_mirror(firsts: ArrayLike, seconds: ArrayLike, *, draws: int = NULL_DRAWS, seed: int = 0) -> JointMirror:
    """Do the first curves rise and fall with the second ones of the same training, more than shifts or exchanges do?

    ``firsts`` and ``seconds``: (trainings, points), all read on one grid of times.
    """
    from scipy.stats import t as student

    one, two = _unit_ranks(firsts, "the first curves"), _unit_ranks(seconds, "the second curves")
    if one.shape != two.shape or len(one) < 3:
        raise BadInput(f"curves have shapes {one.shape} and {two.shape}", "give equal ones, of at least 3 trainings")
    pairs, points = one.shape
    each = np.sum(one * two, axis=1)
    rng = np.random.default_rng(seed)
    rolled, swapped = np.empty(draws), np.empty(draws)
    for draw in range(draws):
        rows = (np.arange(points) - rng.integers(1, points, pairs)[:, None]) % points
        rolled[draw] = np.mean(np.sum(one * np.take_along_axis(two, rows, axis=1), axis=1))
        swapped[draw] = np.mean(np.sum(one * two[rng.permutation(pairs)], axis=1))
    reached = each.mean() - 1e-12  # an exchange by the identity counts, whatever its rounding
    most = 1 - 6 / (points**3 - points)  # the largest ρ below 1, as atanh 1 is infinite
    z = np.arctanh(np.clip(each, -most, most))
    width = student.ppf(0.975, pairs - 1) * z.std(ddof=1) / math.sqrt(pairs)
    return JointMirror(
        each,
        float(each.mean()),
        math.tanh(z.mean() - width),
        math.tanh(z.mean() + width),
        float((1 + np.sum(rolled >= reached)) / (1 + draws)),
        float((1 + np.sum(swapped >= reached)) / (1 + draws)),
    )


def rank_percentiles(draws: np.ndarray, value: float) -> tuple[float, float]:
    """The central 95% of resampled correlations, extended to the value itself: resampled ones are rarely as large."""
    known = draws[np.isfinite(draws)]
    if known.size < FEWEST_DRAWS:
        return -1.0, 1.0
    low, high = np.quantile(known, (0.025, 0.975))
    return float(np.clip(min(low, value), -1, 1)), float(np.clip(max(high, value), -1, 1))


def refused_correlation(reason: str, policy: MirrorPolicy = POLICY) -> Measurement:
    """A rank correlation that cannot be computed."""
    return Measurement.refused(reason, error_kind="bootstrap", name="rank correlation", policy=policy.plain())


def _resampled(
    rng: np.random.Generator, first: np.ndarray, second: np.ndarray, noise: np.ndarray, length: int
) -> float:
    """ρ of blocks of both curves drawn with replacement, the first one with noise of its error added."""
    m = len(first)
    starts = rng.integers(0, m - length + 1, math.ceil(m / length))
    rows = (starts[:, None] + np.arange(length)).ravel()[:m]
    return _spearman((first + noise * rng.standard_normal(m))[rows], second[rows])


def _best_lag(first: np.ndarray, second: np.ndarray, most: int, fewest: int) -> tuple[int, float]:
    """The shift, in grid steps, at which |ρ| of the common part is largest; positive if ``first`` comes later."""
    m, rows = len(first), []
    for lag in range(-most, most + 1):
        one, two = (first[lag:], second[: m - lag]) if lag >= 0 else (first[:lag], second[-lag:])
        if len(one) >= fewest:
            rows.append((abs(_spearman(one, two)), -abs(lag), lag, _spearman(one, two)))
    rows = [row for row in rows if math.isfinite(row[0])] or [(0.0, 0, 0, _spearman(first, second))]
    return max(rows)[2], max(rows)[3]


def _block_length(first: np.ndarray, second: np.ndarray) -> int:
    """The length of the blocks: the first lag at which both autocorrelations are below 1/e."""
    m = len(first)
    for lag in range(1, m // 3):
        if max(_spearman(c[lag:], c[:-lag]) for c in (first, second)) < math.exp(-1):
            return lag
    return max(1, m // 3)


def _unit_ranks(curves: ArrayLike, what: str) -> np.ndarray:
    """Ranks of each row with mean zero and length one, so that products of two rows are ρ."""
    from scipy.stats import rankdata

    values = np.asarray(curves, dtype=float)
    if values.ndim != 2 or values.shape[1] < POLICY.fewest_points or not np.all(np.isfinite(values)):
        raise BadInput(f"{what} have shape {values.shape} or NaN values", "give finite numbers, (trainings, points)")
    if np.any(np.ptp(values, axis=1) == 0):
        raise BadInput(f"one of {what} is constant, so its ranks are undefined", "leave that training out")
    ranks = rankdata(values, axis=1) - (values.shape[1] + 1) / 2
    return ranks / np.linalg.norm(ranks, axis=1, keepdims=True)


def _spearman(one: np.ndarray, two: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks = [rankdata(c) - (len(c) + 1) / 2 for c in (one, two)]
    size = math.sqrt(float(ranks[0] @ ranks[0]) * float(ranks[1] @ ranks[1]))
    return float(ranks[0] @ ranks[1]) / size if size > 0 else math.nan


def _curve(times: ArrayLike, values: ArrayLike, what: str, fewest: int) -> tuple[np.ndarray, np.ndarray]:
    t, y = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    if t.ndim != 1 or y.shape != t.shape or len(t) < fewest:
        raise BadInput(f"{what} has shapes {t.shape} and {y.shape}", f"give equal ones, at least {fewest} points")
    if not (np.all(t > 0) and np.all(np.diff(t) > 0) and np.all(np.isfinite(y))):
        raise BadInput(f"{what} has times that are not positive and increasing, or NaN values", "leave those out")
    return np.log(t), y
