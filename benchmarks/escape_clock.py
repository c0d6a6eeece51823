"""How often do forecasts of the end of a plateau hold? Simulated SGD, ten settings, looked at on the way.

Run ``python benchmarks/escape_clock.py`` (some two minutes); ``--seeds 2`` and ``--settings 1`` for a quick look. Ten
settings have two units; 7, 8 and 9 have three, for which the clock is refused.

Criterion, written before the seeds below were run: 80% intervals of the clock (overlaps and settings) hold 75 to 90% of
the outcomes over 100 runs at 25, 50 and 75% of the plateau. The plateau lasts from the first α with ε below 1.5 ε* to
the first with ε below ε*/2, which is what is forecast. Errors and widths are in escape times τ.

Explored: on seeds 0 to 3 of settings 1, 3 and 8 the noise was first taken as Dτ/2; coverage at 75% was too low (a half)
because noise that comes from the growing differences grows with them. Seeds from 100 on were run after that was fixed:
held 67 to 83% in settings 0 to 6 (median 73%), below the criterion. The noise of the rate was then added and checked
on seeds from 200 on: settings 0, 2 and 5 held 94, 71 and 83% of 18 looks each; setting 8 (three teachers, two
directions with different rates) 33%, which is why more than one direction is refused. The loss alone gave dates that
were early by 0.6 τ (37% held), so it gives lower bounds since. All then fixed, seeds 300 to 304 of settings 1, 3, 4 and
6: held 85, 95 and 90% at 25, 50 and 75%, from the start 100%; median errors 0.13, 0.08 and 0.06 τ; the bounds of the
loss alone held in 13 of 13 answers, 47 of 60 looks refused. The table of ten settings was first run on seeds 400 to
409: held 92, 97 and 96%, too wide. Without the noise of the rate, which was an estimate of size, 81, 87 and 82%, and
with two fifths of it 83, 91 and 87%; it was taken out. Then seeds 500
to 509, the default now: held 78, 83 and 84% of the answers, 86% from the start; all looks at three units are refused.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np

from phasecast.core.results import Status
from phasecast.forecasting.escape import EscapeClock, forecast_escape_of_loss
from phasecast.forecasting.result import Forecast
from phasecast.online import Curve, OrderParameters, Spectrum, escape_time, plateau, simulate

# students and teachers, modes, β, learning rate, σ_J
SETTINGS = (
    (2, 1, 0.5, 0.5, 0.1),
    (2, 1, 0.5, 1.0, 0.01),
    (2, 1, 0.5, 1.5, 0.1),
    (2, 4, 0.5, 0.5, 0.01),
    (2, 4, 1.0, 0.3, 0.1),
    (2, 8, 0.25, 0.5, 0.1),
    (2, 2, 1.0, 0.5, 0.3),
    (3, 1, 0.5, 1.0, 0.1),
    (3, 4, 0.5, 0.5, 0.1),
    (3, 2, 0.5, 0.7, 0.01),
    (2, 2, 0.5, 0.7, 0.01),
    (2, 8, 0.5, 0.4, 0.01),
    (2, 1, 1.0, 0.8, 0.03),
)
INPUTS = 128
SHARES = (0.25, 0.5, 0.75)
LENGTH, POINTS = 20, 401  # in median τ, and of the grid
FIRST = 500


def until(run: Curve, alpha: float) -> Curve:
    rows = run.alpha <= alpha
    return replace(run, estimate=run.eps[rows], error=1e-6, alpha=run.alpha[rows], R1=run.R1[rows], Q1=run.Q1[rows])


def judged(made: Forecast, end: float, tau: float) -> tuple[bool, float, float] | None:
    if made.status is Status.REFUSED:
        return None
    if made.high is None:  # a lower bound
        return made.low <= end, (made.low - end) / tau, math.inf
    return made.low <= end <= made.high, (made.value - end) / tau, (made.high - made.low) / tau


def show(name: str, rows: list[tuple[bool, float, float] | None]) -> None:
    spoke = [row for row in rows if row is not None]
    if not spoke:
        print(f"{name:28s} refused {len(rows)} of {len(rows)}")
        return
    hits, gaps, widths = (np.array(column, dtype=float) for column in zip(*spoke, strict=True))
    error, bias, width = np.median(np.abs(gaps)), np.median(gaps), np.median(widths)
    print(
        f"{name:28s} {len(spoke):3d} of {len(rows)}   held {hits.mean():4.0%}   median error {error:.2f} τ"
        f"   bias {bias:+.2f} τ   width {width:.2f} τ"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="runs of each setting")
    parser.add_argument("--first", type=int, default=FIRST, help="first seed")
    parser.add_argument("--settings", type=int, nargs="*", default=range(len(SETTINGS)), help="numbers of settings")
    chosen = parser.parse_args()
    found: dict[str, list[tuple[bool, float, float] | None]] = {}
    never = 0
    for number in chosen.settings:
        units, modes, beta, lr, sigma = SETTINGS[number]
        spectrum, seeds = Spectrum.power_law(modes, beta), range(chosen.first, chosen.first + chosen.seeds)
        starts = [OrderParameters.draw(units, units, spectrum, inputs=INPUTS, sigma=sigma, seed=seed) for seed in seeds]
        moments = [(start.moment(1, spectrum).T, start.moment(2, spectrum).T) for start in starts]
        taus = [float(escape_time(T1, T2, lr, units)) for T1, T2 in moments]
        grid = np.linspace(0, LENGTH * float(np.median(taus)), POINTS)
        runs = simulate(units, units, spectrum, lr, grid, inputs=INPUTS, sigma=sigma, seeds=seeds)
        held: list[bool] = []
        for start, (T1, _), tau, run in zip(starts, moments, taus, runs, strict=True):
            height = plateau(T1).eps
            end = run.first_below(0.5 * height)
            if not math.isfinite(end):
                never += 1
                continue
            entry = run.first_below(1.5 * height)
            clock = EscapeClock.of(start, spectrum, lr, inputs=INPUTS)
            found.setdefault("clock, from the start", []).append(judged(clock.forecast(), end, tau))
            for share in SHARES:
                seen = until(run, entry + share * (end - entry))
                made = judged(clock.forecast(seen), end, tau)
                held += [] if made is None else [made[0]]
                found.setdefault(f"clock at {share:.0%}", []).append(made)
                alone = forecast_escape_of_loss(seen.alpha, seen.eps)
                found.setdefault(f"loss alone at {share:.0%}", []).append(judged(alone, end, tau))
        share = f"{np.mean(held):.0%}" if held else "refused"
        print(f"setting {number} {SETTINGS[number]}: τ = {np.median(taus):.0f}, held {share}", flush=True)
    print(f"runs that never left: {never}")
    for name in sorted(found):
        show(name, found[name])


if __name__ == "__main__":
    main()
