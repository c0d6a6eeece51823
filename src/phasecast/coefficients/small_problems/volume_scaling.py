"""What is λ here, by volume? Count how fast the parameters with loss below ε become rare.

.. math:: V(\\varepsilon) = P_{w \\sim \\text{box}}[L(w) - L(w^*) < \\varepsilon]
          = \\varepsilon^{\\lambda}\\,p(\\log 1/\\varepsilon) + \\dots, \\qquad \\deg p = m - 1

(Watanabe 2009, Theorem 7.1), with w uniform in a box around w*. Uniform draws never reach small ε, so each offset
from w* is drawn from an even mixture of the uniform and the log-uniform distribution and reweighted; the uniform half
keeps every weight below :math:`2^d`. That reaches valleys along the coordinates; few draws fall into other valleys, and
the error shows it: rotate the coordinates first (``reparametrise``). Blocks of draws give independent estimates of
V(ε), and the error of λ is their jackknife. Within a block the draws are a randomly shifted lattice, which is as
unbiased as independent draws and less noisy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phasecast.coefficients.small_problems.neighbourhood import RADIUS, neighbourhood_of
from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import standard_error
from phasecast.core.types import Array, PyTree
from phasecast.progress import report_step, shows_progress

EPSILONS = np.logspace(-28, -12, 17)
"""The default thresholds of V(ε), a decade apart."""
QUANTILES = (0.0002, 0.02)  # the default thresholds under a prior: of 100 000 draws, 20 to 2000 fall below them
PRECISION = 1e-9  # of the fitted λ; no error of draws comes near it
REACH = 24 * math.log(10)  # log-uniform offsets go down to 10⁻²⁴ of the radius, whose square is far below any ε above


@dataclass(frozen=True)
class VolumePolicy(Policy):
    """When is a λ by volume scaling defended?"""

    most_parameters: int = rule(6, "the variance of the weights grows like 2^d; chosen, not derived")
    fewest_blocks: int = rule(20, "the jackknife error has a relative error of 1/√(2·20) = 16%; chosen, not derived")
    largest_drift: float = rule(
        4.0,
        "standard errors between λ at large and at small ε: a correct law exceeds 4 once in 16 000 measurements",
    )
    small_drift: float = rule(
        0.1, "share of the drift that one logarithm would cause; chosen: below it a drift only enters the error"
    )
    usual_approach: float = rule(
        1 / 12, "power of ε by which V approaches its law, the distance of λ to the next pole: 1/12 for a cusp"
    )
    visible_drift: float = rule(
        3.0, "standard errors of the drift beyond which it is taken for that of the slowest approach, not for noise"
    )
    slowest_approach: float = rule(
        1 / 48,
        "smallest power of ε allowed for: 1/30 for x²y⁶ + 4x⁴y² + 3x⁶, where the arena found λ 4.6 errors off that "
        "allowed for 1/12; a fifth of random polynomials with even powers up to 8 are below 1/12, one in ninety below "
        "1/48",
    )
    visible_logarithms: float = rule(
        0.25,
        "share of the expected change of λ, (m−1)/log(1/ε), by which m > 1 must show; chosen: a quarter, not derived",
    )


POLICY = VolumePolicy()


@shows_progress("volume scaling")
def volume_scaling(
    problem: Problem | Callable[[PyTree], Array],
    sampler: Callable[[np.random.Generator, int], PyTree] | None = None,
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
    epsilons: the thresholds of V(ε), all small. For a function K they default to values with between 0.02% and 2% of
        the draws below them.
    samples, blocks: draws per block, and the number of blocks.
    multiplicity: the number of logarithms plus one, if theory knows it; otherwise a V that bends is refused, because
        a logarithm and a slow power of ε look alike over any range that can be reached.

    >>> from phasecast.models import LANDSCAPES
    >>> lam = volume_scaling(LANDSCAPES["x⁴+y⁴"].problem())
    >>> abs(lam.value - 0.5) < 4 * lam.error
    True
    >>> normal = volume_scaling(lambda w: w @ w, lambda rng, count: rng.normal(size=(count, 3)), multiplicity=1)
    >>> abs(normal.value - 1.5) < 4 * normal.error
    True
    """
    whole_number("blocks", blocks, POLICY.fewest_blocks)
    if not isinstance(problem, Problem):
        if sampler is None:
            raise BadInput("a function K needs a sampler of the prior", "give sampler(rng, count), or a Problem")
        samples = whole_number("samples", samples, 1000)
        volumes, thresholds = _prior_volumes(problem, sampler, epsilons, samples, blocks, seed)
        return fit_volume(volumes, thresholds, multiplicity)
    if sampler is not None:
        raise BadInput("a problem is measured in a box around w*", "give the function K(w) to use your own sampler")
    epsilons = EPSILONS if epsilons is None else _checked(epsilons)
    block = volume_sampler(problem, radius=radius, epsilons=epsilons, samples=samples, seed=seed)
    volumes = []
    for index in range(blocks):
        report_step(f"{samples} draws per block", index, blocks)
        volumes.append(block(index))
    return fit_volume(np.stack(volumes), epsilons, multiplicity)


