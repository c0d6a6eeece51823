"""What does a log show of the wait so far? Numbers read from the steps up to now, and from nothing later.

Between memorisation (train99) and generalisation (val50) the validation loss rises to a peak and then falls almost
straight in steps to its value before training, which it reaches at val50. The signals are how far it has come, and
where straight lines through its recent past arrive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.core.policy import Policy, rule
from phasecast.forecasting.bank import LoggedCurves
from phasecast.forecasting.settings import TableSize
from phasecast.grokking.analysis.curves import POLICY as GROKKING
from phasecast.grokking.analysis.curves import first_step_at


@dataclass(frozen=True)
class SignalPolicy(Policy):
    """How signals are read from a log."""

    fewest_rows: int = rule(3, "rows since train99: a line through fewer has no residual")
    farthest: float = rule(2.5, "chosen: ln of the longest wait over the steps so far; a line beyond it is flat")
    early: tuple[int, ...] = rule((20, 40, 100, 200), "steps at which networks of different learning rates differ most")
    smallest_gap: float = rule(0.01, "1 − 2L(0) ≈ 1/p of the centred squared loss: keeps its logarithm finite")
    smoothed: int = rule(3, "rows that an accuracy is averaged over: it jumps by whole rows of a small table")
    whole: float = rule(1e-3, "rows: accuracies in float32 are whole numbers of a few hundred rows to 1e-4")
    modulus_slack: float = rule(
        1.12, "1/(1 − 2L(0)) is within 10% of p in the shipped bank: first outputs are not zero"
    )
    smallest_modulus: float = rule(5.0, "smaller tables have a handful of rows")
    largest_modulus: float = rule(100.0, "larger ones have 10,000 rows, and thousands of pairs of numbers would fit")
    smallest_table: int = rule(100, "validation rows assumed for the log-odds: keeps them finite at 0 and 1")


POLICY = SignalPolicy()

NAMES = (
    "ln step", "ln train99", "ln elapsed", "classes", "ln peak", "progress", "share since peak", "line of last half",
    "line of last quarter", "slope", "log-odds", "log-odds slope", *(f"ln loss at {step}" for step in POLICY.early),
)  # fmt: skip


@dataclass(frozen=True)
class Signals:
    """The signals of one log at one step."""

    step: float
    train99: float
    values: np.ndarray
    """In the order of :data:`NAMES`."""

    @property
    def elapsed(self) -> float:
        return self.step - self.train99

    def __getitem__(self, name: str) -> float:
        return float(self.values[NAMES.index(name)])


def table_in_log(log: LoggedCurves) -> TableSize | None:
    """Modulus and training rows, which a log gives away: its accuracies are whole numbers over N and over p² − N.

    The modulus is near 1/(1 − 2L(0)) for the centred squared loss. None where no table or more than one fits, as with
    rounded accuracies.
    """
    gap = 1 - 2 * float(log.validation_loss[0])
    if not 1 / POLICY.largest_modulus < gap < 1 / POLICY.smallest_modulus:
        return None
    trained, held = (np.unique(np.asarray(part, dtype=float)) for part in (log.train_accuracy, log.validation_accuracy))
    fits = []
    for p in range(math.floor(1 / gap / POLICY.modulus_slack), math.ceil(POLICY.modulus_slack / gap) + 1):
        n = np.arange(2, p * p - 1)
        n = n[_whole(trained, n)]
        fits += [TableSize(p, int(one)) for one in n[_whole(held, p * p - n)]]
    return fits[0] if len(fits) == 1 else None


def _whole(shares: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """For which totals all shares are whole numbers of rows."""
    counts = shares[:, None] * totals[None]
    return np.all(np.abs(counts - np.rint(counts)) < POLICY.whole, axis=0)


def read_signals(log: LoggedCurves, at: float | None = None) -> Signals | None:
    """The signals at the last row not after step ``at``; None before train99 or with too few rows since."""
    stop = len(log.step) if at is None else int(np.searchsorted(log.step, at, side="right"))
    step, loss = np.asarray(log.step[:stop], dtype=float), np.asarray(log.validation_loss[:stop], dtype=float)
    accuracy = np.asarray(log.validation_accuracy[:stop], dtype=float)
    known = first_step_at(step, log.train_accuracy[:stop], GROKKING.memorised) if stop else None
    if known is None:
        return None
    first = int(np.searchsorted(step, known))
    if stop - first < POLICY.fewest_rows or not np.all(np.isfinite(loss)) or np.any(loss <= 0):
        return None
    now, start, elapsed = step[-1], loss[0], step[-1] - known
    peak = int(loss.argmax())
    drop = loss[peak] - start
    slope, half = _line(step, loss, known + elapsed / 2, start)
    _, quarter = _line(step, loss, known + 3 * elapsed / 4, start)
    odds = _log_odds(accuracy)
    recent = odds[-POLICY.smoothed :].mean()
    before = int(np.searchsorted(step, known + elapsed / 2))
    values = [
        math.log(now),
        math.log(max(known, 1.0)),
        math.log(elapsed),
        -math.log(max(1 - 2 * start, POLICY.smallest_gap)),
        math.log(loss[peak] / start),
        float(np.clip((loss[peak] - loss[-1]) / max(drop, 1e-3 * start), -1.0, 1.5)),
        (now - max(step[peak], known)) / elapsed,
        half,
        quarter,
        float(np.clip(slope * now / loss[-1], -3.0, 3.0)),
        recent,
        recent - odds[max(0, before - 1) : before + 2].mean(),
        *(math.log(float(np.interp(min(mark, now), step, loss)) / start) for mark in POLICY.early),
    ]
    return Signals(float(now), float(known), np.array(values))


def _line(step: np.ndarray, loss: np.ndarray, since: float, level: float) -> tuple[float, float]:
    """Slope of the loss since a step, and ln of the step at which the line reaches ``level``, in units of now."""
    first = min(int(np.searchsorted(step, since)), len(step) - POLICY.fewest_rows)
    t, y = step[first:] - step[-1], loss[first:]
    centred = t - t.mean()
    slope = float(centred @ y / (centred @ centred))
    here = float(y.mean() - slope * t.mean())
    if here <= level:
        return slope, 0.0
    if slope >= 0:
        return slope, POLICY.farthest
    return slope, min(POLICY.farthest, math.log1p((here - level) / -slope / step[-1]))


def _log_odds(accuracy: np.ndarray) -> np.ndarray:
    """ln a/(1 − a), finite at 0 and 1."""
    half = 0.5 / POLICY.smallest_table
    share = half + (1 - 2 * half) * accuracy
    return np.log(share / (1 - share))
