"""How do forecasts of one training look? A fan over the time at which they were made, closing on the outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from phasecast.core.results import Status
from phasecast.figures.style import styled
from phasecast.forecasting.result import Forecast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from phasecast.figures.drawing import Drawing

HEADROOM = 1.6  # of the highest median or outcome: intervals that reach further leave the axes


@styled
def fan(forecasts: Sequence[Forecast], outcome: float | None = None, until: float | None = None) -> Drawing:
    """Medians and intervals over the step at which they were made, with the outcome or the end of the training.

    Forecasts before step 0 are drawn at 0. An arrow is a lower bound, a hollow mark on the axis a refusal.
    """
    from phasecast.figures.drawing import COLOURS, EXACT, blank, legend

    figure, ((axes,),) = blank(width=6.4, height=4.0)
    made = [one for one in forecasts if one.status is not Status.REFUSED]
    refused = [_at(one) for one in forecasts if one.status is Status.REFUSED]
    last = max([_at(one) for one in forecasts] + [value for value in (outcome, until) if value is not None])
    tops = [one.low if math.isnan(one.value) else one.value for one in made]
    tops += [value for value in (outcome, until, last) if value is not None]
    top = HEADROOM * max([*tops, 1.0])
    _intervals(axes, made, top)
    if refused:
        axes.plot(refused, [0.02 * top] * len(refused), "o", mfc="none", color=COLOURS[0], ms=5, label="refused")
    axes.plot([0, top], [0, top], ":", color=EXACT["color"], lw=1.0, label="now")
    if outcome is not None:
        axes.axhline(outcome, **EXACT, label=f"happened at step {outcome:.0f}")
    elif until is not None:
        axes.axhline(until, **EXACT, label=f"not by step {until:.0f}")
    axes.set_ylim(0, top)
    axes.set_xlim(-0.03 * last, 1.06 * max(last, 1.0))
    axes.set_xlabel("training step at which the forecast was made")
    axes.set_ylabel("forecast step of 50% validation accuracy")
    legend(axes, loc="best")
    return figure


def _intervals(axes: Axes, made: Sequence[Forecast], top: float) -> None:
    from phasecast.figures.drawing import COLOURS

    closed = [one for one in made if one.high is not None]
    if len(closed) > 1:
        at = np.array([_at(one) for one in closed])
        low, high = (np.array([getattr(one, end) for one in closed], dtype=float) for end in ("low", "high"))
        axes.fill_between(at, low, np.minimum(high, 2 * top), color=COLOURS[0], alpha=0.15, lw=0)
    for one in made:
        end = 2 * top if one.high is None else one.high
        axes.plot([_at(one)] * 2, [one.low, end], "-", color=COLOURS[0], lw=1.2)
        if one.high is None:
            axes.plot(_at(one), min(top * 0.97, max(one.low * 1.15, one.low + 0.05 * top)), "^", color=COLOURS[0], ms=6)
        if not math.isnan(one.value):
            axes.plot(_at(one), one.value, "o", color=COLOURS[0], ms=4.5)
    if made:
        share = made[-1].coverage
        axes.plot([], [], "o-", color=COLOURS[0], ms=4.5, lw=1.2, label=f"median and {share:.0%} interval")


def _at(forecast: Forecast) -> float:
    return 0.0 if math.isnan(forecast.made_at) else forecast.made_at
