"""How does an example act on the weights? Labels, losses and their derivatives for many examples at once, in NumPy.

With V = Θᵀx ∈ R^m, the gradient of the loss is g = ∂ℓ(f(V), y)/∂V = F/m and its Hessian H = ∂g/∂V,

.. math::
    H_{ij} = \\tfrac{1}{m}\\bigl(\\delta_{ij}\\, a_i \\ell' \\sigma''_i +
    \\tfrac{a_i a_j}{m}\\, \\ell'' \\sigma'_i \\sigma'_j\\bigr),

whose diagonal is G/m; F and G are those of :class:`~phasecast.features.setting.network.Network`. Everything is
compiled once per network and computed in double precision, or in the precision of the arrays where they are JAX's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import standard_error
from phasecast.core.types import Array
from phasecast.features.curvature.compiled import compiled, padded
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.lower_bound import curvature_floor
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target

ROWS = 512  # examples are padded to a multiple, so that descents at many δ share what they compile; chosen
NODES = 2**15  # of the quasi-random average over fresh examples, a power of two as Sobol's sequence needs


class Origin(NamedTuple):
    """Which law it is: by which route, after how many steps, at which δ (None if it depends on none), of which unit."""

    route: str
    time: float
    delta: float | None
    block: int = 0


def check_step(delta: float, lr: float) -> None:
    """Bad input unless δ and η are positive."""
    if not (math.isfinite(delta) and delta > 0):
        raise BadInput(f"invalid δ {delta:g}", "use examples per dimension n/d > 0")
    if not (math.isfinite(lr) and lr > 0):
        raise BadInput(f"invalid learning rate {lr:g}", "use η > 0")


def few_units(network: Network) -> int:
    """m of a network of one to four units."""
    if network.width == "wide":
        raise BadInput("this needs a finite number of units", "use wide_dmft, or a width from 1 to 4")
    return network.size


def labels(target: Target, latents: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """y = h(z, ε) of latents (n, k) and standard normals ε (n,)."""
    with float64():
        return np.asarray(compiled(target, "labels")(*padded(ROWS, latents, noise)), dtype=float)[: len(latents)]


def loss_gradient(network: Network, V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """g, shape (n, m)."""
    with float64():
        return derivative(network, "gradient", V, y)


def loss_hessian(network: Network, V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """H, shape (n, m, m)."""
    with float64():
        return derivative(network, "hessian", V, y)


def losses(network: Network, V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ℓ(f(V), y) of V of shape (n, m), shape (n,)."""
    with float64():
        return derivative(network, "losses", V, y)


def curvature_law(
    network: Network, target: Target, V: np.ndarray, y: np.ndarray, latents: np.ndarray, origin: Origin
) -> CurvatureLaw:
    """The law of G and the hard latents at preactivations V, of the block of one unit."""
    with float64():
        G = derivative(network, "curvature", V, y)
    lowest = curvature_floor(network, target, origin.block)  # not that of the points: it would depend on their number
    return CurvatureLaw(G[:, origin.block], latents @ target.hard, lowest=lowest, **origin._asdict())


def mean_loss(
    network: Network, Vs: np.ndarray, y: np.ndarray, name: str, reasons: tuple[str, ...] = ()
) -> Measurement[np.ndarray]:
    """The average loss at each of several times, Vs of shape (times, n, m), with its standard error."""
    each = np.stack([losses(network, V, y) for V in Vs])
    error = standard_error(each, axis=1)
    return Measurement(each.mean(axis=1), error, Status.REFUSED if reasons else Status.OK, reasons=reasons, name=name)


def fresh_loss(network: Network, target: Target, gram: np.ndarray, overlap: np.ndarray) -> float:
    """E ℓ on fresh examples, which depends on ΘᵀΘ (m, m) and ΘᵀΘ_* (m, k) alone: a quasi-random average.

    >>> from phasecast.features.setting.target import target
    >>> network = Network("quadratic", "square")  # E (V² − z²)²/2 = 2 for independent V and z
    >>> round(fresh_loss(network, target("z**2"), np.eye(1), np.zeros((1, 1))), 2)
    2.0
    """
    m, k = overlap.shape
    normals, noise, xi = np.split(nodes(k + 1 + m), [k, k + 1], axis=1)
    values, vectors = np.linalg.eigh(gram - overlap @ overlap.T)
    root = vectors * np.sqrt(np.maximum(values, 0))
    V = normals @ overlap.T + xi @ root.T
    return float(losses(network, V, labels(target, normals, noise[:, 0])).mean())


@functools.lru_cache(maxsize=8)
def nodes(columns: int, seed: int = 0, count: int = NODES) -> np.ndarray:
    """Quasi-random standard normals of shape (count, columns), the same at every call."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    uniform = qmc.Sobol(columns, rng=np.random.default_rng(seed)).random(count)
    return ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))


def derivative(network: Network, what: str, V: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``gradient``, ``hessian``, ``losses`` or ``curvature`` of V (n, m) and labels (n,), in their precision."""
    return np.asarray(_compiled_derivative(network, what)(*padded(ROWS, V, y)))[: len(V)]


@functools.lru_cache(maxsize=64)
def _compiled_derivative(network: Network, what: str) -> Callable[[Array, Array], Array]:
    """One of the functions of (V, y), jitted; the arrays decide its precision."""
    m = few_units(network)

    def gradient(V, y):
        return network.force(V, y) / m

    def hessian(V, y):
        b, a = jnp.asarray(network.b_each, V.dtype), jnp.asarray(network.a_each, V.dtype)
        first = a * network.activation.first(V + b) / m
        second = a * network.activation.second(V + b) / m
        prediction = network.predict(V)
        slope, bend = (part(prediction, y)[:, None, None] for part in (network.loss.first, network.loss.second))
        return bend * first[:, :, None] * first[:, None, :] + slope * second[:, :, None] * jnp.eye(m, dtype=V.dtype)

    def losses(V, y):
        return network.loss(network.predict(V), y)

    chosen = {"gradient": gradient, "hessian": hessian, "losses": losses, "curvature": network.curvature}
    return jax.jit(chosen[what])
