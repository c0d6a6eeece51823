"""How far is a λ̂? One line on stderr while it is sampled, or a function of the caller's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
            parts.append(f"at most {duration(self.seconds_left)} left")
        return ", ".join(parts)


ProgressOption: TypeAlias = "bool | Callable[[LLCProgress], None]"
"""Whether to show progress, or a function to call with it."""


@contextmanager
def reporting(name: str, option: ProgressOption) -> Iterator[Callable[[LLCProgress], None]]:
    """What to call with each progress; a line appears only once two seconds have passed."""
    if callable(option):
        yield option
        return
    begun = time.monotonic()
    with ExitStack() as stack:
        shown = None

        def report(progress: LLCProgress) -> None:
            nonlocal shown
            if not option or time.monotonic() - begun < QUIET_AT_FIRST:
                return
            if shown is None:
                shown = stack.enter_context(show_progress(f"λ̂ of {name}" if name else "λ̂", unit="gradients"))
            shown.update(round(progress.gradients), None, str(progress))

        yield report
