"""What every sampler is: a pure pair ``init``, ``step`` over all chains at once, for JAX and for PyTorch.

A state is a dictionary of arrays whose first axis is the chain. It always holds where the chains are (``position``, the
offset u from w*) and what the target is there:

========== ================================================================================
``energy``   U(u) = nβ (L(w* + u) − L(w*)) + γ/2 |u|² + nβ (what the prior adds), up to a constant
``gradient`` ∇U
``loss``     L(w* + u) − L(w*)
``pull``     u·∇L, whose mean Stein's identity knows
========== ================================================================================

so a step costs only the gradients it needs. Kernels are written in terms of a few operations (:class:`Ops`)
that a back-end provides; they hold no state, no randomness but the key, and no array library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

Array: TypeAlias = Any
"""An array of JAX, or a tensor of PyTorch: kernels use only what both can do."""

RandomKey: TypeAlias = Any
"""What a back-end draws from: a key of JAX, or an integer for PyTorch."""

Number: TypeAlias = Any
"""A float, or an array of one number while compiling."""

State: TypeAlias = dict[str, Array]


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
    """What a back-end provides to kernels."""

    def split(self, key: RandomKey, count: int) -> RandomKey: ...
    def normal(self, key: RandomKey, like: Array) -> Array: ...
    def uniform(self, key: RandomKey, like: Array) -> Array: ...
    def same_for_all(self, key: RandomKey) -> Number: ...
    def repeat(
        self, count: Number, body: Callable[[RandomKey, State], State], state: State, key: RandomKey
    ) -> State: ...
    def where(self, chains: Array, new: Array, old: Array) -> Array: ...
    def exp(self, x: Array) -> Array: ...
    def sqrt(self, x: Array) -> Array: ...
    def clip(self, x: Array, low: float, high: float) -> Array: ...
    def finite(self, x: Array) -> Array: ...
    def zeros_like(self, x: Array) -> Array: ...


class Info(NamedTuple):
    """What a step says about itself, one number per chain."""

    acceptance: Array
    divergent: Array


Target = Callable[[Array, Tuning, RandomKey], State]
"""``target(position, tuning, key)``: energy, gradient, loss and pull; the key chooses a minibatch, if there is one."""


Init: TypeAlias = "Callable[[Ops, Target, Array, Tuning, RandomKey], State]"
Step: TypeAlias = "Callable[[Ops, Target, State, Tuning, RandomKey], tuple[State, Info]]"


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
    init: Init
    step: Step
    adjusted: bool
    gradients: Callable[[Tuning], float] = lambda _: 1.0
    only_jax: bool = False

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Kernels of this package are pickled by their names, since their functions cannot be."""
        from phasecast.sampling import KERNELS

        if self.name in KERNELS and KERNELS[self.name]() is self:
            return _kernel_called, (self.name,)
        return object.__reduce__(self)


def _kernel_called(name: str) -> Kernel:
    from phasecast.sampling import KERNELS

    return KERNELS[name]()


def dot(x: Array, y: Array) -> Array:
    """The inner product of each chain."""
    return (x * y).sum(-1)


def per_chain(x: Array) -> Array:
    """One number per chain, to multiply positions with."""
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


def at(target: Target, position: Array, tuning: Tuning, key: RandomKey) -> State:
    """The part of a state that every kernel has."""
    return {"position": position, **target(position, tuning, key)}


def always(ops: Ops, state: State) -> Info:
    """The information of a kernel that accepts every step; a chain that is no longer finite has diverged."""
    finite = ops.finite(state["energy"])
    return Info(ops.zeros_like(state["energy"]) + 1, ~finite)
