"""Is the curvature bounded below? The infimum of G over all preactivations and labels.

The left edge of the Hessian's bulk depends on it, and where it is −∞ (y = z² with the square loss) the formula for the
threshold has no finite answer. The least G is compared within 10 and within 40 standard deviations of everything
Gaussian: a G that still falls between the two by more than a tenth is taken to be unbounded below.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.policy import POLICY
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target

NEAR, FAR = 10.0, 40.0  # standard deviations: no draw lies beyond either, so only a law without a bound differs


@lru_cache(maxsize=64)
def curvature_floor(network: Network, target: Target, block: int = 0, *, moved: bool = False) -> float:
    """The infimum of G_j over all preactivations and labels, −inf where it keeps falling.

    With ``moved`` the output of a wide network may be anything, as it is after a step; at the start it is zero.
    """
    per_axis = {1: 81, 2: 21, 3: 9}[target.latents]
    line = np.sinh(np.linspace(-1, 1, per_axis) * math.asinh(10 * FAR)) / 10
    z = np.stack(np.meshgrid(*[line] * target.latents), -1).reshape(-1, target.latents)
    eps = np.repeat([0.0] if target.noise == 0 else [-FAR, -NEAR, 0.0, NEAR, FAR], len(z))
    z = np.tile(z, (len(eps) // len(z), 1))
    y = evaluate_batched(target, "labels", z, eps)
    size = np.maximum(abs(z).max(1), abs(eps))
    if network.width == "wide" and moved:
        near, far = (_least_product(network, y[size <= reach], block, reach) for reach in (NEAR, FAR))
    else:
        near, far = _least_curvatures(network, y, size, block)
    return -math.inf if near - far > POLICY.unbounded_fall * (1 + abs(near)) else far


def _least_curvatures(network: Network, y: np.ndarray, size: np.ndarray, block: int) -> tuple[float, float]:
    """The least G_j within NEAR and within FAR, over the neuron's own preactivation, those of others and the label."""
    V = network.initial_norm * np.sinh(np.linspace(-1, 1, 201) * math.asinh(50 * FAR)) / 50
    alone = network.size == 1 or network.width == "wide"
    others = np.zeros(1) if alone else network.initial_norm * np.array([-FAR, -NEAR, -1.0, 0.0, 1.0, NEAR, FAR])
    own, label, beside = (index.ravel() for index in np.indices((V.size, y.size, others.size)))
    points = np.repeat(others[beside][:, None], network.size, axis=1)
    points[:, block] = V[own]
    G = evaluate_batched(network, "curvature", points, y[label])[:, block]
    reach = np.maximum.reduce(
        [abs(V[own]) / network.initial_norm, abs(others[beside]) / network.initial_norm, size[label]]
    )
    return float(G[reach <= NEAR].min()), float(G.min())


def _least_product(network: Network, y: np.ndarray, block: int, reach: float) -> float:
    """The least a_j ℓ'(f, y) σ''(V): ℓ' and σ'' vary independently, so it is one of the four products of extremes."""
    outputs = np.linspace(-reach, reach, 41)
    slopes = evaluate_batched(network.loss, "first", np.repeat(outputs, y.size), np.tile(y, outputs.size))
    bends = evaluate_batched(network.activation, "second", np.linspace(-reach, reach, 2001) + network.b_each[block])
    products = np.outer([slopes.min(), slopes.max()], [bends.min(), bends.max()])
    return float((network.a_each[block] * products).min())
