"""How far is the limit n → ∞ from λ̂? The trend of λ(β), and the Gaussian around the best point.

With t = nβ, λ(t) = β²Var[nL] approaches λ from one side (Z(t) = ∫ φ e^{−tK} ∝ t^{−λ}(log t)^{m−1} to leading order):

.. math:: \\lambda(t) = \\lambda - \\frac{m-1}{\\log t} - \\dots \\quad (m > 1), \\qquad
          \\lambda(t) = \\lambda - c\\, t^{-p} \\quad (m = 1)

with p = 1 in regular models and often ½ in others, so b = dλ(t)/d log t tells the distance λ − λ(t): it is b/p for a
power, and about b log t for a multiplicity. In a regular model the distance is known. With Hessians H of nL and P of
−log φ at the mode of the posterior at β, and with the shares s_i of the curvature that the data hold, the eigenvalues
nβh_i/(nβh_i + τ_i) of (βH + P)⁻¹βH,

.. math:: \\lambda(\\beta) = \\tfrac12 \\sum_i s_i^2 + \\beta^2 g^\\top (\\beta H + P)^{-1} g \\to \\tfrac d2, \\qquad
          \\beta (E_\\beta[nL] - \\min nL) = \\tfrac12 \\sum_i s_i + \\dots

where g is the gradient of nL, not zero since the prior pulls. If a direction is left to the prior, s_i ≈ 0, the curve
is flat and still ½ too low: no trend shows it, the Hessian does.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from phasecast.core.precision import float64
from phasecast.core.types import PyTree
from phasecast.posterior.model import Model
from phasecast.posterior.rlct_policy import POLICY, RLCTPolicy
from phasecast.posterior.tempered import params_of
from phasecast.sampling.traces import mcse

if TYPE_CHECKING:
    import jax
    import xarray as xr


class Trend(NamedTuple):
    """dλ(β)/d log β over all β, with its standard error."""

    slope: float
    error: float


def trend_weights(betas: np.ndarray) -> np.ndarray:
    """What to multiply values at these β with, so that their sum is the slope of a line through them over log β.

    >>> weights = trend_weights(np.array([0.1, 0.3, 1.0]))
    >>> float((weights * np.log([0.1, 0.3, 1.0])).sum().round(9)), float(abs(weights.sum()).round(9))
    (1.0, 0.0)
    """
    x = np.log(betas) - np.log(betas).mean()
    return x / np.sum(x**2)


def trend_of(squares: np.ndarray, betas: np.ndarray) -> Trend:
    """The trend of the means of β²(nL − E)², an array (beta, chain, draw); its error knows that walkers exchange."""
    series = np.tensordot(trend_weights(betas), squares, axes=1)
    return Trend(float(series.mean()), mcse(series.T))


class LocalShape(NamedTuple):
    """What the data and the prior decide, and the Gaussian around the mode of the posterior; means over data sets.

    ``identified`` is the number r of directions in which the likelihood changes at a typical draw. ``seen`` are the
    shares s_i of the data in the curvature, a mean over draws, along every direction in which the likelihood changes
    at some draw, in increasing order. ``gaussian`` and ``slope`` are what λ̂ and its trend would be if the posterior
    were Gaussian (NaN if the Hessian at the mode is not positive definite along r directions).
    """

    identified: int
    seen: np.ndarray
    gaussian: float
    slope: float

    def left(self, policy: RLCTPolicy = POLICY) -> int:
        """How many directions are left to the prior."""
        return int(np.sum(self.seen < policy.least_seen))


def local_shape(
    model: Model, sets: list[PyTree], tree: xr.DataTree, inside: np.ndarray, policy: RLCTPolicy = POLICY
) -> LocalShape | None:
    """The curvature in the middle of the grid; None if it is too large, or has no second derivatives."""
    if model.rows(sets[0]) * model.size() > policy.most_scores or model.size() > policy.most_parameters:
        return None
    betas = tree["sample_stats"].to_dataset()["beta"].values
    draws = params_of(model, tree)
    try:
        shapes = [_shape(model, one, _flat(draws, number), betas, inside, policy) for number, one in enumerate(sets)]
    except (TypeError, ValueError, NotImplementedError, np.linalg.LinAlgError):
        return None  # sampling needs first derivatives only, so a model may lack finite second ones
    directions = max(one.seen.size for one in shapes)
    alike = [one.seen for one in shapes if one.seen.size == directions]
    return LocalShape(
        max(one.identified for one in shapes),
        np.mean(alike, axis=0),
        float(np.mean([one.gaussian for one in shapes])),
        float(np.mean([one.slope for one in shapes])),
    )


class DistanceToLimit(NamedTuple):
    """How far λ may be from λ̂; ``regular`` if the Gaussian around the best point explains λ̂ and its trend."""

    distance: float
    regular: bool


def distance_to_limit(
    value: float, error: float, trend: Trend, shape: LocalShape | None, policy: RLCTPolicy = POLICY
) -> DistanceToLimit:
    """r/2 less the Gaussian prediction if that explains λ̂, with what it leaves unexplained beyond the noise; else from
    the trend and its error."""
    if shape is not None and math.isfinite(shape.gaussian):
        off, slope_off = abs(value - shape.gaussian), abs(trend.slope - shape.slope)
        wrong = policy.gaussian_within * shape.gaussian
        if off <= policy.tolerance * error + wrong and slope_off <= policy.tolerance * trend.error + wrong:
            unexplained = max(0.0, off - error)
            return DistanceToLimit(abs(shape.identified / 2 - shape.gaussian) + unexplained, True)
    return DistanceToLimit(policy.distance_per_trend * math.hypot(trend.slope, trend.error), False)


def limit_warnings(
    value: float,
    limit: DistanceToLimit,
    trend: Trend,
    shape: LocalShape | None,
    size: int,
    other_data: float = 0.0,
    policy: RLCTPolicy = POLICY,
) -> list[str]:
    """Why λ̂ may not be λ: directions that are left to the prior, or a curve λ(β) that is still moving, or may be.

    ``other_data`` is how far λ̂ of one data set may be from others, by a term ∝ √β. The trend of that term is half of
    it, and may hide as much of the trend that leads to the limit.
    """
    reasons = []
    if shape is not None and (left := shape.left(policy)):
        reasons.append(
            f"{left} of {size} directions {'is' if left == 1 else 'are'} left to the prior at this n (data share "
            f"of the curvature {shape.seen[0]:.2g}; Σ s/2 = {shape.seen.sum() / 2:.3g} of {shape.seen.size / 2:g}): "
            "use more data, or read λ̂ as that of this n"
        )
    if limit.regular or math.hypot(limit.distance, other_data) <= policy.most_distant * value:
        return reasons
    if limit.distance <= policy.most_distant * value:
        reasons.append(
            f"the noise of this data set may hide a trend of λ(β) of {other_data / 2:.2g} when β grows by a factor e, "
            f"so the limit n → ∞ may be {math.hypot(limit.distance, other_data):.2g} or more from λ̂: give a list of "
            "data sets, use more data, or read λ̂ as that of this n"
        )
        return reasons
    change = f"{abs(trend.slope):.2g} ± {trend.error:.1g} when β grows by a factor e"
    if abs(trend.slope) > policy.tolerance * trend.error:
        verb = "rises" if trend.slope > 0 else "falls"
        reasons.append(
            f"λ(β) still {verb} by {change}, so the limit n → ∞ is about {limit.distance:.2g} or more from λ̂: use "
            "more data, or read λ̂ as that of this n"
        )
    else:
        reasons.append(
            f"λ(β) changes by {change}, which is too uncertain, so the limit n → ∞ may be {limit.distance:.2g} from λ̂: "
            "use more draws, more data sets, or betas='auto'"
        )
    return reasons


def _flat(draws: PyTree, number: int) -> np.ndarray:
    """The stored parameters of a data set, (beta, chain × draw, d), in the order of ``ravel_pytree``."""
    import jax

    leaves = [np.asarray(leaf)[number] for leaf in jax.tree.leaves(draws)]
    return np.concatenate([leaf.reshape(leaf.shape[0], leaf.shape[1] * leaf.shape[2], -1) for leaf in leaves], axis=2)


def _shape(
    model: Model, data: PyTree, draws: np.ndarray, betas: np.ndarray, inside: np.ndarray, policy: RLCTPolicy
) -> LocalShape:
    import jax
    import jax.numpy as jnp
    from scipy.optimize import minimize

    middle = int(np.flatnonzero(inside)[inside.sum() // 2])
    beta = float(betas[middle])
    starts = draws[middle]
    some = starts[np.linspace(0, len(starts) - 1, policy.curvature_draws).astype(int)]
    derivatives = _derivatives()
    with float64():
        given = jax.tree.map(jnp.asarray, data)
        summary = jax.tree.map(jnp.asarray, model.summary(data))

        def energy(w: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = derivatives.energy(model, jnp.asarray(w), summary, beta)
            return float(value), np.asarray(gradient)

        def fisher(w: np.ndarray) -> np.ndarray:
            scores = np.asarray(derivatives.scores(model, jnp.asarray(w), given))
            return scores.T @ scores

        def second(w: np.ndarray) -> tuple[np.ndarray, ...]:
            return tuple(np.asarray(part) for part in derivatives.second(model, jnp.asarray(w), summary))

        energies = np.asarray(derivatives.energies(model, jnp.asarray(starts), summary, beta))
        start = starts[int(np.nanargmin(energies))]  # ValueError if all are NaN
        with np.errstate(all="ignore"):
            mode = minimize(energy, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-14}).x
        typical = [fisher(w) for w in (*some[:: max(1, len(some) // 4)], mode)]
        over_draws = [second(w) for w in some]
        at_mode = second(mode)
    identified = max(_changing(one).shape[1] for one in typical)
    everywhere = _changing(np.sum(typical, axis=0))
    _, loss, prior = (np.mean(part, axis=0) for part in zip(*over_draws, strict=True))
    seen = _shares(everywhere.T @ (beta * loss) @ everywhere, everywhere.T @ prior @ everywhere)
    basis = _changing(typical[-1])
    gradient, loss, prior = at_mode
    data_part, prior_part = basis.T @ (beta * loss) @ basis, basis.T @ prior @ basis
    if basis.shape[1] < identified or not np.all(_shares(data_part, prior_part) > 0):
        return LocalShape(identified, seen, math.nan, math.nan)
    values = np.array([_gaussian(one / beta, data_part, prior_part, beta * basis.T @ gradient) for one in betas])
    return LocalShape(identified, seen, float(values[inside].mean()), float(trend_weights(betas) @ values))


def _changing(fisher: np.ndarray) -> np.ndarray:
    """A basis of the directions along which the likelihood of some observation changes, from the sum of gᵢgᵢᵀ."""
    values, directions = np.linalg.eigh(fisher)
    return directions[:, values > FLAT * values[-1]] if values[-1] > 0 else directions[:, :0]


def _shares(data_part: np.ndarray, prior_part: np.ndarray) -> np.ndarray:
    """Eigenvalues of (A + B)⁻¹A, in increasing order; minus infinity where A + B is not positive definite."""
    from scipy.linalg import eigh

    total = data_part + prior_part
    if not np.isfinite(total).all():
        return np.full(len(total), -math.inf)
    if len(total) == 0 or np.linalg.eigvalsh(total)[0] <= 0:
        return np.full(len(total), -math.inf)
    return np.asarray(eigh(data_part, total, eigvals_only=True))


FLAT = 1e-13  # of the largest eigenvalue of Σ gᵢgᵢᵀ: along a symmetry the rest is the square of a rounding


def _gaussian(ratio: float, data_part: np.ndarray, prior_part: np.ndarray, pull: np.ndarray) -> float:
    """β²Var[nL] of a Gaussian posterior at ``ratio`` times the β of its parts; ``pull`` is β times the gradient of nL.

    At another β the mode moves to where the gradients balance again, by −(ratio − 1)(ratio βH + P)⁻¹βg.
    """
    covariance = np.linalg.inv(ratio * data_part + prior_part)
    moved = pull - (ratio - 1) * data_part @ covariance @ pull
    shares = ratio * data_part @ covariance
    return float(np.trace(shares @ shares) / 2 + ratio**2 * moved @ covariance @ moved)


class _Derivatives(NamedTuple):
    energy: Any
    energies: Any
    scores: Any
    second: Any


@functools.cache
def _derivatives() -> _Derivatives:
    """Compiled functions of (model, flat parameters, data or summary)."""
    import jax
    from jax.flatten_util import ravel_pytree

    def unravelled(model: Model, flat: jax.Array) -> PyTree:
        return ravel_pytree(model.init(jax.random.key(0)))[1](flat)

    def loss(model: Model, flat: jax.Array, summary: PyTree) -> jax.Array:
        return model.total_loss(unravelled(model, flat), summary)

    def prior(model: Model, flat: jax.Array) -> jax.Array:
        return -model.log_prior(unravelled(model, flat))

    def energy(model: Model, flat: jax.Array, summary: PyTree, beta: float) -> jax.Array:
        return beta * loss(model, flat, summary) + prior(model, flat)

    def scores(model: Model, flat: jax.Array, data: PyTree) -> jax.Array:
        return jax.jacfwd(lambda w: model.log_likelihood(unravelled(model, w), data))(flat)

    def second(model: Model, flat: jax.Array, summary: PyTree) -> tuple[jax.Array, ...]:
        hessians = jax.hessian(loss, 1)(model, flat, summary), jax.hessian(prior, 1)(model, flat)
        return jax.grad(loss, 1)(model, flat, summary), *hessians

    return _Derivatives(
        jax.jit(jax.value_and_grad(energy, 1), static_argnums=0),
        jax.jit(jax.vmap(energy, (None, 0, None, None)), static_argnums=0),
        jax.jit(scores, static_argnums=0),
        jax.jit(second, static_argnums=0),
    )
