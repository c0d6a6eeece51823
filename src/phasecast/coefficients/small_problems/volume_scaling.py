"""What is λ here, by volume? Count how fast the parameters with loss below ε become rare.

.. math:: V(\\varepsilon) = P_{w \\sim \\text{box}}[L(w) - L(w^*) < \\varepsilon]
          = \\varepsilon^{\\lambda}\\,p(\\log 1/\\varepsilon) + \\dots, \\qquad \\deg p = m - 1

(Watanabe 2009, Theorem 7.1), with w uniform in a box around w*. Uniform draws never reach small ε, so each
offset from w* is drawn from an even mixture of the uniform and the log-uniform law and weighted back; the
uniform half keeps every weight below :math:`2^d`. That reaches valleys along the coordinates; in others few draws fall,
and the error says so: turn the coordinates first (``reparametrise``). Blocks of draws give V(ε) independently of each
other, and the error of λ is their jackknife. Within a block the draws are a randomly shifted lattice, which is as
unbiased as independent draws and less noisy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phasecast.coefficients.small_problems.neighbourhood import RADIUS, near
from phasecast.core.errors import BadInput, whole_number
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status

EPSILONS = np.logspace(-28, -12, 17)
QUANTILES = (0.0002, 0.02)  # the shares of the draws from a prior that set the thresholds
REACH = 24 * math.log(10)  # log-uniform offsets go down to 10⁻²⁴ of the radius, far below any ε above
MOST_PARAMETERS = 6  # the weights' variance grows like 2^d
FEWEST_BLOCKS = 20  # below, a jackknife error is itself mostly noise
DRIFT_LIMIT = 4.0  # standard errors between the two halves of the ladder before a law is rejected
SMALL_DRIFT = 0.1  # of what a logarithm would do: below, a drift is no logarithm and only enters the error
SLOWEST = 1 / 12  # the smallest power of ε by which V is taken to approach its law; a cusp has this one


def volume_scaling(
    problem: Problem | Callable[[Any], Any],
    sampler: Callable[[np.random.Generator, int], Any] | None = None,
    *,
    radius: float = RADIUS,
    epsilons: np.ndarray | None = None,
    samples: int = 100_000,
    blocks: int = 32,
    multiplicity: int | None = None,
    seed: int = 0,
) -> Measurement:
    """λ by volume scaling: of a problem with few parameters near its w*, or of any K ≥ 0 under any prior.

    Parameters
    ----------
    problem: a problem, measured in a box of half-width ``radius`` around w*; or a function K(w) ≥ 0 of one parameter,
        whose V(ε) is counted over draws from the prior.
    sampler: with a function K, ``sampler(rng, count)`` draws ``count`` parameters, along the first axis.
    epsilons: the thresholds of V(ε), as many as the fit should use, all small. For a function K they are by default
        what puts between 2% and 0.02% of the draws below them.
    samples, blocks: draws in a block, and how many blocks.
    multiplicity: the number of logarithms plus one, where theory knows it; otherwise a V that bends is refused, because
        a logarithm and a slow power of ε look alike over any range that can be reached.

    >>> from phasecast.models import LANDSCAPES
    >>> lam = volume_scaling(LANDSCAPES["x⁴+y⁴"].problem())
    >>> abs(lam.value - 0.5) < 4 * lam.error
    True
    >>> normal = volume_scaling(lambda w: w @ w, lambda rng, count: rng.normal(size=(count, 3)), multiplicity=1)
    >>> abs(normal.value - 1.5) < 4 * normal.error
    True
    """
    whole_number("blocks", blocks, FEWEST_BLOCKS)
    if not isinstance(problem, Problem):
        if sampler is None:
            raise BadInput("a function K alone does not say where to draw", "give sampler(rng, count), or a Problem")
        counted, thresholds = _counted(problem, sampler, epsilons, whole_number("samples", samples, 1000), blocks, seed)
        return fit_volume(counted, thresholds, multiplicity)
    if sampler is not None:
        raise BadInput("a problem is measured in a box around w*", "give the function K(w) to use your own sampler")
    epsilons = EPSILONS if epsilons is None else _checked(epsilons)
    block = volume_sampler(problem, radius=radius, epsilons=epsilons, samples=samples, seed=seed)
    return fit_volume(np.stack([block(index) for index in range(blocks)]), epsilons, multiplicity)


def volume_sampler(
    problem: Problem, *, radius: float, epsilons: np.ndarray, samples: int, seed: int
) -> Callable[[int], np.ndarray]:
    """A function from the number of a block to its estimate of V at each of ``epsilons``; the same each time."""
    import jax
    import jax.numpy as jnp

    epsilons = _checked(epsilons)
    whole_number("samples", samples, 2)
    place = near(problem, radius)
    if place.size > MOST_PARAMETERS:
        raise BadInput(
            f"volume scaling by direct draws is for at most {MOST_PARAMETERS} parameters, not {place.size}",
            "measure a smaller problem",
        )
    if place.resolution > np.min(epsilons):
        raise BadInput(
            f"the loss is not zero at params, so differences below {place.resolution:.1g} are rounding noise",
            "subtract the minimum inside the loss, or use larger epsilons",
        )
    lattice = _lattice(samples, place.size)

    @jax.jit
    def volumes(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        points = (jax.random.uniform(key, (place.size,), dtype=float) + lattice) % 1
        sign = jnp.where(points < 0.5, 1.0, -1.0)
        points = (2 * points) % 1
        position = (2 * points) % 1
        distance = jnp.where(points < 0.5, position, jnp.exp(-REACH * position))
        log_density = jnp.where(distance > math.exp(-REACH), 1 / (REACH * distance), 0.0)
        weights = jnp.prod(1 / (0.5 + 0.5 * log_density), axis=1)
        losses = jax.vmap(place.excess)(radius * sign * distance)
        below = losses[:, None] < jnp.asarray(epsilons)[None, :]
        return jnp.mean(weights[:, None] * below, axis=0), jnp.min(losses)

    def block(index: int) -> np.ndarray:
        with float64():
            found, lowest = volumes(jax.random.fold_in(jax.random.key(seed), index))
            place.check_minimum(float(lowest))
            return np.asarray(found)

    return block


def _counted(
    loss: Callable[[Any], Any],
    sampler: Callable[[np.random.Generator, int], Any],
    epsilons: np.ndarray | None,
    samples: int,
    blocks: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The share of draws with K below each threshold, a row for each block; the thresholds as shares of K's median."""
    import jax

    streams = np.random.default_rng(seed).spawn(blocks + 1)

    def losses(stream: np.random.Generator) -> np.ndarray:
        draws = sampler(stream, samples)
        if {np.shape(leaf)[:1] for leaf in jax.tree.leaves(draws)} != {(samples,)}:
            raise BadInput("sampler(rng, count) does not return count draws", "put the draws along the first axis")
        with float64():
            found = np.asarray(jax.vmap(loss)(jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), draws)))
        if found.shape != (samples,) or not np.all(found >= 0):
            raise BadInput("K is not one number ≥ 0 at every draw", "give K(w), zero at its minimum")
        return found

    pilot = losses(streams[0])
    if epsilons is None:
        small, large = np.quantile(pilot, QUANTILES)
        if not 0 < small < large:
            raise BadInput("K is zero for more than 0.02% of the draws", "its zeros have volume: there λ is 0")
        thresholds = np.geomspace(small, large, len(EPSILONS))
    else:
        thresholds = _checked(epsilons)
    found = [np.mean(losses(stream)[:, None] < thresholds, axis=0) for stream in streams[1:]]
    return np.stack(found), thresholds / max(np.median(pilot), 2 * thresholds[-1])


