"""How do the forecasts of a run look on its page? A fan that closes on the outcome, and the first one beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from phasecast.core.answers import Answer
from phasecast.core.results import Status
from phasecast.lab.forecasts.archive import KnownOutcome
from phasecast.lab.recipe import Captioned, Row

if TYPE_CHECKING:
    from phasecast.forecasting.result import Forecast


def forecast_figures(made: Sequence[Forecast], outcome: KnownOutcome | None) -> Mapping[str, Captioned]:
    """The fan of the archived forecasts; nothing if there are none."""
    if not made or outcome is None:
        return {}
    from phasecast.forecasting.fan import fan  # most runs have no forecasts

    caption = (
        "Forecasts of the step at which validation accuracy passes 50%, as they were made during the training: medians "
        "with their intervals over the step at which each was made. Arrows are lower bounds, hollow points on the axis "
        "refusals."
    )
    return {"forecasts": Captioned(fan(made, outcome.val50, None if outcome.val50 else outcome.until), caption)}


def beside_forecasts(rows: Sequence[Row], made: Sequence[Forecast]) -> list[Row]:
    """The rows of a conclusion, with the earliest forecast from the log beside what it was about."""
    defended = [one for one in made if one.status is not Status.REFUSED]
    first = next((one for one in defended if not math.isnan(one.made_at)), None) or next(iter(defended), None)
    if first is None:
        return list(rows)
    return [
        Row.of(Answer(first.quantity, first.beside(row.measurement), row.name))
        if row.address == (first.quantity,) and row.measurement is not None
        else row
        for row in rows
    ]
