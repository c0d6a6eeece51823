"""How good were the forecasts? Coverage and errors by how much of the wait was over, beside simple rules.

The rules: *as long again* (the wait so far, once more), the *settings* alone (the forecast before the first step), and
the *bank median* (of the runs of the bank that had not generalised by then). "As long again" is exact by construction
where half of the wait is over; it is shown because any forecast is easy there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core import codec
from phasecast.forecasting.bank import Bank, shipped_bank
from phasecast.forecasting.result import Forecast
from phasecast.lab.forecasts.archive import KnownOutcome, scored
from phasecast.lab.store import Store

HORIZONS = ((-math.inf, 0.0), (0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0))
"""Shares of the wait that were over when a forecast was made; the first are forecasts before memorisation."""


@dataclass(frozen=True)
class Horizon:
    """Forecasts made when about the same share of the wait was over; errors are medians of |ln(forecast/outcome)|."""

    name: str
    forecasts: int
    runs: int
    coverage: float
    nominal: float
    error: float
    remaining: float
    crps: float
    baselines: dict[str, float]

    def plain(self) -> dict[str, Any]:
        return codec.plain(vars(self))


@dataclass(frozen=True)
class ForecastRecord:
    """The record of all forecasts of a store."""

    horizons: tuple[Horizon, ...]
    forecasts: int
    runs: int
    promises: int
    """Forecasts whose interval ended before the training did, for trainings that never generalised."""

    def plain(self) -> dict[str, Any]:
        return {
            "forecasts": self.forecasts,
            "runs": self.runs,
            "false_promises": self.promises,
            "horizons": [one.plain() for one in self.horizons],
        }


def record(store: Store, bank: Bank | None = None) -> ForecastRecord:
    """Score every archived forecast of the finished runs of a store."""
    rows = scored(store)
    bank = shipped_bank() if bank is None and rows else bank
    before = {run: made for run, made, _ in rows if math.isnan(made.made_at)}
    horizons = []
    for low, high in HORIZONS:
        chosen = [row for row in rows if low <= _share(row[1], row[2]) < high]
        if chosen:
            horizons.append(_horizon(_name(low, high), chosen, before, bank))
    never = [made.score(None, until=outcome.until) for _, made, outcome in rows if outcome.val50 is None]
    return ForecastRecord(
        tuple(horizons), len(rows), len({run for run, _, _ in rows}), sum(not one.hit for one in never)
    )


def _share(made: Forecast, outcome: KnownOutcome) -> float:
    """The share of the wait that was over; NaN, which is in no horizon, if it never ended."""
    if outcome.val50 is None or outcome.train99 is None:
        return math.nan
    if math.isnan(made.made_at):
        return -1.0
    return min((made.made_at - outcome.train99) / max(outcome.val50 - outcome.train99, 1.0), 0.999)


def _horizon(
    name: str, rows: Sequence[tuple[str, Forecast, KnownOutcome]], before: dict[str, Forecast], bank: Bank | None
) -> Horizon:
    scores = [made.score(outcome.val50) for _, made, outcome in rows]
    rules: dict[str, list[float]] = {"as long again": [], "settings": [], "bank median": []}
    for run, made, outcome in rows:
        truth = float(outcome.val50 or math.nan)
        if not math.isnan(made.made_at):
            again = 2 * made.made_at - float(outcome.train99 or 0)
            rules["as long again"].append(abs(math.log(max(again, 1.0) / truth)))
        if run in before and not math.isnan(before[run].value):
            rules["settings"].append(abs(math.log(before[run].value / truth)))
        later = [one.val50 for one in bank or () if one.val50 and not one.val50 <= made.made_at]
        if later:
            rules["bank median"].append(abs(math.log(float(np.median(later)) / truth)))
    return Horizon(
        name,
        len(rows),
        len({run for run, _, _ in rows}),
        float(np.mean([score.hit for score in scores])),
        float(np.mean([made.coverage for _, made, _ in rows])),
        _median([score.log_error for score in scores]),
        _median([score.remaining_error for score in scores]),
        _median([score.crps for score in scores]),
        {rule: _median(errors) for rule, errors in rules.items()},
    )


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(np.median(known)) if known else math.nan


def _name(low: float, high: float) -> str:
    return "before step 0" if high <= 0 else f"{low:.0%} to {high:.0%} of the wait"
