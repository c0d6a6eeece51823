"""What is a forecast? A date with an interval, made before the outcome, and scored when the outcome is known.

The score of a forecast with quantile function Q of the outcome T is taken in log time,

.. math:: \\mathrm{CRPS} = 2\\int_0^1 \\rho_\\tau(\\ln T - \\ln Q(\\tau))\\,d\\tau,
          \\qquad \\rho_\\tau(u) = u(\\tau - 1[u<0]),

so that 0.1 means about 10% (Gneiting & Raftery 2007). Q is normal in ln T on each side of the median, through the ends
of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput
from phasecast.core.results import NOT_STORED, Comparison, Measurement, Prediction, Status
from phasecast.figures.style import styled

if TYPE_CHECKING:
    import pandas as pd

    from phasecast.figures.drawing import Drawing

TIERS = {
    "settings + bank": "the settings and a bank of finished runs",
    "lone log": "the log alone",
    "log + bank": "the log and a bank of finished runs",
    "log + settings + bank": "the log, its settings and a bank of finished runs",
    "settings + own runs": "the settings and finished runs of the same kind, outside the bank",
    "overlaps + settings": "the overlaps of students and teachers so far, and the settings",
    "lone loss": "the loss on a plateau alone",
}
"""On what a forecast can rest."""

QUANTITIES = {
    "val50": "step at which validation accuracy passes 50%",
    "escape": "when the loss falls below half of its plateau",
}
QUANTILES = 200  # of the distribution in a CRPS: its error is then below 1% of the width of the interval


@dataclass(frozen=True)
class Score:
    """How good a forecast was.

    ``log_error`` is |ln(median/outcome)|, ``crps`` in the same units, ``hit`` whether the interval holds the outcome.
    An outcome that did not happen in the window has a ``hit`` only: the interval must reach beyond the window.
    """

    hit: bool
    log_error: float | None = None
    crps: float | None = None
    remaining_error: float | None = None
    """|ln| of the forecast over the true time still to go when the forecast was made."""

    def plain(self) -> dict[str, Any]:
        return codec.plain(vars(self))


@dataclass(frozen=True, eq=False)
class Forecast(Prediction[float]):
    """When something will happen, said before it happens.

    ``value`` is the median, NaN where the forecast is refused or where the median lies beyond what the basis has seen.
    ``interval`` is (low, high) and holds the outcome with probability ``coverage``; ``high`` is None for a lower bound.

    Parameters
    ----------
    quantity: what is forecast: ``val50``, the step at which validation accuracy passes 50%.
    made_at, made_on: the last step that the forecast saw, and the time of day.
    tier: on what it rests, see :data:`TIERS`.
    basis, runs: the bank, and how many of its runs count.
    status, reasons: ok, a warning or refused, and why, with what to do.
    probability: that it happens within ``window`` steps, where this was computed.
    earlier: forecasts of the same training made before this one, for :meth:`figure`; not stored.

    >>> forecast = Forecast(2000.0, low=1700.0, high=2500.0, made_at=400.0, tier="lone log")
    >>> forecast.score(2200.0).hit
    True
    """

    quantity: str = "val50"
    low: float = math.nan
    high: float | None = None
    coverage: float = 0.8
    made_at: float = math.nan
    made_on: str = ""
    tier: str = "lone log"
    basis: str = ""
    runs: int = 0
    status: Status = Status.OK
    reasons: Sequence[str] = ()
    probability: float | None = None
    window: float | None = None
    earlier: Sequence[Forecast] = field(default=(), metadata=NOT_STORED, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "status", Status(self.status))
        object.__setattr__(self, "reasons", tuple(self.reasons))
        if self.tier not in TIERS:
            raise BadInput(f"unknown tier '{self.tier}'", f"choose one of: {', '.join(TIERS)}")
        if not self.made_on:
            object.__setattr__(self, "made_on", datetime.now(UTC).isoformat(timespec="seconds"))
        if not self.name:
            object.__setattr__(self, "name", QUANTITIES.get(self.quantity, self.quantity))
        if not 0 < self.coverage < 1:
            raise BadInput(f"coverage is {self.coverage:g}", "use a number between 0 and 1, like 0.8")
        if self.status is Status.REFUSED:
            if not self.reasons:
                raise BadInput("a refused forecast needs a reason", "say what is wrong and what to do")
        elif not self.low <= (math.inf if math.isnan(self.value) else self.value) <= _end(self.high):
            raise BadInput(
                f"the interval {self.low:g} to {_end(self.high):g} does not hold the median {self.value:g}",
                "a forecast without an interval is refused",
            )

    @classmethod
    def refused(cls, *reasons: str, **fields: Any) -> Self:
        """A forecast that we would not defend: no date, and what to do."""
        return cls(math.nan, status=Status.REFUSED, reasons=reasons, **fields)

    @property
    def interval(self) -> tuple[float, float | None] | None:
        """The interval; its upper end is None for a lower bound, and it is None where the forecast is refused."""
        return None if self.status is Status.REFUSED else (self.low, self.high)

    def score(self, outcome: float | None, *, until: float | None = None) -> Score:
        """The score once the outcome is known: the step at which it happened, or None if it had not by ``until``."""
        if self.status is Status.REFUSED:
            raise BadInput("a refused forecast has no score", "score the forecasts that are ok")
        if outcome is None:
            if until is None:
                raise BadInput("the outcome is unknown", "give the step of the outcome, or until=, the steps trained")
            return Score(_end(self.high) > until)
        if not outcome > 0:
            raise BadInput(f"the outcome is step {outcome:g}", "give a positive step")
        hit = self.low <= outcome <= _end(self.high)
        if math.isnan(self.value):
            return Score(hit)
        left, true = self.value - self.made_at, outcome - self.made_at
        remaining = abs(math.log(left / true)) if left > 0 and true > 0 else None
        return Score(hit, abs(math.log(self.value / outcome)), self._crps(outcome), remaining)

    def beside(self, measurement: Measurement) -> Comparison:
        """This forecast beside what was measured: it agrees where the interval holds the measurement."""
        tolerance = self._sigmas
        if self.high is None or math.isnan(self.value):
            bound = Prediction(self.low, self.regime, self._basis(), kind="lower-bound", name=self.name)
            return Comparison(bound, measurement, tolerance, name=self.name)
        outcome = float(measurement.estimate)
        width = (self.high - self.value if outcome > self.value else self.value - self.low) / tolerance
        made = f"made at step {self.made_at:g}, {self.coverage:.0%} interval {self.low:.0f} to {self.high:.0f}"
        prediction = Prediction(self.value, made, self._basis(), systematic=width, name=self.name)
        return Comparison(prediction, measurement, tolerance, name=self.name)

    def plain(self) -> dict[str, Any]:
        return {
            "quantity": self.quantity,
            "name": self.name,
            "value": codec.plain(float(self.value)),
            "interval": codec.plain(self.interval),
            "coverage": self.coverage,
            "tier": self.tier,
            "status": str(self.status),
            "reasons": list(self.reasons),
            "made_at": codec.plain(self.made_at),
            "made_on": self.made_on,
            "basis": self.basis,
            "runs": self.runs,
            **({} if self.window is None else {"probability": self.probability, "window": codec.plain(self.window)}),
        }

    def words(self) -> str:
        if self.status is Status.REFUSED:
            return "no forecast"
        if self.high is None:
            median = "" if math.isnan(self.value) else f"about {self._at(self.value)}, "
            return f"{median}not before {self._at(self.low)} ({_chance(self.coverage / 2 + 0.5)})"
        low, high = (self._at(end).removeprefix("step ") for end in (self.low, self.high))
        return f"{self._at(self.value)}, between {low} and {high} ({_chance(self.coverage)})"

    def _at(self, time: float) -> str:
        """A time in its unit: trainings count steps, learning curves examples per input."""
        return f"step {time:.0f}" if self.quantity == "val50" else f"{time:.4g}"

    def line(self) -> str:
        """The forecast in one line, as it is printed while a training runs."""
        when = "before step 0" if math.isnan(self.made_at) else f"at step {self.made_at:.0f}"
        if self.status is Status.REFUSED:
            return f"forecast {when}: none; {self.reasons[0]}"
        chance = "" if self.probability is None else f"; within {self.window:.0f} steps: {self.probability:.0%}"
        advice = "".join(f"; {reason}" for reason in self.reasons)
        event = "validation accuracy passes 50%" if self.quantity == "val50" else self.name
        return f"forecast {when} ({self.tier}): {event}: {self.words()}{chance}{advice}"

    def table(self) -> pd.DataFrame:
        """One line per forecast made so far: the step at which it was made, median, interval, coverage, status."""
        import pandas as pd

        made = [*self.earlier, self]
        columns = ("value", "low", "high", "coverage", "tier", "status")
        rows = [
            [str(getattr(one, name)) if name == "status" else getattr(one, name) for name in columns] for one in made
        ]
        return pd.DataFrame(rows, columns=list(columns), index=pd.Index([one.made_at for one in made], name="made_at"))

    @styled
    def figure(self) -> Drawing:
        """The forecasts made so far, a fan that closes on the outcome."""
        from phasecast.forecasting.fan import fan

        return fan([*self.earlier, self])

    @property
    def _sigmas(self) -> float:
        """Half the interval in standard deviations."""
        return NormalDist().inv_cdf(0.5 + self.coverage / 2)

    def _basis(self) -> str:
        return TIERS[self.tier] + (f" ({self.runs} runs, {self.basis})" if self.runs else "")

    def _crps(self, outcome: float) -> float | None:
        if self.high is None or not (self.low > 0 and self.value > 0):
            return None
        tau = (np.arange(QUANTILES) + 0.5) / QUANTILES
        normal = NormalDist()
        z = np.array([normal.inv_cdf(float(one)) for one in tau]) / self._sigmas
        median = math.log(self.value)
        below, above = median - math.log(self.low), math.log(self.high) - median
        distance = math.log(outcome) - (median + z * np.where(z < 0, below, above))
        return float(2 * np.mean(distance * (tau - (distance < 0))))

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("forecast", self.words())]
        if self.probability is not None:
            rows.append((f"within {self.window:.0f} steps", f"{self.probability:.0%}"))
        rows += [("based on", self._basis()), ("status", str(self.status))]
        if not math.isnan(self.made_at):
            rows.insert(1, ("made at step", f"{self.made_at:.0f}"))
        return [*rows, *(("reason", reason) for reason in self.reasons)]


def _end(high: float | None) -> float:
    return math.inf if high is None else high


def _chance(share: float) -> str:
    return f"{share:.0%}"
