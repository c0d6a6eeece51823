"""The operations of kernels in JAX."""

from __future__ import annotations

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
