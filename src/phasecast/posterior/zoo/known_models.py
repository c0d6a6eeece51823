"""Models with a known λ, or that the papers use, each with the fastest exact update that it allows.

A product of linear maps is Gaussian in every factor given the others, also under a tempered likelihood, so a Gibbs
sweep has neither step size nor rejection and looks at the data only through XᵀX and YᵀX. Two-layer networks are in
``networks``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.posterior.model import Model

LOG_2PI = math.log(2 * math.pi)

Data = dict[str, Any]


def deep_linear(widths: Sequence[int], *, prior_sd: float = 1.0, truth: Sequence[Any] | None = None) -> Model:
    """:math:`y = W_L \\cdots W_1 x + N(0, I)` with independent normal weights; data are ``{"x", "y"}``.

    Given the others, with :math:`P = W_L \\cdots W_{i+1}` and :math:`Q = W_{i-1} \\cdots W_1`, factor i is normal with
    precision :math:`\\beta\\, P^\\top P \\otimes Q X^\\top X Q^\\top + \\sigma^{-2}`. One factor is linear regression:
    then draws are independent. Widths go from input to output; params are the tuple (W_1, …, W_L).

    >>> deep_linear((3, 2, 3)).size()
    12
    """
    widths = [whole_number("width", width, 1) for width in widths]
    if len(widths) < 2:
        raise BadInput(f"{len(widths)} widths make no network", "give at least an input and an output width")
    model = _deep_linear(tuple(widths), positive("prior_sd", prior_sd))
    return model if truth is None else replace(model, truth=tuple(jnp.asarray(factor) for factor in truth))


@cache  # the same model is the same compilation
def _deep_linear(widths: tuple[int, ...], sd: float) -> Model:
    shapes = [(widths[i + 1], widths[i]) for i in range(len(widths) - 1)]
    outputs = widths[-1]

    def product(params: Any) -> Any:
        total = params[0]
        for factor in params[1:]:
            total = factor @ total
        return total

    def predict(params: Any, data: Data) -> Any:
        return data["x"] @ product(params).T

    def log_likelihood(params: Any, data: Data) -> Any:
        return -0.5 * ((data["y"] - predict(params, data)) ** 2).sum(-1) - outputs / 2 * LOG_2PI

    def summarise(data: Data) -> Data:
        """The products of the data, and the least residual: differences of large numbers are taken only once."""
        x, y = np.asarray(data["x"], dtype=float), np.asarray(data["y"], dtype=float)
        best = np.linalg.lstsq(x, y)[0].T
        least = np.sum((y - x @ best.T) ** 2)
        return {"xx": x.T @ x, "yx": y.T @ x, "best": best, "least": least, "n": 1.0 * x.shape[0]}

    def loss(params: Any, summary: Data) -> Any:
        off = product(params) - summary["best"]
        squares = summary["least"] + jnp.sum((off @ summary["xx"]) * off)
        return 0.5 * squares + summary["n"] * outputs / 2 * LOG_2PI

    def gibbs(key: Any, params: Any, summary: Data, beta: Any) -> Any:
        factors = list(params)
        for i, (rows, columns) in enumerate(shapes):
            before, after = jnp.eye(columns), jnp.eye(rows)
            if i:
                before = product(factors[:i])
            if i < len(shapes) - 1:
                after = product(factors[i + 1 :])
            precision = beta * jnp.kron(after.T @ after, before @ summary["xx"] @ before.T)
            precision = precision + jnp.eye(rows * columns) / sd**2
            pull = beta * (after.T @ summary["yx"] @ before.T).ravel()
            factors[i] = draw_normal(jax.random.fold_in(key, i), precision, pull).reshape(rows, columns)
        return tuple(factors)

    return Model(
        log_likelihood,
        lambda params: normal_log_density(params, sd),
        lambda key: tuple(
            sd * jax.random.normal(k, shape)
            for k, shape in zip(jax.random.split(key, len(shapes)), shapes, strict=True)
        ),
        predict=predict,
        observed=lambda data: data["y"],
        summarise=summarise,
        loss=loss,
        gibbs=gibbs,
        name=f"linear {'-'.join(map(str, widths))}",
    )


def linear(inputs: int, outputs: int = 1, *, prior_sd: float = 1.0) -> Model:
    """Linear regression, regular: λ = inputs × outputs / 2. Params are the tuple (W,), W outputs × inputs."""
    return deep_linear((inputs, outputs), prior_sd=prior_sd)


def reduced_rank(inputs: int, hidden: int, outputs: int, *, prior_sd: float = 1.0) -> Model:
    """:math:`y = BAx + N(0, I)`; λ is ``phasecast.coefficients.reduced_rank(inputs, hidden, outputs, rank)``."""
    return deep_linear((inputs, hidden, outputs), prior_sd=prior_sd)


def linear_data(factors: Sequence[Any], n: int, seed: int) -> Data:
    """n inputs x ~ N(0, I) and outputs of the product of these factors, with unit noise."""
    rng = np.random.default_rng(seed)
    total = np.asarray(factors[0], dtype=float)
    for factor in factors[1:]:
        total = np.asarray(factor) @ total
    x = rng.normal(size=(whole_number("n", n, 1), total.shape[1]))
    return {"x": x, "y": x @ total.T + rng.normal(size=(n, total.shape[0]))}


def monomial(powers: Sequence[int], *, prior_sd: float = 1.0) -> Model:
    """:math:`y = \\prod_j w_j^{k_j} + N(0, 1)`; at a true y of zero λ = min 1/(2 k_j). Data are the array y.

    >>> from phasecast.core.precision import float64
    >>> model = monomial([1, 2])
    >>> with float64():
    ...     print(model.total_loss(jnp.ones(2), model.summary(np.ones(4))))  # 2 log 2π
    3.675754...
    """
    powers = [whole_number("power", power, 1) for power in powers]
    if not powers:
        raise BadInput("there are no powers", "give at least one")
    return _monomial(tuple(powers), positive("prior_sd", prior_sd))


@cache  # the same model is the same compilation
def _monomial(powers: tuple[int, ...], sd: float) -> Model:
    def predict(params: Any, data: Any) -> Any:
        return jnp.broadcast_to(_product(params, powers), jnp.shape(data))

    def loss(params: Any, summary: Data) -> Any:
        off = _product(params, powers) - summary["mean"]
        return 0.5 * (summary["least"] + summary["n"] * off**2) + summary["n"] / 2 * LOG_2PI

    def summarise(data: Any) -> Data:
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


def _product(params: Any, powers: Sequence[int]) -> Any:
    total = jnp.ones(())
    for number, power in enumerate(powers):
        total = total * params[number] ** power
    return total


def mixture(components: int, dimension: int = 1, *, prior_sd: float = 3.0) -> Model:
    """Normals with unit covariance, weights uniform on the simplex, means N(0, prior_sd²). Data are an array (n, d).

    λ is ``phasecast.coefficients.mixture(components, true, dimension)``. Params are ``{"logits", "means"}``; logits
    are log ratios to the last weight, and the log prior has their Jacobian :math:`\\prod_k \\pi_k`. A tempered
    likelihood has no labels to draw, so there is no Gibbs update: use NUTS.

    >>> mixture(2, 1).size()
    3
    """
    k, d = whole_number("components", components, 1), whole_number("dimension", dimension, 1)
    return _mixture(k, d, positive("prior_sd", prior_sd))


@cache  # the same model is the same compilation
def _mixture(k: int, d: int, sd: float) -> Model:
    def log_weights(logits: Any) -> Any:
        return jax.nn.log_softmax(jnp.concatenate([logits, jnp.zeros(1)]))

    def log_likelihood(params: Any, data: Any) -> Any:
        squares = ((data[:, None, :] - params["means"]) ** 2).sum(-1)
        return jax.nn.logsumexp(log_weights(params["logits"]) - squares / 2, axis=1) - d / 2 * LOG_2PI

    def log_prior(params: Any) -> Any:
        uniform = math.lgamma(k) + log_weights(params["logits"]).sum()
        return uniform + normal_log_density(params["means"], sd)

    def init(key: Any) -> Data:
        for_weights, for_means = jax.random.split(key)
        weights = jnp.log(jax.random.exponential(for_weights, (k,)))
        return {"logits": weights[:-1] - weights[-1], "means": sd * jax.random.normal(for_means, (k, d))}

    return Model(log_likelihood, log_prior, init, name=f"mixture of {k} normals")


def draw_normal(key: Any, precision: Any, pull: Any) -> Any:
    """A draw from the normal with this precision, whose mean times the precision is ``pull``."""
    lower = jnp.linalg.cholesky(precision)
    half = jax.scipy.linalg.solve_triangular(lower, pull, lower=True)
    noise = jax.random.normal(key, pull.shape)
    return jax.scipy.linalg.solve_triangular(lower, half + noise, lower=True, trans=1)


def normal_log_density(params: Any, sd: float) -> Any:
    leaves = jax.tree.leaves(params)
    constant = math.log(sd) + LOG_2PI / 2
    return sum(-0.5 * jnp.sum((leaf / sd) ** 2) - leaf.size * constant for leaf in leaves)


def positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadInput(f"{name} is {value!r}", "use a positive number")
    return float(value)
