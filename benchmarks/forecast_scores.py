"""How good are forecasts of grokking from a bank? Whole moduli held out, then moduli trained after all was fixed.

Run ``python benchmarks/forecast_scores.py`` (twenty seconds); ``--quick`` scores a few runs, ``--fresh FILE`` a bank of
other fresh runs than those in ``forecast_fresh.npz``.

Criteria, written before any score was seen (median |ln(forecast/true)| of the step at which validation accuracy passes
50%, for runs that wait at least 200 steps after train99; the forecaster sees the log up to a share of the wait):

======  ===========  ======================
share   log + bank   log + settings + bank
======  ===========  ======================
10%     ≤ .23        ≤ .09
25%     ≤ .16        ≤ .08
50%     ≤ .085       ≤ .065
75%     ≤ .05        ≤ .04
======  ===========  ======================

80% intervals cover 75–90% at each share and at least 75% at each modulus; better than every baseline at every share;
before step 0, the area under the ROC curve of "generalises within B steps" is at least .95.

The protocol knows the wait, so it can leak: "as long again" (step + elapsed) is right at 50% by construction.
Forecasters are fitted at numbers of steps since train99, never at shares of the wait.

Explored, that is, chosen after seeing held-out scores of the shipped bank: the cubic in 1/r of the clock law, its end
at r = 4.2; the landmarks (ratio 1.5, three fitted together); the length of the kernel; step 20 among the early losses;
and the second-worst modulus for intervals. About twenty variants were compared. Everything was then fixed, and only
after that the fresh moduli were trained, with other seeds::

    phasecast run grokking-bank --set p=[21,31] fractions=[] zones=6 lowest=2.8 highest=3.7 runs=3 seed=1000000

Found: log + settings + bank meets its bar at every share, on held-out moduli (.080 .069 .049 .034, coverage 81–89%,
at least 76% at each modulus) and on the fresh ones (.052 .051 .042 .018; coverage 89–97%: too wide there). Log + bank
was .256 .160 .080 .038, and .155 .124 .093 .035 on the fresh moduli. Then one change was made by argument, without
variants: accuracies are whole numbers over N and p² − N, so the log shows modulus and rows (73 runs with a tenth of the
wait over: 68 right, 5 unknown, none wrong). Now .134 .091 .066 .046 (84–90%; 72% at p = 13, below its bar of 75%) and
.069 .058 .046 .029 on the fresh moduli (89–100%). The lone log has its own script, ``forecast_lone_log.py``; what is
outside the bank ``forecast_families.py``.

Those 72% are extrapolation: a bank without 13 begins at 17, more than its slack of a tenth away, and settings there
are refused; since then a log that shows such a modulus is, too. Inside the bank (``--cells 13``: one size of the
training set held out at a time, 62 runs) log + bank has .147 .090 .076 .053, coverage 72 81 79 87%, 80% together, and
log + settings + bank .088 .077 .056 .045, coverage 81 81 77 84%. Intervals were therefore not widened at the edge.

Added after the fresh scores were seen, and not confirmed by them, as all fresh runs generalise: the factor of "ever"
in the chance before step 0, without which 17 with 40% of the table was promised within 8000 steps at lr = 0.005.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from phasecast.forecasting.bank import CURVE_NAMES, Bank, BankRun, shipped_bank
from phasecast.forecasting.law import ClockLaw
from phasecast.forecasting.model import forecast_before_start, forecast_with_bank
from phasecast.forecasting.settings import Settings
from phasecast.forecasting.signals import read_signals
from phasecast.forecasting.survival import Logistic, fit_logistic

SHARES = (0.1, 0.25, 0.5, 0.75)
SHORTEST = 200  # steps between train99 and val50; with fewer there is nothing to forecast
WINDOWS = (8000, 4000, 2000)
FRESH = Path(__file__).with_name("forecast_fresh.npz")
BAR = {"log + bank": (0.23, 0.16, 0.085, 0.05), "log + settings + bank": (0.09, 0.08, 0.065, 0.04)}
Answer = tuple[float, float, float | None]
Forecaster = Callable[[BankRun, Bank], Answer]


@dataclass
class Scores:
    """The answers of one forecaster: (share, p, step, low, median, high, true)."""

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, share: float, run: BankRun, step: float, answer: Answer) -> None:
        median, low, high = answer
        self.rows.append((share, run.settings.p, step, low, median, math.inf if high is None else high, run.val50 or 0))

    def table(self) -> dict[str, np.ndarray]:
        return dict(zip(("share", "p", "step", "low", "median", "high", "true"), np.array(self.rows).T, strict=True))

    def errors(self, share: float) -> np.ndarray:
        one = self.table()
        return np.abs(np.log(one["median"] / one["true"]))[one["share"] == share]

    def remaining(self, share: float) -> float:
        one = self.table()
        left = np.maximum(one["median"] - one["step"], 1) / np.maximum(one["true"] - one["step"], 1)
        return float(np.median(np.abs(np.log(left))[one["share"] == share]))

    def coverage(self, share: float | None = None, p: float | None = None) -> float:
        one = self.table()
        rows = np.ones(len(one["p"]), bool)
        rows &= True if share is None else one["share"] == share
        rows &= True if p is None else one["p"] == p
        return float(np.mean((one["low"] <= one["true"]) & (one["true"] <= one["high"]), where=rows))

    def one_sided(self, share: float) -> float:
        one = self.table()
        return float(np.mean(np.isinf(one["high"])[one["share"] == share]))

    def width(self, share: float) -> float:
        one = self.table()
        rows = (one["share"] == share) & np.isfinite(one["high"])
        return float(np.median(np.log(one["high"] / one["low"])[rows])) if rows.any() else math.nan


def until(run: BankRun, step: float) -> BankRun:
    """The run as its log was at a step; what comes later is not there."""
    rows = run.step <= step
    return BankRun(run.settings, *(getattr(run, name)[rows] for name in CURVE_NAMES))


def scored(bank: Iterable[BankRun]) -> list[BankRun]:
    return [
        run for run in bank if run.val50 is not None and run.train99 is not None and run.val50 - run.train99 >= SHORTEST
    ]


def settings_terms(settings: list[Settings]) -> np.ndarray:
    """The ten constants of the settings regression, without the scatter."""
    r = np.array([one.ratio for one in settings]) - 3
    p, lr, wd = (np.log([getattr(one, name) for one in settings]) for name in ("p", "lr", "weight_decay"))
    p, lr, wd = p - math.log(20), lr - math.log(2e-3), wd - math.log(1e-4)
    return np.stack([np.ones_like(r), r, r**2, r**3, p, p * r, lr, wd, lr * r, wd * r], axis=1)


def settings_regression(bank: Bank) -> Logistic:
    """ln val50 as a polynomial in the settings, with censoring: what has to be beaten."""
    if "settings regression" not in bank.fits:
        y = np.log([run.val50 or run.window for run in bank])
        seen = np.array([run.val50 is not None for run in bank])
        bank.fits["settings regression"] = fit_logistic(settings_terms([run.settings for run in bank]), y, seen, 0.1)
    return bank.fits["settings regression"]  # type: ignore[return-value]


def clock_law(bank: Bank) -> ClockLaw:
    if "clock law" not in bank.fits:
        bank.fits["clock law"] = ClockLaw.of(bank)
    return bank.fits["clock law"]  # type: ignore[return-value]


def with_settings(log: BankRun, bank: Bank) -> Answer:
    one = forecast_with_bank(log, log.settings, bank)
    return one.median, one.low, one.high


def log_only(log: BankRun, bank: Bank) -> Answer:
    one = forecast_with_bank(log, None, bank)
    return one.median, one.low, one.high


def by_clock(log: BankRun, bank: Bank) -> Answer:
    now = np.array([float(log.step[-1])])
    return float(np.exp(clock_law(bank).medians_after([log.settings], now)[0])), math.nan, None


def by_settings(log: BankRun, bank: Bank) -> Answer:
    terms = settings_terms([log.settings])
    after = settings_regression(bank).median_after(terms, np.log([float(log.step[-1])]))
    return float(np.exp(after[0])), math.nan, None


def bank_median(log: BankRun, bank: Bank) -> Answer:
    later = [run.val50 for run in bank if run.val50 is not None and run.val50 > log.step[-1]]
    return float(np.median(later)) if later else bank.window, math.nan, None


def as_long_again(log: BankRun, bank: Bank) -> Answer:
    return float(2 * log.step[-1] - (log.train99 or 0)), math.nan, None


def straight_line(log: BankRun, bank: Bank) -> Answer:
    signals = read_signals(log)
    ahead = signals["line of last half"] if signals else math.inf
    return float(log.step[-1] * math.exp(min(ahead, 10))), math.nan, None


FORECASTERS: dict[str, Forecaster] = {
    "bank median, given not yet": bank_median,
    "as long again": as_long_again,
    "straight line, no bank": straight_line,
    "settings regression": by_settings,
    "clock law": by_clock,
    "log + bank": log_only,
    "log + settings + bank": with_settings,
}


def score(
    runs: list[BankRun], bank_for: Callable[[BankRun], Bank], names: Iterable[str] = tuple(FORECASTERS)
) -> dict[str, Scores]:
    """Forecasters at all shares of the wait of all runs."""
    scores = {name: Scores() for name in names}
    for run in runs:
        bank, start = bank_for(run), float(run.train99 or 0)
        for share in SHARES:
            log = until(run, start + share * ((run.val50 or 0) - start))
            if read_signals(log) is None:
                continue
            for name, one in scores.items():
                one.add(share, run, float(log.step[-1]), FORECASTERS[name](log, bank))
    return scores


def show(scores: dict[str, Scores]) -> None:
    print(f"{'median |ln(forecast/true)|':28s}" + "".join(f"{share:8.0%}" for share in SHARES) + "   remaining time")
    for name, one in scores.items():
        cells = "".join(f"{np.median(one.errors(share)):8.3f}" for share in SHARES)
        print(f"{name:28s}{cells}   " + " ".join(f"{one.remaining(share):.3f}" for share in SHARES))
    for name, bar in BAR.items():
        one = scores[name]
        met = ["yes" if np.median(one.errors(share)) <= most else "NO" for share, most in zip(SHARES, bar, strict=True)]
        print(f"{name}: bar {bar} met: {' '.join(met)}")
        print("  coverage of 80%  " + " ".join(f"{one.coverage(share):.0%}" for share in SHARES), end="")
        print("   ln(high/low) " + " ".join(f"{one.width(share):.2f}" for share in SHARES), end="")
        print("   lower bounds " + " ".join(f"{one.one_sided(share):.0%}" for share in SHARES))
        moduli = sorted({row[1] for row in one.rows})
        print("  by modulus       " + " ".join(f"{p:.0f}: {one.coverage(p=p):.0%}" for p in moduli))
        tenths = " ".join(f"{np.quantile(one.errors(share), 0.9):.3f}" for share in SHARES)
        print(f"  90th percentile of the error {tenths}; answers {len(one.rows)}")


def show_cells(bank: Bank, p: int) -> None:
    """One modulus inside the bank: its sizes of the training set are held out one at a time, its other sizes stay."""
    runs = [run for run in scored(bank) if run.settings.p == p]
    parts = {
        n: Bank(tuple(run for run in bank if (run.settings.p, run.settings.n) != (p, n)), bank.name)
        for n in {run.settings.n for run in runs}
    }
    print(f"p = {p}, sizes of the training set held out one at a time: {len(runs)} runs")
    show(score(runs, lambda run: parts[run.settings.n], BAR))


def area(score: np.ndarray, positive: np.ndarray) -> float:
    """The area under the ROC curve: the probability that a positive one ranks above a negative one."""
    high, low = score[positive], score[~positive]
    if not len(high) or not len(low):
        return math.nan
    return float(np.mean((high[:, None] > low[None]) + 0.5 * (high[:, None] == low[None])))


def show_areas(bank: Bank) -> None:
    """Will it generalise within B steps? Before step 0, whole moduli held out."""
    print("within B steps, before step 0: area under the ROC curve (settings | N/(p ln p) alone), runs that do not")
    parts = {p: bank.without(p) for p in {run.settings.p for run in bank}}
    ratio = np.array([run.settings.ratio for run in bank])
    for window in WINDOWS:
        chance = np.array([forecast_before_start(r.settings, parts[r.settings.p], window).chance for r in bank])
        within = np.array([run.val50 is not None and run.val50 <= window for run in bank])
        brier = float(np.mean((chance - within) ** 2))
        print(
            f"  B = {window}: {area(chance, within):.3f} | {area(ratio, within):.3f}   {np.sum(~within)} of {len(bank)}"
            f"   Brier score {brier:.3f} (constant: {within.mean() * (1 - within.mean()):.3f})"
        )


def show_before_start(runs: list[BankRun], bank_for: Callable[[BankRun], Bank]) -> None:
    """Error and coverage of what is said before step 0, from the settings alone."""
    answers = [forecast_before_start(run.settings, bank_for(run)) for run in runs]
    true = np.array([run.val50 for run in runs], dtype=float)
    error = np.abs(np.log(np.array([one.median for one in answers]) / true))
    inside = [one.low <= step <= (one.high or math.inf) for one, step in zip(answers, true, strict=True)]
    print(f"before step 0, settings only: median error {np.median(error):.3f}, coverage of 80% {np.mean(inside):.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few runs of one modulus")
    parser.add_argument("--bank", type=Path, help="a bank instead of the shipped one")
    parser.add_argument("--cells", type=int, help="only this modulus, its sizes of the training set held out in turn")
    parser.add_argument("--fresh", type=Path, default=FRESH, help="a bank of fresh moduli, scored with the whole bank")
    chosen = parser.parse_args()
    bank = Bank.load(chosen.bank) if chosen.bank else shipped_bank()
    if chosen.cells:
        show_cells(bank, chosen.cells)
        return
    runs = scored(bank)
    never = sum(run.val50 is None for run in bank)
    print(f"{len(bank)} runs: {len(runs)} wait at least {SHORTEST} steps, {never} never in the window\n")
    if chosen.quick:
        runs = [run for run in runs if run.settings.p == bank.runs[0].settings.p][:4]
    parts = {p: bank.without(p) for p in {run.settings.p for run in runs}}
    show(score(runs, lambda run: parts[run.settings.p]))
    print()
    show_before_start(runs, lambda run: parts[run.settings.p])
    show_areas(bank)
    if chosen.fresh:
        fresh = Bank.load(chosen.fresh)
        runs = scored(fresh)[:4] if chosen.quick else scored(fresh)
        print(f"\nfresh moduli, {len(runs)} of {len(fresh)} runs scored")
        show(score(runs, lambda run: bank))
        show_before_start(runs, lambda run: bank)


if __name__ == "__main__":
    main()
