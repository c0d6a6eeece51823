"""Underdamped Langevin dynamics by the BAOAB splitting: one gradient per step, no Metropolis test.

.. math:: du = p\\,dt, \\qquad dp = -\\nabla U\\,dt - fp\\,dt + \\sqrt{2f}\\,dW

The order kick, drift, friction, drift, kick leaves the smallest error in positions; for a quadratic U there is none
(Leimkuhler & Matthews 2013).
"""

from __future__ import annotations

from functools import cache

from phasecast.sampling.kernels.kernel import Array, Info, Kernel, Ops, RandomKey, State, Target, Tuning, always, at


@cache  # the same kernel is the same compilation
def langevin() -> Kernel:
    """BAOAB with friction ``tuning.friction``."""
    return Kernel("langevin", _init, _step, adjusted=False)


def _init(ops: Ops, target: Target, position: Array, tuning: Tuning, key: RandomKey) -> State:
    for_momentum, for_batch = ops.split(key, 2)
    return {**at(target, position, tuning, for_batch), "momentum": ops.normal(for_momentum, position)}


def _step(ops: Ops, target: Target, state: State, tuning: Tuning, key: RandomKey) -> tuple[State, Info]:
    for_noise, for_batch = ops.split(key, 2)
    half = tuning.step_size / 2
    kept = ops.exp(-tuning.friction * tuning.step_size)
    momentum = state["momentum"] - half * state["gradient"]
    middle = state["position"] + half * momentum
    momentum = kept * momentum + ops.sqrt(1 - kept * kept) * ops.normal(for_noise, momentum)
    there = at(target, middle + half * momentum, tuning, for_batch)
    moved = {**there, "momentum": momentum - half * there["gradient"]}
    return moved, always(ops, moved)
