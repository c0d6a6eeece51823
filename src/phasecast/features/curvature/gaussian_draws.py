"""How are Gaussian processes drawn whose covariance becomes known one step at a time? And normals in strata."""

from __future__ import annotations

import numpy as np

JITTER = 1e-6  # relative to the diagonal of a covariance: neighbouring times are so alike that it is nearly singular


def stratified(samples: int, columns: int, seed: int) -> np.ndarray:
    """Standard normals, each column with one value in each of ``samples`` strata of equal probability.

    >>> abs(stratified(1000, 3, seed=0).mean(axis=0)).max() < 1e-3
    np.True_
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    return ndtri(qmc.LatinHypercube(columns, rng=np.random.default_rng(seed)).random(samples))


def next_noise(covariance: np.ndarray, shocks: np.ndarray) -> np.ndarray:
    """Z(t), shape (n, m), given the shocks (n, t+1, m) that gave Z(0…t−1) and the covariance (t+1, m, t+1, m).

    The earlier rows of a Cholesky factor do not depend on the later ones.
    """
    times, m = covariance.shape[:2]
    square = covariance.reshape(times * m, times * m)
    factor = np.linalg.cholesky(square + JITTER * np.diag(np.diagonal(square)) + 1e-300 * np.eye(times * m))
    return shocks.reshape(len(shocks), -1) @ factor[-m:].T
