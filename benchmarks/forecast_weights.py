"""Do the weights say more about the step of grokking than the log does? The trainings of the bank, with their weights.

Run ``python benchmarks/forecast_weights.py record weights.npz`` (three minutes of two cores; it resumes, and keeps
what is done), then ``python benchmarks/forecast_weights.py score weights.npz`` (six minutes of one core).

The groups of the study ``grokking-bank`` with N/(p ln p) ≤ 4.2 (above it there is hardly a wait) are trained again, and
their weights are looked at on the way: the mean share of a unit's power at its best frequency (Fourier share), the mean
energy E(w/|w|) in units of its maximum p/4, and ln of the norm of all weights. The forecaster of the product, log +
settings + bank, is then fitted twice to the same runs: as it is, and with these numbers, at the last checkpoint before
the landmark, as further inputs. Whole moduli are held out.

Criterion, written before any score was seen: the weights earn a tier if the median |ln(forecast/val50)| falls by a
tenth or more at two or more of the four shares of the wait, with 90% bootstrap intervals of the ratio (cells of p and N
drawn together) that exclude 1 there, and if 80% intervals still cover 75 to 90%.

Found, at 10, 25, 50 and 75% of the wait, 314 runs of which 285 are scored: .074 .068 .046 .033 without weights (83 86
86 90% of intervals hold), .080 .071 .052 .043 with all three measures (82 85 87 89%), .076 .068 .049 .033 with the
Fourier share, .075 .068 .048 .038 with the energy, .078 .068 .050 .039 with the norm. Explored after that: changes
since memorisation .072 .070 .050 .035, and ln(share·p^0.39) .074 .061 .046 .031, with ratios 1.00 (0.89 to 1.07),
0.89 (0.85 to 0.99), 0.99 (0.90 to 1.04) and 0.94 (0.86 to 1.04). One share of four: the criterion is missed, and
there is no tier.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forecast_scores import SHARES, scored, until
from phasecast.forecasting.bank import CURVE_NAMES, Bank, BankRun, shipped_bank
from phasecast.forecasting.law import LATE
from phasecast.forecasting.model import _fitted, _nearest, landmark
from phasecast.forecasting.signals import Signals, read_signals
from phasecast.grokking import quadratic, split, train
from phasecast.grokking.analysis.curves import alive
from phasecast.grokking.theory.fourier_features import best_frequency, weight_norm
from phasecast.grokking.theory.gradient_signal import energy
from phasecast.grokking.training import checkpoint_steps
from phasecast.studies.grokking.bank import GrokkingBank, groups
from phasecast.studies.grokking.trainings import Group

MEASURES = ("fourier share", "energy", "ln norm")
SINCE = tuple(f"change of {name}" for name in MEASURES)
"""ln of a measure over its value when the training rows were learned: modulus and width drop out (explored)."""
SCALED = "scaled share"
"""ln(share·p^0.39), the same at val50 for all moduli in the prototype (explored)."""
VARIANTS = {
    "log + settings": (),
    "with all three": MEASURES,
    "with Fourier share": MEASURES[:1],
    "with energy": MEASURES[1:2],
    "with ln norm": MEASURES[2:],
    "with changes since memorisation": SINCE,
    "with scaled share": (SCALED,),
}
STEPS = np.array([*range(20, 2000, 40), *range(2000, 8001, 120)])
"""Checkpoints: about as far apart as two rows of the bank's logs, then at most 6% apart."""


def observed(params: dict[str, np.ndarray], tokens: np.ndarray, labels: np.ndarray, p: int) -> list[float]:
    """:data:`MEASURES` of a quadratic network, on its training pairs."""
    W = np.asarray(params["W"], dtype=float)[:, alive(params["V"])]
    share = float(np.mean(best_frequency(W[:p], W[p:])[1]))
    most = energy(W / np.linalg.norm(W, axis=0), tokens, labels, p)[0]
    return [share, 4 * float(np.mean(most)) / p, math.log(weight_norm(params))]