def volume_sampler(
    problem: Problem, *, radius: float, epsilons: np.ndarray, samples: int, seed: int
) -> Callable[[int], np.ndarray]:
    """A function from the index of a block to its estimate of V at each of ``epsilons``; reproducible."""
    import jax
    import jax.numpy as jnp

    epsilons = _checked(epsilons)
    whole_number("samples", samples, 2)
    near = neighbourhood_of(problem, radius)
    if near.size > POLICY.most_parameters:
        raise BadInput(
            f"volume scaling by direct draws is for at most {POLICY.most_parameters} parameters, not {near.size}",
            "measure a smaller problem",
        )
    if near.resolution > np.min(epsilons):
        raise BadInput(
            f"the loss is not zero at params, so differences below {near.resolution:.1g} are rounding noise",
            "subtract the minimum inside the loss, or use larger epsilons",
        )
    lattice = _lattice(samples, near.size)  # an argument: as a constant of the program it is slow to compile

    @jax.jit
    def volumes(key: jax.Array, lattice: jax.Array) -> tuple[jax.Array, jax.Array]:
        points = (jax.random.uniform(key, (near.size,), dtype=float) + lattice) % 1
        sign = jnp.where(points < 0.5, 1.0, -1.0)
        points = (2 * points) % 1
        position = (2 * points) % 1
        distance = jnp.where(points < 0.5, position, jnp.exp(-REACH * position))
        log_density = jnp.where(distance > math.exp(-REACH), 1 / (REACH * distance), 0.0)
        weights = jnp.prod(1 / (0.5 + 0.5 * log_density), axis=1)
        losses = jax.vmap(near.excess)(radius * sign * distance)
        below = losses[:, None] < jnp.asarray(epsilons)[None, :]
        return jnp.mean(weights[:, None] * below, axis=0), jnp.min(losses)

    def block(index: int) -> np.ndarray:
        with float64():
            shares, lowest = volumes(jax.random.fold_in(jax.random.key(seed), index), jnp.asarray(lattice))
            near.check_minimum(float(lowest))
            return np.asarray(shares)

    return block


def _prior_volumes(
    loss: Callable[[PyTree], Array],
    sampler: Callable[[np.random.Generator, int], PyTree],
    epsilons: np.ndarray | None,
    samples: int,
    blocks: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The share of draws with K below each threshold, (block, threshold), and the thresholds relative to K's median."""
    import jax

    streams = np.random.default_rng(seed).spawn(blocks + 1)

    def losses(stream: np.random.Generator) -> np.ndarray:
        draws = sampler(stream, samples)
        if {np.shape(leaf)[:1] for leaf in jax.tree.leaves(draws)} != {(samples,)}:
            raise BadInput("sampler(rng, count) does not return count draws", "put the draws along the first axis")
        with float64():
            values = np.asarray(jax.vmap(loss)(jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), draws)))
        if values.shape != (samples,) or not np.all(values >= 0):
            raise BadInput("K must be one number ≥ 0 at every draw", "give K(w), zero at its minimum")
        return values

    pilot = losses(streams[0])
    if epsilons is None:
        small, large = np.quantile(pilot, QUANTILES)
        if not 0 < small < large:
            raise BadInput("K is zero for more than 0.02% of the draws", "its zeros have volume: there λ is 0")
        thresholds = np.geomspace(small, large, len(EPSILONS))
    else:
        thresholds = _checked(epsilons)
    shares = [np.mean(losses(stream)[:, None] < thresholds, axis=0) for stream in streams[1:]]
    return np.stack(shares), thresholds / max(np.median(pilot), 2 * thresholds[-1])


