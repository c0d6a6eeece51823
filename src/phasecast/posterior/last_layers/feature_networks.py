"""Which networks have Bayesian last layers? f = h ∘ g: g computes features, h(x̃) = B x̃' with x̃' = A x̃ or ReLU(A x̃).

g is a feedforward ReLU block from 3 inputs to 3 features with hidden layers of 5 units ("Deep learning is singular, and
that's good", section 5); A and B have no bias. Inputs are columns, shape (3, n), and columns beyond a dataset's size
are masked, so that datasets of every size train together in one compiled loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from phasecast.core.types import Array, Key

INPUTS, OUTPUTS, FEATURES, HIDDEN = 3, 3, 3, 5  # the paper's, section 5; HIDDEN is the width of the layers of g
RANK = 3  # rows of A, the paper's

Carry = tuple["Weights", "Weights"]
"""Weights and velocities of SGD."""
Step = Callable[[Carry, Array, Array, Array], Carry]
"""One step of SGD on x, y and mask."""


class Weights(NamedTuple):
    """``body``: (weight, bias) of every layer of g; ``A`` (rank, features), ``B`` (outputs, rank)."""

    body: tuple[tuple[Array, Array], ...]
    A: Array
    B: Array


class Training(NamedTuple):
    """SGD on mean |y − f(x)|² + decay/2 |w|², as in PyTorch; ``batch`` defaults to all rows."""

    epochs: int = 5000
    lr: float = 1e-3
    momentum: float = 0.9
    decay: float = 5e-4
    batch: int | None = None


def activate(activation: str, x: Array) -> Array:
    """The activation between A and B."""
    import jax

    return jax.nn.relu(x) if activation == "relu" else x


def initial_weights(key: Key, hidden_layers: int) -> Weights:
    """PyTorch's default initialisation: every entry uniform within 1/√(incoming)."""
    import jax

    widths = [INPUTS, *[HIDDEN] * hidden_layers, FEATURES]
    keys = iter(jax.random.split(key, 2 * len(widths)))

    def uniform(shape: tuple[int, ...], incoming: int) -> Array:
        reach = 1 / math.sqrt(incoming)
        return jax.random.uniform(next(keys), shape, minval=-reach, maxval=reach)

    body = tuple((uniform((out, into), into), uniform((out,), into)) for into, out in pairwise(widths))
    return Weights(body, uniform((RANK, FEATURES), FEATURES), uniform((OUTPUTS, RANK), RANK))


def features(weights: Weights, x: Array) -> Array:
    """g(x), shape (features, n)."""
    import jax

    for number, (weight, bias) in enumerate(weights.body):
        x = weight @ (x if number == 0 else jax.nn.relu(x)) + bias[:, None]
    return x


def head(A: Array, B: Array, activation: str, x: Array) -> Array:
    """h(x̃) = B x̃', shape (outputs, n)."""
    return B @ activate(activation, A @ x)


def outputs(weights: Weights, activation: str, x: Array) -> Array:
    """f(x) = h(g(x)), shape (outputs, n)."""
    return head(weights.A, weights.B, activation, features(weights, x))


def train_weights(
    key: Key, start: Weights, x: Array, y: Array, mask: Array, activation: str, training: Training
) -> Weights:
    """SGD from ``start``; ``x`` and ``y`` are (3, rows), ``mask`` (rows,) is one for observations and zero elsewhere.

    With ``training.batch`` every epoch goes through all rows in a new order; the last batch may be smaller.
    """
    import jax
    import jax.numpy as jnp

    x, y, mask = (jnp.asarray(part) for part in (x, y, mask))

    def gradient(weights: Weights, x: Array, y: Array, mask: Array) -> Weights:
        def loss(weights: Weights) -> Array:
            misfit = jnp.sum((outputs(weights, activation, x) - y) ** 2, axis=0)
            return jnp.sum(mask * misfit) / jnp.maximum(mask.sum(), 1)

        return jax.grad(loss)(weights)

    def step(carry: Carry, x: Array, y: Array, mask: Array) -> Carry:
        weights, velocity = carry
        slope = gradient(weights, x, y, mask)
        velocity = jax.tree.map(
            lambda v, g, w: training.momentum * v + g + training.decay * w, velocity, slope, weights
        )
        return jax.tree.map(lambda w, v: w - training.lr * v, weights, velocity), velocity

    carry = (start, jax.tree.map(jnp.zeros_like, start))
    epoch = _whole(step, x, y, mask) if training.batch is None else _batches(step, x, y, mask, training.batch)
    keys = jax.random.split(key, training.epochs)
    return jax.lax.scan(lambda carry, key: (epoch(carry, key), None), carry, keys)[0][0]


def _whole(step: Step, x: Array, y: Array, mask: Array) -> Callable[[Carry, Key], Carry]:
    return lambda carry, key: step(carry, x, y, mask)


def _batches(step: Step, x: Array, y: Array, mask: Array, batch: int) -> Callable[[Carry, Key], Carry]:
    """An epoch of minibatches: rows in random order with the missing ones last; batches of missing rows do nothing."""
    import jax
    import jax.numpy as jnp

    rows = x.shape[1]
    count = -(-rows // batch)

    def epoch(carry: Carry, key: Key) -> Carry:
        order = jnp.argsort(jnp.where(mask > 0, jax.random.uniform(key, (rows,)), 2.0))
        order = jnp.pad(order, (0, count * batch - rows), constant_values=rows).reshape(count, batch)
        taken = (order < rows) * mask[jnp.minimum(order, rows - 1)]

        def one(carry: Carry, some: tuple[Array, Array]) -> tuple[Carry, None]:
            index, present = some
            moved = step(carry, x[:, index], y[:, index], present)
            return jax.tree.map(lambda new, old: jnp.where(present.sum() > 0, new, old), moved, carry), None

        return jax.lax.scan(one, carry, (order, taken))[0]

    return epoch
