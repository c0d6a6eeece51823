"""Hamiltonian Monte Carlo, and MALA as its shortest case.

A trajectory of leapfrog steps from a fresh momentum, accepted with probability min(1, e^(−ΔH)) (Neal 2011). The number
of leaps is drawn anew for each step, the same for all chains, uniformly up to twice its mean, so that no direction
comes back to where it started every time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from phasecast.sampling.kernels.kernel import (
    Array,
    Info,
    Kernel,
    Number,
    Ops,
    RandomKey,
    State,
    Step,
    Target,
    Tuning,
    at,
    dot,
)

DIVERGENCE = 1000.0
"""An error in energy beyond which a trajectory has left the flow it approximates."""


@cache  # the same kernel is the same compilation
def hmc() -> Kernel:
    """HMC with trajectories of ``tuning.leaps`` leaps on average."""

    def leaps(ops: Ops, tuning: Tuning, key: RandomKey) -> Number:
        return 1 + ops.same_for_all(key) * (2 * tuning.leaps - 1)

    return Kernel("hmc", _init, _trajectory(leaps), True, lambda tuning: tuning.leaps)


@cache  # the same kernel is the same compilation
def mala() -> Kernel:
    """The Metropolis-adjusted Langevin algorithm: one leap per step (Roberts & Tweedie 1996)."""
    return Kernel("mala", _init, _trajectory(lambda ops, tuning, key: 1.0), True)


def _init(ops: Ops, target: Target, position: Array, tuning: Tuning, key: RandomKey) -> State:
    return at(target, position, tuning, key)


def _trajectory(leaps: Callable[[Ops, Tuning, RandomKey], Number]) -> Step:
    def step(ops: Ops, target: Target, state: State, tuning: Tuning, key: RandomKey) -> tuple[State, Info]:
        for_momentum, for_leaps, for_batches, for_test = ops.split(key, 4)
        momentum = ops.normal(for_momentum, state["position"])

        def leap(key: RandomKey, moving: State) -> State:
            middle = moving["momentum"] - tuning.step_size / 2 * moving["gradient"]
            there = at(target, moving["position"] + tuning.step_size * middle, tuning, key)
            return {**there, "momentum": middle - tuning.step_size / 2 * there["gradient"]}

        end = ops.repeat(leaps(ops, tuning, for_leaps), leap, {**state, "momentum": momentum}, for_batches)
        before = state["energy"] + dot(momentum, momentum) / 2
        error = end["energy"] + dot(end["momentum"], end["momentum"]) / 2 - before
        valid = ops.finite(error)
        error = ops.where(valid, error, ops.zeros_like(error) + 2 * DIVERGENCE)
        acceptance = ops.exp(ops.clip(-error, -80.0, 0.0))
        accepted = valid & (ops.uniform(for_test, error) < acceptance)
        moved = {name: ops.where(accepted, end[name], old) for name, old in state.items()}
        return moved, Info(acceptance, error > DIVERGENCE)

    return step