def fit_volume(
    volumes: np.ndarray, epsilons: np.ndarray, multiplicity: int | None = None, policy: VolumePolicy = POLICY
) -> Measurement:
    """λ from V, of shape (block, epsilon), fitted to the smaller half of ε.

    The larger half tests the law: λ must be the same in both. If V approaches its law by a power of ε of at least
    ``policy.usual_approach``, or ``policy.slowest_approach`` where the difference is visible, the remainder in the
    smaller half is a known share of the difference, and enters the error. Without a given multiplicity, the draws must
    exclude one logarithm.
    """
    if len(volumes) < policy.fewest_blocks:
        raise BadInput(f"{len(volumes)} blocks are too few for an error bar", f"use at least {policy.fewest_blocks}")
    m = 1 if multiplicity is None else whole_number("multiplicity", multiplicity, 1)
    logs = -np.log(_checked(epsilons))
    small, large = logs >= np.median(logs), logs <= np.median(logs)
    if np.sum(small) < m + 3:
        raise BadInput(f"{len(epsilons)} epsilons are too few to fit", f"use at least {2 * (m + 3)}")
    mean, spread = _mean_and_spread(volumes)
    name = "λ by volume scaling"
    with_draws = int(np.count_nonzero(volumes > 0, axis=0).min())
    if with_draws < 2 or not mean.min() < mean.max() < 1:  # the jackknife leaves one block out
        where = "the whole box lies below the largest"
        if with_draws < 2:
            where = f"{'draws of one block alone' if with_draws else 'no draw'} fell below the smallest"
        reason = f"{where} ε: use more samples or other epsilons"
        return Measurement.refused(reason, error_kind="jackknife", name=name, policy=policy.plain())

    def at_both_ends(volume: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """λ at small ε, and by how much it differs from λ at large ε."""
        end = _fit(volume, spread, logs, small, m)
        return end, end - _fit(volume, spread, logs, large, m)

    (estimate, change), (error, change_error) = _jackknife(at_both_ends, volumes)
    one_more = np.exp(-estimate * logs) * logs**m  # V with one more logarithm
    logarithm = float(at_both_ends(one_more, one_more * spread / mean)[1])
    visible = abs(change) > policy.visible_drift * change_error
    approach = policy.slowest_approach if visible else policy.usual_approach
    left = math.exp(-approach * (logs[small].mean() - logs[large].mean()))
    reasons = []
    if abs(change) > max(policy.largest_drift * change_error, policy.small_drift * logarithm):
        reasons.append(
            f"λ still moves by {change:.2g} between large and small ε: use smaller epsilons or a smaller radius, or "
            "pass the multiplicity if theory knows it"
        )
    elif m > 1 and estimate - _fit(mean, spread, logs, small, 1) < (m - 1) * policy.visible_logarithms / (
        logs[small].mean()
    ):
        reasons.append(
            f"the draws do not show the logarithms of multiplicity {m}: use more samples, or smaller epsilons"
        )
    elif multiplicity is None:
        resolution = logarithm / (2 * policy.largest_drift * change_error)
        if resolution < 1:
            reasons.append(
                f"too few draws to exclude a logarithm: use {max(2, math.ceil(resolution**-2))} times as many samples, "
                "or pass the multiplicity if theory knows it"
            )
    return Measurement(
        estimate,
        math.hypot(error, change * left / (1 - left)),
        Status.REFUSED if reasons else Status.OK,
        diagnostics={"drift": change, "drift_error": change_error, "blocks": len(volumes)},
        error_kind="jackknife",
        reasons=reasons,
        name=name,
        policy=policy.plain(),
    )


def _fit(volume: np.ndarray, spread: np.ndarray, logs: np.ndarray, use: np.ndarray, m: int) -> np.ndarray:
    """The λ for which V ε^(−λ) is closest to a polynomial of degree m−1 in log 1/ε, in relative errors.

    One for each row of volumes. With at most one logarithm the misfit has one minimum, where its derivative changes
    sign; with more it may have several, and one row after another is searched.
    """
    if m > 2 and volume.ndim > 1:
        return np.array([_fit(row, spread, logs, use, m) for row in volume])
    v, logs = volume[..., use], logs[use]
    log_v, powers, target = np.log(v), (logs / logs.max()) ** np.arange(m)[:, None], v / spread[use]
    centred = logs - logs.mean()
    slope = -(log_v @ centred) / (centred @ centred)

    def misfit(exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The squares that the best polynomial leaves, and half their derivative."""
        tilted = log_v + exponent[..., None] * logs
        weight = target * np.exp(tilted[..., :1] - tilted)
        rest, basis = target, []
        for power in powers:
            column = weight * power
            for other in basis:
                column = column - _inner(column, other) * other
            basis.append(column / np.sqrt(_inner(column, column)))
            rest = rest - _inner(rest, basis[-1]) * basis[-1]
        return np.sum(rest**2, axis=-1), np.sum(rest * logs * (target - rest), axis=-1)

    # logarithms can only lower the plain slope, each power of them by about 1/log(1/ε)
    low, high = (slope - 0.02, slope + 0.02) if m == 1 else (slope, slope + (m - 1) * max(0.15, 2 / logs.min()))
    if m > 2:
        from scipy.optimize import minimize_scalar  # slow to import

        best = minimize_scalar(
            lambda one: misfit(np.asarray(one))[0], bounds=(low, high), method="bounded", options={"xatol": PRECISION}
        )
        return best.x  # pyright: ignore[reportAttributeAccessIssue]
    while np.max(high - low) > PRECISION:
        middle = (low + high) / 2
        rises = misfit(middle)[1] > 0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    return (low + high) / 2


def _inner(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.sum(one * other, axis=-1, keepdims=True)


def _jackknife(
    statistics: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]], volumes: np.ndarray
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two statistics of the mean volume over blocks, and their jackknife standard errors.

    Not :func:`phasecast.core.statistics.jackknife`: the weights (``spread``) stay those of all blocks.
    """
    blocks = len(volumes)
    mean, spread = _mean_and_spread(volumes)

    def error(values: np.ndarray) -> float:
        return math.sqrt((blocks - 1) / blocks * np.sum((values - values.mean()) ** 2))

    first, second = map(error, statistics((blocks * mean - volumes) / (blocks - 1), spread))
    value, other = statistics(mean, spread)
    return (float(value), float(other)), (first, second)


def _mean_and_spread(volumes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over blocks and its standard error, at each ε."""
    return volumes.mean(axis=0), standard_error(volumes)


def _checked(epsilons: np.ndarray) -> np.ndarray:
    """Thresholds as an array: positive and increasing."""
    array = np.asarray(epsilons, dtype=float)
    if array.ndim != 1 or not (np.all(array > 0) and np.all(np.diff(array) > 0)):
        raise BadInput("epsilons must be positive and increasing", "use np.logspace(-28, -12, 17)")
    return array


def _lattice(samples: int, size: int) -> np.ndarray:
    """Points that fill the unit cube evenly: multiples of the powers of 1/φ, with φ^(size+1) = φ + 1."""
    golden = 2.0
    for _ in range(64):
        golden = (1 + golden) ** (1 / (size + 1))
    return np.arange(samples)[:, None] * golden ** -np.arange(1.0, size + 1) % 1
