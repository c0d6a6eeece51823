"""What are λ and m of a product or a sum of powers? They can be read off the exponents."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.errors import BadInput, whole_number
from phasecast.models.landscapes import Landscape

NORMAL_CROSSING = "poles of ζ(z) at a normal crossing (Watanabe 2009)"


def monomial(powers: Sequence[int], prior: Sequence[int] | None = None) -> Coefficient:
    """λ of :math:`K = \\prod_i x_i^{a_i}` at the origin under a prior density :math:`\\prod_i |x_i|^{h_i}`.

    .. math:: \\lambda = \\min_i \\frac{h_i + 1}{a_i}

    with multiplicity the number of i that reach the minimum; variables with :math:`a_i = 0` do not count.
    It is a minimum: the largest pole of :math:`\\zeta(z) = \\int K^z \\varphi` is the one nearest to zero.

    >>> monomial([2, 4]).value, monomial([2, 2]).multiplicity
    (Fraction(1, 4), 2)
    """
    prior = [0] * len(powers) if prior is None else prior
    if len(prior) != len(powers):
        raise BadInput(f"{len(prior)} prior powers for {len(powers)} variables", "give one for each variable")
    for power in (*powers, *prior):
        whole_number("a power", power, 0)
    ratios = [Fraction(h + 1, a) for a, h in zip(powers, prior, strict=True) if a > 0]
    if not ratios:
        raise BadInput("a constant has no learning coefficient", "give at least one power > 0")
    smallest = min(ratios)
    return Coefficient(
        smallest,
        regime="exact, ε → 0; normal crossing",
        source=NORMAL_CROSSING,
        name="monomial",
        multiplicity=ratios.count(smallest),
    )


def sum_of_powers(powers: Sequence[int]) -> Coefficient:
    """λ of :math:`K = \\sum_i x_i^{a_i}` at the origin, all powers even: each variable adds its own.

    .. math:: \\lambda = \\sum_i 1/a_i, \\qquad m = 1

    because the substitution :math:`x_i = \\varepsilon^{1/a_i} u_i` turns V(ε) into
    :math:`\\varepsilon^{\\sum 1/a_i}` times the volume of one bounded body.

    >>> sum_of_powers([4, 4]).value
    Fraction(1, 2)
    """
    if not powers or any(power <= 0 or power % 2 for power in powers):
        raise BadInput(f"a sum with powers {list(powers)} has no isolated minimum", "use even powers ≥ 2")
    return Coefficient(
        sum((Fraction(1, power) for power in powers), Fraction(0)),
        regime="exact, ε → 0; separable sum",
        source="scaling x_i = ε^(1/a_i) u_i",
        name="sum-of-powers",
        multiplicity=1,
    )


def of_landscape(landscape: Landscape) -> Coefficient:
    """λ of a :class:`~phasecast.models.Landscape` at its point.

    A coordinate in which the point is not zero contributes a positive smooth factor, which changes neither λ
    nor the multiplicity: its power counts as 0.

    >>> from phasecast.models import LANDSCAPES
    >>> of_landscape(LANDSCAPES["x²y⁴ at (0,1)"]).value
    Fraction(1, 2)
    """
    if landscape.form == "sum":
        return sum_of_powers(landscape.powers)
    return monomial([power if at == 0 else 0 for power, at in zip(landscape.powers, landscape.point, strict=True)])
