"""The loss above its minimum, as a function of the offset from w*: what both ways of measuring λ start from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.problem import Problem

RADIUS = 0.5
"""The half-width of the box around w*, unless another is asked for."""
ROUNDING = 1e4 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Neighbourhood:
    """A problem near w*: ``excess(offset)`` is L(w* + offset) − L(w*), to be called in float64.

    ``resolution`` is the size of differences of the loss that are rounding noise.
    """

    size: int
    resolution: float
    excess: Callable[[Any], Any]

    def check_minimum(self, lowest: float) -> None:
        """Refuse a w* near which the loss is lower than at it by ``lowest``."""
        if lowest < -self.resolution:
            raise BadInput(
                f"params is not a minimum: the loss is lower by {-lowest:.2g} nearby",
                "give the parameters of a minimum, or a smaller radius",
            )


def near(problem: Problem, radius: float) -> Neighbourhood:
    """The neighbourhood of a problem's parameters, checked."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    if not radius > 0:
        raise BadInput(f"radius {radius:g} is no box", "use a positive half-width")
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
