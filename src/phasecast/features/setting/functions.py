"""Which activations and losses are available? Smooth scalar functions by name, or the caller's own.

An activation is σ(u), a loss ℓ(prediction, label); both must have two derivatives, because the Hessian of the risk has
the weights :math:`\\ell''\\sigma'^2 + \\ell'\\sigma''`. Derivatives are taken by ``jax.grad``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from phasecast.core.errors import BadInput, unknown
from phasecast.core.precision import float64
from phasecast.core.types import Array

Scalar = Callable[..., Any]
"""A JAX function of one or two scalars."""

Numbers: TypeAlias = "Array | float"

PROBED = 6.0  # |u| up to which derivatives are checked: beyond it a Gaussian preactivation is rarer than 1e-8
STEPS = 4801  # grid points of that check; a step of 1/400


@dataclass(frozen=True)
class Activation:
    """σ with its first two derivatives, each elementwise on arrays."""

    name: str
    function: Scalar = field(repr=False)

    def __call__(self, u: Numbers) -> Any:
        return self.function(u)

    def first(self, u: Numbers) -> Any:
        """σ'."""
        return _elementwise(self.function, 1)(u)

    def second(self, u: Numbers) -> Any:
        """σ''."""
        return _elementwise(self.function, 2)(u)


@dataclass(frozen=True)
class Loss:
    """ℓ(prediction, label) with its first two derivatives in the prediction, each elementwise on arrays."""

    name: str
    function: Scalar = field(repr=False)

    def __call__(self, prediction: Numbers, label: Numbers) -> Any:
        return self.function(prediction, label)

    def first(self, prediction: Numbers, label: Numbers) -> Any:
        """ℓ'."""
        return _elementwise(self.function, 1)(prediction, label)

    def second(self, prediction: Numbers, label: Numbers) -> Any:
        """ℓ''."""
        return _elementwise(self.function, 2)(prediction, label)


def activation(choice: str | Scalar | Activation) -> Activation:
    """σ by name, or a JAX function of a scalar.

    ``gelu`` is u Φ(u) with the Gaussian Φ (not its tanh approximation), ``quadratic`` u², ``swish`` u/(1+e^{−u}),
    ``tanh2`` tanh²u, ``erf`` erf(u/√2).

    >>> float(activation("quadratic").second(3.0))
    2.0
    """
    if isinstance(choice, Activation):
        return choice
    if callable(choice):
        return _checked(Activation(getattr(choice, "__name__", "your activation"), choice))
    if choice in ROUGH:
        raise BadInput(f"{choice} has no second derivative", f"use a smooth one: {', '.join(ACTIVATIONS)}")
    if choice not in ACTIVATIONS:
        raise unknown("activation", choice, ACTIVATIONS)
    return Activation(choice, ACTIVATIONS[choice])


def loss(choice: str | Scalar | Loss) -> Loss:
    """ℓ by name, or a JAX function of a scalar prediction and a scalar label. With r = prediction − label:

    ``square`` r²/2, ``pseudo-huber`` √(1+r²) − 1, ``logcosh`` log cosh r, ``huber`` r²/2 up to \\|r\\| = 1 and
    \\|r\\| − 1/2 beyond, ``logistic`` log(1+e^p) − y p for labels y between 0 and 1.

    >>> float(loss("square").first(3.0, 1.0))
    2.0
    """
    if isinstance(choice, Loss):
        return choice
    if callable(choice):
        return _checked(Loss(getattr(choice, "__name__", "your loss"), choice))
    if choice in ("absolute", "l1", "mae", "hinge"):
        raise BadInput(f"the {choice} loss has no second derivative", f"use one of: {', '.join(LOSSES)}")
    if choice not in LOSSES:
        raise unknown("loss", choice, LOSSES)
    return Loss(choice, LOSSES[choice])


def _gelu(u):
    import jax

    return u * jax.scipy.stats.norm.cdf(u)


def _softplus(u):
    import jax

    return jax.nn.softplus(u)


def _tanh(u):
    import jax.numpy as jnp

    return jnp.tanh(u)


def _tanh2(u):
    return _tanh(u) ** 2


def _swish(u):
    import jax

    return u * jax.nn.sigmoid(u)


def _erf(u):
    import jax

    return jax.scipy.special.erf(u / math.sqrt(2))


def _quadratic(u):
    return u**2


def _square(prediction, label):
    return 0.5 * (prediction - label) ** 2


def _pseudo_huber(prediction, label):
    import jax.numpy as jnp

    return jnp.sqrt(1 + (prediction - label) ** 2) - 1


def _logcosh(prediction, label):
    import jax.numpy as jnp

    residual = prediction - label
    return jnp.logaddexp(residual, -residual) - math.log(2)  # cosh itself overflows


def _huber(prediction, label):
    import jax.numpy as jnp

    residual = prediction - label
    inner = jnp.clip(residual, -1, 1)
    return inner * (residual - inner / 2)


def _logistic(prediction, label):
    import jax

    return jax.nn.softplus(prediction) - label * prediction


ACTIVATIONS: dict[str, Scalar] = {
    "gelu": _gelu,
    "softplus": _softplus,
    "tanh": _tanh,
    "tanh2": _tanh2,
    "swish": _swish,
    "erf": _erf,
    "quadratic": _quadratic,
}
ROUGH = ("relu", "leaky-relu", "leaky_relu", "step", "sign", "abs")
LOSSES: dict[str, Scalar] = {
    "square": _square,
    "pseudo-huber": _pseudo_huber,
    "logcosh": _logcosh,
    "huber": _huber,
    "logistic": _logistic,
}


@lru_cache(maxsize=128)
def _elementwise(function: Scalar, derivatives: int) -> Scalar:
    """A function of scalars, or its derivative in the first of them, on arrays of a common shape; compiled once."""
    import jax
    import jax.numpy as jnp

    for _ in range(derivatives):
        function = jax.grad(function)
    compiled = jax.jit(jnp.vectorize(function))

    def applied(*arrays):
        dtype = jnp.result_type(float, *arrays)
        return compiled(*(jnp.asarray(array, dtype) for array in arrays))

    return applied


Checked = TypeVar("Checked", Activation, Loss)


def _checked(one: Checked) -> Checked:
    """Bad input unless the function is real, finite, and its slope is the integral of its second derivative.

    A jump of the slope (|r|, ReLU) is what automatic differentiation does not see and the Hessian would miss.
    """
    label = (0.3,) if isinstance(one, Loss) else ()
    what = "loss" if label else "activation"
    right = f"give a smooth JAX function of {'a prediction and a label' if label else 'one number'}"
    grid = np.linspace(-PROBED, PROBED, STEPS)
    try:
        with float64():
            values = np.asarray(_elementwise(one.function, 0)(grid, *label))
            first, second = np.asarray(one.first(grid, *label)), np.asarray(one.second(grid, *label))
    except Exception as error:
        raise BadInput(f"the {what} {one.name} fails ({type(error).__name__})", right) from error
    if not all(np.isfinite(part).all() for part in (values, first, second)):
        raise BadInput(f"the {what} {one.name} or its derivatives are not finite", right)
    step = grid[1] - grid[0]
    steepest = 10 * step * max(1.0, float(abs(second).max()))  # a smooth slope changes by less between two points
    if (abs(np.diff(first)) > steepest).any() or (abs(np.diff(values)) > 10 * step * max(1.0, abs(first).max())).any():
        raise BadInput(f"the {what} {one.name} has no second derivative", right)
    return one
