"""The operations of kernels in JAX.

Large models move in float32, where drawing normal numbers with JAX's threefry takes as long as a small gradient. Their
noise needs no cryptography and no far tails: a Langevin step uses its mean and variance, and the bias that is left
comes from its fourth moment. So float32 gets :func:`quick_normal`, at a fraction of the cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from phasecast.core.types import Key
from phasecast.sampling.kernels.kernel import Array, Number, State


class JaxOps:
    """:class:`~phasecast.sampling.kernels.kernel.Ops` in JAX."""

    def split(self, key: Key, count: int) -> Key:
        return jax.random.split(key, count)

    def normal(self, key: Key, like: Array) -> Array:
        if like.dtype == jnp.float32:
            return quick_normal(key, like.shape)
        return jax.random.normal(key, like.shape, like.dtype)

    def uniform(self, key: Key, like: Array) -> Array:
        return jax.random.uniform(key, like.shape, like.dtype)

    def same_for_all(self, key: Key) -> Number:
        return jax.random.uniform(key)

    def repeat(self, count: Number, body: Callable[[Key, State], State], state: State, key: Key) -> State:
        whole = jnp.floor(count).astype(int)
        return jax.lax.fori_loop(0, whole, lambda i, moving: body(jax.random.fold_in(key, i), moving), state)

    def where(self, chains: Array, new: Array, old: Array) -> Array:
        return jnp.where(chains.reshape(chains.shape + (1,) * (new.ndim - 1)), new, old)

    def exp(self, x: Array) -> Array:
        return jnp.exp(x)

    def sqrt(self, x: Array) -> Array:
        return jnp.sqrt(x)

    def clip(self, x: Array, low: float, high: float) -> Array:
        return jnp.clip(x, low, high)

    def finite(self, x: Array) -> Array:
        return jnp.isfinite(x)

    def zeros_like(self, x: Array) -> Array:
        return jnp.zeros_like(x)


# z = s (1 + …) for the sum s of four bytes about its mean: E z² = 1, E z⁴ = 3 and E z⁶ = 15 exactly, so that the
# distribution function is that of a normal to 0.0013 (tests/truth/test_quick_normals.py); no z is beyond ±4.53
FOUR_BYTES = (6.573105213925292e-3, 2.727881672237933e-10, 3.305909702768648e-14)


def quick_normal(key: Key, shape: tuple[int, ...]) -> Array:
    """Standard normal numbers in float32: the four bytes of a hash, added, and an odd polynomial of the sum."""
    words = hashed(key, math.prod(shape)).reshape(shape)
    pairs = (words & 0x00FF00FF) + ((words >> 8) & 0x00FF00FF)
    total = ((pairs & 0xFFFF) + (pairs >> 16)).astype(jnp.int32) - 510
    s = total.astype(jnp.float32)
    square = s * s
    first, third, fifth = FOUR_BYTES
    return s * (first + square * (third + square * fifth))


def hashed(key: Key, count: int) -> Array:
    """The hash of 0, 1, 2, … with both words of a key: 32 bits each, as good as random for noise."""
    words = jax.random.key_data(key).astype(jnp.uint32)
    counter = jax.lax.iota(jnp.uint32, count)
    return _mixed(_mixed(counter * jnp.uint32(0x9E3779B9) + words[0]) ^ words[1])


def _mixed(x: Array) -> Array:
    """A bijection of 32 bits in which every bit of x changes every bit of the result about half of the time.

    The constants are those of lowbias32 (C. Wellons, 2018), found by a search for the least bias.
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
