"""How far is a λ̂? One line on stderr while it is sampled, or a function of the caller's."""

from __future__ import annotations

import math
import time
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
OFTEN = 0.2  # chosen: seconds between two changes of the line; the error of an estimate takes milliseconds


class _Shown:
    """What a line on stderr shows, computed as often as people can read it."""

    def __init__(self, update: Callable[[int, None, str], None]) -> None:
        self.update, self.last = update, -math.inf

    def __call__(self, progress: Callable[[], LLCProgress]) -> None:
        if time.monotonic() - self.last > OFTEN:
            self.last, now = time.monotonic(), progress()
            self.update(round(now.gradients), None, str(now))


@contextmanager
def reporting(name: str, option: ProgressOption) -> Iterator[Callable[[Callable[[], LLCProgress]], None]]:
    """What to call after each chunk, with a function that says where the work is.

    A line appears once two seconds have passed, also while nothing is called.
    """
    if callable(option):
        yield lambda progress: option(progress())
        return
    with working(f"λ̂ of {name}" if name else "λ̂", option, unit="gradients") as shown:
        shown.update(0, None, str(SET_UP))
        yield _Shown(shown.update) if option else lambda progress: None
