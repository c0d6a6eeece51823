"""Are WAIC and LOO right? Linear regression with known noise, where leaving out and new data have closed forms.

With prior N(0, s²) and unit noise the posterior is normal, without one observation too, and so is the predictive
density of a new observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.studies.arena.family import Family, Outcome, log_uniform


@dataclass(frozen=True)
class Regression:
    """n observations of d inputs with heavy or light tails, and how many draws there are of the posterior."""

    inputs: int
    n: int
    prior: float
    tails: float
    draws: int
    draw: int

    def __str__(self) -> str:
        return (
            f"regression on {self.inputs} inputs, n = {self.n}, prior sd {self.prior:g}, inputs t with {self.tails:g} "
            f"degrees of freedom, {self.draws} draws, drawn with {self.draw}"
        )

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs, outputs, and the weights that made them."""
        rng = np.random.default_rng(self.draw)
        x = rng.standard_t(self.tails, size=(self.n, self.inputs))
        weights = self.prior * rng.normal(size=self.inputs)
        return x, x @ weights + rng.normal(size=self.n), weights

    def posterior(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance."""
        covariance = np.linalg.inv(x.T @ x + np.eye(self.inputs) / self.prior**2)
        return covariance @ x.T @ y, covariance

    def left_out(self) -> float:
        """The leave-one-out loss, by fitting n times."""
        x, y, _ = self.data()
        losses = []
        for i in range(self.n):
            others = np.arange(self.n) != i
            mean, covariance = self.posterior(x[others], y[others])
            variance = 1 + x[i] @ covariance @ x[i]
            losses.append((y[i] - x[i] @ mean) ** 2 / variance / 2 + math.log(2 * math.pi * variance) / 2)
        return float(np.mean(losses))

    def log_likelihood(self, seed: int) -> np.ndarray:
        """At independent draws of the posterior: (draw, observation)."""
        x, y, _ = self.data()
        mean, covariance = self.posterior(x, y)
        draws = np.random.default_rng(seed).multivariate_normal(mean, covariance, size=self.draws)
        return -((y - draws @ x.T) ** 2) / 2 - math.log(2 * math.pi) / 2

    def new_data(self, count: int = 50_000) -> tuple[float, float]:
        """The expected loss on new data and its error, from many inputs; exact given the input."""
        x, y, weights = self.data()
        mean, covariance = self.posterior(x, y)
        new = np.random.default_rng([self.draw, 1]).standard_t(self.tails, size=(count, self.inputs))
        variance = 1 + np.einsum("ij,jk,ik->i", new, covariance, new)
        squares = 1 + (new @ (weights - mean)) ** 2
        losses = squares / variance / 2 + np.log(2 * math.pi * variance) / 2
        return float(losses.mean()), float(losses.std() / math.sqrt(count))


def regression(rng: np.random.Generator) -> Regression:
    """From comfortable to uncomfortable: up to ten inputs on as few as twenty observations."""
    return Regression(
        int(rng.integers(1, 11)),
        round(log_uniform(rng, 20, 300)),
        log_uniform(rng, 0.3, 3),
        float(rng.choice([3, 5, 30])),
        int(rng.choice([1000, 4000])),
        int(rng.integers(2**31)),
    )


def judge_left_out(problem: Regression, seed: int) -> Outcome:
    """PSIS-LOO with its error over draws, because the data are the same."""
    from phasecast.posterior import criteria

    answer = criteria(problem.log_likelihood(seed))
    reasons, error = "; ".join(answer.loo_reasons), answer.loo_draw_error
    return Outcome(str(answer.loo_status), answer.psis_loo, error, problem.left_out(), 0.0, str(problem), reasons)


def judge_new_data(problem: Regression, seed: int) -> Outcome:
    """WAIC with the error it reports, for the loss on new data."""
    from phasecast.posterior import criteria

    answer = criteria(problem.log_likelihood(seed))
    truth, width = problem.new_data()
    reasons = "; ".join(answer.waic_reasons)
    return Outcome(str(answer.waic_status), answer.waic, answer.error, truth, width, str(problem), reasons)


FAMILIES = (
    Family(
        "criteria-loo", "posterior.criteria, PSIS-LOO", "leaving out one by one", regression, judge_left_out, 200, 8
    ),
    Family(
        "criteria-waic", "posterior.criteria, WAIC", "expected loss on new data", regression, judge_new_data, 200, 8
    ),
)
