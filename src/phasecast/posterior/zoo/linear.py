"""Linear networks, whose λ is known exactly: linear regression, reduced rank regression, products of any depth.

A product of linear maps is Gaussian in every factor given the others, also under a tempered likelihood, so a Gibbs
sweep has neither step size nor rejection and needs the data only through XᵀX and YᵀX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.types import Array, Key
from phasecast.posterior.model import Model
from phasecast.posterior.zoo.gaussian import LOG_2PI, Data, draw_normal, normal_log_density, positive

Factors = Sequence[jax.Array]
"""W_1, …, W_L of a linear network, from input to output."""


def deep_linear_model(widths: Sequence[int], *, prior_sd: float = 1.0, truth: Sequence[Array] | None = None) -> Model:
    """:math:`y = W_L \\cdots W_1 x + N(0, I)` with independent normal weights; data are ``{"x", "y"}``.

    Widths go from input to output; params are the tuple (W_1, …, W_L). With one factor it is linear regression, and
    Gibbs draws are independent.

    >>> deep_linear_model((3, 2, 3)).size()
    12
    """
    widths = [whole_number("width", width, 1) for width in widths]
    if len(widths) < 2:
        raise BadInput(f"a network needs at least two widths, got {len(widths)}", "give an input and an output width")
    model = _deep_linear(tuple(widths), positive("prior_sd", prior_sd))
    return model if truth is None else replace(model, truth=tuple(jnp.asarray(factor) for factor in truth))


def linear_model(inputs: int, outputs: int = 1, *, prior_sd: float = 1.0) -> Model:
    """Linear regression, regular: λ = inputs × outputs / 2. Params are the tuple (W,), W outputs × inputs."""
    return deep_linear_model((inputs, outputs), prior_sd=prior_sd)


def reduced_rank_model(inputs: int, hidden: int, outputs: int, *, prior_sd: float = 1.0) -> Model:
    """:math:`y = BAx + N(0, I)`; λ is ``phasecast.coefficients.reduced_rank(inputs, hidden, outputs, rank)``."""
    return deep_linear_model((inputs, hidden, outputs), prior_sd=prior_sd)


def linear_data(factors: Sequence[Array | Sequence[Sequence[float]]], n: int, seed: int) -> Data:
    """n inputs x ~ N(0, I) and outputs of the product of these factors, with unit noise."""
    rng = np.random.default_rng(seed)
    total = np.asarray(factors[0], dtype=float)
    for factor in factors[1:]:
        total = np.asarray(factor) @ total
    x = rng.normal(size=(whole_number("n", n, 1), total.shape[1]))
    return {"x": x, "y": x @ total.T + rng.normal(size=(n, total.shape[0]))}


@cache  # the same model is the same compilation
def _deep_linear(widths: tuple[int, ...], sd: float) -> Model:
    shapes = [(widths[i + 1], widths[i]) for i in range(len(widths) - 1)]
    outputs = widths[-1]

    def predict(params: Factors, data: Data) -> jax.Array:
        return data["x"] @ _product(params).T

    def log_likelihood(params: Factors, data: Data) -> jax.Array:
        return -0.5 * ((data["y"] - predict(params, data)) ** 2).sum(-1) - outputs / 2 * LOG_2PI

    def loss(params: Factors, summary: Data) -> jax.Array:
        off = _product(params) - summary["best"]
        squares = summary["least"] + jnp.sum((off @ summary["xx"]) * off)
        return 0.5 * squares + summary["n"] * outputs / 2 * LOG_2PI

    return Model(
        log_likelihood,
        lambda params: normal_log_density(params, sd),
        lambda key: tuple(
            sd * jax.random.normal(k, shape)
            for k, shape in zip(jax.random.split(key, len(shapes)), shapes, strict=True)
        ),
        predict=predict,
        observed=lambda data: data["y"],
        summarise=_summary,
        loss=loss,
        gibbs=lambda key, params, summary, beta: _gibbs_sweep(key, params, summary, beta, sd),
        name=f"linear {'-'.join(map(str, widths))}",
    )


def _product(factors: Factors) -> jax.Array:
    """W_L ⋯ W_1."""
    total = factors[0]
    for factor in factors[1:]:
        total = factor @ total
    return total


def _summary(data: Data) -> Data:
    """The products of the data, and the least residual: differences of large numbers are taken only once."""
    x, y = np.asarray(data["x"], dtype=float), np.asarray(data["y"], dtype=float)
    best = np.linalg.lstsq(x, y)[0].T
    least = np.sum((y - x @ best.T) ** 2)
    return {"xx": x.T @ x, "yx": y.T @ x, "best": best, "least": least, "n": 1.0 * x.shape[0]}


def _gibbs_sweep(key: Key, params: Factors, summary: Data, beta: jax.Array, sd: float) -> tuple[jax.Array, ...]:
    """Every factor drawn once, given the others.

    With :math:`P = W_L \\cdots W_{i+1}` and :math:`Q = W_{i-1} \\cdots W_1`, factor i is normal with precision
    :math:`\\beta\\, P^\\top P \\otimes Q X^\\top X Q^\\top + \\sigma^{-2}` and precision times mean
    :math:`\\beta\\, P^\\top Y^\\top X Q^\\top`.
    """
    factors = list(params)
    for i, (rows, columns) in enumerate(factor.shape for factor in params):
        before, after = jnp.eye(columns), jnp.eye(rows)
        if i:
            before = _product(factors[:i])
        if i < len(factors) - 1:
            after = _product(factors[i + 1 :])
        precision = beta * jnp.kron(after.T @ after, before @ summary["xx"] @ before.T)
        precision = precision + jnp.eye(rows * columns) / sd**2
        shift = beta * (after.T @ summary["yx"] @ before.T).ravel()
        factors[i] = draw_normal(jax.random.fold_in(key, i), precision, shift).reshape(rows, columns)
    return tuple(factors)
