"""Which phase is the posterior in? The excess loss, live units and predictive R² of the model where the chains are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from phasecast.core.types import PyTree
from phasecast.posterior.model import Model
from phasecast.posterior.rlct_policy import POLICY, RLCTPolicy
from phasecast.posterior.tempered import params_of

if TYPE_CHECKING:
    import xarray as xr


class PosteriorPhase(NamedTuple):
    """What the model does where the chains are; NaN if the model does not provide it."""

    excess: float
    live_units: float
    predictive_r2: float


def phase_of(model: Model, sets: list[PyTree], tree: xr.DataTree, inside: np.ndarray) -> PosteriorPhase:
    """Excess loss, live units and predictive R² in the middle of the grid, means over data sets."""
    import jax

    from phasecast.core.precision import float64

    middle = int(np.flatnonzero(inside)[inside.sum() // 2])
    stats = tree["sample_stats"].to_dataset()
    beta = float(stats["beta"].values[middle])
    best = stats["best"].values
    excess = float(np.mean(beta * (stats["nL"].values[:, middle].mean(axis=(1, 2)) - best)))
    params = params_of(model, tree)
    live, explained = [], []
    with float64():
        for number, data in enumerate(sets):
            here = jax.tree.map(lambda leaf, s=number: leaf[s, middle].reshape(-1, *leaf.shape[4:]), params)
            if model.live_units is not None:
                live.append(float(np.mean(jax.jit(jax.vmap(model.live_units, (0, None)))(here, data))))
            if model.predict is not None and model.observed is not None:
                mean = np.asarray(jax.jit(jax.vmap(model.predict, (0, None)))(here, data)).mean(axis=0)
                outputs = np.asarray(model.observed(data))
                total = np.sum((outputs - outputs.mean(axis=0)) ** 2)
                explained.append(1 - float(np.sum((outputs - mean) ** 2) / total) if total else math.nan)
    return PosteriorPhase(excess, *(float(np.mean(one)) if one else math.nan for one in (live, explained)))


def is_elsewhere(phase: PosteriorPhase, value: float, policy: RLCTPolicy = POLICY) -> bool:
    """Whether the excess loss is more than fluctuation around the best known parameters, where it is near λ."""
    return phase.excess > policy.other_phase * value


def is_constant(phase: PosteriorPhase, policy: RLCTPolicy = POLICY) -> bool:
    """Whether the model is a constant there: no live units, or nothing predicted."""
    return phase.live_units < policy.fewest_live_units or phase.predictive_r2 < policy.least_r2


def phase_warnings(
    phase: PosteriorPhase, value: float, betas: np.ndarray, n: int, policy: RLCTPolicy = POLICY
) -> list[str]:
    """A warning if the excess loss is more than fluctuation around the best known parameters."""
    if not is_elsewhere(phase, value, policy):
        return []
    details = []
    if math.isfinite(phase.live_units):
        details.append(f"live units {phase.live_units:.2g}")
    if math.isfinite(phase.predictive_r2):
        details.append(f"predictive R² {phase.predictive_r2:.2g}")
    details.append(f"β(E[nL] − nL(best)) = {phase.excess:.2g}")
    elsewhere = "in another phase than the best known parameters"
    where = "in the constant submodel" if is_constant(phase, policy) else elsewhere
    return [
        f"the posterior sits {where} ({', '.join(details)}), so λ̂ is that of this phase: raise nβ above "
        f"{n * betas.max():.3g}, by betas or by more data, or use a narrower prior"
    ]
