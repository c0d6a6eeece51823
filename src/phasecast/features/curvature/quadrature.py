"""What is the law of the curvature at the start, after one step and at a fixed point? Integrals over Gaussians.

At t = 0 the preactivations V ~ N(0, ‖θ‖²) are independent of the labels. One step of gradient descent gives

.. math:: V_j(1) = V_j - \\frac{\\eta}{m}\\Big[\\frac{F_j}{\\delta} + \\sum_k R_{jk}V_k + \\mathbb E[F_jz_E]\\cdot z_E
          + \\sqrt{C/\\delta}\\,\\xi\\Big],\\qquad R_{jk} = \\frac{\\mathbb E[F_jV_k]}{\\|\\theta\\|^2},\\quad
          C_{jk} = \\mathbb E[F_jF_k]

where the parts are the example's own contribution to the gradient, the gradient along the θ_k, along the easy latents
z_E, and along all other directions (the mean-field equations of the slides for two times, with the responses written
by Stein's lemma).
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.lower_bound import curvature_floor
from phasecast.features.curvature.settling import settle
from phasecast.features.hessian_spectrum import check_delta
from phasecast.features.setting.network import Network, blocks
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as as_target

GRID = {1: (2000, 9.0), 2: (280, 8.5), 3: (96, 7.0), 4: (36, 5.5)}  # points per axis and reach, by dimension
SOBOL = 17  # log2 of the points in more dimensions
LIGHTEST = 1e-15  # relative to the largest weight: points below are left out, they are lost in rounding


def gaussian_points(
    dimensions: int, fineness: float = 1.0, breaks: tuple[float, ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, dimensions) and weights (n,) for expectations over standard normals.

    Up to four dimensions a regular grid, which converges exponentially for analytic functions and keeps every mirror
    symmetry; no point has a zero coordinate, so that jumps there fall between points. With ``breaks`` the first axis
    has Gauss-Legendre panels that end there, for functions with kinks. Beyond four, a scrambled Sobol sequence with
    each point's mirror image.

    >>> points, weights = gaussian_points(2)
    >>> round(float(weights @ (points[:, 0] ** 4)), 9)
    3.0
    """
    if dimensions not in GRID:
        from scipy.special import ndtri
        from scipy.stats import qmc  # takes nearly as long to import as JAX

        size = SOBOL + round(math.log2(fineness))
        half = ndtri(qmc.Sobol(dimensions, rng=np.random.default_rng(0)).random_base2(size))
        points = np.concatenate([half, -half])
        return points, np.full(len(points), 1 / len(points))
    count, reach = GRID[dimensions]
    count = 2 * round(count * fineness / 2)
    line = (np.arange(count) + 0.5) * (2 * reach / count) - reach
    axes = [(line, np.full(count, 2 * reach / count))] * dimensions
    if breaks:
        axes[0] = panels(breaks, reach, count)
    logs = sum(np.ix_(*[np.log(width) - x**2 / 2 for x, width in axes]))
    heavy = np.nonzero(np.asarray(logs) > np.max(logs) + math.log(LIGHTEST))
    points = np.stack([x[index] for (x, _), index in zip(axes, heavy, strict=True)], -1)
    weights = np.exp(np.asarray(logs)[heavy])
    return points, weights / weights.sum()


