"""Products of matrices at their most degenerate true point.

.. math:: L(w) = \\tfrac12 \\lVert W_1 W_2 \\cdots W_L - W^*_1 W^*_2 \\cdots W^*_L \\rVert_F^2

The true factors all have rank r, so λ is known (``phasecast.coefficients.deep_linear``).
:func:`phasecast.sampling.gibbs_coefficient` says what λ̂ should be there.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.problem import Problem
from phasecast.core.types import PyTree

if TYPE_CHECKING:
    import jax


def matrix_product(
    widths: Sequence[int],
    rank: int,
    *,
    singular_values: Sequence[float] | None = None,
    seed: int | None = None,
) -> Problem:
    """The population loss of a product of matrices of shapes (widths[i], widths[i+1]), at :func:`true_factors`.

    >>> problem = matrix_product((10, 10, 10, 10), rank=3)
    >>> problem.name, float(problem.value(problem.params))
    ('product 10-10-10-10 of rank 3', 0.0)
    """
    factors = true_factors(widths, rank, singular_values=singular_values, seed=seed)
    target = functools.reduce(np.matmul, factors)

    def loss(params: PyTree) -> jax.Array:
        import jax.numpy as jnp

        return 0.5 * jnp.sum((functools.reduce(jnp.matmul, params) - target) ** 2)

    return Problem(loss, factors, name=product_name(widths, rank))


def true_factors(
    widths: Sequence[int],
    rank: int,
    *,
    singular_values: Sequence[float] | None = None,
    seed: int | None = None,
) -> tuple[np.ndarray, ...]:
    """Factors of rank exactly ``rank`` whose product has these singular values (ones where none are given).

    .. math:: W^*_i = Q_{i-1} \\begin{pmatrix} S^{1/L} & 0 \\\\ 0 & 0 \\end{pmatrix} Q_i^\\top

    Every factor takes the same share of S. The Q are identities without a seed, random orthogonal matrices with one;
    L and :math:`|w - w^*|^2` are the same in rotated coordinates, and so is every :math:`\\hat\\lambda(\\gamma)`.
    """
    widths = [whole_number("width", width, 1) for width in widths]
    if len(widths) < 2:
        raise BadInput(f"{len(widths)} widths are too few", "give at least two widths")
    rank = whole_number("rank", rank, 0)
    if rank > min(widths):
        raise BadInput(f"rank {rank} exceeds the narrowest layer ({min(widths)})", f"choose rank ≤ {min(widths)}")
    values = np.ones(rank) if singular_values is None else np.asarray(singular_values, dtype=float)
    if values.shape != (rank,) or not np.all((values > 0) & np.isfinite(values)):
        raise BadInput(f"{singular_values} are not the singular values of a product of rank {rank}", "give r positive")
    share = values ** (1 / (len(widths) - 1))
    factors = []
    for rows, columns in itertools.pairwise(widths):
        factor = np.zeros((rows, columns))
        factor[range(rank), range(rank)] = share
        factors.append(factor)
    if seed is not None:
        rng = np.random.default_rng(seed)
        turns = [_orthogonal(rng, (width, width)) for width in widths]
        factors = [turns[i] @ factor @ turns[i + 1].T for i, factor in enumerate(factors)]
    return tuple(factors)


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal(shape))[0]


def product_name(widths: Sequence[int], rank: int) -> str:
    """What tables call a product of matrices."""
    return f"product {'-'.join(map(str, widths))} of rank {rank}"


def small_product() -> Problem:
    """A product of two small factors, a problem to try things on: λ = 2."""
    return matrix_product((2, 2, 2), rank=1)
