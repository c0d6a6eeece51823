"""Does λ change with the coordinates? Not if the change of coordinates loses no direction.

If K(w) = K̃(φ(w)) and the derivative of φ at w₀ has full row rank, then λ of K at w₀ is λ of K̃ at φ(w₀), with the same
multiplicity (Cullen et al. 2026, Theorem F.1): near w₀ such a φ is a projection, and K is constant along its fibres.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from phasecast.coefficients.exact.jacobian_rank import float_rank
from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.types import PyTree

CLOSE = 1e-8  # rounding allowed between φ(w₀) and the problem's own parameters, relative to their size


def reparametrise(problem: Problem, change: Callable[[PyTree], PyTree], params: PyTree) -> Problem:
    """The problem with parameters w in place of v = ``change(w)``, at ``params``; its λ is the same.

    Parameters
    ----------
    problem: a loss of v, with its own minimum in ``problem.params``.
    change: φ, a differentiable function from a tree w to a tree like ``problem.params``.
    params: w₀, with φ(w₀) = ``problem.params``.

    A φ whose derivative at w₀ does not have full row rank can change λ, and is refused.

    >>> square = Problem(lambda v: v[0] ** 2 + v[1] ** 2, np.zeros(2))
    >>> reparametrise(square, lambda w: w[:2] + w[1:] ** 3, np.zeros(3)).params.shape
    (3,)
    """
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    with float64():
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), params))
        old = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), problem.params))[0]

        def flat_change(w: jax.Array) -> jax.Array:
            return ravel_pytree(change(unravel(w)))[0]

        new = flat_change(flat)
        if new.shape != old.shape:
            raise BadInput(
                f"the change of coordinates gives {new.size} numbers", f"give the problem's {old.size} parameters"
            )
        distance = float(jnp.max(jnp.abs(new - old)))
        if not distance <= CLOSE * (1 + float(jnp.max(jnp.abs(old)))):
            raise BadInput(
                f"the change of coordinates maps params {distance:.2g} away from the problem's",
                "give params that it maps to them",
            )
        rank = float_rank(np.asarray(jax.jacobian(flat_change)(flat)))
    if rank.rank < old.size or not rank.clear:
        raise OutsideRegime(
            f"the change of coordinates has rank {rank.rank} of {old.size} at params, and may change λ",
            "use coordinates that reach every direction of the old ones",
        )
    return replace(problem, loss=lambda w, *data: problem.loss(change(w), *data), params=params)
