"""What is a family? A generator of random problems, and a judge that asks the product and knows the answer otherwise.

Problem k of a family is drawn from a random stream named by the seed, the family and k: it does not depend on how many
problems are drawn, nor on the other families.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phasecast.core.results import Measurement, Prediction

STATUSES = ("ok", "warning", "refused", "failed", "skipped")
"""What became of a problem: ``failed`` raised an exception, ``skipped`` needs an extra that is not installed."""

WITHIN = 2.0  # errors that hold in 95% of all cases, if the error is that of a normal distribution
WRONG = 4.0  # errors: beyond, with status ok, is wrong; by chance once in 16,000


@dataclass(frozen=True)
class Outcome:
    """What the product said of one problem, and what is true.

    Parameters
    ----------
    status: one of :data:`STATUSES`.
    estimate, error: the answer of the product and its standard error.
    truth, truth_error: the answer by another route; NaN where the only right answer is not to give one.
    words: the problem in words.
    interval: ends of a 95% interval where that is the product's primary answer; coverage then counts it.
    """

    status: str
    estimate: float
    error: float
    truth: float
    truth_error: float = 0.0
    words: str = ""
    reasons: str = ""
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, answer: Measurement, truth: float | Measurement | Prediction, words: str) -> Outcome:
        """The outcome of a measured number; the truth may have an error of its own."""
        known, width = truth, 0.0
        if isinstance(truth, Measurement):
            known, width = truth.estimate, truth.error
        elif isinstance(truth, Prediction):
            known, width = truth.value, truth.systematic
        return cls(
            str(answer.status),
            float(answer.estimate),
            float(answer.error),
            float(known),
            float(width),
            words,
            "; ".join(answer.reasons),
        )

    @property
    def distance(self) -> float:
        """Estimate minus truth in combined errors; infinite where an answer is given and there is none."""
        if self.status in ("failed", "skipped", "refused") and not math.isfinite(self.estimate):
            return math.nan
        if math.isnan(self.truth):
            return math.inf if self.status in ("ok", "warning") else math.nan
        apart, combined = self.estimate - self.truth, math.hypot(self.error, self.truth_error)
        if apart == 0:
            return 0.0
        return apart / combined if combined else math.copysign(math.inf, apart)

    @property
    def covered(self) -> bool:
        """Whether the truth is in the interval, or within two combined errors."""
        if self.interval is not None and not math.isnan(self.truth):
            slack = WITHIN * self.truth_error
            return self.interval[0] - slack <= self.truth <= self.interval[1] + slack
        return abs(self.distance) <= WITHIN

    @property
    def wrong(self) -> bool:
        """Wrong and ok: the number is defended, and it is not the truth."""
        return self.status == "ok" and not abs(self.distance) <= WRONG


@dataclass(frozen=True)
class Family:
    """Random problems of one kind.

    Parameters
    ----------
    name: the area and the kind, joined by hyphens.
    judged: the call whose answers are judged.
    truth: where the right answer comes from.
    problem: ``problem(rng)`` draws a problem; pure.
    judge: ``judge(problem, seed)`` asks the product and knows the answer.
    full, quick: how many problems are drawn.
    refusing: why a warning or a refusal is the right answer here; empty where an ok answer is expected.
    exact: whether answers have no error: they are equal to the truth or not.
    """

    name: str
    judged: str
    truth: str
    problem: Callable[[np.random.Generator], Any]
    judge: Callable[[Any, int], Outcome]
    full: int
    quick: int
    refusing: str = ""
    exact: bool = False

    @property
    def area(self) -> str:
        """The first word of the name."""
        return self.name.partition("-")[0]

    def outcome(self, seed: int, number: int) -> Outcome:
        """Draw problem ``number`` of a seed and judge the product on it; an exception is an outcome, too."""
        from phasecast.core.errors import MissingExtra

        words = ""
        try:
            problem = self.problem(stream(seed, self.name, number))
            words = str(problem)
            sampling = int(stream(seed, self.name, number, "sampling").integers(2**31))
            outcome = self.judge(problem, sampling)
            return outcome if outcome.words else replace(outcome, words=words)
        except MissingExtra as missing:
            return Outcome("skipped", math.nan, math.nan, math.nan, words=words, reasons=str(missing))
        except Exception as error:  # a failure of the product is data, and must not end the run
            said = f"{type(error).__name__}: {error}"
            return Outcome("failed", math.nan, math.nan, math.nan, words=words, reasons=" ".join(said.split()))


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The random numbers of a name: independent of those of every other name.

    >>> bool(stream(1, "llc-bowls", 0).random() == stream(1, "llc-bowls", 0).random())
    True
    """
    key = tuple(name if isinstance(name, int) else zlib.crc32(name.encode()) for name in names)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is uniform, to three digits: so that words can say it."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")
