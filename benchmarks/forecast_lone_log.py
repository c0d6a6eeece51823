"""What does a log say without a bank? Scores of the lone log, its tables taken from other moduli than the scored one.

Run ``python benchmarks/forecast_lone_log.py`` (twenty seconds). It prints the three rows of numbers that
``forecasting/lone_log.py`` ships (from all runs of the bank), the scores of each modulus with tables of the others, and
those of the fresh moduli of ``forecast_fresh.npz`` with the shipped ones.

Criteria (median |ln(forecast/true)| of val50): refuse at 10% of the wait, ≤ .25 or refuse at 25%, ≤ .085 at 50%, ≤ .075
at 75%; 80% intervals cover 75 to 90%.

Found: refused at 10% in all 292 runs and in all fresh ones; at 25% 2 of 292 speak and are wrong (.65: runs near the
border of never, whose loss falls fast first; 13 before falls that slow down were refused); at 50% 172 of 292 speak,
.061, coverage 90%; at 75% .049, 88%. Fresh: .059 (24 of 36, 100%) and .041 (94%). Explored on the bank: the least
progress of 0.38, chosen so that nothing is said at 10%, and the slowing of 0.8; the fresh moduli confirm both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from forecast_scores import FRESH, SHARES, scored, until
from phasecast.forecasting import lone_log
from phasecast.forecasting.bank import Bank, BankRun, shipped_bank
from phasecast.forecasting.log import TrainingLog
from phasecast.forecasting.lone_log import LossTarget

LOOKS = 12  # at each run of a bank, in a geometric grid
PADS = 0.02, 0.03  # below and above
LATEST = 2.5  # ln: a run that never generalised is later than any line


class Look(NamedTuple):
    """One line through a log: how far the loss had come, and ln(outcome/line)."""

    run: int
    p: int
    share: float
    now: float
    progress: float
    line: float
    true: float


def look(run: BankRun, number: int, share: float, now: float, level: float) -> Look | None:
    part = until(run, now)
    if len(part.step) < 2 or part.train99 is None:
        return None
    log = TrainingLog(part.step, part.train_accuracy, part.validation_accuracy, part.validation_loss)
    target = LossTarget(float(log.validation_loss[0]) * level, False, "")
    line = lone_log.extrapolate_loss(log, target, 0.8)
    true = math.inf if run.val50 is None else run.val50
    if isinstance(line, str) or line.slowing:
        return None
    return Look(number, run.settings.p, share, now, line.progress, line.median, true)


def levels(runs: Sequence[BankRun], moduli: Sequence[int]) -> np.poly1d:
    """L(val50)/L(0) as a line in p."""
    chosen = {p: [run for run in runs if run.settings.p == p] for p in moduli}
    medians = [np.median([np.interp(r.val50 or 0, r.step, r.validation_loss) / r.validation_loss[0] for r in chosen[p]])
               for p in moduli]  # fmt: skip
    return np.poly1d(np.polyfit(moduli, medians, 1))


def looks(bank: Bank, line: np.poly1d, only: int | None = None) -> tuple[list[Look], list[Look]]:
    """Looks on the way, to take tables from, and looks at shares of the wait, to score."""
    way, judged = [], []
    for number, run in enumerate(bank):
        end = run.val50 or run.window
        if (only is not None and run.settings.p != only) or run.train99 is None or end - run.train99 < 200:
            continue
        level = float(line(run.settings.p))
        times = np.geomspace(run.train99 + 100, end - 10, LOOKS)
        way += [one for now in times if (one := look(run, number, -1, float(now), level))]
        if run.val50 is not None:
            nows = [(share, run.train99 + share * (end - run.train99)) for share in SHARES]
            judged += [one for share, now in nows if (one := look(run, number, share, now, level))]
    return way, judged


def tables(way: Sequence[Look]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tenth, fiftieth and ninetieth percentile of ln(outcome/line) at the progress of the policy, runs weighted one."""
    marks = np.array(lone_log.POLICY.progress)
    edges = np.concatenate([[marks[0] / 2], (marks[1:] + marks[:-1]) / 2, [2.0]])
    rows = []
    for low, high in itertools.pairwise(edges):
        inside = [one for one in way if low < one.progress <= high]
        gap = np.array([math.log(one.true / one.line) for one in inside])
        _, place, count = np.unique([one.run for one in inside], return_inverse=True, return_counts=True)
        weight, order = 1 / count[place], np.argsort(gap)
        share = np.cumsum(weight[order]) / weight.sum()
        found = [gap[order][min(np.searchsorted(share, at), len(order) - 1)] for at in (0.1, 0.5, 0.9)]
        rows.append((found[0] - PADS[0], found[1], min(found[2] + PADS[1], LATEST)))
    low, middle, high = np.array(rows).T
    return low, middle, high


def show(judged: Sequence[Look], of: int, used: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
    marks = np.array(lone_log.POLICY.progress)
    for share in SHARES:
        errors, hits = [], []
        for one in judged:
            if one.share == share:
                low, middle, high = (float(np.interp(one.progress, marks, part)) for part in used[one.p])
                errors.append(abs(math.log(max(one.line * math.exp(middle), one.now) / one.true)))
                hits.append(max(one.now, one.line * math.exp(low)) <= one.true <= one.line * math.exp(high))
        words = f"median error {np.median(errors):.3f}   coverage {np.mean(hits):.0%}" if errors else "refused"
        print(f"  {share:4.0%}  {len(errors):3d} of {of} speak   {words}")


def main() -> None:
    zero = (0.0,) * len(lone_log.POLICY.progress)
    lone_log.POLICY = replace(lone_log.POLICY, median=zero, below=zero, above=zero)  # the line itself
    bank, fresh = shipped_bank(), Bank.load(FRESH)
    runs = scored(bank)
    moduli = sorted({run.settings.p for run in bank})
    whole = levels(runs, moduli)
    print(f"L(val50)/L(0) = {whole[0]:.3f} + {whole[1]:.5f} p")
    every = tables(looks(bank, whole)[0])
    for name, row in zip(("below", "median", "above"), every, strict=True):
        print(f"{name:7s}" + " ".join(f"{value:7.3f}" for value in row))
    used, judged = {}, []
    for p in moduli:
        others = [one for one in moduli if one != p]
        line = levels(runs, others)
        used[p] = tables([one for one in looks(bank, line)[0] if one.p != p])
        judged += looks(bank, line, only=p)[1]
    print("moduli left out")
    show(judged, len(runs), used)
    print("fresh moduli")
    later = looks(fresh, whole)[1]
    show(later, len(scored(fresh)), dict.fromkeys({one.p for one in later}, every))


if __name__ == "__main__":
    main()
