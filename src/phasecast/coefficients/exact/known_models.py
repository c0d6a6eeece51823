"""What is λ of tanh units, mixtures, factor analysis, factorisations and ReLU units? Known case by case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.linear_networks import deep_linear, reduced_rank
from phasecast.coefficients.exact.monomials import monomial
from phasecast.coefficients.exact.newton_polyhedra import ideal, newton
from phasecast.coefficients.exact.quadratic_networks import modular_addition, quadratic
from phasecast.core.errors import BadInput, whole_number


def tanh(width: int) -> Coefficient:
    """λ of :math:`\\sum_{h \\le H} a_h \\tanh(b_h x)`, one input and output, if the true function is zero.

    .. math:: \\lambda = \\frac{H + i^2 + i}{4i + 2}, \\qquad i = \\lfloor\\sqrt H\\rfloor

    with multiplicity 2 if i² = H, else 1.

    >>> tanh(2).value
    Fraction(2, 3)
    """
    h = whole_number("width", width, 1)
    i = isqrt(h)
    return Coefficient(
        Fraction(h + i * i + i, 4 * i + 2),
        regime="one input, one output, no biases; the true function is zero",
        source="Aoyagi & Watanabe 2006",
        name="tanh",
        multiplicity=2 if i * i == h else 1,
    )


def mixture(components: int, true: int, dimension: int) -> Coefficient:
    """λ of a mixture of k normals in d dimensions where r are true; means and weights are free.

    .. math:: \\lambda = \\frac{rd + r - 1}{2} + (k - r) \\min\\left(\\frac12, \\frac d4\\right)

    Weights are not negative, so the second moments added by spare components cannot cancel: each enters as
    :math:`(a |b|^2)^2`, with a its weight and b its distance to a true component. For d ≥ 2 this is the bound of
    Yamazaki and Watanabe 2003.

    >>> mixture(2, 1, 1).value
    Fraction(3, 4)
    """
    k, r, d = (whole_number(n, v, 1) for n, v in (("components", components), ("true", true), ("dimension", dimension)))
    if r > k:
        raise BadInput(f"{r} true components among {k}", f"use true ≤ {k}")
    return Coefficient(
        Fraction(r * d + r - 1, 2) + (k - r) * min(Fraction(1, 2), Fraction(d, 4)),
        regime="known covariance, weights ≥ 0 with a prior positive up to the boundary, true components distinct",
        source="positivity of second moments; Yamazaki & Watanabe 2003 for d ≥ 2",
        name="mixture",
        multiplicity=1 + (k - r) * (d == 2),
    )


def factor_analysis(observed: int, factors: int, true_factors: int) -> Coefficient:
    """λ of a covariance :math:`\\Psi + LL^\\top` with p observed variables, k factors and r true ones, no free mean.

    .. math:: \\lambda = \\frac{p(k+2) + r(p-k+1)}{4}

    exact if the model is identified, :math:`(p-k)(p-k+1) \\ge 2p` (Ledermann); otherwise the smaller of it and
    p(p+1)/4 is an upper bound.

    >>> factor_analysis(6, 2, 1).value
    Fraction(29, 4)
    """
    p = whole_number("observed", observed, 1)
    k, r = whole_number("factors", factors, 0), whole_number("true_factors", true_factors, 0)
    if not r <= k <= p:
        raise BadInput(f"{r} true of {k} factors of {p} variables", "use true_factors ≤ factors ≤ observed")
    value = Fraction(p * (k + 2) + r * (p - k + 1), 4)
    exact = k == 0 or (p - k) * (p - k + 1) >= 2 * p
    return Coefficient(
        value if exact else min(value, Fraction(p * (p + 1), 4)),
        regime="generic true covariance, no free mean" + ("" if exact else "; too many factors to identify"),
        source="Drton & Plummer 2017 (sBIC)",
        kind="exact" if exact else "upper-bound",
        name="factor-analysis",
    )


def symmetric_factorisation(size: int, factors: int, rank: int) -> Coefficient:
    """λ of :math:`\\|UU^\\top - M\\|^2` for U of n × k and a true M ≥ 0 of rank r.

    .. math:: \\lambda = \\frac{nr - r(r-1)/2}{2} + \\frac{(n-r)(k-r)}{4}

    because the part W of U beyond the rank enters as :math:`\\|WW^\\top\\|^2`, which is of order :math:`\\|W\\|^4`.

    >>> symmetric_factorisation(3, 2, 1).value
    Fraction(2, 1)
    """
    n, k = whole_number("size", size, 1), whole_number("factors", factors, 1)
    r = whole_number("rank", rank, 0)
    if r > min(n, k):
        raise BadInput(f"rank {r} exceeds {min(n, k)}", f"choose rank ≤ {min(n, k)}")
    return Coefficient(
        Fraction(2 * n * r - r * (r - 1), 4) + Fraction((n - r) * (k - r), 4),
        regime="every true parameter: they are one orbit of rotations",
        source="elimination of the rank-r part",
        name="symmetric-factorisation",
    )


def nmf(rows: int, columns: int, rank: int, true_rank: int) -> Coefficient:
    """An upper bound on λ of a nonnegative factorisation of rank H of an M × N matrix of nonnegative rank H₀.

    .. math:: \\lambda \\le \\tfrac12 [(H - H_0) \\min(M, N) + H_0 (M + N - 1)]

    It is exact for H₀ = 0 and for H = H₀ = 1.

    >>> nmf(4, 3, rank=2, true_rank=0).kind
    'exact'
    """
    m, n, h = (whole_number(name, v, 1) for name, v in (("rows", rows), ("columns", columns), ("rank", rank)))
    h0 = whole_number("true_rank", true_rank, 0)
    if h0 > h:
        raise BadInput(f"true rank {h0} exceeds the rank {h}", f"use true_rank ≤ {h}")
    exact = h0 == 0 or h == h0 == 1
    return Coefficient(
        Fraction((h - h0) * min(m, n) + h0 * (m + n - 1), 2),
        regime="factors ≥ 0 with a prior positive up to the boundary",
        source="Hayashi & Watanabe 2017",
        kind="exact" if exact else "upper-bound",
        name="nmf",
        multiplicity=1 + h * (m == n) if h0 == 0 else 1,
    )


def relu(groups: Sequence[tuple[int, int, int, int, str]]) -> Coefficient:
    """λ of one layer of ReLU units with biases, summed over groups of units that switch at the same hyperplane.

    Each group is (inputs, hidden, outputs, rank, where), with where ``"active"`` for units that are on over the whole
    support, or ``"hinge"`` for units that share one hyperplane and orientation inside it. Away from its kinks a group
    is a linear network, so the sum of their λ is a lower bound (Aoyagi 2025, Theorem 6). It is exact if every hinge has
    one unit, or two with rank 0; with more units per hinge the kink counts too: three units and one input give 4/3, not
    1.

    >>> relu([(1, 3, 1, 0, "hinge")]).kind
    'lower-bound'
    """
    if not groups or sum(group[-1] == "active" for group in groups) > 1:
        raise BadInput(
            "groups must have at least one entry and at most one active group",
            "give distinct hinges and one active group",
        )
    value, multiplicity, exact = Fraction(0), 1, True
    for inputs, hidden, outputs, rank, where in groups:
        if where == "active":
            part = deep_linear((inputs + 1, hidden, outputs), rank)
        elif where == "hinge":
            if rank > 1:
                raise BadInput(f"one hinge cannot have rank {rank}", "use rank 0 or 1")
            # all units of a hinge have parallel weights, so the first factor has rank 1
            part = reduced_rank(inputs + 1, hidden, outputs, rank, rank_a=1, rank_b=rank)
            exact = exact and (hidden == 1 or (hidden == 2 and rank == 0))
        else:
            raise BadInput(f"unknown place '{where}' of a group", "use active or hinge")
        value += part.fraction
        multiplicity += part.multiplicity - 1
    return Coefficient(
        value,
        regime="groups on distinct hyperplanes, weights not zero; exact for one unit per hinge, or two with rank 0",
        source="Aoyagi 2025, Theorem 6, with its restriction",
        kind="exact" if exact else "lower-bound",
        name="relu",
        multiplicity=multiplicity,
    )


def catalogue() -> dict[str, Callable[..., Coefficient]]:
    """Every closed form, by the name of its command."""
    networks = (deep_linear, reduced_rank, quadratic, modular_addition, tanh, relu)
    models = (mixture, factor_analysis, symmetric_factorisation, nmf)
    forms = (*networks, *models, monomial, newton, ideal)
    return {form.__name__.replace("_", "-"): form for form in forms}
