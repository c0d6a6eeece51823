"""How is a forecast judged like a measurement? By its interval, whose ends are some errors from the median."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from phasecast.core.results import Status
from phasecast.forecasting.result import Forecast
from phasecast.studies.arena.family import Outcome


def judged(made: Forecast, outcome: float, words: str, scale: Callable[[float], float] = float) -> Outcome:
    """A forecast beside what happened, both on a scale (``math.log`` for steps).

    The error is the distance from the median to the end of the interval on the side of the outcome, in standard
    deviations of a normal distribution: 1.28 of them for an interval of 80%. That of a lower bound is infinite above. A
    forecast that gives a lower bound and no median is counted as a warning, because less is said than was asked.
    """
    reasons = "; ".join(made.reasons)
    if made.status is Status.REFUSED:
        return Outcome(str(made.status), math.nan, math.nan, scale(outcome), words=words, reasons=reasons)
    low, high = scale(made.low), math.inf if made.high is None else scale(made.high)
    if math.isnan(made.value):
        return Outcome("warning", math.nan, math.nan, scale(outcome), 0.0, words, reasons, (low, high))
    median, sides = scale(float(made.value)), NormalDist().inv_cdf(0.5 + made.coverage / 2)
    error = (high - median if scale(outcome) > median else median - low) / sides
    return Outcome(str(made.status), median, error, scale(outcome), words=words, reasons=reasons)