def fit_volume(volumes: np.ndarray, epsilons: np.ndarray, multiplicity: int | None = None) -> Measurement:
    """λ from V, of shape (block, epsilon), as the law of its smaller half of ε says.

    The larger half is there to see whether the law holds: λ must be the same in both. If V approaches its law by a
    power of ε of at least 1/12, what is left of the approach in the smaller half is a known share of the difference,
    and enters the error. Without a given multiplicity, one logarithm must be excluded by the draws.
    """
    if len(volumes) < FEWEST_BLOCKS:
        raise BadInput(f"{len(volumes)} blocks are too few for an error bar", f"use at least {FEWEST_BLOCKS}")
    m = 1 if multiplicity is None else whole_number("multiplicity", multiplicity, 1)
    logs = -np.log(_checked(epsilons))
    small, large = logs >= np.median(logs), logs <= np.median(logs)
    if np.sum(small) < m + 3:
        raise BadInput(f"{len(epsilons)} epsilons are too few to fit", f"use at least {2 * (m + 3)}")
    mean, spread = _mean_and_spread(volumes)
    name = "λ by volume scaling"
    if not 0 < mean.min() < mean.max() < 1:
        where = "no draw fell below the smallest" if mean.min() <= 0 else "the whole box lies below the largest"
        reason = f"{where} ε: use more samples or other epsilons"
        return Measurement(math.nan, math.nan, Status.REFUSED, error_kind="mcse", reasons=[reason], name=name)

    def drift(volume: np.ndarray, spread: np.ndarray) -> float:
        return _fit(volume, spread, logs, small, m) - _fit(volume, spread, logs, large, m)

    moved, moved_error = _jackknife(drift, volumes)
    estimate, error = _jackknife(lambda volume, spread: _fit(volume, spread, logs, small, m), volumes)
    ideal = np.exp(-estimate * logs) * logs**m  # what one more logarithm would do
    logarithm = drift(ideal, ideal * spread / mean)
    left = math.exp(-SLOWEST * (logs[small].mean() - logs[large].mean()))
    reasons = []
    if abs(moved) > max(DRIFT_LIMIT * moved_error, SMALL_DRIFT * logarithm):
        reasons.append(
            f"λ still moves by {moved:.2g} between large and small ε: use smaller epsilons or a smaller radius, or say "
            "the multiplicity if theory knows it"
        )
    elif m > 1 and estimate - _fit(mean, spread, logs, small, 1) < (m - 1) / (4 * logs[small].mean()):
        reasons.append(
            f"the draws do not show the logarithms of multiplicity {m}: use more samples, or smaller epsilons"
        )
    elif multiplicity is None:
        resolution = logarithm / (2 * DRIFT_LIMIT * moved_error)
        if resolution < 1:
            reasons.append(
                f"too few draws to exclude a logarithm: use {max(2, math.ceil(resolution**-2))} times as many samples, "
                "or say the multiplicity if theory knows it"
            )
    return Measurement(
        estimate,
        math.hypot(error, moved * left / (1 - left)),
        Status.REFUSED if reasons else Status.OK,
        diagnostics={"drift": moved, "drift_error": moved_error, "blocks": len(volumes)},
        error_kind="mcse",
        reasons=reasons,
        name=name,
    )


