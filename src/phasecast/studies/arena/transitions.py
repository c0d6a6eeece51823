"""Random training curves with a transition at a known time, and random curves without one.

A transition leads from one level to another: from a tenth to nine tenths of the change takes at most a fifth of the
window, in time or in log time, and at most a factor of five in time; each level is seen for at least that long and at
four points or more. Its time is that of half the change. Curves without one drift, relax, bend, oscillate, wander, or
end before the change is over. What lies between the two definitions, such as a change over a third of the window, is in
neither set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from phasecast.studies.arena.family import Family, Outcome

FEWEST, MOST = 30, 300  # points of a curve
SCATTER = (1 / 100, 1 / 5)  # standard deviation of the noise, in units of the whole change
LONGEST = 0.2  # of the window: the longest transition from a tenth to nine tenths
FACTOR = 5.0  # largest ratio of the times of nine tenths and of one tenth
SEEN = 4  # points on each level
DRIFT = 0.1  # largest drift of the levels over the window, in units of the change

NOISES = ("white", "correlated", "heavy tails", "growing", "counts")
SAMPLINGS = ("even in time", "even in log time", "uneven in time", "uneven in log time")


class Curve(NamedTuple):
    """``steps`` and ``values`` of a curve; ``truth`` is the time of its transition, NaN if it has none; ``kind`` in
    words."""

    steps: np.ndarray
    values: np.ndarray
    truth: float
    kind: str


def with_transition(rng: Generator) -> Curve:
    """A curve with one transition, up or down, of random shape, width, height, noise, sampling and window."""
    while True:
        steps = _steps(rng)
        logarithmic = bool(rng.integers(2))
        name = rng.choice(list(SHAPES))
        axis = np.log(steps) if logarithmic else steps
        span = axis[-1] - axis[0]
        longest = min(LONGEST, math.log(FACTOR) / span) if logarithmic else LONGEST
        width = span * 10 ** rng.uniform(-3, math.log10(longest))
        place = axis[0] + span * rng.uniform(0.15, 0.85)
        rise = SHAPES[name]((axis - place) / width)
        begin, end = place - width / 2, place + width / 2
        seen = min(np.sum(axis < begin), np.sum(axis > end)) >= SEEN
        if seen and min(begin - axis[0], axis[-1] - end) >= width and (logarithmic or end < FACTOR * begin):
            break
    noise = rng.choice(NOISES)
    if rng.random() < 0.25:
        rise = rise + rng.uniform(0, DRIFT) * (axis - axis[0]) / span
    kind = f"{name} in {'log ' if logarithmic else ''}time, {noise} noise"
    return Curve(steps, _noisy(rng, rise, noise), float(math.exp(place) if logarithmic else place), kind)


def without_transition(rng: Generator, kind: str) -> Curve:
    """A curve of one of :data:`KINDS`, with random parameters, noise, sampling and window."""
    steps = _steps(rng)
    values = _noisy(rng, KINDS[kind](rng, steps), rng.choice(NOISES))
    return Curve(steps, values, math.nan, kind)


def _steps(rng: Generator) -> np.ndarray:
    points = round(math.exp(rng.uniform(math.log(FEWEST), math.log(MOST))))
    first = 10 ** rng.uniform(0, 2)
    last = first * 10 ** rng.uniform(1, 4)
    sampling = rng.choice(SAMPLINGS)
    share = np.linspace(0, 1, points)
    if sampling.startswith("uneven"):
        share[1:-1] = np.sort(rng.uniform(size=points - 2))
    return first * (last / first) ** share if "log" in sampling else first + (last - first) * share


def _logistic(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(x * math.log(9)))


def _normal(x: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    return ndtr(2.5631 * x)  # 2 × 1.2816, the quantile of nine tenths


def _ramp(x: np.ndarray) -> np.ndarray:
    return np.clip(0.5 + 0.8 * x, 0, 1)


def _early(x: np.ndarray) -> np.ndarray:
    """Gompertz's curve: it starts at once and settles slowly. Its tenths are not quite symmetric around its half."""
    return np.exp(-math.log(2) * np.exp(-3.0844 * np.maximum(x, -200)))  # log(log 10 / log(10/9))


