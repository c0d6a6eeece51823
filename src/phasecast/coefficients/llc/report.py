"""How far is a λ̂? One line on stderr while it is sampled, or a function of the caller's."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from phasecast.core.results import show
from phasecast.progress import QUIET_AT_FIRST, duration, show_progress


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
REFRESH = 0.5  # seconds; chosen: as a terminal bar needs it

ProgressOption: TypeAlias = "bool | Callable[[LLCProgress], None]"
"""Whether to show progress, or a function to call with it."""


@contextmanager
def reporting(name: str, option: ProgressOption) -> Iterator[Callable[[LLCProgress], None]]:
    """What to call with each progress. A line appears once two seconds have passed, also while nothing is called."""
    if callable(option):
        yield option
        return
    if not option:
        yield lambda progress: None
        return
    latest = [SET_UP]
    over = threading.Event()
    shower = threading.Thread(target=_show, args=(f"λ̂ of {name}" if name else "λ̂", latest, over), daemon=True)
    shower.start()
    try:
        yield lambda progress: latest.__setitem__(0, progress)
    finally:
        over.set()
        shower.join()


def _show(title: str, latest: list[LLCProgress], over: threading.Event) -> None:
    """Show the latest progress from a thread of its own, so that a long chunk or set-up is not silent."""
    if over.wait(QUIET_AT_FIRST):
        return
    with show_progress(title, unit="gradients") as shown:
        while not over.is_set():
            shown.update(round(latest[0].gradients), None, str(latest[0]))
            over.wait(REFRESH)