def _fit(volume: np.ndarray, spread: np.ndarray, logs: np.ndarray, use: np.ndarray, m: int) -> float:
    """The λ for which V ε^(−λ) is closest to a polynomial of degree m−1 in log 1/ε, in relative errors."""
    from scipy.optimize import minimize_scalar

    v, relative_error, logs = volume[use], spread[use] / volume[use], logs[use]
    slope = np.polyfit(-logs, np.log(v), 1)[0]

    def misfit(exponent: float) -> float:
        scaled = np.exp(np.log(v) + exponent * logs - (np.log(v) + exponent * logs)[0])
        weight = 1 / (relative_error * scaled)
        design = weight[:, None] * (logs[:, None] / logs.max()) ** np.arange(m)
        coefficients = np.linalg.lstsq(design, weight * scaled, rcond=None)[0]
        return float(np.sum((design @ coefficients - weight * scaled) ** 2))

    # logarithms can only lower the plain slope, each power of them by about 1/log(1/ε)
    bounds = (slope - 0.02, slope + 0.02) if m == 1 else (slope, slope + (m - 1) * max(0.15, 2 / logs.min()))
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


def _checked(epsilons: np.ndarray) -> np.ndarray:
    """Thresholds as an array, all different, positive and in order."""
    array = np.asarray(epsilons, dtype=float)
    if array.ndim != 1 or not (np.all(array > 0) and np.all(np.diff(array) > 0)):
        raise BadInput("epsilons are not an increasing row of positive numbers", "use np.logspace(-28, -12, 17)")
    return array


def _lattice(samples: int, size: int) -> np.ndarray:
    """Points that fill the unit cube evenly: multiples of the powers of 1/φ, with φ^(size+1) = φ + 1."""
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (size + 1))
    return np.arange(samples)[:, None] * golden ** -np.arange(1.0, size + 1) % 1
