"""Monomials :math:`w_1^{k_1} \\cdots w_d^{k_d}` in normal noise, the simplest singular models: λ = min 1/(2 k)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.types import Array
from phasecast.posterior.model import Model
from phasecast.posterior.zoo.gaussian import LOG_2PI, Data, normal_log_density, positive


def monomial_model(powers: Sequence[int], *, prior_sd: float = 1.0) -> Model:
    """:math:`y = \\prod_j w_j^{k_j} + N(0, 1)`; at a true y of zero λ = min 1/(2 k_j). Data are the array y.

    >>> from phasecast.core.precision import float64
    >>> model = monomial_model([1, 2])
    >>> with float64():
    ...     print(model.total_loss(jnp.ones(2), model.summary(np.ones(4))))  # 2 log 2π
    3.675754...
    """
    powers = [whole_number("power", power, 1) for power in powers]
    if not powers:
        raise BadInput("powers is empty", "give at least one")
    return _monomial(tuple(powers), positive("prior_sd", prior_sd))


@cache  # the same model is the same compilation
def _monomial(powers: tuple[int, ...], sd: float) -> Model:
    def predict(params: jax.Array, data: Array) -> jax.Array:
        return jnp.broadcast_to(_value(params, powers), jnp.shape(data))

    def loss(params: jax.Array, summary: Data) -> jax.Array:
        off = _value(params, powers) - summary["mean"]
        return 0.5 * (summary["least"] + summary["n"] * off**2) + summary["n"] / 2 * LOG_2PI

    def summarise(data: Array) -> Data:
        mean = np.mean(data)
        return {"mean": mean, "least": np.sum((np.asarray(data) - mean) ** 2), "n": 1.0 * np.size(data)}

    return Model(
        lambda params, data: -0.5 * (data - predict(params, data)) ** 2 - LOG_2PI / 2,
        lambda params: normal_log_density(params, sd),
        lambda key: sd * jax.random.normal(key, (len(powers),)),
        predict=predict,
        observed=lambda data: data,
        summarise=summarise,
        loss=loss,
        name="".join(f"w{number}^{power}" for number, power in enumerate(powers, 1)),
    )


def _value(params: jax.Array, powers: Sequence[int]) -> jax.Array:
    total = jnp.ones(())
    for number, power in enumerate(powers):
        total = total * params[number] ** power
    return total
