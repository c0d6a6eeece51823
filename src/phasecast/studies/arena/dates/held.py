"""How is a forecast judged like a measurement? By the 95% interval that it gives on request."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from phasecast.core.results import Status
from phasecast.forecasting.result import Forecast
from phasecast.studies.arena.family import Outcome

COVERAGE = 0.95
"""Of the intervals: what ±2 errors of the other families hold."""


def judged(made: Forecast, outcome: float, words: str, scale: Callable[[float], float] = float) -> Outcome:
    """A forecast beside what happened, both on a scale (``math.log`` for steps).

    The error is the distance from the median to the end of the interval on the side of the outcome, in standard
    deviations of a normal distribution: it makes an interval of one side's length a distance of 1.96. A forecast that
    gives a lower bound and no median is counted as a warning, because less is said than was asked.
    """
    reasons = "; ".join(made.reasons)
    if made.status is Status.REFUSED:
        return Outcome(str(made.status), math.nan, math.nan, scale(outcome), words=words, reasons=reasons)
    low, high = scale(made.low), math.inf if made.high is None else scale(made.high)
    median = math.nan if math.isnan(made.value) else scale(float(made.value))
    sides = NormalDist().inv_cdf(0.5 + made.coverage / 2)
    error = (high - median if scale(outcome) > median else median - low) / sides
    status = "warning" if math.isnan(median) else str(made.status)
    return Outcome(status, median, error, scale(outcome), words=words, reasons=reasons, interval=(low, high))
