"""Is the spectrum of the Hessian as δ*(t) has it? Random targets, against Lanczos on simulated data.

δ* is where an eigenvalue leaves the bulk towards the hidden direction. Above it the eigenvalue and the overlap of its
vector are predicted, at d → ∞; simulations at d and 2d are extrapolated, because their means are off by a part of order
1/d. At t > 0 the simulation is gradient descent of t steps, then Lanczos at the weights where it ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from phasecast.core.statistics import student_error
from phasecast.studies.arena.family import Family, Outcome, log_uniform

if TYPE_CHECKING:
    from phasecast.features import Threshold

DIMENSION = 300  # of simulated Hessians: seconds each
SEEDS = 16  # Hessians per problem and dimension: their mean is known to a quarter of their spread
SEEDS_LATER = (12, 48)  # after descent, fewest and most; within, as many as take about ten seconds
EXAMPLES_LATER = 160  # Hessians times δ, which is what they cost
QUICK = {"seeds": 2, "samples": 4000}  # of a search that only places δ: δ* to a few percent in a second
LOWEST = 4  # eigenvalues that Lanczos computes
LONGEST = 20  # steps: the time of the mean-field equations grows like their cube, and is some seconds here


@dataclass(frozen=True)
class Hessian:
    """A target, a network of one unit, a multiple of δ*, what is compared there, and after how many steps."""

    target: str
    activation: str
    loss: str
    multiple: float
    compared: str
    time: int = 0
    lr: float = 0.5

    def __str__(self) -> str:
        later = f" after {self.time} steps of η = {self.lr:g}" if self.time else ""
        return (
            f"{self.compared} at {self.multiple:g} δ*{later} for the target {self.target}, {self.activation}, "
            f"{self.loss} loss"
        )


def hessian(rng: np.random.Generator) -> Hessian:
    """Even targets that grow with |z|, whose direction is hard for one unit, and smooth activations and losses."""
    a, b, c = (f"{rng.uniform(*ends):.2f}" for ends in ((1, 4), (0.5, 2), (2, 6)))
    forms = (f"{a}*z**2", f"minimum({a}*z**2, {c})", f"{a}*tanh({b}*z)**2", f"{a}*(1 - cos({b}*z))", f"{a}*abs(z)")
    target = str(rng.choice(forms))
    activation, loss = str(rng.choice(["gelu", "softplus", "swish"])), str(rng.choice(["pseudo-huber", "logcosh"]))
    compared = str(rng.choice(["outlier", "overlap²"]))
    return Hessian(target, activation, loss, log_uniform(rng, 1.8, 4), compared)


def later_hessian(rng: np.random.Generator) -> Hessian:
    """The same after a few steps; every second target also has an easy direction, which descent follows."""
    start = hessian(rng)
    easy = str(rng.choice(["{0}*z1", "{0}*tanh(z1)"])).format(f"{rng.uniform(0.5, 2):.2f}")
    target = f"{easy} + {start.target.replace('z', 'z2')}" if rng.random() < 0.5 else start.target
    time = math.floor(math.exp(rng.uniform(math.log(2), math.log(LONGEST + 1))))
    return replace(start, target=target, time=time, lr=log_uniform(rng, 0.2, 1))


def judge(problem: Hessian, seed: int) -> Outcome:
    """δ is a multiple of δ*(0) inside the first interval, where the answer is exact up to its quadrature."""
    search = threshold_of(problem)
    if not search.intervals:
        return unanswered(problem, search)
    star, end = search.intervals[0]
    delta = min(problem.multiple * star, math.sqrt(star * end))
    return compared(problem, threshold_of(problem, delta=delta), delta, seed, SEEDS, f"{problem}, δ = {delta:.4g}")


def judge_later(problem: Hessian, seed: int) -> Outcome:
    """A quick search places δ inside the first interval; the answer there is that of a call with the defaults."""
    search = threshold_of(problem, **QUICK)
    if not search.intervals:  # few samples may miss what the defaults find
        search = threshold_of(problem)
    if not search.intervals:
        return unanswered(problem, search)
    star, end = search.intervals[0]
    delta = round(min(problem.multiple * star, math.sqrt(star * end)), 2)  # so that δd is whole
    draws = int(np.clip(EXAMPLES_LATER / delta, *SEEDS_LATER))
    return compared(problem, threshold_of(problem, delta=delta), delta, seed, draws, f"{problem}, δ = {delta:g}")


def threshold_of(problem: Hessian, **settings) -> Threshold:
    """What the product says of δ*(t), and of the spectrum where ``delta`` is among the settings."""
    from phasecast import features

    return features.threshold(
        problem.target, problem.activation, problem.loss, lr=problem.lr, time=problem.time, progress=False, **settings
    )


def unanswered(problem: Hessian, search: Threshold) -> Outcome:
    """No threshold was found, so that there is no spectrum to compare."""
    reasons = "; ".join(search.reasons)
    return Outcome(str(search.status), math.nan, math.nan, math.nan, words=str(problem), reasons=reasons)


def compared(problem: Hessian, answer: Threshold, delta: float, seed: int, draws: int, words: str) -> Outcome:
    """The outlier or the overlap of an answer, beside simulations at its δ."""
    key = "outlier" if problem.compared == "outlier" else "overlap2"
    value, width = answer.spectrum.get(key), answer.spectrum.get(f"{key}_error") or 0.0
    truth, truth_error = extrapolated(problem, delta, seed, draws)
    estimate = math.nan if value is None else float(value)
    return Outcome(str(answer.status), estimate, float(width), truth, truth_error, words, "; ".join(answer.reasons))


def extrapolated(problem: Hessian, delta: float, seed: int, draws: int) -> tuple[float, float]:
    """The simulated mean at d → ∞ and its error, from d and 2d: what is of order 1/d cancels."""
    from phasecast import features

    network = features.Network(problem.activation, problem.loss)
    means, errors = zip(
        *(simulated(network, problem, delta, d, seed, draws) for d in (DIMENSION, 2 * DIMENSION)), strict=True
    )
    return 2 * means[1] - means[0], math.hypot(2 * errors[1], errors[0])


def simulated(network, problem: Hessian, delta: float, dimension: int, seed: int, draws: int) -> tuple[float, float]:
    """Mean and error over draws: the eigenvalue whose vector is nearest to the hidden direction, or its overlap."""
    from phasecast import features

    values = []
    for number in range(draws):
        data = features.draw_data(network, problem.target, delta, dimension, seed=seed % 2**20 + number)
        lowest = features.lowest_curvatures(data, weights(data, problem), LOWEST)
        best = int(np.argmax(lowest.overlap2))
        values.append(float(lowest.values[best] if problem.compared == "outlier" else lowest.overlap2[best]))
    return float(np.mean(values)), student_error(values)


def weights(data, problem: Hessian) -> np.ndarray:
    """Where descent is after the steps of the problem."""
    from phasecast import features

    if not problem.time:
        return data.theta
    return features.descend(data, problem.lr, problem.time, record=[problem.time]).theta


FAMILIES = (
    Family(
        "threshold-later", "features.threshold at t = 2 to 20", "Hessians after simulated descent", later_hessian,
        judge_later, 12, 1,
    ),
    Family("threshold-start", "features.threshold at t = 0", "simulated Hessians", hessian, judge, 20, 1),
)  # fmt: skip
