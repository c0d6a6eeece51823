"""When does SGD leave the symmetric plateau? Two students, two random teachers, forecast on the way.

The plateau lasts from the first α with ε below 1.5 ε* to the first with ε below ε*/2, which is forecast. A run that has
not left by the end has its end as outcome: an interval that ends before is a miss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phasecast.studies.arena.dates.held import judged
from phasecast.studies.arena.family import Family, Outcome, log_uniform

UNITS = 2  # of students and of teachers: with more, differences grow at several rates and the clock refuses
INPUTS = 128  # N: the noise of SGD moves the escape by some tenths of τ
LENGTH, POINTS = 20, 401  # of a run in τ, and of its grid
NEAR, LEFT = 1.5, 0.5  # ε/ε* where the plateau begins and ends, as in docs/forecasting.md


@dataclass(frozen=True)
class PlateauRun:
    """Two students on power-law data, and the share of the plateau when they are forecast."""

    modes: int
    exponent: float
    lr: float
    sigma: float
    share: float

    def __str__(self) -> str:
        return (
            f"α of the escape, K = M = {UNITS}, N = {INPUTS}, {self.modes} eigenvalues with β = {self.exponent:g}, η = "
            f"{self.lr:g}, σ = {self.sigma:g}, forecast at {self.share:.0%} of the plateau"
        )


def plateau_run(rng: np.random.Generator) -> PlateauRun:
    """From one to eight eigenvalues, slow to fast, from starts almost alike to starts that differ."""
    return PlateauRun(
        int(rng.choice([1, 2, 4, 8])),
        log_uniform(rng, 0.25, 1),
        log_uniform(rng, 0.3, 1.5),
        log_uniform(rng, 0.01, 0.3),
        round(rng.uniform(0.25, 0.75), 2),
    )


def judge_escape(problem: PlateauRun, seed: int) -> Outcome:
    """The clock at a look on the way, against the rest of the same run of SGD."""
    from phasecast import online
    from phasecast.forecasting.escape import EscapeClock

    spectrum = online.Spectrum.power_law(problem.modes, problem.exponent)
    start = online.OrderParameters.draw(UNITS, UNITS, spectrum, inputs=INPUTS, sigma=problem.sigma, seed=seed)
    T1, T2 = start.moment(1, spectrum).T, start.moment(2, spectrum).T
    grid = np.linspace(0, LENGTH * float(online.escape_time(T1, T2, problem.lr, UNITS)), POINTS)
    run = online.simulate(
        UNITS, UNITS, spectrum, problem.lr, grid, inputs=INPUTS, sigma=problem.sigma, seeds=[seed]
    )[0]  # fmt: skip
    height = float(online.plateau(T1).eps)
    begin, end = (min(run.first_below(level * height), float(grid[-1])) for level in (NEAR, LEFT))
    rows = run.alpha <= begin + problem.share * (end - begin)
    eps = np.asarray(run.estimate)[rows]
    seen = replace(run, estimate=eps, error=np.zeros_like(eps), alpha=run.alpha[rows], R1=run.R1[rows], Q1=run.Q1[rows])
    clock = EscapeClock.of(start, spectrum, problem.lr, inputs=INPUTS)
    made = clock.forecast(seen, seed=seed)
    return judged(made, end, str(problem))


FAMILIES = (
    Family("forecast-escape", "EscapeClock.forecast", "the run of SGD goes on", plateau_run, judge_escape, 24, 3),
)
