"""From which δ on does gradient descent find a hard direction, and how does that move with the dimension?

A run succeeds when the cosine between a unit's weights and the hard subspace exceeds a level (1/2 on the slides of
Wang & Montanari 2026) at some step up to a horizon T(d). A hard direction starts at a cosine of order 1/√d and grows by
a factor a step, so the horizon is c·ln(d)/η. The share of successes is fitted by

.. math:: P(\\delta) = \\frac{1}{1 + (\\delta_{50}/\\delta)^{1/w}}

for each d, and δ₅₀(d) is extrapolated both in d^{-1/2} and in 1/ln d: what lies between the two is an error, because
which of them holds is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import weighted_line
from phasecast.features.policy import SIMULATION
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.simulation.descent import Data, draw_data, walk
from phasecast.progress import report_step, shows_progress

LEVEL = 0.5  # the cosine that is a success on the slides of Wang & Montanari 2026
PER_LOG = 50.0  # c of the horizon; chosen, not derived
CHECK_EVERY = 5  # steps between evaluations of the cosine, small against the horizon; chosen


def horizon(dimension: int, lr: float, per_log: float = PER_LOG) -> int:
    """T(d) = c·ln(d)/η, in steps.

    >>> horizon(300, 0.5)
    571
    """
    return math.ceil(per_log * math.log(dimension) / lr)


def first_success(data: Data, lr: float, steps: int, *, level: float = LEVEL, project: bool = False) -> float:
    """The first step, of every fifth, at which a unit's cosine with the hard subspace exceeds the level; ∞ if none."""
    hard, k = data.target.hard, data.target.latents
    if not hard.size:
        raise BadInput(f"the target '{data.target.name}' has no hard direction", "use an even one, like z**2")
    for t, theta, _ in walk(data, lr, steps, project=project):
        if t % CHECK_EVERY and t != steps:
            continue
        lengths = np.linalg.norm(theta, axis=0)
        if not np.isfinite(lengths).all():
            return math.inf
        if np.max(np.linalg.norm(hard.T @ theta[:k], axis=0) / lengths) > level:
            return float(t)
    return math.inf


@shows_progress("gradient descent")
def successes(  # wide signature: public keywords of a set of runs
    network: Network,
    target: str | Target,
    delta: float,
    lr: float,
    *,
    dimension: int,
    seeds: int | Sequence[int] = 8,
    steps: int | None = None,
    level: float = LEVEL,
    project: bool = False,
    progress: bool = True,
) -> np.ndarray:
    """:func:`first_success` of several draws of examples and weights, shape (seeds,); ``steps`` defaults to T(d)."""
    if not 0 < level < 1:
        raise BadInput(f"invalid level {level:g}", "use a cosine between 0 and 1")
    last = horizon(dimension, lr) if steps is None else whole_number("steps", steps, 1)
    numbers = range(whole_number("seeds", seeds, 1)) if isinstance(seeds, int) else seeds
    steps_needed = []
    for seed in numbers:
        report_step(f"δ = {delta:.3g}, d = {dimension}", len(steps_needed), len(numbers))
        data = draw_data(network, target, delta, dimension, seed=seed)
        steps_needed.append(first_success(data, lr, last, level=level, project=project))
    return np.array(steps_needed)


