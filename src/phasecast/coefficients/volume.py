"""What is λ here, by volume? Count how fast the parameters with loss below ε become rare.

.. math:: V(\\varepsilon) = P_{w \\sim \\text{box}}[L(w) - L(w^*) < \\varepsilon]
          = \\varepsilon^{\\lambda}\\,p(\\log 1/\\varepsilon) + \\dots, \\qquad \\deg p = m - 1

(Watanabe 2009, Theorem 7.1), with w uniform in a box around w*. Uniform draws never reach small ε, so each
offset from w* is drawn from an even mixture of the uniform and the log-uniform law and weighted back; the
uniform half keeps every weight below :math:`2^d`. Blocks of draws give V(ε) independently of each other, and
the error of λ is their jackknife. Within a block the draws are a randomly shifted lattice, which is as unbiased as
independent draws and less noisy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status

EPSILONS = np.logspace(-28, -12, 9)
REACH = 24 * math.log(10)  # log-uniform offsets go down to 10⁻²⁴ of the radius, far below any ε above
MOST_PARAMETERS = 6  # the weights' variance grows like 2^d
FEWEST_BLOCKS = 8  # below, a jackknife error is itself mostly noise
DRIFT_LIMIT = 3.0  # standard errors between the two halves of the ladder before a law is rejected
SMALL_DRIFT = 0.1  # of what a logarithm would do: below, a drift is added to the error instead


def volume_scaling(
    problem: Problem,
    *,
    radius: float = 0.5,
    epsilons: np.ndarray = EPSILONS,
    samples: int = 100_000,
    blocks: int = 32,
    seed: int = 0,
) -> Measurement:
    """λ of a problem with few parameters, by volume scaling in a box of half-width ``radius`` around w*.

    Parameters
    ----------
    epsilons: the thresholds of V(ε), as many as the fit should use, all small.
    samples, blocks: draws in a block, and how many blocks.

    >>> from phasecast.models import LANDSCAPES
    >>> lam = volume_scaling(LANDSCAPES["x⁴+y⁴"].problem())
    >>> abs(lam.value - 0.5) < 4 * lam.error
    True
    """
    block = volume_sampler(problem, radius=radius, epsilons=epsilons, samples=samples, seed=seed)
    return fit_volume(np.stack([block(index) for index in range(blocks)]), epsilons, parameters=_size(problem))


def volume_sampler(
    problem: Problem, *, radius: float, epsilons: np.ndarray, samples: int, seed: int
) -> Callable[[int], np.ndarray]:
    """A function from the number of a block to its estimate of V at each of ``epsilons``; the same each time."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    if not radius > 0:
        raise BadInput(f"radius {radius:g} is no box", "use a positive half-width")
    size = _size(problem)
    if size > MOST_PARAMETERS:
        raise BadInput(
            f"volume scaling by direct draws is for at most {MOST_PARAMETERS} parameters, not {size}",
            "measure a smaller problem",
        )
    with float64():
        centre, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), problem.params))
        lowest = float(problem.value(unravel(centre)))
        thresholds = jnp.asarray(epsilons)
    if not math.isfinite(lowest):
        raise BadInput(f"the loss at params is {lowest}", "give parameters at which it is finite")
    resolution = 1e4 * np.finfo(float).eps * abs(lowest)
    if resolution > np.min(epsilons):
        raise BadInput(
            f"the loss at params is {lowest:g}, so differences below {resolution:.1g} are rounding noise",
            "subtract the minimum inside the loss, or use larger epsilons",
        )

    @jax.jit
    def volumes(key: jax.Array) -> jax.Array:
        points = (jax.random.uniform(key, (size,), dtype=float) + _lattice(samples, size)) % 1
        sign = jnp.where(points < 0.5, 1.0, -1.0)
        points = (2 * points) % 1
        position = (2 * points) % 1
        distance = jnp.where(points < 0.5, position, jnp.exp(-REACH * position))
        log_density = jnp.where(distance > math.exp(-REACH), 1 / (REACH * distance), 0.0)
        weights = jnp.prod(1 / (0.5 + 0.5 * log_density), axis=1)
        losses = jax.vmap(lambda offset: problem.value(unravel(centre + offset)))(radius * sign * distance)
        below = (losses - lowest)[:, None] < thresholds[None, :]
        return jnp.mean(weights[:, None] * below, axis=0)

    def block(index: int) -> np.ndarray:
        with float64():
            return np.asarray(volumes(jax.random.fold_in(jax.random.key(seed), index)))

    return block


