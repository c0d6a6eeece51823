"""What was forecast, and when? The forecasts of a run as they were made: one line each, never changed afterwards."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasecast.core.results import Status
from phasecast.lab.files import disk_errors, read_regular, refuse_links
from phasecast.lab.store import FINISHED, RunFolder, Store, now

if TYPE_CHECKING:
    from phasecast.forecasting.result import Forecast

FILE = "forecasts.jsonl"


def keep(folder: RunFolder, forecast: Forecast) -> bool:
    """Add a forecast to those of a run; False if one was made at the same step before, by an earlier attempt."""
    if any(_same_step(forecast, one) for one in kept(folder)):
        return False
    line = json.dumps({"time": now(), "forecast": json.loads(forecast.to_json())}, ensure_ascii=False)
    refuse_links(folder.path / FILE, folder=False)
    with disk_errors(folder.path), open(folder.path / FILE, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    return True


def kept(folder: RunFolder) -> list[Forecast]:
    """The forecasts of a run in the order in which they were made, without a line that a crash cut short."""
    try:
        lines = read_regular(folder.path / FILE).splitlines()
    except FileNotFoundError:
        return []
    from phasecast.forecasting.result import Forecast  # most runs have none

    forecasts = []
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # not what we wrote
            forecasts.append(Forecast.from_json(json.dumps(json.loads(line)["forecast"])))
    return forecasts


@dataclass(frozen=True)
class KnownOutcome:
    """What a forecast was about: when the training rows were memorised, when it happened (or None), steps trained."""

    train99: float | None
    val50: float | None
    until: float

    @classmethod
    def of(cls, summary: dict[str, Any] | None) -> KnownOutcome | None:
        """The outcome in the summary of a finished run; None if it has none."""
        numbers = (summary or {}).get("numbers") or {}
        if "val50" not in numbers or numbers.get("steps") is None:
            return None
        return cls(numbers.get("train99"), numbers["val50"], float(numbers["steps"]))


def scored(store: Store) -> list[tuple[str, Forecast, KnownOutcome]]:
    """Every forecast of the finished runs of a store that is not refused, with what happened."""
    found = []
    for status in store.statuses():
        outcome = KnownOutcome.of(status.get("summary")) if status["status"] in FINISHED else None
        if outcome is not None:
            made = kept(store.folder(status["run"]))
            found += [(status["run"], one, outcome) for one in made if one.status is not Status.REFUSED]
    return found


def _same_step(left: Forecast, right: Forecast) -> bool:
    same = left.made_at == right.made_at or (math.isnan(left.made_at) and math.isnan(right.made_at))
    return same and left.quantity == right.quantity
