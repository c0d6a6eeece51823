"""Where does an example settle, given the rest? V + pace·F(V, y) = W for one unit, at many examples at once.

Newton's method kept inside a bracket, compiled as a whole: a step that would leave the bracket is replaced by a
bisection, and each evaluation shortens the bracket.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from phasecast.core.precision import float64
from phasecast.core.types import Array
from phasecast.features.setting.network import Network

SOLVED = 1e-11  # largest distance of the two sides; preactivations are of order one, so about rounding
WIDENINGS = 60  # of a bracket that begins at 1 + |W|, at most
STEPS = 100  # at most; bisection alone takes about 40


def settle(network: Network, W: np.ndarray, y: np.ndarray, pace: float, guess: np.ndarray) -> np.ndarray:
    """V, shape (n,), from ``guess``; unique where the left side increases with V.

    >>> network = Network("quadratic", "square")  # F = 2V(V² − y)
    >>> settle(network, np.array([2.0]), np.array([1.0]), 0.5, np.zeros(1)).round(6).tolist()  # V³ = 2
    [1.259921]
    """
    with float64():
        return np.asarray(_compiled(network)(W, y, float(pace), guess))


@lru_cache(maxsize=64)
def _compiled(network: Network) -> Callable[[Array, Array, float, Array], Array]:
    def solve(W: jax.Array, y: jax.Array, pace: jax.Array, guess: jax.Array) -> jax.Array:
        def distance(V: jax.Array) -> jax.Array:
            return V + pace * network.force(V[:, None], y)[:, 0] - W

        def slope(V: jax.Array) -> jax.Array:
            rise = 1 + pace * network.curvature(V[:, None], y)[:, 0]
            return jnp.where(rise > 0, rise, 1.0)

        def outside(width: jax.Array) -> jax.Array:
            return (distance(W - width) > 0) | (distance(W + width) < 0)

        def widen(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            number, width = state
            return number + 1, jnp.where(outside(width), 2 * width, width)

        def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            number, V, value, low, high = state
            low, high = jnp.where(value < 0, V, low), jnp.where(value > 0, V, high)
            newton = V - value / slope(V)
            V = jnp.where((newton > low) & (newton < high), newton, (low + high) / 2)
            return number + 1, V, distance(V), low, high

        _, width = lax.while_loop(
            lambda state: (state[0] < WIDENINGS) & jnp.any(outside(state[1])), widen, (jnp.array(0), 1.0 + abs(W))
        )
        low, high = W - width, W + width
        V = jnp.clip(guess, low, high)
        _, V, *_ = lax.while_loop(
            lambda state: (state[0] < STEPS) & ~(jnp.max(abs(state[2])) < SOLVED),
            step,
            (jnp.array(0), V, distance(V), low, high),
        )
        return V

    return jax.jit(solve)