def fit_volume(volumes: np.ndarray, epsilons: np.ndarray, *, parameters: int) -> Measurement:
    """λ and the multiplicity from V, of shape (block, epsilon).

    The smallest multiplicity is taken under which the lower and the upper half of the ladder give the same λ. How
    far one more power of log 1/ε would move the two apart is known; where the draws are too few to see that, the
    result is refused.
    """
    blocks = len(volumes)
    if blocks < FEWEST_BLOCKS:
        raise BadInput(f"{blocks} blocks are too few for an error bar", f"use at least {FEWEST_BLOCKS}")
    if len(epsilons) < 2 * (parameters + 1):
        raise BadInput(
            f"{len(epsilons)} epsilons are too few to tell multiplicities up to {parameters} apart",
            f"use at least {2 * (parameters + 1)}",
        )
    name = "λ by volume scaling"
    if not (volumes.mean(axis=0) > 0).all():
        return Measurement(
            math.nan,
            math.nan,
            Status.REFUSED,
            error_kind="mcse",
            reasons=("no draw fell below the smallest ε: use more samples or larger epsilons",),
            name=name,
        )
    law = _try(1, volumes, epsilons)
    while law.drifts and law.multiplicity < parameters:
        law = _try(law.multiplicity + 1, volumes, epsilons)
    everywhere = np.full(len(epsilons), True)
    estimate, error = _jackknife(lambda v, s: _fit(v, s, epsilons, everywhere, law.multiplicity), volumes)
    if abs(law.drift) > DRIFT_LIMIT * law.drift_error:  # too small for a logarithm, too large for chance
        error = math.hypot(error, law.drift)
    reasons = []
    if law.drifts:
        reasons.append(
            f"λ still moves by {law.drift:.2g} between large and small ε: use smaller epsilons or a smaller radius"
        )
    elif law.multiplicity < parameters and law.resolution < 1:
        reasons.append(
            f"too few draws to tell multiplicity {law.multiplicity} from {law.multiplicity + 1}: "
            f"use {max(2, math.ceil(law.resolution**-2))} times as many samples"
        )
    return Measurement(
        estimate,
        error,
        Status.REFUSED if reasons else Status.OK,
        diagnostics={"multiplicity": law.multiplicity, "drift": law.drift, "blocks": blocks},
        error_kind="mcse",
        reasons=reasons,
        name=name,
    )


@dataclass(frozen=True)
class _Law:
    """How well V ~ ε^λ (log 1/ε)^(m−1) holds: the λ of small ε minus the λ of large ε, which should be zero.

    ``expected`` is what that drift would be if there were one more logarithm.
    """

    multiplicity: int
    drift: float
    drift_error: float
    expected: float

    @property
    def drifts(self) -> bool:
        return abs(self.drift) > max(DRIFT_LIMIT * self.drift_error, SMALL_DRIFT * self.expected)

    @property
    def resolution(self) -> float:
        """Above 1, one logarithm more or less is told apart in all but rare cases."""
        return self.expected / (2 * DRIFT_LIMIT * self.drift_error) if self.drift_error else math.inf


def _try(multiplicity: int, volumes: np.ndarray, epsilons: np.ndarray) -> _Law:
    logs = -np.log(epsilons)
    small, large = logs >= np.median(logs), logs <= np.median(logs)

    def drift(volume: np.ndarray, spread: np.ndarray) -> float:
        return _fit(volume, spread, epsilons, small, multiplicity) - _fit(volume, spread, epsilons, large, multiplicity)

    mean, spread = _mean_and_spread(volumes)
    slope = np.polyfit(-logs, np.log(mean), 1)[0]
    one_more = np.exp(-slope * logs) * logs**multiplicity
    return _Law(multiplicity, *_jackknife(drift, volumes), drift(one_more, one_more * spread / mean))


def _fit(volume: np.ndarray, spread: np.ndarray, epsilons: np.ndarray, use: np.ndarray, m: int) -> float:
    """The λ for which V ε^(−λ) is closest to a polynomial of degree m−1 in log 1/ε, in relative errors."""
    from scipy.optimize import minimize_scalar

    v, relative_error = volume[use], spread[use] / volume[use]
    logs = -np.log(epsilons[use])
    slope = np.polyfit(-logs, np.log(v), 1)[0]

    def misfit(exponent: float) -> float:
        scaled = np.exp(np.log(v) + exponent * logs - (np.log(v) + exponent * logs)[0])
        weight = 1 / (relative_error * scaled)
        design = weight[:, None] * (logs[:, None] / logs.max()) ** np.arange(m)
        coefficients = np.linalg.lstsq(design, weight * scaled, rcond=None)[0]
        return float(np.sum((design @ coefficients - weight * scaled) ** 2))

    # logarithms can only lower the plain slope, each power of them by about 1/log(1/ε) < 0.1
    bounds = (slope - 0.02, slope + 0.02) if m == 1 else (slope, slope + 0.15 * (m - 1))
    found = minimize_scalar(misfit, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return float(found.x)  # pyright: ignore[reportAttributeAccessIssue]


def _jackknife(statistic: Callable[[np.ndarray, np.ndarray], float], volumes: np.ndarray) -> tuple[float, float]:
    """A statistic of the mean volume over blocks and its jackknife standard error."""
    blocks = len(volumes)
    mean, spread = _mean_and_spread(volumes)
    left_out = np.array([statistic((blocks * mean - block) / (blocks - 1), spread) for block in volumes])
    error = math.sqrt((blocks - 1) / blocks * np.sum((left_out - left_out.mean()) ** 2))
    return statistic(mean, spread), error


def _mean_and_spread(volumes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over blocks and its standard error, at each ε."""
    return volumes.mean(axis=0), volumes.std(axis=0, ddof=1) / math.sqrt(len(volumes))


def _lattice(samples: int, size: int) -> np.ndarray:
    """Points that fill the unit cube evenly: multiples of the powers of 1/φ, with φ^(size+1) = φ + 1."""
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (size + 1))
    return np.arange(samples)[:, None] * golden ** -np.arange(1.0, size + 1) % 1


def _size(problem: Problem) -> int:
    import jax

    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(problem.params))
