"""How do weights move? Adam with L2 in the gradient, AdamW and gradient descent, each as a pure update.

Written here rather than taken from optax: each is ten lines, and the whole step is compiled into one loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from phasecast.core.errors import unknown

if TYPE_CHECKING:
    import jax

    Moments = tuple[jax.Array, ...]
    Updated = tuple[jax.Array, Moments]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Kingma & Ba 2015, and torch's defaults


class Step(NamedTuple):
    """Where an update happens: the number of the step, counted from 1, learning rate and weight decay."""

    number: jax.Array | float
    lr: jax.Array | float
    decay: jax.Array | float


@dataclass(frozen=True)
class Optimiser:
    """An update rule.

    Parameters
    ----------
    moments: how many arrays it keeps per weight.
    update: ``update(weight, gradient, moments, step)`` → new weight and moments, for one array of weights.
    """

    name: str
    moments: int
    update: Callable[[jax.Array, jax.Array, Moments, Step], Updated]


def _adam(weight: jax.Array, gradient: jax.Array, moments: Moments, step: Step) -> Updated:
    """w ← w − lr m̂/(√v̂ + ε) on the gradient of loss + decay/2 ‖w‖²: the optimiser that groks in Cullen et al. 2026."""
    change, moments = _change(gradient + step.decay * weight, moments, step)
    return weight - change, moments


def _adamw(weight: jax.Array, gradient: jax.Array, moments: Moments, step: Step) -> Updated:
    """Adam on the gradient of the loss alone; weights also shrink by lr·decay (Loshchilov & Hutter 2019)."""
    change, moments = _change(gradient, moments, step)
    return weight * (1 - step.lr * step.decay) - change, moments


def _sgd(weight: jax.Array, gradient: jax.Array, moments: Moments, step: Step) -> Updated:
    return weight - step.lr * (gradient + step.decay * weight), moments


def _change(gradient: jax.Array, moments: Moments, step: Step) -> Updated:
    """lr m̂/(√v̂ + ε) and the new moments (Kingma & Ba 2015, algorithm 1)."""
    import jax.numpy as jnp

    first, second = moments
    first = BETA1 * first + (1 - BETA1) * gradient
    second = BETA2 * second + (1 - BETA2) * gradient * gradient
    rate = step.lr / -jnp.expm1(step.number * math.log(BETA1))
    size = jnp.sqrt(second) * (1 / jnp.sqrt(-jnp.expm1(step.number * math.log(BETA2)))) + EPSILON
    return rate * first / size, (first, second)


OPTIMISERS = {
    "adam": Optimiser("adam", 2, _adam),
    "adamw": Optimiser("adamw", 2, _adamw),
    "sgd": Optimiser("sgd", 0, _sgd),
}


def optimiser(name: str) -> Optimiser:
    """An optimiser by name: adam (L2 in the gradient), adamw or sgd."""
    if name not in OPTIMISERS:
        raise unknown("optimiser", name, OPTIMISERS)
    return OPTIMISERS[name]
