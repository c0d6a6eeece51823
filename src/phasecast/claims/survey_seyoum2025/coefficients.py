"""Is λ what the survey says? Exact ranks and volumes give the answer."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np

from phasecast.claims.generic_points import generic_integers
from phasecast.claims.verdicts import exact_finding, finding
from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.jacobian_rank import jacobian_rank
from phasecast.coefficients.exact.linear_networks import deep_linear
from phasecast.coefficients.exact.monomials import monomial
from phasecast.coefficients.small_problems.volume_scaling import volume_scaling
from phasecast.core.claim import Finding
from phasecast.core.results import Comparison, Verdict
from phasecast.models.landscapes import LANDSCAPES

_integers = functools.partial(generic_integers, largest=29)


def _check_lambda_is_min() -> Finding:
    measured = volume_scaling(LANDSCAPES["x²y⁴"].problem())
    smallest, largest = monomial([2, 4]), monomial([2])
    with_min = Comparison(smallest, measured, name="λ of x²y⁴ against the minimum")
    with_max = Comparison(
        Coefficient(largest.value, source="Seyoum 2025, as printed"), measured, name="λ of x²y⁴ against the maximum"
    )
    return finding(
        f"measured {measured.estimate:.4f}; minimum {smallest.value}, maximum {largest.value}",
        [with_min, with_max],
        printed=with_max.verdict is Verdict.AGREES,
        corrected=with_min.verdict is Verdict.AGREES and with_max.verdict is Verdict.DIFFERS,
    )


def _printed_definition_4(widths: tuple[int, ...], rank: int) -> Fraction:
    """The survey's formula as printed, with 4ℓ under the middle term, for three layers, where ℓ = 2."""
    excess = [width - rank for width in widths]
    order, total = 2, sum(excess)
    top = -(-total // order)
    rest = total - (top - 1) * order
    regular = Fraction(rank * (widths[0] + widths[-1]) - rank**2, 2)
    return regular + Fraction(top * rest + (top - 1) * total, 4 * order) - Fraction(sum(e * e for e in excess), 4)


def _check_definition_4() -> Finding:
    """At a 2-2-2 network of rank 0 the exact value is 3/2: codimension 3 of the pairs of matrices with product zero."""
    exact = deep_linear((2, 2, 2), 0)
    printed = _printed_definition_4((2, 2, 2), 0)
    return finding(
        f"2-2-2 at rank 0: printed {printed}, exact {exact.value}",
        printed=printed == Fraction(3, 2),
        corrected=exact.value == Fraction(3, 2),
    )


def _check_depth_two() -> Finding:
    """At generic factors with a product of rank one the Jacobian has rank d, for every width."""
    rows = []
    for d, m in ((3, 1), (3, 4), (5, 2)):
        weights = {"A": _integers(1, m, d), "B": _integers(2, 1, m)}
        rank = jacobian_rank(lambda w, x: x @ w["A"].T @ w["B"].T, weights, np.eye(d), exact=True).rank
        rows.append((f"d, m = {d}, {m}, twice λ", int(2 * (Fraction(d, 2) + Fraction(m - 1, 4))), rank))
    ours = all(2 * deep_linear((d, m, 1), 1).fraction == d for d in (3, 5) for m in (1, 2, 4))
    return exact_finding(rows, corrected=ours)


CHECKS = {
    "survey/lambda-is-min": _check_lambda_is_min,
    "survey/definition-4": _check_definition_4,
    "survey/depth-two": _check_depth_two,
}
"""The check of each claim; ``claims.toml`` has the statements."""
