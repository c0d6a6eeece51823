"""NUTS, MCLMC and any other kernel of blackjax, behind our contract.

Such a kernel works on one chain and a log density; here it is given −U of the target and mapped over the chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from phasecast.core.errors import BadInput
from phasecast.sampling.kernels.kernel import Array, Info, Kernel, Ops, RandomKey, State, Target, Tuning, at

Algorithm: TypeAlias = Any
"""A sampling algorithm of blackjax: it has ``init`` and ``step``."""

LogDensity: TypeAlias = Callable[[Array], Array]
Build: TypeAlias = Callable[[LogDensity, Tuning, int], Algorithm]


@cache  # the same kernel is the same compilation
def nuts() -> Kernel:
    """The No-U-Turn sampler with unit mass and ``tuning.step_size`` (Hoffman & Gelman 2014)."""

    def build(logdensity: LogDensity, tuning: Tuning, size: int) -> Algorithm:
        import blackjax
        import jax.numpy as jnp

        return blackjax.nuts(logdensity, tuning.step_size, jnp.ones(size))

    return from_blackjax(build, name="nuts", adjusted=True, gradients=lambda tuning: 2 * tuning.leaps)


@cache  # the same kernel is the same compilation
def mclmc() -> Kernel:
    """Microcanonical Langevin dynamics, momentum forgotten over a length √d/friction (Robnik & Seljak 2024)."""

    def build(logdensity: LogDensity, tuning: Tuning, size: int) -> Algorithm:
        import blackjax

        return blackjax.mclmc(logdensity, L=math.sqrt(size) / tuning.friction, step_size=tuning.step_size)

    return from_blackjax(build, name="mclmc", adjusted=False, gradients=lambda tuning: 2.0)


def from_blackjax(
    build: Build, *, name: str, adjusted: bool, gradients: Callable[[Tuning], float] = lambda tuning: tuning.leaps
) -> Kernel:
    """Your own blackjax kernel: ``build(logdensity, tuning, size)`` returns a blackjax sampling algorithm."""

    def algorithm(target: Target, tuning: Tuning, size: int) -> Algorithm:
        def logdensity(position: Array) -> Array:
            return -target(position[None, :], tuning, None)["energy"][0]

        built = build(logdensity, tuning, size)
        if not (hasattr(built, "init") and hasattr(built, "step")):
            raise BadInput(
                f"{name} builds a {type(built).__name__}", "return a blackjax algorithm, such as blackjax.nuts(…)"
            )
        return built

    def init(ops: Ops, target: Target, position: Array, tuning: Tuning, key: RandomKey) -> State:
        import jax

        chains, size = position.shape
        inner = jax.vmap(algorithm(target, tuning, size).init)(position, jax.random.split(key, chains))
        return {**at(target, position, tuning, key), "inner": inner}

    def step(ops: Ops, target: Target, state: State, tuning: Tuning, key: RandomKey) -> tuple[State, Info]:
        import jax
        import jax.numpy as jnp

        chains, size = state["position"].shape
        inner, info = jax.vmap(algorithm(target, tuning, size).step)(jax.random.split(key, chains), state["inner"])
        moved = {**at(target, inner.position, tuning, key), "inner": inner}
        acceptance = getattr(info, "acceptance_rate", jnp.ones(chains))
        divergent = getattr(info, "is_divergent", ~jnp.isfinite(moved["energy"]))
        whole = getattr(info, "nonans", True)  # MCLMC steps back from what is not finite, and only says so here
        return moved, Info(acceptance, divergent | ~jnp.asarray(whole))

    return Kernel(name, init, step, adjusted, gradients, only_jax=True)
