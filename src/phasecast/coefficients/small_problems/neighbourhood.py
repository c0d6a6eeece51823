"""What is the loss near a minimum? L(w* + offset) − L(w*), where both ways to measure λ in small problems start."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.types import Array

RADIUS = 0.5
"""The default half-width of the box around w*."""
ROUNDING = 1e4 * float(np.finfo(float).eps)
"""Relative rounding error assumed for a loss in double precision: room for sums over some 10⁴ rows."""


@dataclass(frozen=True)
class Neighbourhood:
    """A problem near w*: ``excess(offset)`` is L(w* + offset) − L(w*), to be called in float64.

    Differences of the loss below ``resolution`` are rounding noise.
    """

    size: int
    resolution: float
    excess: Callable[[Array], Array]

    def check_minimum(self, lowest: float) -> None:
        """Raise if ``lowest``, the smallest excess loss nearby, is negative: then w* is not a minimum."""
        if lowest < -self.resolution:
            raise BadInput(
                f"params is not a minimum: the loss is lower by {-lowest:.2g} nearby",
                "give the parameters of a minimum, or a smaller radius",
            )


def neighbourhood_of(problem: Problem, radius: float) -> Neighbourhood:
    """The neighbourhood of a problem's parameters, for a box of half-width ``radius``."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    if not radius > 0:
        raise BadInput(f"radius must be > 0, got {radius:g}", "use a positive half-width")
    with float64():
        centre, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), problem.params))
        value = problem.value(unravel(centre))
        if np.shape(value) != ():
            raise BadInput(f"the loss has shape {np.shape(value)}", "return one number, the mean over the data")
        lowest = float(value)
    if not math.isfinite(lowest):
        raise BadInput(f"the loss at params is {lowest}", "give parameters at which it is finite")
    return Neighbourhood(
        centre.size, ROUNDING * abs(lowest), lambda offset: problem.value(unravel(centre + offset)) - lowest
    )
