"""How well do chains mix? The effective number of draws, and R-hat, of a series of shape (draws, chains).

Both as Vehtari, Gelman, Simpson, Carpenter & Bürkner (Bayesian Analysis 2021) define them, and to rounding those of
arviz-stats (``tests/truth/test_mixing.py``), which takes longer to import than a small λ̂ takes to sample.
"""

from __future__ import annotations

import math

import numpy as np


def effective_draws(series: np.ndarray) -> float:
    """How many independent draws have a mean as certain, by Geyer's initial monotone sequence of the split chains."""
    halves = _split(series)
    count, chains = halves.shape
    if not np.isfinite(halves).all():
        return math.nan
    if np.ptp(halves) < np.finfo(float).resolution:
        return float(halves.size)
    covariance = _autocovariance(halves).mean(axis=1)
    within = covariance[0] * count / (count - 1)
    total = covariance[0] + (halves.mean(axis=0).var(ddof=1) if chains > 1 else 0.0)
    correlation = 1 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: (count - 1) // 2 * 2].reshape(-1, 2).sum(axis=1)  # of neighbouring lags: positive in theory
    negative = np.flatnonzero(pairs <= 0)
    last = int(negative[0]) if len(negative) else len(pairs) - 1
    time = -1 + 2 * np.minimum.accumulate(pairs[:last]).sum() + max(correlation[2 * last], 0.0)
    return halves.size / max(float(time), 1 / math.log10(halves.size))


def mean_error(series: np.ndarray) -> float:
    """The standard error of the mean of all chains."""
    return float(series.std(ddof=1) / math.sqrt(effective_draws(series)))


def rank_rhat(series: np.ndarray) -> float:
    """How far the halves of all chains are from agreement about the middle or the spread, by ranks; 1 if they agree."""
    halves = _split(series)
    if not np.isfinite(halves).all():
        return math.nan
    return max(_rhat(_normal_scores(halves)), _rhat(_normal_scores(np.abs(halves - np.median(halves)))))


def _split(series: np.ndarray) -> np.ndarray:
    half = len(series) // 2
    return np.concatenate([series[:half], series[-half:]], axis=1)


def _autocovariance(series: np.ndarray) -> np.ndarray:
    """Of each chain at every lag, divided by the number of draws."""
    centred = series - series.mean(axis=0)
    power = np.abs(np.fft.rfft(centred, 2 * len(series), axis=0)) ** 2
    return np.fft.irfft(power, 2 * len(series), axis=0)[: len(series)] / len(series)


def _rhat(series: np.ndarray) -> float:
    count = len(series)
    between, within = count * series.mean(axis=0).var(ddof=1), series.var(axis=0, ddof=1).mean()
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still: infinite, or nothing to compare
        return float(np.sqrt((between / within + count - 1) / count))


def _normal_scores(series: np.ndarray) -> np.ndarray:
    """What a normal has at the ranks of the values (Blom 1958); equal values share the mean of their ranks."""
    from scipy.special import ndtri

    _, place, counts = np.unique(series, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place].reshape(series.shape)
    return ndtri((ranks - 3 / 8) / (series.size + 1 / 4))
