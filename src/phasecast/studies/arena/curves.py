"""Is a transition found when there is one, at the right time, and not when there is none? Random training curves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.studies.arena.family import Family, Outcome
from phasecast.studies.arena.transitions import KINDS, Curve, with_transition, without_transition


@dataclass(frozen=True)
class Observed:
    """A curve as somebody has it."""

    curve: Curve

    def __str__(self) -> str:
        steps = self.curve.steps
        return f"{self.curve.kind}, {len(steps)} points from {steps[0]:.4g} to {steps[-1]:.4g}"


def changing(rng: np.random.Generator) -> Observed:
    """With a transition."""
    return Observed(with_transition(rng))


def unchanging(rng: np.random.Generator) -> Observed:
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
    Family("transition-found", "transition of a curve", "where the curve has it", changing, judge, 40, 4),
    Family(
        "transition-none",
        "transition of a curve",
        "the curve has none",
        unchanging,
        judge,
        40,
        4,
        refusing="the curve has no transition",
    ),
)
