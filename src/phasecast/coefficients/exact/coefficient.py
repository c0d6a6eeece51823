"""The learning coefficient λ with its multiplicity m, as a prediction.

Near a minimum the volume of parameters with loss below ε is
:math:`V(\\varepsilon) \\sim c\\,\\varepsilon^{\\lambda} (-\\log\\varepsilon)^{m-1}`
(Watanabe 2009, Theorem 7.1; Cullen et al. 2026, section 2.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Prediction


@dataclass(frozen=True)
class FiniteSizePolicy(Policy):
    """How far may λ at finite nβ be from its leading form?"""

    largest_shift: float = rule(
        4.0,
        "chosen: the scale of the neighbourhood shifts log nβ by 4 at most, a factor of e⁴ ≈ 55, not derived; "
        "tests/truth/test_landscapes.py checks that it brackets x²y² from nβ = 10² to 10¹⁸",
    )


POLICY = FiniteSizePolicy()


@dataclass(frozen=True, eq=False)
class Coefficient(Prediction[Fraction | float]):
    """λ and its multiplicity."""

    multiplicity: int = 1

    @property
    def fraction(self) -> Fraction:
        """λ as a ``Fraction``, for exact arithmetic."""
        return Fraction(self.value)

    def at(self, **conditions: float) -> Prediction:
        """What nβ E[L − L*] is expected to be at finite nβ.

        .. math:: n\\beta\\,E[L-L^*] = \\lambda - \\frac{m-1}{\\log n\\beta} + O(\\log^{-2} n\\beta)

        from the derivative of :math:`\\log Z = -\\lambda\\log n\\beta + (m-1)\\log\\log n\\beta` (Cullen et al.
        2026, eq. 10). The scale of the neighbourhood shifts :math:`\\log n\\beta` by an unknown constant; its
        largest size, 4 in :class:`FiniteSizePolicy`, gives the systematic width.

        >>> Coefficient(1, multiplicity=2).at(nbeta=math.exp(10)).value
        0.9
        """
        if set(conditions) != {"nbeta"}:
            raise OutsideRegime(
                f"λ at finite {', '.join(sorted(conditions)) or 'size'} has no closed form here",
                "call at(nbeta=…) alone",
            )
        nbeta = conditions["nbeta"]
        if not nbeta > math.e:
            raise BadInput(f"nbeta={nbeta:g} is too small for an asymptotic form", "use nbeta > e")
        shift = (self.multiplicity - 1) / math.log(nbeta)
        return Prediction(
            float(self.value) - shift,
            regime=f"nβ = {nbeta:g}, to first order in 1/log nβ",
            source=self.source,
            systematic=shift * min(1.0, POLICY.largest_shift / math.log(nbeta)),
            kind=self.kind,
            name=self.name,
        )

    def plain(self) -> dict[str, Any]:
        fields = super().plain()
        lambdas = {"lambda": fields["value"], "lambda_float": fields["value_float"]}
        return {**fields, **lambdas, "multiplicity": self.multiplicity}

    def words(self) -> str:
        return f"{super().words()}, m = {self.multiplicity}"
