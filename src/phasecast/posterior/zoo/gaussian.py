"""What the models of the zoo share: normal priors, draws from a normal given its precision, and a checked width."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from phasecast.core.errors import BadInput
from phasecast.core.types import Key, PyTree

LOG_2PI = math.log(2 * math.pi)  # of the density of a normal

Data = dict[str, Any]
"""Arrays by name: the data of a model, its summary, or parameters."""


def draw_normal(key: Key, precision: jax.Array, shift: jax.Array) -> jax.Array:
    """A draw from the normal with this precision, whose mean times the precision is ``shift``."""
    lower = jnp.linalg.cholesky(precision)
    half = jax.scipy.linalg.solve_triangular(lower, shift, lower=True)
    noise = jax.random.normal(key, shift.shape)
    return jax.scipy.linalg.solve_triangular(lower, half + noise, lower=True, trans=1)


def normal_log_density(params: PyTree, sd: float) -> jax.Array:
    """The log density of independent N(0, sd²) parameters."""
    leaves = jax.tree.leaves(params)
    constant = math.log(sd) + LOG_2PI / 2
    return jnp.asarray(sum(-0.5 * jnp.sum((leaf / sd) ** 2) - leaf.size * constant for leaf in leaves))


def positive(name: str, value: float) -> float:
    """The value as a float, or bad input if it is not a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadInput(f"{name} is {value!r}", "use a positive number")
    return float(value)
