"""How far is the law off, given what a log shows? Ridge regression with a linear and a Gaussian kernel.

The prediction is the mean of a Gaussian process whose covariance is the sum of a constant, a linear and a Gaussian
kernel of the standardised inputs. Censored targets are replaced by what is expected beyond the censoring point under
the current fit (Buckley & James 1979), a few times over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.core.policy import Policy, rule


@dataclass(frozen=True)
class RegressionPolicy(Policy):
    """Prior of the correction, in units of the variance of its target."""

    linear: float = rule(1.0, "first guess: all of the variance may be linear")
    curved: float = rule(1.0, "first guess: all of the variance may be curved")
    length: float = rule(1.0, "of the Gaussian kernel, in standard deviations; of 0.7 to 2.5 the best (explored)")
    noise: float = rule(0.5, "share of the variance that no log shows, per run; first guess")
    imputations: int = rule(3, "rounds of Buckley and James; the third changes no forecast by a percent")
    widest: float = rule(4.0, "standard deviations to which inputs are cut: nothing is extrapolated far")


POLICY = RegressionPolicy()


@dataclass(frozen=True, eq=False)
class Correction:
    """A fitted regression; call it with inputs (rows, inputs)."""

    inputs: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    mean: float

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        return self.mean + _kernel(_standard(inputs, self.centre, self.spread), self.inputs) @ self.weights


def fit_correction(inputs: np.ndarray, target: np.ndarray, observed: np.ndarray, weight: np.ndarray) -> Correction:
    """Fit rows of inputs to a target; ``weight`` is the share of a run that a row stands for."""
    from scipy.linalg import cho_factor, cho_solve

    centre, spread = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9)
    x = _standard(inputs, centre, spread)
    kernel = _kernel(x, x)
    factor = cho_factor(kernel + np.diag(POLICY.noise / weight), lower=True, overwrite_a=True, check_finite=False)
    y, mean = target.copy(), 0.0
    weights = np.zeros(len(y))
    hidden = ~observed
    for _ in range(POLICY.imputations if hidden.any() else 1):
        mean = float(np.average(y, weights=weight))
        weights = cho_solve(factor, y - mean, check_finite=False)
        if hidden.any():
            fitted = mean + kernel @ weights
            error = float(np.sqrt(np.average((y - fitted)[observed] ** 2, weights=weight[observed])))
            y[hidden] = _expected_beyond(target[hidden], fitted[hidden], max(error, 1e-6))
    return Correction(x, centre, spread, weights, mean)


def _standard(inputs: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.clip((np.asarray(inputs) - centre) / spread, -POLICY.widest, POLICY.widest)


def _kernel(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    inner = left @ right.T
    count = left.shape[1]
    apart = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)[None] - 2 * inner
    return POLICY.linear * inner / count + POLICY.curved * np.exp(-apart / (2 * count * POLICY.length**2))


def _expected_beyond(least: np.ndarray, centre: np.ndarray, scale: float) -> np.ndarray:
    """The mean of a logistic variable given that it is above ``least``: ∫S over S there, with S = 1/(1 + eᶻ)."""
    s = scale * np.sqrt(3) / np.pi
    z = np.minimum((least - centre) / s, 30.0)
    return least + s * np.logaddexp(0, -z) * (1 + np.exp(z))
