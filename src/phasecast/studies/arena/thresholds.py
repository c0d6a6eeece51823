"""Is the spectrum of the Hessian as δ*(t = 0) has it? Random targets, against Lanczos on simulated data.

δ* is where an eigenvalue leaves the bulk towards the hidden direction. Above it the eigenvalue and the overlap of its
vector are predicted, at d → ∞; simulations at d and 2d are extrapolated, because their means are off by a part of order
1/d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.studies.arena.family import Family, Outcome, log_uniform

DIMENSION = 300  # of simulated Hessians: seconds each
SEEDS = 16  # Hessians per problem: their mean is known to a quarter of their spread
LOWEST = 4  # eigenvalues that Lanczos computes


@dataclass(frozen=True)
class Hessian:
    """A target, a network of one unit, a multiple of δ*, and what is compared there."""

    target: str
    activation: str
    loss: str
    multiple: float
    compared: str

    def __str__(self) -> str:
        return (
            f"{self.compared} at {self.multiple:g} δ* for the target {self.target}, {self.activation}, {self.loss} loss"
        )


def hessian(rng: np.random.Generator) -> Hessian:
    """Even targets that grow with |z|, whose direction is hard for one unit, and smooth activations and losses."""
    a, b, c = (f"{rng.uniform(*ends):.2f}" for ends in ((1, 4), (0.5, 2), (2, 6)))
    forms = (f"{a}*z**2", f"minimum({a}*z**2, {c})", f"{a}*tanh({b}*z)**2", f"{a}*(1 - cos({b}*z))", f"{a}*abs(z)")
    target = str(rng.choice(forms))
    activation, loss = str(rng.choice(["gelu", "softplus", "swish"])), str(rng.choice(["pseudo-huber", "logcosh"]))
    compared = str(rng.choice(["outlier", "overlap²"]))
    return Hessian(target, activation, loss, log_uniform(rng, 1.8, 4), compared)


def judge(problem: Hessian, seed: int) -> Outcome:
    from phasecast import features

    answer = features.threshold(problem.target, problem.activation, problem.loss)
    reasons = "; ".join(answer.reasons)
    star = float(np.asarray(answer.estimate))
    if not (math.isfinite(star) and answer.status != "refused"):
        return Outcome(str(answer.status), math.nan, math.nan, math.nan, words=str(problem), reasons=reasons)
    delta = problem.multiple * star
    predicted = features.threshold(problem.target, problem.activation, problem.loss, delta=delta).spectrum
    key = "outlier" if problem.compared == "outlier" else "overlap2"
    value, width = predicted.get(key), predicted.get(f"{key}_error") or 0.0
    network = features.Network(problem.activation, problem.loss)
    means, errors = zip(*(simulated(network, problem, delta, d, seed) for d in (DIMENSION, 2 * DIMENSION)), strict=True)
    truth, truth_error = 2 * means[1] - means[0], math.hypot(2 * errors[1], errors[0])
    estimate = math.nan if value is None else float(value)
    words = f"{problem}, δ* = {star:.4g}"
    return Outcome(str(answer.status), estimate, float(width), truth, truth_error, words, reasons)


def simulated(network, problem: Hessian, delta: float, dimension: int, seed: int) -> tuple[float, float]:
    """Mean and error over draws: the eigenvalue whose vector is nearest to the hidden direction, or its overlap."""
    from phasecast import features

    values = []
    for number in range(SEEDS):
        data = features.draw_data(network, problem.target, delta, dimension, seed=seed % 2**20 + number)
        lowest = features.lowest_curvatures(data, data.theta, LOWEST)
        best = int(np.argmax(lowest.overlap2))
        values.append(float(lowest.values[best] if problem.compared == "outlier" else lowest.overlap2[best]))
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(SEEDS))


FAMILIES = (Family("threshold-start", "features.threshold at t = 0", "simulated Hessians", hessian, judge, 20, 1),)
