"""When will it grok? The step at which validation accuracy passes 50%, from the log of a training so far.

Three bases, and the forecast says which one spoke: the log alone (:mod:`.lone_log`), the log beside a bank of finished
runs, and both with the settings of the training. What none of them can answer is refused (:mod:`.refusals`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.forecasting import lone_log, refusals
from phasecast.forecasting.log import TrainingLog, read_log
from phasecast.forecasting.lone_log import LineForecast
from phasecast.forecasting.result import Forecast

LANDMARKS = 1.25  # ratio of the times since memorisation at which forecasts are made: ten per decade
FIRST_LANDMARK = 100.0  # steps after memorisation; earlier, no basis says more than the settings


def forecast(
    log: TrainingLog | str | Path,
    *,
    loss_at_50: float | None = None,
    classes: int | None = None,
    coverage: float = 0.8,
) -> Forecast:
    """The step at which validation accuracy passes 50%, with an interval; refused where it cannot be said.

    Parameters
    ----------
    log: a :class:`TrainingLog` or the path of a CSV file.
    loss_at_50: the validation loss at 50% accuracy; by default from the loss before training.
    coverage: the probability with which the interval holds the outcome.
    """
    log = log if isinstance(log, TrainingLog) else read_log(log)
    if loss_at_50 is not None and not loss_at_50 > 0:
        raise BadInput(f"loss_at_50 is {loss_at_50:g}", "give a positive loss")
    known = refusals.outcome_known(log) or refusals.not_memorised(log)
    if known:
        return Forecast.refused(known, made_at=log.last, coverage=coverage)
    line = _line(log, classes, loss_at_50, coverage)
    if isinstance(line, str):
        return Forecast.refused(line, made_at=log.last, coverage=coverage)
    return Forecast(
        line.median,
        f"the loss falls in a straight line to {line.target.meaning}",
        low=line.low,
        high=line.high,
        made_at=log.last,
        coverage=coverage,
    )


def _line(log: TrainingLog, classes: int | None, loss_at_50: float | None, coverage: float) -> LineForecast | str:
    """The forecast of the log alone, or why there is none."""
    target = lone_log.loss_target(log, classes, loss_at_50)
    if isinstance(target, str):
        return target
    line = lone_log.extrapolate(log, target, coverage)
    if not isinstance(line, str) and lone_log.recedes(log, target, line):
        return refusals.not_in_sight(line.median)
    return line


def landmarks(log: TrainingLog) -> Iterator[TrainingLog]:
    """The log as it was at fixed times after the training rows were memorised, and as it is."""
    train99 = lone_log.Landmarks.of(log).train99
    if train99 is not None:
        times = FIRST_LANDMARK * LANDMARKS ** np.arange(60)
        for time in times[train99 + times < log.last]:
            yield log.until(train99 + time)
    yield log


def with_earlier(newest: Forecast, earlier: Sequence[Forecast]) -> Forecast:
    """A forecast that draws those made before it."""
    return dataclasses.replace(newest, earlier=tuple(earlier))