def half_success(deltas: Sequence[float] | np.ndarray, won: ArrayLike, tried: ArrayLike) -> Measurement[float]:
    """δ₅₀ of one dimension from successes and tries at each δ, by maximum likelihood.

    Refused where it lies outside of the δ tried. Where the rise is sharper than the grid its width is held at a quarter
    of the spacing, and the error is that of a point known to lie between two neighbours.

    >>> print(half_success([2, 4, 8, 16], [0, 1, 7, 8], [8, 8, 8, 8]).status)
    ok
    """
    from scipy.optimize import minimize

    x, wins, all_ = (
        np.log(np.asarray(deltas, dtype=float)),
        np.asarray(won, dtype=float),
        np.asarray(tried, dtype=float),
    )
    if not (x.ndim == 1 and x.shape == wins.shape == all_.shape and len(x) >= 2 and (np.diff(x) > 0).all()):
        raise BadInput("success needs rising δ and as many counts", "pass at least two δ, their successes and tries")
    share = wins / all_
    diagnostics = {"share": share, "tried": all_}

    def refused(reason: str) -> Measurement[float]:
        return Measurement[float].refused(
            reason, error_kind="seeds", name="δ₅₀", diagnostics=diagnostics, policy=SIMULATION.plain()
        )

    if share.max() < 0.5 or share.min() > 0.5:
        where = f"above {deltas[-1]:g}" if share.max() < 0.5 else f"below {deltas[0]:g}"
        return refused(f"half of the runs succeed only {where}; add δ there")
    spacing = float(np.median(np.diff(x)))

    def unlikely(unknowns: np.ndarray) -> float:
        drive = (x - unknowns[0]) / math.exp(unknowns[1])
        return float((wins * np.logaddexp(0, -drive) + (all_ - wins) * np.logaddexp(0, drive)).sum())

    crossing = float(np.interp(0.5, np.maximum.accumulate(share), x))
    bounds = [
        (x[0] - spacing, x[-1] + spacing),
        (math.log(SIMULATION.sharpest_width * spacing), math.log(np.ptp(x) + spacing)),
    ]
    fit = minimize(unlikely, [crossing, math.log(spacing)], bounds=bounds, method="L-BFGS-B")
    place, width = float(fit.x[0]), math.exp(float(fit.x[1]))
    if not x[0] <= place <= x[-1]:
        return refused("success does not cross one half between the δ tried; add others, or more runs")
    weight = 1 / (1 + np.exp(-(x - place) / width))
    information = float((all_ * weight * (1 - weight)).sum()) / width**2
    sharper = width < 1.01 * SIMULATION.sharpest_width * spacing  # at its bound
    over_runs, resolution = information**-0.5, spacing / math.sqrt(12) if sharper else 0.0
    value = math.exp(place)
    return Measurement(
        value, value * max(over_runs, resolution), diagnostics={**diagnostics, "width": width}, name="δ₅₀",
        error_kind="resolution" if resolution > over_runs else "seeds", policy=SIMULATION.plain(),
    )  # fmt: skip


def finite_size(dimensions: Sequence[int], places: Sequence[Measurement]) -> Measurement[float]:
    """δ₅₀ for d → ∞: straight lines in d^{-1/2} and in 1/ln d, halfway between, with half their distance as an error.

    A warning with fewer than four dimensions or where neither line fits.
    """
    known = [(d, one) for d, one in zip(dimensions, places, strict=True) if one.status is not Status.REFUSED]
    if len({d for d, _ in known}) < 2:
        reason = "fewer than two dimensions have a δ₅₀; try other δ, or more dimensions"
        return Measurement[float].refused(reason, error_kind="seeds", name="δ₅₀(∞)", policy=SIMULATION.plain())
    d = np.array([d for d, _ in known], dtype=float)
    y, errors = [float(one) for _, one in known], [float(one.error) for _, one in known]
    lines = {name: weighted_line(x, y, errors) for name, x in (("d^(-1/2)", d**-0.5), ("1/ln d", 1 / np.log(d)))}
    ends = [line.intercept for line in lines.values()]
    statistical = max(line.intercept_error for line in lines.values())
    reasons = []
    if len(known) < SIMULATION.fewest_dimensions:
        reasons.append(f"{len(known)} dimensions cannot determine how δ₅₀ changes with d; add larger ones")
    largest = SIMULATION.largest_chi_squared * (len(known) - 2 + 1)
    if len(known) > 2 and min(line.chi_squared for line in lines.values()) > largest:
        reasons.append("neither line fits, δ₅₀ is curved; add larger dimensions")
    diagnostics = {
        name: {"limit": line.intercept, "slope": line.slope, "chi2": line.chi_squared} for name, line in lines.items()
    }
    return Measurement(
        float(np.mean(ends)), math.hypot(statistical, abs(ends[0] - ends[1]) / 2),
        Status.WARNING if reasons else Status.OK, diagnostics, error_kind="seeds", reasons=reasons, name="δ₅₀(∞)",
        policy=SIMULATION.plain(),
    )  # fmt: skip
