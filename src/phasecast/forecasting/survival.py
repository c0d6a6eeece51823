"""When will it happen, if some have not seen it happen yet? Censored regression and quantiles.

A run that was stopped before it generalised still says something: not before its last step. It enters the fits as
censored, with the probability of what is later than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_STEPS = 200  # of the minimiser; it takes some twenty
SMALLEST_SCALE = 1e-3  # keeps the likelihood bounded if a few points lie exactly on a line


@dataclass(frozen=True, eq=False)
class Logistic:
    """y = X·constants + scale·ξ with ξ standard logistic: ln of a time that is log-logistic given X."""

    constants: np.ndarray
    scale: float

    def location(self, terms: np.ndarray) -> np.ndarray:
        """The median of y."""
        return np.asarray(terms) @ self.constants

    def below(self, terms: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The probability that y is at most a value."""
        z = (np.asarray(y) - self.location(terms)) / self.scale
        return 1 / (1 + np.exp(-np.clip(z, -500, 500)))

    def median_after(self, terms: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The median of y given that it is above a value: half of the probability that is left."""
        location = self.location(terms)
        z = (np.asarray(y) - location) / self.scale
        return location + self.scale * np.logaddexp(0, np.log(2) + z)


def fit_logistic(terms: np.ndarray, y: np.ndarray, observed: np.ndarray, ridge: float = 0.0) -> Logistic:
    """The censored fit of greatest likelihood; ``y`` is the censoring point where ``observed`` is false.

    The first column of ``terms`` is 1. ``ridge`` times the squares of the other constants is subtracted from the
    log-likelihood.
    """
    from scipy.optimize import minimize

    terms, y = np.asarray(terms, dtype=float), np.asarray(y, dtype=float)
    seen = np.asarray(observed, dtype=float)
    centre, spread = terms.mean(axis=0), terms.std(axis=0)
    centre[0], spread = 0.0, np.where(spread > 0, spread, 1.0)
    scaled = (terms - centre) / spread
    penalty = np.full(terms.shape[1], ridge)
    penalty[0] = 0.0

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        scale = np.exp(x[-1]) + SMALLEST_SCALE
        z = (y - scaled @ x[:-1]) / scale
        upper = 1 / (1 + np.exp(-np.clip(z, -500, 500)))
        log_survival = -np.logaddexp(0, z)
        log_density = z + 2 * log_survival - np.log(scale)
        value = -np.sum(np.where(seen > 0, log_density, log_survival)) + np.sum(penalty * x[:-1] ** 2)
        slope = np.where(seen > 0, 1 - 2 * upper, -upper)  # of the log-likelihood in z
        by_constants = scaled.T @ slope / scale + 2 * penalty * x[:-1]
        by_scale = np.sum(slope * z + seen) * np.exp(x[-1]) / scale
        return float(value), np.append(by_constants, by_scale)

    start = np.linalg.lstsq(scaled, y, rcond=None)[0]
    spread_of_y = max(float(np.std(y - scaled @ start)), 10 * SMALLEST_SCALE)
    found = minimize(
        objective,
        np.append(start, np.log(spread_of_y / 2)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_STEPS},
    ).x
    constants = found[:-1] / spread
    constants[0] -= float(constants @ centre)
    return Logistic(constants, float(np.exp(found[-1]) + SMALLEST_SCALE))


def censored_quantile(
    values: np.ndarray, observed: np.ndarray, share: float, weights: np.ndarray | None = None
) -> float:
    """The Kaplan–Meier quantile of right-censored values; ∞ where more than 1 − share of them is censored.

    >>> import numpy as np
    >>> censored_quantile(np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, True]), 0.5)
    2.0
    """
    values = np.asarray(values, dtype=float)
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    order = np.lexsort((~np.asarray(observed), values))  # at ties, those that happened come first
    values, seen, weight = values[order], np.asarray(observed)[order], weight[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    left = np.cumprod(np.where(seen, 1 - weight / np.maximum(at_risk, 1e-300), 1.0))
    reached = seen & (left <= 1 - share + 1e-9)
    return float(values[reached.argmax()]) if reached.any() else np.inf
