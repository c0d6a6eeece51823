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
from typing import Any

import numpy as np
from scipy.optimize import minimize

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Measurement, Status
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.simulation.descent import Data, draw_data, walk

LEVEL = 0.5
PER_LOG = 50.0  # c of the horizon
LOOK_EVERY = 5  # steps between looks at the cosine


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
        if t % LOOK_EVERY and t != steps:
            continue
        lengths = np.linalg.norm(theta, axis=0)
        if not np.isfinite(lengths).all():
            return math.inf
        if np.max(np.linalg.norm(hard.T @ theta[:k], axis=0) / lengths) > level:
            return float(t)
    return math.inf


def successes(
    network: Network,
    target: Target,
    delta: float,
    lr: float,
    *,
    dimension: int,
    seeds: int | Sequence[int] = 8,
    steps: int | None = None,
    level: float = LEVEL,
    project: bool = False,
) -> np.ndarray:
    """:func:`first_success` of several draws of examples and weights, shape (seeds,), up to T(d) if not given."""
    if not 0 < level < 1:
        raise BadInput(f"a cosine of {level:g} is no success", "use a level between 0 and 1")
    last = horizon(dimension, lr) if steps is None else whole_number("steps", steps, 1)
    numbers = range(whole_number("seeds", seeds, 1)) if isinstance(seeds, int) else seeds
    return np.array(
        [
            first_success(
                draw_data(network, target, delta, dimension, seed=seed), lr, last, level=level, project=project
            )
            for seed in numbers
        ]
    )


def half_success(deltas: Sequence[float], won: Any, tried: Any) -> Measurement:
    """δ₅₀ of one dimension from successes and tries at each δ, by maximum likelihood.

    Refused where the δ tried do not hold it.

    Where the change is sharper than the grid the width is held at a quarter of its spacing, and the error is that of a
    place known to lie between two neighbours.

    >>> print(half_success([2, 4, 8, 16], [0, 1, 7, 8], [8, 8, 8, 8]).status)
    ok
    """
    x, wins, all_ = (
        np.log(np.asarray(deltas, dtype=float)),
        np.asarray(won, dtype=float),
        np.asarray(tried, dtype=float),
    )
    if not (x.ndim == 1 and x.shape == wins.shape == all_.shape and len(x) >= 2 and (np.diff(x) > 0).all()):
        raise BadInput("success needs rising δ with as many counts", "give at least two δ, their successes and tries")
    share = wins / all_
    diagnostics = {"share": share, "tried": all_}
    if share.max() < 0.5 or share.min() > 0.5:
        where = f"above {deltas[-1]:g}" if share.max() < 0.5 else f"below {deltas[0]:g}"
        return _unknown(f"half of the runs succeed only {where}; try δ there", diagnostics)
    spacing = float(np.median(np.diff(x)))

    def unlikely(unknowns: np.ndarray) -> float:
        drive = (x - unknowns[0]) / math.exp(unknowns[1])
        return float((wins * np.logaddexp(0, -drive) + (all_ - wins) * np.logaddexp(0, drive)).sum())

    crossing = float(np.interp(0.5, np.maximum.accumulate(share), x))
    bounds = [(x[0] - spacing, x[-1] + spacing), (math.log(spacing / 4), math.log(np.ptp(x) + spacing))]
    found = minimize(unlikely, [crossing, math.log(spacing)], bounds=bounds, method="L-BFGS-B")
    place, width = float(found.x[0]), math.exp(float(found.x[1]))
    if not x[0] <= place <= x[-1]:
        return _unknown("success does not pass one half between the δ tried; try others, or more runs", diagnostics)
    weight = 1 / (1 + np.exp(-(x - place) / width))
    information = float((all_ * weight * (1 - weight)).sum()) / width**2
    sharper = width < 1.01 * spacing / 4  # at its bound
    error = max(information**-0.5, spacing / math.sqrt(12) if sharper else 0.0)
    value = math.exp(place)
    return Measurement(value, value * error, Status.OK, {**diagnostics, "width": width}, error_kind="seeds", name="δ₅₀")


def _unknown(reason: str, diagnostics: dict[str, Any]) -> Measurement:
    return Measurement(
        math.nan, 0.0, Status.REFUSED, diagnostics, error_kind="seeds", reasons=[reason], name="δ₅₀"
    )  # fmt: skip


def finite_size(dimensions: Sequence[int], places: Sequence[Measurement]) -> Measurement:
    """δ₅₀ for d → ∞: straight lines in d^{-1/2} and in 1/ln d, halfway between, with half their distance as an error.

    A warning with fewer than four dimensions or where neither line fits.
    """
    kept = [(d, one) for d, one in zip(dimensions, places, strict=True) if one.status is not Status.REFUSED]
    if len({d for d, _ in kept}) < 2:
        reasons = ["fewer than two dimensions have a δ₅₀; try other δ, or more dimensions"]
        return Measurement(math.nan, 0.0, Status.REFUSED, error_kind="seeds", reasons=reasons, name="δ₅₀(∞)")
    d = np.array([d for d, _ in kept], dtype=float)
    y = np.array([float(np.asarray(one.value)) for _, one in kept])
    s = np.array([float(np.asarray(one.error)) for _, one in kept])
    found = {}
    for name, x in (("d^(-1/2)", d**-0.5), ("1/ln d", 1 / np.log(d))):
        design = np.stack([np.ones_like(x), x], axis=1) / s[:, None]
        covariance = np.linalg.inv(design.T @ design)
        line = covariance @ design.T @ (y / s)
        found[name] = (line[0], math.sqrt(covariance[0, 0]), line[1], float(((design @ line - y / s) ** 2).sum()))
    ends = np.array([one[0] for one in found.values()])
    statistical = max(one[1] for one in found.values())
    reasons = []
    if len(kept) < 4:
        reasons.append(f"{len(kept)} dimensions cannot tell how δ₅₀ moves with d; add larger ones")
    if len(kept) > 2 and min(one[3] for one in found.values()) > 3 * (len(kept) - 2) + 3:
        reasons.append("neither line fits; the δ₅₀ bend: add larger dimensions")
    diagnostics = {name: {"limit": one[0], "slope": one[2], "chi2": one[3]} for name, one in found.items()}
    status = Status.WARNING if reasons else Status.OK
    error = math.hypot(statistical, abs(ends[0] - ends[1]) / 2)
    return Measurement(
        float(ends.mean()), error, status, diagnostics, error_kind="seeds", reasons=reasons, name="δ₅₀(∞)"
    )
