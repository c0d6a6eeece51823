"""What network is trained? f(x) = (1/m) Σ_j a_j σ(θ_jᵀx + b_j), with only the first layer trained.

One neuron, a few (m ≤ 4), or a wide network whose a_j = ±a are balanced so that f = 0 at the start. All functions here
take preactivations V_j = θ_jᵀx and labels y, the only quantities through which an example enters:

.. math:: F_j = a_j\\,\\ell'\\,\\sigma'(V_j + b_j), \\qquad
          G_j = \\tfrac{a_j^2}{m}\\,\\ell''\\,\\sigma'(V_j + b_j)^2 + a_j\\,\\ell'\\,\\sigma''(V_j + b_j)

F_j is m times the gradient and G_j the weight of the jth diagonal block of m times the Hessian; in a wide network its
first term vanishes (Wang & Montanari 2026, "Hessian structure").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from phasecast.core.errors import BadInput
from phasecast.core.types import Array
from phasecast.features.setting.functions import Activation, Loss, Scalar, activation, loss

if TYPE_CHECKING:
    import jax

WIDEST = 4  # neurons of a network that is not wide: the DMFT keeps m × m responses per pair of steps
Width = int | Literal["wide"]


@dataclass(frozen=True)
class Network:
    """A two-layer network with a fixed second layer.

    Parameters
    ----------
    activation, loss: names or functions, see :mod:`phasecast.features.setting.functions`.
    width: m, from 1 to 4, or ``"wide"`` (m → ∞, half of the a_j are +a and half −a).
    a, b: second-layer weights and biases, one number for all or a tuple of m.
    initial_norm: the θ_j start uniform on the sphere of this radius, so V_j(0) ~ N(0, initial_norm²).

    >>> Network("gelu", "square").size
    1
    """

    activation: Activation
    loss: Loss
    width: Width = 1
    a: float | tuple[float, ...] = 1.0
    b: float | tuple[float, ...] = 0.0
    initial_norm: float = 1.0

    if TYPE_CHECKING:  # names and functions are accepted; the fields hold what they stand for

        def __init__(
            self,
            activation: str | Scalar | Activation,
            loss: str | Scalar | Loss,
            width: Width = 1,
            a: float | tuple[float, ...] = 1.0,
            b: float | tuple[float, ...] = 0.0,
            initial_norm: float = 1.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activation(self.activation))
        object.__setattr__(self, "loss", loss(self.loss))
        known = self.width == "wide" or (isinstance(self.width, int) and 1 <= self.width <= WIDEST)
        if not known or isinstance(self.width, bool):
            raise BadInput(f"the width is {self.width!r}", f"use 1 to {WIDEST}, or 'wide'")
        for name in ("a", "b"):
            value = getattr(self, name)
            numbers = value if isinstance(value, tuple) else (value,)
            if isinstance(value, tuple) and (self.width == "wide" or len(value) != self.width):
                raise BadInput(f"{name} has {len(value)} numbers", "give one number, or one for each of 1 to 4 neurons")
            if not all(isinstance(x, int | float) and math.isfinite(x) for x in numbers):
                raise BadInput(f"{name} is {value!r}", "give a finite number")
            if name == "a" and not all(numbers):
                raise BadInput("a is zero", "a neuron needs a second-layer weight")
        if not (math.isfinite(self.initial_norm) and self.initial_norm > 0):
            raise BadInput(f"the initial norm is {self.initial_norm}", "use a number > 0; the slides use 1")

    @property
    def size(self) -> int:
        """How many kinds of neurons there are: m, or 2 (a_j = +a and −a) in a wide network."""
        return 2 if self.width == "wide" else int(self.width)

    @property
    def a_each(self) -> tuple[float, ...]:
        """a_j of each of the ``size`` neurons."""
        if self.width == "wide":
            assert not isinstance(self.a, tuple)
            return (abs(self.a), -abs(self.a))
        return self.a if isinstance(self.a, tuple) else (float(self.a),) * self.size

    @property
    def b_each(self) -> tuple[float, ...]:
        """b_j of each of the ``size`` neurons."""
        return self.b if isinstance(self.b, tuple) else (float(self.b),) * self.size

    def predict(self, V: Array) -> jax.Array:
        """f from preactivations V of shape (..., m). A wide network is at its balanced start: f = 0."""
        import jax.numpy as jnp

        if self.width == "wide":
            return jnp.zeros(V.shape[:-1], V.dtype)
        a, b = jnp.asarray(self.a_each, V.dtype), jnp.asarray(self.b_each, V.dtype)
        return (a * self.activation(V + b)).sum(-1) / self.size

    def force(self, V: Array, y: Array) -> jax.Array:
        """F_j(V, y), shape (..., m): the risk's gradient in θ_j is the mean of F_j x / m."""
        import jax.numpy as jnp

        a, b = jnp.asarray(self.a_each, V.dtype), jnp.asarray(self.b_each, V.dtype)
        return a * self.loss.first(self.predict(V), y)[..., None] * self.activation.first(V + b)

    def curvature(self, V: Array, y: Array) -> jax.Array:
        """G_j(V, y), shape (..., m): the jth diagonal block of m·∇²Risk is the mean of G_j x xᵀ."""
        import jax.numpy as jnp

        a, b = jnp.asarray(self.a_each, V.dtype), jnp.asarray(self.b_each, V.dtype)
        prediction = self.predict(V)
        bent = a * self.loss.first(prediction, y)[..., None] * self.activation.second(V + b)
        if self.width == "wide":
            return bent
        stretched = self.loss.second(prediction, y)[..., None] * self.activation.first(V + b) ** 2
        return a**2 / self.size * stretched + bent


def blocks(network: Network) -> list[int]:
    """One neuron of every kind: those with the same a_j and b_j have the same law."""
    kinds = list(zip(network.a_each, network.b_each, strict=True))
    return [j for j, kind in enumerate(kinds) if kinds.index(kind) == j]
