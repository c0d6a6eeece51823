"""Where does λ̂ change along a training? Steps between checkpoints, with the interval in which each lies.

A change is a run of neighbouring checkpoints over which λ̂ keeps rising, or keeps falling, by more than its errors in
all: |Δλ̂| above 4 combined standard errors (one false alarm in 16,000) and above a tenth of the range of λ̂, which keeps
small drifts of precise curves out. It says that λ̂ changed between two checkpoints, not that it went from one level to
another at one time: for that, and for what else would explain the curve, ask
``phasecast.grokking.analysis.transition``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

CLEAR = 4.0  # standard errors: one false alarm in 16,000
LARGE = 0.1  # chosen: share of the range of λ̂; less is a drift


@dataclass(frozen=True)
class LLCTransition:
    """λ̂ changes by ``change`` ± ``error`` between the steps ``begin`` and ``end``; half of it is done at ``middle``."""

    begin: float
    end: float
    middle: float
    change: float
    error: float

    def __str__(self) -> str:
        return f"λ̂ changes by {self.change:+.3g} ± {self.error:.2g} between steps {self.begin:g} and {self.end:g}"


def transitions(steps: Sequence[float], values: Sequence[tuple[float, float]]) -> list[LLCTransition]:
    """The changes of a curve of (value, error) at ``steps`` that its errors do not explain, in order.

    >>> [str(one) for one in transitions([0, 1, 2, 3], [(1, 0.1), (1.1, 0.1), (5, 0.1), (5.1, 0.1)])]
    ['λ̂ changes by +3.9 ± 0.14 between steps 1 and 2']
    """
    known = [(step, *value) for step, value in zip(steps, values, strict=True) if all(map(math.isfinite, value))]
    if len(known) < 2:
        return []
    heights = [value for _, value, _ in known]
    smallest = LARGE * (max(heights) - min(heights))
    signs = [_sign(one, other) for one, other in pairwise(known)]
    found, begin = [], 0
    while begin < len(signs):
        end = begin
        while end + 1 < len(signs) and signs[begin] and signs[end + 1] == signs[begin]:
            end += 1
        first, last = known[begin], known[end + 1]
        change, error = last[1] - first[1], math.hypot(last[2], first[2])
        if signs[begin] and abs(change) > max(CLEAR * error, smallest):
            middle = _crossing(known[begin : end + 2], first[1] + change / 2)
            found.append(LLCTransition(first[0], last[0], middle, change, error))
        begin = end + 1
    return found


def _sign(one: tuple[float, float, float], other: tuple[float, float, float]) -> int:
    """Whether λ̂ rises (1), falls (−1) or stays (0) from one checkpoint to the next, by two errors."""
    change, error = other[1] - one[1], math.hypot(one[2], other[2])
    return 0 if abs(change) <= 2 * error else int(math.copysign(1, change))


def _crossing(points: Sequence[tuple[float, float, float]], height: float) -> float:
    """The step at which the line through the points reaches a height."""
    for (step, value, _), (next_step, next_value, _) in pairwise(points):
        if (value - height) * (next_value - height) <= 0 and value != next_value:
            return step + (height - value) / (next_value - value) * (next_step - step)
    return points[-1][0]
