"""Which loss landscapes show everything about λ with two parameters?

Products :math:`\\prod_i x_i^{a_i}` and sums :math:`\\sum_i x_i^{a_i}` of even powers, near one of
their minima: the landscapes of Figure 5 of Cullen et al. 2026 (arXiv 2603.01192), and x²y², the smallest
landscape with multiplicity two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem
from phasecast.core.types import Array


@dataclass(frozen=True)
class Landscape:
    """A product or a sum of even powers, near ``point``, where it is zero."""

    name: str
    form: Literal["product", "sum"]
    powers: tuple[int, ...]
    point: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.powers) != len(self.point):
            raise BadInput(
                f"{len(self.powers)} powers at a point with {len(self.point)} coordinates",
                "give as many of each",
            )
        if any(power < 0 or power % 2 for power in self.powers):
            raise BadInput(f"powers {self.powers} would make the loss negative", "use even powers")
        if self.loss(self.point) != 0:
            raise BadInput(f"{self.point} is not a minimum of this landscape", "choose a point where it is zero")

    def loss(self, w: Array | Sequence[float]) -> Array | float:
        """The loss at ``w``, a pair of numbers or an array of shape (2,)."""
        terms = [w[i] ** power for i, power in enumerate(self.powers)]
        return math.prod(terms) if self.form == "product" else sum(terms)

    def problem(self) -> Problem:
        """The landscape as a population problem at its point."""
        import numpy as np

        return Problem(self.loss, np.asarray(self.point), name=self.name)


LANDSCAPES: dict[str, Landscape] = {
    landscape.name: landscape
    for landscape in (
        Landscape("x²+y²", "sum", (2, 2), (0.0, 0.0)),
        Landscape("x⁴+y⁴", "sum", (4, 4), (0.0, 0.0)),
        Landscape("x²y⁴", "product", (2, 4), (0.0, 0.0)),
        Landscape("x²y⁴ at (1,0)", "product", (2, 4), (1.0, 0.0)),
        Landscape("x²y⁴ at (0,1)", "product", (2, 4), (0.0, 1.0)),
        Landscape("x²y²", "product", (2, 2), (0.0, 0.0)),
    )
}
