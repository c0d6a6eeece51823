"""How far is the limit n → ∞ from λ̂? The trend of λ(β), and the Gaussian around the best point.

With t = nβ, λ(t) = β²Var[nL] approaches λ from one side (Z(t) = ∫ φ e^{−tK} ∝ t^{−λ}(log t)^{m−1} to leading order):

.. math:: \\lambda(t) = \\lambda - \\frac{m-1}{\\log t} - \\dots \\quad (m > 1), \\qquad
          \\lambda(t) = \\lambda - c\\, t^{-p} \\quad (m = 1;\\ p = 1 \\text{ if regular, often } \\tfrac12 \\text{ if not})

so b = dλ(t)/d log t tells the distance λ − λ(t): it is b/p for a power, and about b log t for a multiplicity. In a
regular model the distance is known. With Hessians H of nL and P of −log φ at the mode of the posterior at β, and with
the shares s_i of the curvature that the data hold, the eigenvalues of (βH + P)⁻¹βH = nβh_i/(nβh_i + τ_i),

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
    """The posterior as a Gaussian around its mode, means over data sets.

    ``identified`` is the number r of directions in which the likelihood changes at all, ``seen`` the shares s_i of
    the data in the curvature along them, in increasing order, ``gaussian`` and ``slope`` what λ̂ and its trend would
    be if the posterior were Gaussian (NaN if the Hessian is not positive definite along the r directions).
    """

    identified: int
    seen: np.ndarray
    gaussian: float
    slope: float

    def left(self, policy: RLCTPolicy = POLICY) -> int:
        """How many of the identified directions are left to the prior."""
        return int(np.sum(self.seen < policy.least_seen))


def local_shape(
    model: Model, sets: list[PyTree], tree: xr.DataTree, inside: np.ndarray, policy: RLCTPolicy = POLICY
) -> LocalShape | None:
    """The Gaussian around the mode of the posterior in the middle of the grid; None if it is too large to compute."""
    if model.rows(sets[0]) * model.size() > policy.most_scores or model.size() > policy.most_parameters:
        return None
    betas = tree["sample_stats"]["beta"].values
    draws = params_of(model, tree)
    shapes = [_shape(model, one, _flat(draws, number), betas, inside) for number, one in enumerate(sets)]
    identified = max(one.identified for one in shapes)
    seen = np.array([one.seen for one in shapes if one.seen.size == identified])
    regular = len(seen) == len(shapes)
    return LocalShape(
        identified,
        seen.mean(axis=0) if regular else np.full(identified, math.nan),
        float(np.mean([one.gaussian for one in shapes])) if regular else math.nan,
        float(np.mean([one.slope for one in shapes])) if regular else math.nan,
    )


class Limit(NamedTuple):
    """How far λ may be from λ̂; ``regular`` if the Gaussian around the best point explains λ̂ and its trend."""

    distance: float
    regular: bool


def distance_to_limit(
    value: float, error: float, trend: Trend, shape: LocalShape | None, nbeta: float, policy: RLCTPolicy = POLICY
) -> Limit:
    """r/2 less the Gaussian prediction if that explains λ̂, else the trend times log nβ, with the error of the trend."""
    if shape is not None and math.isfinite(shape.gaussian):
        off, slope_off = abs(value - shape.gaussian), abs(trend.slope - shape.slope)
        wrong = policy.gaussian_within * shape.gaussian
        if off <= policy.tolerance * error + wrong and slope_off <= policy.tolerance * trend.error + wrong:
            return Limit(abs(shape.identified / 2 - shape.gaussian), True)
    return Limit(max(policy.least_factor, math.log(nbeta)) * math.hypot(trend.slope, trend.error), False)


def limit_warnings(
    value: float, limit: Limit, trend: Trend, shape: LocalShape | None, size: int, policy: RLCTPolicy
) -> list[str]:
    """Why λ̂ may not be λ: directions that are left to the prior, or a curve λ(β) that is still moving."""
    if limit.regular and shape is not None:
        left = shape.left(policy)
        if not left:
            return []
        return [
            f"{left} of {size} directions {'is' if left == 1 else 'are'} left to the prior at this n (data share "
            f"of the curvature {shape.seen[0]:.2g}): a Gaussian with this prior has {shape.gaussian:.3g} here and "
            f"{shape.identified / 2:g} for n → ∞; use more data, or read λ̂ as that of this n"
        ]
    if limit.distance <= policy.most_distant * value:
        return []
    if abs(trend.slope) > policy.tolerance * trend.error:
        verb = "rises" if trend.slope > 0 else "falls"
        return [
            f"λ(β) still {verb} by {abs(trend.slope):.2g} ± {trend.error:.1g} when β grows by a factor e, so λ̂ = "
            f"{value:.3g} may be {limit.distance:.2g} from its limit: use more data, or read λ̂ as that of this n"
        ]
    return [
        f"the trend of λ(β), {trend.slope:.2g} ± {trend.error:.1g} when β grows by a factor e, is too uncertain: the "
        f"limit may be {limit.distance:.2g} from λ̂; use more draws, or betas='auto'"
    ]


def _flat(draws: PyTree, number: int) -> np.ndarray:
    """The stored parameters of a data set, (beta, chain × draw, d), in the order of ``ravel_pytree``."""
    import jax

    leaves = [np.asarray(leaf)[number] for leaf in jax.tree.leaves(draws)]
    return np.concatenate([leaf.reshape(leaf.shape[0], leaf.shape[1] * leaf.shape[2], -1) for leaf in leaves], axis=2)


def _shape(model: Model, data: PyTree, draws: np.ndarray, betas: np.ndarray, inside: np.ndarray) -> LocalShape:
    import jax
    import jax.numpy as jnp
    from scipy.linalg import eigh
    from scipy.optimize import minimize

    middle = int(np.flatnonzero(inside)[inside.sum() // 2])
    beta = float(betas[middle])
    derivatives = _derivatives()
    with float64():
        given = jax.tree.map(jnp.asarray, data)
        summary = jax.tree.map(jnp.asarray, model.summary(data))

        def energy(w: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = derivatives.energy(model, jnp.asarray(w), summary, beta)
            return float(value), np.asarray(gradient)

        starts = draws[middle]
        energies = np.asarray(derivatives.energies(model, jnp.asarray(starts), summary, beta))
        start = starts[int(np.nanargmin(energies))]
        with np.errstate(all="ignore"):
            mode = minimize(energy, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-14}).x
        generic, _ = _identified(np.asarray(derivatives.scores(model, jnp.asarray(starts[-1]), given)))
        rank, basis = _identified(np.asarray(derivatives.scores(model, jnp.asarray(mode), given)))
        gradient, loss, prior = (np.asarray(part) for part in derivatives.second(model, jnp.asarray(mode), summary))
    unknown = LocalShape(generic, np.empty(0), math.nan, math.nan)
    data_part, prior_part = (basis.T @ matrix @ basis for matrix in (beta * loss, prior))
    total = data_part + prior_part
    if rank < generic or not rank or not np.isfinite(total).all() or np.linalg.eigvalsh(total)[0] <= 0:
        return unknown
    seen = eigh(data_part, total, eigvals_only=True)
    if seen[0] <= 0:
        return unknown
    values = np.array([_gaussian(one / beta, data_part, prior_part, beta * basis.T @ gradient) for one in betas])
    return LocalShape(generic, np.asarray(seen), float(values[inside].mean()), float(trend_weights(betas) @ values))


def _identified(scores: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of directions along which some observation's likelihood changes, and a basis of them."""
    _, values, directions = np.linalg.svd(scores, full_matrices=False)
    rank = int(np.sum(values > FLAT * values[0])) if values.size and values[0] > 0 else 0
    return rank, directions[:rank].T


FLAT = 1e-9  # of the largest singular value of the scores: along a symmetry it is rounding, 10⁻¹⁴ or so


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
