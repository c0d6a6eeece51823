"""What every sampler is: a pure pair ``init``, ``step`` over all chains at once, for JAX and for PyTorch.

A state is a dictionary of arrays whose first axis is the chain. It always holds where the chains are (``position``, the
offset u from w*) and what the target is there:

========== ================================================================================
``energy``   U(u) = nβ (L(w* + u) − L(w*)) + γ/2 |u|² + nβ (what the prior adds), up to a constant
``gradient`` ∇U
``loss``     L(w* + u) − L(w*)
``pull``     u·∇L, whose mean Stein's identity knows
========== ================================================================================

so a step costs the gradients it needs and none more. Kernels are written in terms of a few operations (:class:`Ops`)
that an engine provides; they hold no state, no randomness but the key, and no array library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Array = Any
State = dict[str, Array]
Number = Any  # a float, or an array of one number while compiling


class Tuning(NamedTuple):
    """The numbers that may change between chunks without compiling anything again.

    ``leaps`` is the mean number of gradients in a trajectory, ``friction`` the rate at which momentum is forgotten.
    """

    step_size: Number
    leaps: Number
    friction: Number
    nbeta: Number
    gamma: Number


class Ops(Protocol):
    """What an engine provides to kernels; a key is whatever the engine uses for randomness."""

    def split(self, key: Any, count: int) -> Any: ...
    def normal(self, key: Any, like: Array) -> Array: ...
    def uniform(self, key: Any, like: Array) -> Array: ...
    def same_for_all(self, key: Any) -> Any: ...
    def repeat(self, count: Any, body: Callable[[Any, State], State], state: State, key: Any) -> State: ...
    def where(self, chains: Array, new: Array, old: Array) -> Array: ...
    def exp(self, x: Array) -> Array: ...
    def sqrt(self, x: Array) -> Array: ...
    def clip(self, x: Array, low: float, high: float) -> Array: ...
    def finite(self, x: Array) -> Array: ...
    def zeros_like(self, x: Array) -> Array: ...


class Info(NamedTuple):
    """What a step says about itself, one number a chain."""

    acceptance: Array
    divergent: Array


Target = Callable[[Array, Tuning, Any], State]
"""``target(position, tuning, key)``: energy, gradient, loss and pull; the key chooses a minibatch, if there is one."""


@dataclass(frozen=True)
class Kernel:
    """A sampler.

    Parameters
    ----------
    init: ``init(ops, target, position, tuning, key) -> state``.
    step: ``step(ops, target, state, tuning, key) -> (state, Info)``.
    adjusted: whether a Metropolis test makes the target exact at every step size.
    gradients: ``gradients(tuning)``, the mean number of gradients of a step.
    only_jax: whether the step needs JAX itself, as blackjax does.
    """

    name: str
    init: Callable[[Ops, Target, Array, Tuning, Any], State]
    step: Callable[[Ops, Target, State, Tuning, Any], tuple[State, Info]]
    adjusted: bool
    gradients: Callable[[Tuning], float] = lambda _: 1.0
    only_jax: bool = False


def dot(x: Array, y: Array) -> Array:
    """The inner product of each chain."""
    return (x * y).sum(-1)


def per_chain(x: Array) -> Array:
    """One number a chain, to multiply positions with."""
    return x[..., None]


def localised(position: Array, loss: Array, slope: Array, tuning: Tuning, decay: float, centre: Array) -> State:
    """The target where the mean loss above w* is ``loss`` with gradient ``slope``; ``decay`` is that of the L2 term."""
    energy = tuning.nbeta * loss + tuning.gamma / 2 * dot(position, position)
    gradient = tuning.nbeta * slope + tuning.gamma * position
    pull = dot(position, slope)
    if decay:
        weight = tuning.nbeta * decay
        energy = energy + weight * (dot(position, position) / 2 + position @ centre)
        gradient = gradient + weight * (position + centre)
        pull = pull + decay * dot(position, position + centre)
    return {"energy": energy, "gradient": gradient, "loss": loss, "pull": pull}


def at(target: Target, position: Array, tuning: Tuning, key: Any) -> State:
    """The part of a state that every kernel has."""
    return {"position": position, **target(position, tuning, key)}


def always(ops: Ops, state: State) -> Info:
    """The information of a kernel that accepts every step; a chain that is no longer finite has diverged."""
    finite = ops.finite(state["energy"])
    return Info(ops.zeros_like(state["energy"]) + 1, ~finite)
