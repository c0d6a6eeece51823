"""How far is a λ̂? One line on stderr while it is sampled, or a function of the caller's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from phasecast.core.results import show
from phasecast.progress import duration, working


@dataclass(frozen=True)
class LLCProgress:
    """Where the sampling of λ̂ is: ``stage``, γ, the estimate so far with its error, the cost, and the seconds left."""

    stage: str
    gamma: float
    estimate: float
    error: float
    gradients: float
    seconds: float
    seconds_left: float | None

    def __str__(self) -> str:
        parts = [self.stage if math.isnan(self.gamma) else f"{self.stage} at γ = {self.gamma:.3g}"]
        if math.isfinite(self.estimate):
            known = math.isfinite(self.error)
            parts.append(f"λ̂ = {show(self.estimate, self.error) if known else format(self.estimate, '.3g')}")
        if self.seconds_left is not None:
            parts.append(f"about {duration(self.seconds_left)} left")
        return ", ".join(parts)


SET_UP = LLCProgress("set-up", math.nan, math.nan, math.nan, 0.0, 0.0, None)

ProgressOption: TypeAlias = "bool | Callable[[LLCProgress], None]"
"""Whether to show progress, or a function to call with it."""


@contextmanager
def reporting(name: str, option: ProgressOption) -> Iterator[Callable[[LLCProgress], None]]:
    """What to call with each progress. A line appears once two seconds have passed, also while nothing is called."""
    if callable(option):
        yield option
        return
    with working(f"λ̂ of {name}" if name else "λ̂", option, unit="gradients") as shown:
        shown.update(0, None, str(SET_UP))
        yield lambda progress: shown.update(round(progress.gradients), None, str(progress))