def panels(breaks: tuple[float, ...], reach: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """About ``count`` nodes and widths of Gauss-Legendre rules of order 10 between −reach, the breaks and reach."""
    order = 10
    inside = [x for x in breaks if abs(x) < reach]
    ends = np.unique([-reach, *inside, reach])
    x, width = np.polynomial.legendre.leggauss(order)
    nodes, widths = [], []
    for low, high in itertools.pairwise(ends):
        cuts = np.linspace(low, high, max(round(count / order * (high - low) / (2 * reach)), 1) + 1)
        half = np.diff(cuts)[:, None] / 2
        nodes.append((cuts[:-1, None] + half + half * x).ravel())
        widths.append((half * width).ravel())
    return np.concatenate(nodes), np.concatenate(widths)


@lru_cache(maxsize=32)
def find_breaks(target: Target) -> tuple[float, ...]:
    """Where the link of a single latent has a kink or a jump, to rounding; empty for more latents.

    A second difference that towers over those nearby, zoomed into until it is a point.
    """
    if target.latents > 1:
        return ()
    grid = np.linspace(-9, 9, 20_001)
    bend = abs(np.diff(evaluate_batched(target, "labels", grid[:, None], np.zeros(grid.size)), 2))
    near = np.maximum(np.roll(bend, 5), np.roll(bend, -5))
    peaks = np.nonzero(bend > 20 * near + 1e-9 * (1 + bend.max()))[0]
    breaks: list[float] = []
    for peak in peaks:
        low, high = grid[peak], grid[peak + 2]
        while high - low > 1e-13 * 9:
            zoom = np.linspace(low, high, 41)
            sharp = np.argmax(abs(np.diff(evaluate_batched(target, "labels", zoom[:, None], np.zeros(41)), 2)))
            if zoom[sharp + 2] - zoom[sharp] >= high - low:
                break
            low, high = zoom[sharp], zoom[sharp + 2]
        if not breaks or low - breaks[-1] > 1e-6:
            breaks.append(float((low + high) / 2))
    return tuple(breaks)


def initial_laws(network: Network, target: str | Target, fineness: float = 1.0) -> tuple[CurvatureLaw, ...]:
    """The law at t = 0 of every different block of the Hessian; it is the same for all δ.

    >>> law, = initial_laws(Network("quadratic", "square"), "tanh(z)**2")
    >>> law.lowest  # at V = 0 and y → 1: 2(V² − y) + 4V²
    -2.0
    """
    target = as_target(target)
    V, z, y, _, weights = start_points(network, target, fineness)
    G = evaluate_batched(network, "curvature", V, y)
    own = V[:, :1] if network.width == "wide" else V
    rest = np.hstack([own / network.initial_norm, z @ target.easy])
    return tuple(
        CurvatureLaw(G[:, j], z @ target.hard, weights, curvature_floor(network, target, j), block=j, rest=rest)
        for j in blocks(network)
    )


def one_step_laws(
    network: Network, target: str | Target, lr: float, delta: float, fineness: float = 1.0
) -> tuple[CurvatureLaw, ...]:
    """The law after one step of gradient descent with n = δd examples."""
    check_delta(delta)
    target = as_target(target)
    if network.width == "wide":
        from phasecast.features.curvature.wide_first_step import wide_step_laws

        return wide_step_laws(network, target, lr, delta, fineness)
    V, z, y, _, weights = start_points(network, target, fineness)
    m = network.size
    F = evaluate_batched(network, "force", V, y)
    weighted = F * weights[:, None]
    response = weighted.T @ V / network.initial_norm**2
    along_easy = (weighted.T @ z) @ target.easy
    noise = np.linalg.cholesky(weighted.T @ F / delta + 1e-14 * np.eye(m))
    V, z, y, xi, weights = start_points(network, target, fineness, fresh=m)
    F = evaluate_batched(network, "force", V, y)
    later = V - lr / m * (F / delta + V @ response.T + z @ target.easy @ along_easy.T + xi @ noise.T)
    G = evaluate_batched(network, "curvature", later, y)
    return tuple(
        CurvatureLaw(
            G[:, j], z @ target.hard, weights, curvature_floor(network, target, j), time=1.0, delta=delta, block=j
        )
        for j in blocks(network)
    )  # fmt: skip


def settled_laws(
    network: Network, target: Target, delta: float, alpha: float, q: float, overlap: np.ndarray, fineness: float = 1.0
) -> tuple[CurvatureLaw, ...]:
    """The law at a fixed point of one neuron: V + (α/δ) F(V, y) = W with W = overlap·z + √q ξ.

    α, q and the overlap (k,) come from :func:`phasecast.features.fixed_point`. The left side increases with V there.
    """
    V, z, y, _, weights = start_points(network, target, fineness)
    W = z @ overlap + math.sqrt(q) * V[:, 0] / network.initial_norm
    V = settle(network, W, y, alpha / delta, W)
    G = evaluate_batched(network, "curvature", V[:, None], y)[:, 0]
    lowest = curvature_floor(network, target)
    return (CurvatureLaw(G, z @ target.hard, weights, lowest, "fixed-point", math.inf, delta),)


def start_points(
    network: Network, target: Target, fineness: float, fresh: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """V (n, m), z (n, k), y (n,), ξ (n, fresh) and weights (n,). Each block of a wide network has one V of its own."""
    own = 1 if network.width == "wide" else network.size
    k, noisy = target.latents, int(target.noise > 0)
    points, weights = gaussian_points(k + own + noisy + fresh, fineness, find_breaks(target))
    z, V, eps, xi = np.split(points, np.cumsum([k, own, noisy]), axis=1)
    y = evaluate_batched(target, "labels", z, eps[:, 0] if noisy else np.zeros(len(z)))
    if not np.isfinite(y).all():
        raise BadInput(f"the target '{target.name}' is not finite everywhere", "give a function defined for every z")
    return np.repeat(V * network.initial_norm, network.size // own, axis=1), z, y, xi, weights