def record_group(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Measures (members, checkpoints, 3) and val50 (members,), NaN where a training had stopped; all stop at the last
    val50."""
    table, members = group.table, len(group.seeds)
    rows = [split(table, group.fraction, seed, count=group.count)[0] for seed in group.seeds]
    found, half = np.full((members, len(STEPS), len(MEASURES)), np.nan), np.full(members, np.nan)
    pieces = train(
        table,
        quadratic(table, group.width),
        steps=group.steps,
        count=group.count,
        lr=group.lr,
        weight_decay=group.weight_decay,
        seeds=group.seeds,
        log_every=group.log_every,
        checkpoints=STEPS,
    )
    for piece in pieces:
        accuracy = piece.curves["validation_accuracy"]
        for member in range(members):
            above = np.flatnonzero(accuracy[:, member] >= 0.5) if len(accuracy) else []
            if len(above) and math.isnan(half[member]):
                half[member] = piece.curves["step"][above[0]]
        if np.isfinite(half).all():
            break
        if piece.at_checkpoint:
            place = int(np.searchsorted(STEPS, piece.step))
            for member in np.flatnonzero(np.isnan(half)):
                tokens, labels = table.tokens[rows[member]], table.labels[rows[member]]
                found[member, place] = observed(piece.params(int(member)), tokens, labels, group.p)
    return found, half


def record(out: Path, seconds: float) -> None:
    """Train group after group; what is done is kept after each."""
    begun = time.monotonic()
    held = dict(np.load(out)) if out.exists() else {}
    wanted = groups(GrokkingBank())
    for number, group in enumerate(wanted):
        late = group.pairs / (group.p * math.log(group.p)) > LATE
        if late or f"measures-{number}" in held or time.monotonic() - begun > seconds:
            continue
        held[f"measures-{number}"], held[f"val50-{number}"] = record_group(group)
        np.savez_compressed(out, allow_pickle=False, **held)
        print(f"group {number} of {len(wanted)}: p = {group.p}, N = {group.pairs}, {time.monotonic() - begun:.0f} s")


@dataclasses.dataclass(frozen=True, eq=False)
class WeighedRun(BankRun):
    """A run with measures (checkpoints, inputs) of its weights."""

    checkpoints: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))
    weights: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 0)))


def bank_with_weights(
    path: Path, variant: str, names: tuple[str, ...], many: int | None
) -> tuple[Bank, list[WeighedRun]]:
    """The trainings of the bank of which weights were recorded; their signals have the measures behind them.

    ``many`` keeps about so many of the checkpoints, as a stored run has: half evenly in log time, half evenly in time.
    """
    held, whole, runs, at = np.load(path), shipped_bank(), [], 0
    kept = np.arange(len(STEPS))
    if many is not None:
        wanted = np.array(checkpoint_steps(int(STEPS[-1]), many))
        kept = np.unique(np.searchsorted(STEPS, wanted).clip(0, len(STEPS) - 1))
    columns = [(*MEASURES, *SINCE, SCALED).index(name) for name in names]
    for number, group in enumerate(groups(GrokkingBank())):
        for member in range(len(group.seeds)):
            run = whole.runs[at]
            at += 1
            assert (run.settings.p, run.settings.n, run.settings.lr) == (group.p, group.pairs, group.lr[member])
            if f"measures-{number}" not in held:
                continue
            half = held[f"val50-{number}"][member]
            if (run.val50 or math.nan) != half and not (run.val50 is None and math.isnan(half)):
                differing.append((run.val50, half))
                continue
            weights = further(held[f"measures-{number}"][member][kept], STEPS[kept], run)[:, columns]
            runs.append(
                WeighedRun(
                    run.settings,
                    *(getattr(run, name) for name in CURVE_NAMES),
                    outcome=run.outcome,
                    checkpoints=STEPS[kept],
                    weights=weights,
                )
            )
    bank = Bank(tuple(runs), variant)
    for run in runs:
        for place in range(60):
            step = (run.train99 or math.inf) + landmark(place)
            if step < (run.val50 or run.window):
                run.read[step] = with_weights(read_signals(run, step), run)
    return bank, runs


def further(weights: np.ndarray, steps: np.ndarray, run: BankRun) -> np.ndarray:
    """The measures, their changes since memorisation, and the scaled share."""
    first = max(0, int(np.searchsorted(steps, run.train99 or 0, side="right")) - 1)
    logs = np.concatenate([np.log(weights[:, :2]), weights[:, 2:]], axis=1)
    scaled = logs[:, :1] + 0.39 * math.log(run.settings.p)
    return np.concatenate([weights, logs - logs[first], scaled], axis=1)


differing: list[tuple[float | None, float]] = []
"""val50 of the bank and of the training repeated, where they are not equal."""


def with_weights(signals: Signals | None, run: WeighedRun) -> Signals | None:
    """Signals with the measures at the last checkpoint before them; None before the first."""
    if signals is None or not run.weights.shape[1]:
        return signals
    place = int(np.searchsorted(run.checkpoints, signals.step, side="right")) - 1
    if place < 0 or not np.isfinite(run.weights[place]).all():
        return None
    return Signals(signals.step, signals.train99, np.concatenate([signals.values, run.weights[place]]))


def answers(run: WeighedRun, bank: Bank) -> dict[float, tuple[float, float, float, float]]:
    """ln of median, low, high and outcome at each share of the wait; a share is missing where nothing can be said."""
    start, found = float(run.train99 or 0), {}
    for share in SHARES:
        log = until(run, start + share * (float(run.val50 or 0) - start))
        signals = with_weights(read_signals(log), run)
        if signals is None:
            continue
        model = _fitted(bank, "settings", _nearest(signals.elapsed))
        middle, low, high = model.quantiles(signals, run.settings, (0.5, 0.1, 0.9))
        earliest = float(log.step[-1]) + 20
        found[share] = tuple(np.log([max(middle, earliest), low, max(high, earliest), float(run.val50 or 0)]))
    return found


def score(path: Path, many: int | None, variants: Sequence[str]) -> None:
    """Both forecasters on whole moduli held out, and how much the weights change."""
    results: dict[str, dict[tuple[int, float], tuple[float, ...]]] = {}
    cells: list[tuple[int, int]] = []
    for variant in variants:
        names = VARIANTS[variant]
        bank, runs = bank_with_weights(path, variant, names, many)
        parts = {p: bank.without(p) for p in {run.settings.p for run in runs}}
        waited = [run for run in runs if scored([run])]
        cells = [(run.settings.p, run.settings.n) for run in waited]
        results[variant] = {
            (at, share): answer
            for at, run in enumerate(waited)
            for share, answer in answers(run, parts[run.settings.p]).items()
        }
        if variant == "log + settings":
            print(f"{len(runs)} runs with weights, {len(waited)} scored; {len(differing)} did not repeat to the bit")
    common = set.intersection(*(set(one) for one in results.values()))
    rng = np.random.default_rng(0)
    groups_of_cells = [np.flatnonzero([cell == one for cell in cells]) for one in sorted(set(cells))]
    plain = None
    for variant, found in results.items():
        error = {share: np.full(len(cells), np.nan) for share in SHARES}
        inside = {share: np.full(len(cells), np.nan) for share in SHARES}
        width = {share: np.full(len(cells), np.nan) for share in SHARES}
        for at, share in common:
            middle, low, high, true = found[at, share]
            error[share][at], inside[share][at] = abs(middle - true), low <= true <= high
            width[share][at] = high - low
        plain = plain or error
        print(f"\n{variant}")
        print("  median error  " + " ".join(f"{np.nanmedian(error[share]):.3f}" for share in SHARES))
        print("  coverage      " + " ".join(f"{np.nanmean(inside[share]):.0%}" for share in SHARES))
        print("  ln(high/low)  " + " ".join(f"{np.nanmedian(width[share]):.2f}" for share in SHARES))
        ratios = {share: [] for share in SHARES}
        for _ in range(2000):
            drawn = rng.integers(len(groups_of_cells), size=len(groups_of_cells))
            rows = np.concatenate([groups_of_cells[one] for one in drawn])
            for share in SHARES:
                ratios[share].append(np.nanmedian(error[share][rows]) / np.nanmedian(plain[share][rows]))
        words = [
            f"{np.nanmedian(error[share]) / np.nanmedian(plain[share]):.2f} "
            f"({np.quantile(ratios[share], 0.05):.2f}–{np.quantile(ratios[share], 0.95):.2f})"
            for share in SHARES
        ]
        print("  ratio (90%)   " + "  ".join(words))
        for p in sorted({cell[0] for cell in cells}):
            rows = np.array([cell[0] == p for cell in cells])
            print(f"    p = {p}: " + " ".join(f"{np.nanmedian(error[share][rows]):.3f}" for share in SHARES))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=("record", "score"))
    parser.add_argument("file", type=Path, help="where the weights' measures are kept")
    parser.add_argument("--seconds", type=float, default=math.inf, help="record: begin no group after this time")
    parser.add_argument("--variants", nargs="*", default=[*VARIANTS], choices=[*VARIANTS], help="score: these only")
    parser.add_argument("--checkpoints", type=int, help="score: only so many checkpoints, as of a stored run")
    chosen = parser.parse_args()
    if chosen.task == "record":
        record(chosen.file, chosen.seconds)
    else:
        score(chosen.file, chosen.checkpoints, chosen.variants)


if __name__ == "__main__":
    main()