def _late(x: np.ndarray) -> np.ndarray:
    return 1 - _early(-x)


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logistic": _logistic,
    "normal": _normal,
    "ramp": _ramp,
    "early": _early,
    "late": _late,
    "step": lambda x: 1.0 * (x > 0),
}
"""Changes from 0 to 1, half at 0, from a tenth to nine tenths over a length of one."""


def _noisy(rng: Generator, rise: np.ndarray, noise: str) -> np.ndarray:
    """A curve of random height and level with noise in proportion to its height."""
    scatter = math.exp(rng.uniform(*np.log(SCATTER)))
    if noise == "counts":
        return _counted(rng, rise, scatter)
    points = len(rise)
    unit = rng.standard_t(4, size=points) / math.sqrt(2) if noise == "heavy tails" else rng.standard_normal(points)
    if noise == "correlated":
        memory = rng.uniform(0.3, 0.8)
        for i in range(1, points):
            unit[i] = memory * unit[i - 1] + math.sqrt(1 - memory**2) * unit[i]
    elif noise == "growing":
        size = np.linspace(1, 3, points)[:: rng.choice([-1, 1])]
        unit = unit * size / np.sqrt(np.mean(size**2))
    height = 10 ** rng.uniform(-2, 3) * rng.choice([-1, 1])
    return height * (rng.uniform(-3, 3) + rise + scatter * unit)


def _counted(rng: Generator, rise: np.ndarray, scatter: float) -> np.ndarray:
    """An accuracy: the share of right answers to a finite number of questions."""
    low, high = sorted(rng.uniform(0, 1, size=2))
    low, high = min(low, 0.9), max(high, low + 0.1)
    share = low + (high - low) * (rise - rise.min()) / max(np.ptp(rise), 1e-12)
    if rng.integers(2):
        share = low + high - share
    share = np.clip(share, 0, 1)
    questions = max(2, round(0.25 / (scatter * (high - low)) ** 2))
    return rng.binomial(questions, share) / questions


def _window(rng: Generator, steps: np.ndarray) -> np.ndarray:
    """Time, or log time, from 0 to 1 over the window."""
    axis = np.log(steps) if rng.integers(2) else steps
    return (axis - axis[0]) / (axis[-1] - axis[0])


def _constant(rng: Generator, steps: np.ndarray) -> np.ndarray:
    return np.zeros_like(steps)


def _linear(rng: Generator, steps: np.ndarray) -> np.ndarray:
    return _window(rng, steps)


def _power(rng: Generator, steps: np.ndarray) -> np.ndarray:
    return (steps / steps[-1]) ** math.exp(rng.uniform(math.log(0.2), math.log(6)))


def _decay(rng: Generator, steps: np.ndarray) -> np.ndarray:
    curve = (1 + steps / (steps[-1] * 10 ** rng.uniform(-3, 0))) ** -rng.uniform(0.3, 3)
    return (curve - curve[-1]) / np.ptp(curve)


def _relaxation(rng: Generator, steps: np.ndarray) -> np.ndarray:
    curve = np.exp(-(steps - steps[0] * rng.integers(2)) / (steps[-1] * 10 ** rng.uniform(-2, 0.3)))
    return (curve - curve[-1]) / np.ptp(curve)


def _growth(rng: Generator, steps: np.ndarray) -> np.ndarray:
    return np.exp((steps - steps[-1]) / (steps[-1] * 10 ** rng.uniform(-1.3, 0.3)))


def _slow_logistic(rng: Generator, steps: np.ndarray) -> np.ndarray:
    """From a tenth to nine tenths over half of the window or more."""
    return _logistic((_window(rng, steps) - rng.uniform(0.2, 0.8)) / rng.uniform(0.5, 2))


