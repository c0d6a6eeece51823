"""Where does an outlier appear, given only the margin on a grid of δ for some seeds?

The margin is the least eigenvalue of Ψ at min(0, edge), negative where the Hessian has an informative outlier; see
:mod:`phasecast.features.hessian_spectrum`. Decoupled descent gives it at any time and also for variants of gradient
descent that the equations of the limit do not cover, such as weights put back on the sphere after every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from phasecast.core.errors import BadInput, Refused
from phasecast.core.results import Measurement
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.decoupled import decoupled
from phasecast.features.hessian_spectrum import hessian_spectrum
from phasecast.features.policy import SIMULATION
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target


def bounded(law: CurvatureLaw, clip: float = SIMULATION.clipped_quantile) -> CurvatureLaw:
    """The law itself, or with G raised to its ``clip`` quantile where it is unbounded below."""
    if law.lowest > -math.inf:
        return law
    return replace(law, lowest=float(law.G.min())).clipped(law.quantile(clip))


def margin(law: CurvatureLaw, delta: float) -> float:
    """The margin of a law at δ, of its clipped form where G is unbounded below."""
    return hessian_spectrum(bounded(law), delta).margin


def decoupled_margins(
    network: Network,
    target: Target,
    lr: float,
    delta: float,
    times: Sequence[int],
    *,
    dimension: int,
    seed: int = 0,
    project: bool = False,
) -> np.ndarray:
    """The margin at each of the times, shape (times,), from one decoupled descent; NaN where it diverges."""
    try:
        laws = decoupled(network, target, delta, lr, times, dimension=dimension, seed=seed, project=project)
    except Refused:
        return np.full(len(times), np.nan)
    return np.array([margin(law, delta) for law in laws])


def first_crossing(deltas: Sequence[float] | np.ndarray, margins: np.ndarray, name: str = "δ*") -> Measurement[float]:
    """The smallest δ of an increasing grid at which the mean margin (seeds, δ) is negative, by a line in ln δ.

    The error is that of the margin over seeds divided by the slope, both from the four points around, and at least
    that of the line, a tenth of the spacing. Refused where the margin does not change sign on the grid.

    >>> first_crossing([2, 4, 8], np.array([[0.3, 0.1, -0.1], [0.3, 0.1, -0.1]])).value
    5.656...
    """
    x, each = np.log(np.asarray(deltas, dtype=float)), np.atleast_2d(np.asarray(margins, dtype=float))
    if each.shape[1] != len(x) or len(x) < 2 or not (np.diff(x) > 0).all():
        raise BadInput("margins need an increasing grid of at least two δ", "give margins of shape (seeds, δ)")
    mean = each.mean(axis=0)
    turns = [i for i in range(len(x) - 1) if mean[i] >= 0 > mean[i + 1]]
    if mean[0] < 0 or not turns:
        if mean[0] < 0:
            reason = f"there already is an outlier at δ = {deltas[0]:g}; add smaller δ"
        elif not np.isfinite(mean).all():
            reason = "descent diverges at some δ; lower the learning rate"
        else:
            reason = f"no outlier up to δ = {deltas[-1]:g}; add larger δ"
        return Measurement[float].refused(reason, error_kind="seeds", name=name, policy=SIMULATION.plain())
    i = turns[0]
    step = x[i + 1] - x[i]
    share = mean[i] / (mean[i] - mean[i + 1])
    near = slice(max(i - 1, 0), i + 3)  # two points alone would give too noisy a slope and spread
    slope = abs(np.polyfit(x[near], mean[near], 1)[0])
    spread = math.sqrt(each[:, near].var(axis=0, ddof=1).mean() / len(each)) if len(each) > 1 else 0.0
    off = math.hypot(1 - share, share) * spread / slope
    place = math.exp(x[i] + share * step)
    resolution = step / SIMULATION.crossing_resolution
    kind = "resolution" if resolution > off else "seeds"
    return Measurement(place, place * max(off, resolution), error_kind=kind, name=name, policy=SIMULATION.plain())
