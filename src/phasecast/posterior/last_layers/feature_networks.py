"""Networks f = h ∘ g whose last layers can be Bayesian: g finds features, h(x̃) = B x̃' with x̃' = A x̃ or ReLU(A x̃).

g is a feedforward ReLU block from 3 inputs to 3 features with hidden layers of 5 units ("Deep learning is singular, and
that's good", section 5); A and B have no bias. Inputs are columns, shape (3, n), and rows beyond a dataset's size are
masked, so that datasets of every size train side by side in one compiled loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

INPUTS, OUTPUTS, FEATURES, HIDDEN = 3, 3, 3, 5
RANK = 3  # rows of A
Array = Any


class Weights(NamedTuple):
    """``body``: (weight, bias) of every layer of g; ``A`` (rank, features), ``B`` (outputs, rank)."""

    body: tuple[tuple[Array, Array], ...]
    A: Array
    B: Array


class Training(NamedTuple):
    """SGD on mean |y − f(x)|² + decay/2 |w|², as PyTorch does it. ``batch`` None takes all rows at once."""

    epochs: int = 5000
    lr: float = 1e-3
    momentum: float = 0.9
    decay: float = 5e-4
    batch: int | None = None


def activate(activation: str, x: Array) -> Array:
    """What stands between A and B."""
    import jax

    return jax.nn.relu(x) if activation == "relu" else x


def draw_weights(key: Array, hidden_layers: int) -> Weights:
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


def network(weights: Weights, activation: str, x: Array) -> Array:
    """f(x) = h(g(x)), shape (outputs, n)."""
    return head(weights.A, weights.B, activation, features(weights, x))


def train(key: Array, start: Weights, x: Array, y: Array, mask: Array, activation: str, how: Training) -> Weights:
    """SGD from ``start``; ``x`` and ``y`` are (3, rows), ``mask`` (rows,) is one for rows that are there.

    With ``how.batch`` every epoch goes through all rows in a new order; the last batch may be smaller.
    """
    import jax
    import jax.numpy as jnp

    x, y, mask = (jnp.asarray(part) for part in (x, y, mask))

    def gradient(weights: Weights, x: Array, y: Array, mask: Array) -> Weights:
        def loss(weights: Weights) -> Array:
            misfit = jnp.sum((network(weights, activation, x) - y) ** 2, axis=0)
            return jnp.sum(mask * misfit) / jnp.maximum(mask.sum(), 1)

        return jax.grad(loss)(weights)

    def step(carry: tuple[Weights, Weights], x: Array, y: Array, mask: Array) -> tuple[Weights, Weights]:
        weights, velocity = carry
        slope = gradient(weights, x, y, mask)
        velocity = jax.tree.map(lambda v, g, w: how.momentum * v + g + how.decay * w, velocity, slope, weights)
        return jax.tree.map(lambda w, v: w - how.lr * v, weights, velocity), velocity

    carry = (start, jax.tree.map(jnp.zeros_like, start))
    epoch = _whole(step, x, y, mask) if how.batch is None else _batches(step, x, y, mask, how.batch)
    keys = jax.random.split(key, how.epochs)
    return jax.lax.scan(lambda carry, key: (epoch(carry, key), None), carry, keys)[0][0]


def _whole(step: Callable[..., Any], x: Array, y: Array, mask: Array) -> Callable[[Any, Array], Any]:
    return lambda carry, key: step(carry, x, y, mask)


def _batches(step: Callable[..., Any], x: Array, y: Array, mask: Array, batch: int) -> Callable[[Any, Array], Any]:
    """An epoch of minibatches: rows in random order with the missing ones last; batches of missing rows do nothing."""
    import jax
    import jax.numpy as jnp

    rows = x.shape[1]
    count = -(-rows // batch)

    def epoch(carry: Any, key: Array) -> Any:
        order = jnp.argsort(jnp.where(mask > 0, jax.random.uniform(key, (rows,)), 2.0))
        order = jnp.pad(order, (0, count * batch - rows), constant_values=rows).reshape(count, batch)
        taken = (order < rows) * mask[jnp.minimum(order, rows - 1)]

        def one(carry: Any, some: tuple[Array, Array]) -> tuple[Any, None]:
            index, there = some
            moved = step(carry, x[:, index], y[:, index], there)
            return jax.tree.map(lambda new, old: jnp.where(there.sum() > 0, new, old), moved, carry), None

        return jax.lax.scan(one, carry, (order, taken))[0]

    return epoch