def _bent(rng: Generator, steps: np.ndarray) -> np.ndarray:
    """Two straight pieces, of which one may be flat."""
    share, knot = _window(rng, steps), rng.uniform(0.15, 0.85)
    one, other = rng.choice([0.0, 1.0, rng.uniform(-1, 1)]), rng.choice([1.0, 2.0, 4.0])
    if rng.integers(2):
        one, other = other, one
    curve = one * np.minimum(share, knot) + other * np.maximum(share - knot, 0)
    return curve / max(np.ptp(curve), 1e-12)


def _oscillation(rng: Generator, steps: np.ndarray) -> np.ndarray:
    share = _window(rng, steps)
    phase, periods = rng.uniform(0, 2 * math.pi), math.exp(rng.uniform(math.log(0.5), math.log(6)))
    return 0.5 * np.exp(-rng.uniform(0, 2) * share) * np.cos(2 * math.pi * periods * share + phase)


def _random_walk(rng: Generator, steps: np.ndarray) -> np.ndarray:
    walk = np.cumsum(rng.standard_normal(len(steps)))
    return walk / np.ptp(walk)


def _strong_memory(rng: Generator, steps: np.ndarray) -> np.ndarray:
    memory, curve = rng.uniform(0.8, 0.97), rng.standard_normal(len(steps))
    for i in range(1, len(curve)):
        curve[i] = memory * curve[i - 1] + math.sqrt(1 - memory**2) * curve[i]
    return curve / np.ptp(curve)


def _censored(rng: Generator, steps: np.ndarray) -> np.ndarray:
    """A step that is not over at the end of the window, or had begun before it."""
    share, width = _window(rng, steps), 10 ** rng.uniform(-2, math.log10(0.5))
    place = 1 + width * rng.uniform(-0.4, 0.6)
    return _logistic((share - (place if rng.integers(2) else 1 - place)) / width)


KINDS: dict[str, Callable[[Generator, np.ndarray], np.ndarray]] = {
    "constant": _constant,
    "linear drift": _linear,
    "power law": _power,
    "power-law decay": _decay,
    "relaxation": _relaxation,
    "exponential growth": _growth,
    "slow logistic": _slow_logistic,
    "broken line": _bent,
    "oscillation": _oscillation,
    "random walk": _random_walk,
    "strong memory": _strong_memory,
    "censored step": _censored,
}
"""Curves without a transition, of height about one, by name."""


@dataclass(frozen=True)
class Observed:
    """A curve as somebody has it."""

    curve: Curve

    def __str__(self) -> str:
        steps = self.curve.steps
        return f"{self.curve.kind}, {len(steps)} points from {steps[0]:.4g} to {steps[-1]:.4g}"


def changing(rng: Generator) -> Observed:
    """With a transition."""
    return Observed(with_transition(rng))


def unchanging(rng: Generator) -> Observed:
    """Without one, of any kind."""
    return Observed(without_transition(rng, str(rng.choice(list(KINDS)))))


def judge(problem: Observed, seed: int) -> Outcome:
    """The interval is the answer; an answer for a curve without a transition is wrong."""
    from phasecast.grokking.analysis.transition import transition

    curve = problem.curve
    answer = transition(curve.steps, curve.values, seed=seed)
    interval = None if math.isnan(answer.low) else (float(answer.low), float(answer.high))
    return Outcome(
        str(answer.status),
        float(answer.estimate),
        float(answer.error),
        curve.truth,
        words=str(problem),
        reasons="; ".join(answer.reasons),
        interval=interval,
    )


FAMILIES = (
    Family("transition-found", "transition of a curve", "where the curve has it", changing, judge, 100, 4),
    Family(
        "transition-none",
        "transition of a curve",
        "the curve has none",
        unchanging,
        judge,
        100,
        4,
        refusing="the curve has no transition",
    ),
)
