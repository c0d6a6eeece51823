"""Mixtures of normals, singular where two components coincide or a weight is zero; λ is known exactly."""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp

from phasecast.core.errors import whole_number
from phasecast.core.types import Array, Key
from phasecast.posterior.model import Model
from phasecast.posterior.zoo.gaussian import LOG_2PI, Data, normal_log_density, positive


def mixture_model(components: int, dimension: int = 1, *, prior_sd: float = 3.0) -> Model:
    """Normals with unit covariance, weights uniform on the simplex, means N(0, prior_sd²). Data are an array (n, d).

    λ is ``phasecast.coefficients.mixture(components, true, dimension)``. Params are ``{"logits", "means"}``; logits
    are log ratios to the last weight, and the log prior has their Jacobian :math:`\\prod_k \\pi_k`. A tempered
    likelihood has no labels to draw, so there is no Gibbs update: use NUTS.

    >>> mixture_model(2, 1).size()
    3
    """
    k, d = whole_number("components", components, 1), whole_number("dimension", dimension, 1)
    return _mixture(k, d, positive("prior_sd", prior_sd))


@cache  # the same model is the same compilation
def _mixture(k: int, d: int, sd: float) -> Model:
    def log_weights(logits: jax.Array) -> jax.Array:
        return jax.nn.log_softmax(jnp.concatenate([logits, jnp.zeros(1)]))

    def log_likelihood(params: Data, data: Array) -> jax.Array:
        squares = ((data[:, None, :] - params["means"]) ** 2).sum(-1)
        return jax.nn.logsumexp(log_weights(params["logits"]) - squares / 2, axis=1) - d / 2 * LOG_2PI

    def log_prior(params: Data) -> jax.Array:
        uniform = math.lgamma(k) + log_weights(params["logits"]).sum()
        return uniform + normal_log_density(params["means"], sd)

    def init(key: Key) -> Data:
        for_weights, for_means = jax.random.split(key)
        weights = jnp.log(jax.random.exponential(for_weights, (k,)))
        return {"logits": weights[:-1] - weights[-1], "means": sd * jax.random.normal(for_means, (k, d))}

    return Model(log_likelihood, log_prior, init, name=f"mixture of {k} normals")
