"""What does a log say by itself? The validation loss, after it has turned, on its way to its value at 50% accuracy.

A network that memorises first lets its validation loss rise, and then fall while it learns the rule. With the centred
squared loss it falls almost straight in steps and is back near L(0), its first value, when half of the held-out
rows are right; with cross-entropy it falls straight in log loss, to about 1.83 nats:

.. math:: L(t) = a - bt \\to L(0), \\qquad \\ln L(t) = a - bt \\to \\ln 1.83 .

The line goes through the later half of the time since the training rows were memorised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from phasecast.core.policy import Policy, rule
from phasecast.forecasting.log import TrainingLog
from phasecast.grokking.analysis.curves import POLICY as LEVELS
from phasecast.grokking.analysis.curves import first_step_at


@dataclass(frozen=True)
class LinePolicy(Policy):
    """When a line through the loss is defended, and how wide its interval is."""

    window: float = rule(0.5, "the later half of the time since memorisation; an earlier part still bends")
    fewest_points: int = rule(4, "two more than a line has parameters")
    least_progress: float = rule(
        0.38,
        "of the way from the highest loss to its value at 50%; with a tenth of the wait over the loss of no run of the "
        "bank has come further than 0.35 (explored; none of the fresh moduli either)",
    )
    progress: tuple[float, ...] = rule(
        (0.38, 0.5, 0.65, 0.8, 0.95), "how far the loss has come where the residuals below were taken"
    )
    median: tuple[float, ...] = rule(
        (-0.031, -0.068, -0.082, -0.029, -0.016),
        "median of ln(outcome/line) over the 385 runs of the shipped bank, each of weight one: the line bends "
        "(benchmarks/forecast_scores.py computes these three rows, also with a modulus left out)",
    )
    below: tuple[float, ...] = rule((0.229, 0.214, 0.205, 0.147, 0.079), "tenth percentile of the same, and 0.02")
    above: tuple[float, ...] = rule(
        (0.169, 0.109, 0.065, 0.065, 0.022),
        "ninetieth percentile, and 0.03; runs that had not generalised after 8000 steps count as later than any line",
    )
    slowing: float = rule(
        0.8,
        "slope in the last quarter of the time since memorisation over that in the quarter before: below, a straight "
        "line comes too early. Explored: 12 of the 13 runs of the bank that had a wrong date at a quarter of the wait",
    )
    bend_errors: float = rule(2.0, "standard errors: a bend that noise of the log would show in one line of 40 is none")
    turned: float = rule(
        0.35, "of the time since memorisation: the loss turns after 5 to 9% of the wait, so it is later"
    )
    classes: tuple[float, float] = rule((11, 34), "numbers of classes to which the next row is extrapolated")
    share_at_half: tuple[float, float] = rule(
        (0.766, 0.00869), "L(val50)/L(0) over the number of classes: a line through the medians of five moduli"
    )
    nats_at_half: float = rule(1.83, "cross-entropy at 50% accuracy, p = 23 and 29, coefficient of variation 6%")
    cross_entropy: tuple[float, float] = rule(
        (math.log(5), math.log(1000)), "ln(classes): the loss before training of 5 to 1000 classes"
    )
    squared: float = rule(1.05, "(1 − 1/classes) is the largest convention of the squared loss before training")
    shortest_step: float = rule(
        0.02, "of the time since memorisation: a line already at its end says 'next', not 'past'"
    )
    recedes: float = rule(
        0.9, "of the time that passes: a date that moves away as fast as time passes is not approached"
    )
    look_back: float = rule(0.7, "of the time since memorisation: when the date was computed before")
    settled: float = rule(0.55, "progress from which dates that move away mean something; before, the line still bends")


POLICY = LinePolicy()
WAITING = "forecast again later, or give the settings of the training (--set)"
SLOWING = f"the validation loss falls more slowly than before, so that a line through it comes too early; {WAITING}"
CALIBRATED = 0.8  # the coverage at which the percentiles of the policy were taken


@dataclass(frozen=True)
class Landmarks:
    """What has happened in a log so far; None for what has not."""

    train99: float | None
    val50: float | None

    @classmethod
    def of(cls, log: TrainingLog) -> Landmarks:
        return cls(
            first_step_at(log.step, log.train_accuracy, LEVELS.memorised),
            first_step_at(log.step, log.validation_accuracy, LEVELS.half),
        )


@dataclass(frozen=True)
class LossTarget:
    """The loss at which half of the held-out rows are right, and in which scale the loss falls straight."""

    level: float
    logarithmic: bool
    meaning: str


@dataclass(frozen=True)
class LineForecast:
    """Where the line reaches its target: the median, an interval, and how far the loss has come (0 to 1).

    Where the loss is ``slowing``, the line comes too early and is not to be shown.
    """

    median: float
    low: float
    high: float
    progress: float
    target: LossTarget
    slowing: bool


def loss_target(log: TrainingLog, classes: int | None = None, loss_at_50: float | None = None) -> LossTarget | str:
    """The loss at 50% accuracy, from the loss before training; a reason where it cannot be known."""
    first = float(log.validation_loss[0])
    starts = log.step[0] <= max(log.spacing, 1.0) and log.train_accuracy[0] < LEVELS.half
    cross_entropy = _near(first, math.log(classes)) if classes else POLICY.cross_entropy[0] <= first
    cross_entropy = cross_entropy and first <= POLICY.cross_entropy[1]
    if loss_at_50 is not None:
        return LossTarget(loss_at_50, starts and cross_entropy, "the loss that was given for 50%")
    if not starts:
        return (
            f"the log starts at step {log.step[0]:g} with training accuracy {log.train_accuracy[0]:.2f}, so the loss "
            "before training is unknown; log step 0, or give the loss at 50% accuracy (--loss-at-50)"
        )
    if cross_entropy:
        return LossTarget(POLICY.nats_at_half, True, f"{POLICY.nats_at_half:g} nats, the cross-entropy at 50%")
    if first <= POLICY.squared:
        share = share_at_half(classes or _classes(first)) if first < 0.5 else 1.0
        return LossTarget(first * float(share), False, f"{share:.2f} of the loss before training")
    return (
        f"the loss before training, {first:.3g}, is neither that of a squared loss (at most 1) nor the logarithm of "
        "the number of classes; give the loss at 50% accuracy (--loss-at-50)"
    )


def share_at_half(classes: float) -> float:
    """L(val50)/L(0) of the centred squared loss."""
    height, slope = POLICY.share_at_half
    return height + slope * float(np.clip(classes, *POLICY.classes))


def _classes(first: float) -> float:
    """The number of classes p from the centred squared loss before training, ½(1 − 1/p)."""
    return 1 / (1 - 2 * first)


class OutOfSight(str):
    """A reason against any date, so that a bank is not asked either."""


def extrapolate_loss(log: TrainingLog, target: LossTarget, coverage: float) -> LineForecast | str:
    """The line through the falling loss; a reason where it has not turned or stopped falling."""
    train99 = Landmarks.of(log).train99
    if train99 is None:
        return "the training rows are not memorised yet; forecast again when training accuracy passes 99%"
    scale = np.log if target.logarithmic else np.asarray
    if target.level <= 0 or (target.logarithmic and log.validation_loss.min() <= 0):
        return "the validation loss is not positive; give a loss above 0"
    now, elapsed = log.last, log.last - train99
    after = log.step >= train99
    step, loss, end = log.step[after], scale(log.validation_loss[after]), float(scale(np.asarray(target.level)))
    if after.sum() < 2 * POLICY.fewest_points:
        return f"only {int(after.sum())} rows since the training rows were memorised; {WAITING}, or log more often"
    peak = int(np.argmax(loss))
    begin = now - POLICY.window * elapsed
    if step[peak] > train99 + POLICY.turned * elapsed:
        return f"the validation loss has not turned: it was highest at step {step[peak]:g}; {WAITING}"
    progress = float((loss[peak] - np.median(loss[-3:])) / (loss[peak] - end)) if loss[peak] > end else 1.0
    if progress < POLICY.least_progress:
        return f"the validation loss has turned but has come only {max(progress, 0):.0%} of its way; {WAITING}"
    rows = step >= begin
    slope, height = np.polyfit(step[rows] - now, loss[rows], 1)
    if slope >= 0:
        return OutOfSight(
            "the validation loss stopped falling: 50% is not in sight; use more training rows or more weight decay"
        )
    shortest = now + max(POLICY.shortest_step * elapsed, log.spacing / 2)
    crossing = max(now + (end - height) / slope, shortest)
    shift, below, above = (
        np.interp(progress, POLICY.progress, table) for table in (POLICY.median, POLICY.below, POLICY.above)
    )
    wider = _sigmas(coverage) / _sigmas(CALIBRATED)
    median = max(crossing * math.exp(shift), shortest)
    low = max(now, crossing * math.exp(shift - (shift + below) * wider))
    high = max(crossing * math.exp(shift + (above - shift) * wider), median + log.spacing)
    slowing = _slows(step[rows] - now, loss[rows], POLICY.window * elapsed)
    return LineForecast(float(median), float(min(low, median)), float(high), min(progress, 1.0), target, slowing)


def _slows(step: np.ndarray, loss: np.ndarray, window: float) -> bool:
    """Whether a parabola through the window bends up, beyond its noise, to less than the share ``slowing``."""
    if len(step) <= POLICY.fewest_points:
        return False
    (bend, slope, _), covariance = np.polyfit(step / window, loss, 2, cov=True)
    later, earlier = slope - bend / 2, slope - 3 * bend / 2  # in the middle of the two halves of the window
    return later > POLICY.slowing * earlier and bend > POLICY.bend_errors * math.sqrt(covariance[0, 0])


def recedes(log: TrainingLog, target: LossTarget, newest: LineForecast) -> bool:
    """Whether the date moves away about as fast as time passes."""
    train99 = Landmarks.of(log).train99
    if train99 is None or newest.progress < POLICY.settled:
        return False
    before = train99 + POLICY.look_back * (log.last - train99)
    earlier = extrapolate_loss(log.until(before), target, coverage=0.8)
    return isinstance(earlier, LineForecast) and newest.median - earlier.median >= POLICY.recedes * (log.last - before)


def _near(value: float, expected: float) -> bool:
    return abs(math.log(value / expected)) < math.log(1.25) if value > 0 else False


def _sigmas(coverage: float) -> float:
    return NormalDist().inv_cdf(0.5 + coverage / 2)
