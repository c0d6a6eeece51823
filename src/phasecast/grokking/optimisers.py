"""How do weights move? Adam with L2 in the gradient, AdamW and gradient descent, each as a pure update.

Written here because each is ten lines and the whole step is compiled into one loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phasecast.core.errors import unknown

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Kingma & Ba 2015, and torch's defaults


@dataclass(frozen=True)
class Optimiser:
    """An update rule.

    Parameters
    ----------
    moments: how many arrays it remembers for each weight.
    update: ``update(weight, gradient, moments, step, lr, weight_decay)`` → new weight and moments; ``step`` counts
        from 1; works on one array of weights at a time.
    """

    name: str
    moments: int
    update: Callable[..., tuple[Any, tuple[Any, ...]]]


def _adam(weight: Any, gradient: Any, moments: tuple[Any, ...], step: Any, lr: Any, decay: Any) -> Any:
    """w ← w − lr m̂/(√v̂ + ε) on the gradient of loss + decay/2 ‖w‖²: what groks in Cullen et al. 2026."""
    moved, moments = _moved(weight, gradient + decay * weight, moments, step, lr)
    return weight - moved, moments


def _adamw(weight: Any, gradient: Any, moments: tuple[Any, ...], step: Any, lr: Any, decay: Any) -> Any:
    """Adam on the gradient of the loss alone; weights shrink by lr·decay beside it (Loshchilov & Hutter 2019)."""
    moved, moments = _moved(weight, gradient, moments, step, lr)
    return weight * (1 - lr * decay) - moved, moments


def _sgd(weight: Any, gradient: Any, moments: tuple[Any, ...], step: Any, lr: Any, decay: Any) -> Any:
    return weight - lr * (gradient + decay * weight), moments


def _moved(weight: Any, gradient: Any, moments: tuple[Any, ...], step: Any, lr: Any) -> Any:
    import jax.numpy as jnp

    first, second = moments
    first = BETA1 * first + (1 - BETA1) * gradient
    second = BETA2 * second + (1 - BETA2) * gradient * gradient
    rate = lr / -jnp.expm1(step * math.log(BETA1))
    size = jnp.sqrt(second) * (1 / jnp.sqrt(-jnp.expm1(step * math.log(BETA2)))) + EPSILON
    return rate * first / size, (first, second)


OPTIMISERS = {
    "adam": Optimiser("adam", 2, _adam),
    "adamw": Optimiser("adamw", 2, _adamw),
    "sgd": Optimiser("sgd", 0, _sgd),
}


def optimiser(name: str) -> Optimiser:
    """An optimiser by its name: adam (L2 in the gradient), adamw or sgd."""
    if name not in OPTIMISERS:
        raise unknown("optimiser", name, OPTIMISERS)
    return OPTIMISERS[name]
