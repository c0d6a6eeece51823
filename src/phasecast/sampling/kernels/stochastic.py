"""Samplers made for minibatch gradients. None has a Metropolis test, so each has a bias that grows with its step size.

- SGLD (Welling & Teh 2011): u ← u − ε/2 ∇U + √ε ξ.
- RMSprop-SGLD (Li et al. 2016), without its correction: each coordinate has its own step ε/(δ + √v), with v a
  running mean of the squared gradient, relative to the mean over the coordinates. Chains linger where v is large, a
  bias that stays as ε → 0 and goes away only if v remembers for much longer than the chain.
- SGNHT (Ding et al. 2014): a momentum with a thermostat that learns how much noise the gradients bring.
"""

from __future__ import annotations

from functools import cache

from phasecast.sampling.kernels.kernel import (
    Array,
    Info,
    Kernel,
    Ops,
    RandomKey,
    State,
    Target,
    Tuning,
    always,
    at,
    dot,
    per_chain,
)

MEMORY = 0.99  # of the running mean of squared gradients
STABILITY = 0.1  # the share of the mean size that is added to every coordinate's


@cache  # the same kernel is the same compilation
def sgld() -> Kernel:
    """Stochastic gradient Langevin dynamics with step ε = ``tuning.step_size``."""

    def step(ops: Ops, target: Target, state: State, tuning: Tuning, key: RandomKey) -> tuple[State, Info]:
        for_noise, for_batch = ops.split(key, 2)
        noise = ops.sqrt(tuning.step_size) * ops.normal(for_noise, state["position"])
        moved = at(target, state["position"] - tuning.step_size / 2 * state["gradient"] + noise, tuning, for_batch)
        return moved, always(ops, moved)

    return Kernel("sgld", _still, step, adjusted=False)


@cache  # the same kernel is the same compilation
def rmsprop_sgld() -> Kernel:
    """SGLD with a step for each coordinate, from the size of its recent gradients."""

    def init(ops: Ops, target: Target, position: Array, tuning: Tuning, key: RandomKey) -> State:
        state = at(target, position, tuning, key)
        return {**state, "square": state["gradient"] ** 2}

    def step(ops: Ops, target: Target, state: State, tuning: Tuning, key: RandomKey) -> tuple[State, Info]:
        for_noise, for_batch = ops.split(key, 2)
        square = MEMORY * state["square"] + (1 - MEMORY) * state["gradient"] ** 2
        size = ops.sqrt(square)
        mean = per_chain(size.mean(-1)) + 1e-30
        scale = (1 + STABILITY) / (size / mean + STABILITY)
        noise = ops.sqrt(tuning.step_size * scale) * ops.normal(for_noise, state["position"])
        drift = tuning.step_size / 2 * scale * state["gradient"]
        moved = {**at(target, state["position"] - drift + noise, tuning, for_batch), "square": square}
        return moved, always(ops, moved)

    return Kernel("rmsprop-sgld", init, step, adjusted=False)


@cache  # the same kernel is the same compilation
def sgnht() -> Kernel:
    """The stochastic gradient Nosé-Hoover thermostat, with ``tuning.friction`` as noise and as the first friction."""

    def init(ops: Ops, target: Target, position: Array, tuning: Tuning, key: RandomKey) -> State:
        for_momentum, for_batch = ops.split(key, 2)
        state = at(target, position, tuning, for_batch)
        momentum = ops.normal(for_momentum, position)
        return {**state, "momentum": momentum, "thermostat": ops.zeros_like(state["energy"]) + tuning.friction}

    def step(ops: Ops, target: Target, state: State, tuning: Tuning, key: RandomKey) -> tuple[State, Info]:
        for_noise, for_batch = ops.split(key, 2)
        size = tuning.step_size
        noise = ops.sqrt(2 * tuning.friction * size) * ops.normal(for_noise, state["position"])
        slowed = (1 - size * per_chain(state["thermostat"])) * state["momentum"]
        momentum = slowed - size * state["gradient"] + noise
        moved = at(target, state["position"] + size * momentum, tuning, for_batch)
        temperature = dot(momentum, momentum) / momentum.shape[-1]
        thermostat = state["thermostat"] + size * (temperature - 1)
        return {**moved, "momentum": momentum, "thermostat": thermostat}, always(ops, moved)

    return Kernel("sgnht", init, step, adjusted=False)


def _still(ops: Ops, target: Target, position: Array, tuning: Tuning, key: RandomKey) -> State:
    return at(target, position, tuning, key)
