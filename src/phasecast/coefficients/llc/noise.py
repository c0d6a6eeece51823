"""What do gradients of minibatches do to λ̂? Their noise heats the chains; how much is known, and taken off.

Noise of covariance C adds ε²C to the momentum at each step ε, and friction f takes it away, so the temperature in a
direction is 1 + (ε²C/2) coth(fε) instead of 1. λ̂ gets half of that from each direction, times the share s = k/(k + γ)
of the loss in its energy, where k is a curvature of nβL:

.. math:: \\hat\\lambda_{\\text{noisy}} - \\hat\\lambda
          = \\tfrac{\\varepsilon^2}{4} \\coth(f\\varepsilon)\\, \\mathrm{tr}(SC), \\qquad S = K (K + \\gamma)^{-1}

tr C is measured from pairs of minibatches where the chains are. tr(SC)/tr C, between 0 and 1, follows from how curved
nβL is along the difference ξ of such a pair: a few steps of Lanczos are quadrature of s(k) over the curvatures that ξ
sees. Gauss's rule is an upper bound of ξᵀSξ/ξᵀξ and that of Radau, with a node at k = 0, a lower one (Golub & Meurant
1994); their mean is taken, and half of their distance is in the error. All are means over a window, and the step is
short enough for what is left uncertain to be small.

The alternative, two chains at ε and ε/2 and a line through both, needs no S. But the difference of two chains is known
to about twice the error of one, and it is half of a bias that may be three times the target: the share would be known
to ±0.7, where the curvature tells it to ±0.2 or better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.kernels.kernel import Array, RandomKey, Tuning

if TYPE_CHECKING:
    from phasecast.coefficients.llc.level import Level
    from phasecast.coefficients.llc.plan import Plan

Slope: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""∇(nβL) at offsets (chains, size)."""


LANCZOS_STEPS = 4
"""Over four decades of curvature the bounds are 0.03 apart where noise is in proportion to curvature, and 0.2 where it
is the same in all directions."""

EXHAUSTED = 1e-6  # of the first curvature: what float32 leaves of a direction that the others span already


def heating(tuning: Tuning, noise: float) -> float:
    """The most that noise with tr C = ``noise`` adds to λ̂: all of it, where S is the identity."""
    step, friction = tuning.step_size, tuning.friction
    return step**2 / 4 / math.tanh(friction * step) * noise


def loss_share(
    slope: Slope, offsets: np.ndarray, directions: np.ndarray, gamma: float, length: float
) -> tuple[float, float]:
    """A lower and an upper bound of ξᵀSξ/ξᵀξ for ``directions`` ξ (chains, size), means over the chains.

    By Lanczos with differences of ``slope`` over ``length``. Directions in which nβL is concave count as flat: they are
    few where chains stay, and γ holds them.
    """
    here = slope(offsets)
    basis = [directions / np.linalg.norm(directions, axis=1, keepdims=True)]
    diagonal: list[np.ndarray] = []
    beside: list[np.ndarray] = []
    for _ in range(LANCZOS_STEPS):
        image = (slope(offsets + length * basis[-1]) - here) / length
        diagonal.append(np.sum(image * basis[-1], axis=1))
        for earlier in basis:
            image = image - np.sum(image * earlier, axis=1, keepdims=True) * earlier
        beside.append(np.linalg.norm(image, axis=1))
        if not np.all(beside[-1] > EXHAUSTED * np.abs(diagonal[0])):
            break
        basis.append(image / beside[-1][:, None])
    bounds = [
        _share_bounds(np.array([row[chain] for row in diagonal]), np.array([row[chain] for row in beside]), gamma)
        for chain in range(len(directions))
    ]
    lower, upper = np.mean(bounds, axis=0)
    return float(lower), float(upper)


def _share_bounds(diagonal: np.ndarray, beside: np.ndarray, gamma: float) -> tuple[float, float]:
    """The rules of Radau and of Gauss for s(k), from the tridiagonal matrix that Lanczos found."""
    inner = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    lowest = np.linalg.eigvalsh(inner)[0]
    node = min(0.0, 1.1 * lowest)  # below all that was seen, where the loss is concave
    last = node + beside[-1] ** 2 * np.linalg.inv(inner - node * np.eye(len(inner)))[-1, -1] if lowest != node else 0.0
    wider = np.diag([*diagonal, last]) + np.diag(beside, 1) + np.diag(beside, -1)
    shares = []
    for matrix in (wider, inner):
        curvatures, vectors = np.linalg.eigh(matrix)
        convex = np.maximum(curvatures, 0.0)
        shares.append(float(np.sum(vectors[0] ** 2 * convex / (convex + gamma))))
    return min(shares), max(shares)


def batch_gradient(backend: Backend, plan: Plan, level: Level, offsets: Array, key: RandomKey) -> np.ndarray:
    """∇U on the minibatch of a key."""
    return np.asarray(backend.init(plan.kernel, backend.array(np.asarray(offsets)), level.tuning, key)["gradient"])


def measure_noise(backend: Backend, plan: Plan, level: Level, key: RandomKey) -> None:
    """tr C from a pair of minibatches where the chains are; now and then also the share of it that heats the loss."""
    position = backend.array(np.asarray(level.state["position"]))
    keys = [stream(backend, key, "noise", level.chunks, number) for number in range(3)]
    one, other = (backend.init(plan.kernel, position, level.tuning, own) for own in keys[:2])
    apart = np.asarray(one["gradient"], dtype=float) - np.asarray(other["gradient"], dtype=float)
    losses = np.asarray(one["loss"], dtype=float) - np.asarray(other["loss"], dtype=float)
    looks = level.noise_looks
    level.noise = (level.noise * looks + float(np.mean(np.sum(apart**2, axis=1))) / 2) / (looks + 1)
    level.loss_noise = (level.loss_noise * looks + float(np.mean(losses**2)) / 2) / (looks + 1)
    level.noise_looks += 1
    level.gradients += 2 * level.chains
    if looks % plan.policy.share_every == 0 and np.all(np.any(apart != 0, axis=1)):
        gamma, offsets = level.tuning.gamma, np.asarray(position, dtype=float)
        length = plan.policy.difference_share / math.sqrt(max(level.curvature.largest, gamma))

        def slope(offsets: np.ndarray) -> np.ndarray:  # on other rows than those that differ
            return batch_gradient(backend, plan, level, offsets, keys[2]) - gamma * offsets

        bounds = np.array(loss_share(slope, offsets, apart, gamma, length))
        if np.all(np.isfinite(bounds)):
            before = np.array([level.share, level.share_width]) * level.share_looks
            level.share_looks += 1
            found = bounds.mean(), (bounds[1] - bounds[0]) / 2
            level.share, level.share_width = ((before + found) / level.share_looks).tolist()
        level.gradients += (LANCZOS_STEPS + 1) * level.chains


def heated(plan: Plan, level: Level) -> float:
    """What the noise of minibatches adds to λ̂ at most, over the most that it may add."""
    most = plan.policy.heated_targets * plan.target * max(level.scale, math.sqrt(max(0.0, level.variance)))
    return level.heating / max(most, 1e-300)


def fitting_shrink(plan: Plan, level: Level) -> float:
    """How much shorter than without noise the step should be, so that noise adds a little less to λ̂ than it may."""
    policy, shrink = plan.policy, level.warm_up.shrink
    factor = min(4.0, max(0.25, policy.wanted_heat / max(heated(plan, level), 1e-300)))
    return min(1.0, max(policy.smallest_shrink, shrink * factor))
