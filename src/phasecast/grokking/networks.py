"""What learns? Small networks as pairs of pure functions, weights drawn as ``torch.nn.Linear`` draws them.

The first layer acts on one-hot operands side by side, x = (e_a, e_b), so that it is a sum of look-ups,

.. math:: W^\\top x = W_a + W_{p+b},

and no product with zeros is ever computed. A weight matrix with f inputs starts uniform in ±1/√f, the default of torch;
with this start the runs of Cullen et al. 2026 (appendix H.1) come out as published.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.types import Array
from phasecast.grokking.tasks import Task

if TYPE_CHECKING:
    import jax

Params = dict[str, Any]
"""Weights by name, arrays of NumPy or JAX."""

ACTIVATIONS = ("square", "relu", "gelu", "tanh", "identity")
BLOCK = 140_000  # float32 numbers, half a megabyte: a few such arrays fit into a core's cache


@dataclass(frozen=True)
class Architecture:
    """A network for one task: how its weights are drawn and what it computes with them.

    Parameters
    ----------
    name: its name in tables.
    init: ``init(seed)``: float32 weights as a flat dict of numpy arrays.
    apply: ``apply(params, tokens)``: outputs (rows, classes) for tokens (rows, places).
    readout: the name of the weights (classes, units) that read the last hidden units; None if there are none.
    gradient: ``gradient(params, tokens, labels)`` of the centred loss, if one by hand is faster than automatic.
    """

    name: str
    init: Callable[[int], Params]
    apply: Callable[[Params, Array], jax.Array]
    readout: str | None = None
    gradient: Callable[[Params, Array, Array], Params] | None = None


def quadratic(task: Task, width: int, activation: str = "square") -> Architecture:
    """f(x) = V σ(Wᵀx) with σ(h) = h² (Cullen et al. 2026, section 3) or another activation; no biases.

    ``W`` has shape (inputs, width), ``V`` (classes, width).
    """
    whole_number("width", width, 1)
    return _quadratic(_Sizes.of(task), int(width), activation)


@functools.lru_cache(maxsize=64)  # the same network is the same compilation
def _quadratic(task: _Sizes, width: int, activation: str) -> Architecture:
    sigma = _activation(activation)

    def init(seed: int) -> Params:
        draw = _Draw(seed)
        return {"W": draw((task.inputs, width), task.inputs), "V": draw((task.classes, width), width)}

    def apply(params: Params, tokens: Array) -> jax.Array:
        return sigma(look_up(params["W"], tokens, task.operands)) @ params["V"].T

    if activation == "square":
        return Architecture("quadratic", init, apply, "V", _square_gradient(task.operands))
    return Architecture(f"quadratic with {activation}", init, apply, "V")


def mlp(task: Task, width: int, depth: int = 2, activation: str = "relu") -> Architecture:
    """A multilayer perceptron with biases and ``depth`` hidden layers, all ``width`` wide, on the one-hot operands."""
    whole_number("width", width, 1)
    whole_number("depth", depth, 1)
    return _mlp(_Sizes.of(task), int(width), int(depth), activation)


@functools.lru_cache(maxsize=64)
def _mlp(task: _Sizes, width: int, depth: int, activation: str) -> Architecture:
    sigma = _activation(activation)

    def init(seed: int) -> Params:
        draw = _Draw(seed)
        params = {"W": draw((task.inputs, width), task.inputs), "b": draw((width,), task.inputs)}
        for layer in range(1, depth):
            params |= {f"W{layer}": draw((width, width), width), f"b{layer}": draw((width,), width)}
        return params | {"V": draw((task.classes, width), width), "c": draw((task.classes,), width)}

    def apply(params: Params, tokens: Array) -> jax.Array:
        hidden = sigma(look_up(params["W"], tokens, task.operands) + params["b"])
        for layer in range(1, depth):
            hidden = sigma(hidden @ params[f"W{layer}"] + params[f"b{layer}"])
        return hidden @ params["V"].T + params["c"]

    return Architecture("mlp", init, apply, "V")


def transformer(task: Task, width: int, layers: int = 2, heads: int = 4) -> Architecture:
    """A small transformer that reads the operands and an "=" and answers at the "=" (appendix H.3.1).

    Learned embeddings of tokens and positions; each layer has ``heads`` heads without a mask and a ReLU layer of
    4·width units, both after a normalisation without weights and added to the residual stream.
    """
    whole_number("width", width, 1)
    whole_number("layers", layers, 1)
    if width % whole_number("heads", heads, 1):
        raise BadInput(f"width = {width} is not divisible by {heads} heads", f"use a multiple of {heads}")
    return _transformer(_Sizes.of(task), int(width), int(layers), int(heads))


@functools.lru_cache(maxsize=64)
def _transformer(task: _Sizes, width: int, layers: int, heads: int) -> Architecture:
    places, size = task.places + 1, width // heads

    def init(seed: int) -> Params:
        draw = _Draw(seed)
        params = {"embed": draw((task.operands + 1, width), width), "place": draw((places, width), width)}
        for layer in range(layers):
            params |= {f"{name}{layer}": draw((width, width), width) for name in ("query", "key", "value", "mix")}
            params |= {
                f"up{layer}": draw((width, 4 * width), width),
                f"down{layer}": draw((4 * width, width), 4 * width),
            }
        return params | {"V": draw((task.classes, width), width)}

    def apply(params: Params, tokens: Array) -> jax.Array:
        import jax
        import jax.numpy as jnp

        equals = jnp.full((tokens.shape[0], 1), task.operands, tokens.dtype)
        stream = params["embed"][jnp.concatenate([tokens, equals], axis=1)] + params["place"]
        for layer in range(layers):
            x = _normalised(stream)
            query, key, value = (
                (x @ params[f"{name}{layer}"]).reshape(-1, places, heads, size) for name in ("query", "key", "value")
            )
            weights = jax.nn.softmax(jnp.einsum("nihs,njhs->nhij", query, key) / math.sqrt(size))
            mixed = jnp.einsum("nhij,njhs->nihs", weights, value).reshape(-1, places, width)
            stream = stream + mixed @ params[f"mix{layer}"]
            stream = stream + jax.nn.relu(_normalised(stream) @ params[f"up{layer}"]) @ params[f"down{layer}"]
        return _normalised(stream[:, -1]) @ params["V"].T

    return Architecture("transformer", init, apply)


class _Sizes(NamedTuple):
    """What a network needs to know of a task."""

    operands: int
    classes: int
    places: int
    inputs: int

    @classmethod
    def of(cls, task: Task) -> _Sizes:
        return cls(task.operands, task.classes, task.places, task.inputs)


def look_up(weights: jax.Array, tokens: Array, operands: int) -> jax.Array:
    """Wᵀx for one-hot operands side by side: the sum over the places of one row of W each."""
    rows = [weights[place * operands + tokens[:, place]] for place in range(tokens.shape[1])]
    return sum(rows[1:], rows[0])


def _square_gradient(operands: int) -> Callable[[Params, Array, Array], Params]:
    """The gradient of ½‖P⊥(Y − Ŷ)‖²/B for Ŷ = V(Wᵀx)², in a cache-friendly order.

    With h = Wᵀx, s = h² and the centred residual R = P⊥(Ŷ − Y)/B it is Rᵀs for V and, for W, the sums of 2h∘(RV) over
    the rows with each operand. The latter are computed in blocks of rows that stay in a core's cache, with h looked
    up again, which is cheaper than storing it. ``optimization_barrier`` keeps the compiler from undoing the order.
    """

    def gradient(params: Params, tokens: Array, labels: Array) -> Params:
        import jax
        import jax.numpy as jnp

        inner, outer = jnp.asarray(params["W"]), jnp.asarray(params["V"])
        rows, width = tokens.shape[0], inner.shape[1]
        keep = jax.lax.optimization_barrier
        squares = look_up(inner, tokens, operands) ** 2
        outputs = keep(outer @ squares.T)  # classes first: a third faster than rows first
        residual = outputs - (jnp.arange(outer.shape[0])[:, None] == labels)
        residual = keep((residual - jnp.mean(residual, axis=1, keepdims=True)) * (2 / rows))
        total = jnp.zeros_like(inner)
        edges = np.linspace(0, rows, max(1, round(rows * width / BLOCK)) + 1).astype(int).tolist()
        for first, last in itertools.pairwise(edges):
            part = tokens[first:last]
            hidden, signal, total = keep((look_up(inner, part, operands), residual[:, first:last], total))
            signal = hidden * (signal.T @ outer)
            for place in range(tokens.shape[1]):
                total = total.at[place * operands + part[:, place]].add(signal)
        return {"W": total, "V": 0.5 * residual @ squares}

    return gradient


class _Draw:
    """Weights uniform in ±1/√inputs, drawn one array after another from one seed."""

    def __init__(self, seed: int):
        self._rng = np.random.default_rng([seed, 1])

    def __call__(self, shape: tuple[int, ...], inputs: int) -> np.ndarray:
        return (self._rng.uniform(-1, 1, shape) / math.sqrt(inputs)).astype(np.float32)


def _activation(name: str) -> Callable[[jax.Array], jax.Array]:
    import jax
    import jax.numpy as jnp

    known = {"square": jnp.square, "relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh, "identity": lambda h: h}
    if name not in known:
        raise unknown("activation", name, ACTIVATIONS)
    return known[name]


def _normalised(x: jax.Array) -> jax.Array:
    import jax.numpy as jnp

    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
