"""The regressions whose λ̂ `bench_cold.py` times: six parameters each, λ = 3."""

from __future__ import annotations

import numpy as np

import phasecast as pc


def linear_regression() -> pc.Problem:
    """Least squares, n = 500, at the minimum."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(500, 6)), rng.normal(size=500)
    y = x @ rng.normal(size=6) + noise
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    return pc.Problem(lambda w, data: ((data[0] @ w - data[1]) ** 2).mean() / 2, best, (x, y))


def logistic_regression() -> tuple[pc.posterior.Model, tuple[np.ndarray, np.ndarray]]:
    """Two classes, n = 569, a standard normal prior."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = rng.normal(size=(569, 6))
    y = (rng.random(569) < 1 / (1 + np.exp(-x @ np.array([1.0, -0.5, 0.5, 0.0, 0.25, 1.0])))).astype(float)

    def log_likelihood(w: jax.Array, data: tuple[jax.Array, jax.Array]) -> jax.Array:
        rows, labels = data
        drive = rows @ w
        return labels * drive - jnp.logaddexp(0.0, drive)

    model = pc.posterior.Model(
        init=lambda key: jax.random.normal(key, (6,)),
        log_prior=lambda w: -0.5 * jnp.sum(w**2),
        log_likelihood=log_likelihood,
        name="logistic regression",
    )
    return model, (x, y)
