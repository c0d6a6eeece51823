"""What is λ of a linear network? Products of matrices of any depth (Aoyagi), and two factors at a given point.

Widths are named from input to output, H_0, …, H_L. The true product has rank r.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.errors import BadInput, whole_number

AOYAGI = "Aoyagi 2024, Theorem 1; Seyoum 2025, Definition 4 with 4 for the printed 4ℓ"
REDUCED_RANK = "Aoyagi & Watanabe 2005"


def deep_linear(widths: Sequence[int], rank: int, bias: bool = False) -> Coefficient:
    """λ of a linear network of any depth at the most degenerate of its true parameters.

    For layers of widths :math:`H_0, \\dots, H_L` and a true map of rank r, the excess widths are
    :math:`D_s = H_s - r`. Take the ℓ+1 smallest for the largest ℓ that has
    :math:`\\Sigma = \\sum D \\ge \\ell \\max D`; with :math:`M = \\lceil \\Sigma/\\ell \\rceil` and
    :math:`a = \\Sigma - (M-1)\\ell`,

    .. math:: \\lambda = \\frac{r(H_0 + H_L) - r^2}{2} + \\frac{Ma + (M-1)\\Sigma - \\sum D^2}{4},
              \\qquad m = a(\\ell - a) + 1

    A free bias of the output adds :math:`H_L/2`.

    >>> deep_linear((10, 10, 10, 10), rank=5).value, deep_linear((2, 2, 2, 2, 2), rank=0).multiplicity
    (Fraction(46, 1), 5)
    """
    widths = [whole_number("width", width, 1) for width in widths]
    if len(widths) < 2:
        raise BadInput(
            f"a network needs at least two widths, got {len(widths)}", "give at least an input and an output width"
        )
    rank = whole_number("rank", rank, 0)
    if rank > min(widths):
        raise BadInput(f"rank {rank} exceeds the narrowest layer ({min(widths)})", f"choose rank ≤ {min(widths)}")
    excess, multiplicity = _excess(sorted(width - rank for width in widths))
    regular = Fraction(rank * (widths[0] + widths[-1]) - rank**2, 2)
    return Coefficient(
        regular + excess + (Fraction(widths[-1], 2) if bias else 0),
        regime="global: the most degenerate true parameter; inputs that span the input space",
        source=AOYAGI,
        name="deep-linear",
        multiplicity=multiplicity,
    )


def reduced_rank(
    inputs: int, hidden: int, outputs: int, rank: int, rank_a: int | None = None, rank_b: int | None = None
) -> Coefficient:
    """λ of :math:`y = BAx` with A hidden × inputs and B outputs × hidden, globally or at a point.

    There are N inputs, h hidden units and M outputs. Globally it is the two-factor case of :func:`deep_linear`. At
    factors A and B of ranks a and b, the r directions that both carry, the a−r that only A carries and the b−r that
    only B carries can be eliminated in turn, which leaves a product of two zero matrices:

    .. math:: \\lambda = \\frac{r(N+M-r) + (a-r)(M-r) + (b-r)(N-a)}{2} + \\lambda_0(N-a,\\; h-a-b+r,\\; M-b)

    with λ₀ the global value at rank 0.

    >>> reduced_rank(2, 2, 2, rank=0).value, reduced_rank(2, 2, 2, rank=0, rank_a=2, rank_b=0).value
    (Fraction(3, 2), Fraction(2, 1))
    """
    whole = deep_linear((inputs, hidden, outputs), rank)
    if rank_a is None and rank_b is None:
        return Coefficient(
            whole.value, whole.regime, REDUCED_RANK, name="reduced-rank", multiplicity=whole.multiplicity
        )
    if rank_a is None or rank_b is None:
        raise BadInput("the rank of one factor is missing", "give both rank_a and rank_b, or neither")
    a, b = whole_number("rank_a", rank_a, 0), whole_number("rank_b", rank_b, 0)
    if not (rank <= a <= min(inputs, hidden) and rank <= b <= min(hidden, outputs) and a + b - hidden <= rank):
        raise BadInput(
            f"no factors of ranks {a} and {b} have a product of rank {rank} through {hidden} hidden units",
            f"choose ranks from {rank} to the sizes of the factors, with rank_a + rank_b ≤ {hidden + rank}",
        )
    regular = rank * (inputs + outputs - rank) + (a - rank) * (outputs - rank) + (b - rank) * (inputs - a)
    left = sorted((inputs - a, hidden - a - b + rank, outputs - b))
    excess, multiplicity = _excess(left)
    return Coefficient(
        Fraction(regular, 2) + excess,
        regime=f"local: at factors of rank {a} (first) and {b} (second); inputs that span the input space",
        source=f"{REDUCED_RANK}, after eliminating the directions that one factor carries",
        name="reduced-rank",
        multiplicity=multiplicity,
    )


def _excess(sorted_widths: list[int]) -> tuple[Fraction, int]:
    """λ and multiplicity of a product of zero matrices of these widths, smallest first."""
    total = squares = 0
    last = (0, 1, 0)
    for count, width in enumerate(sorted_widths):  # count is ℓ when `width` is the largest taken
        total, squares = total + width, squares + width * width
        if count >= 1 and total >= count * width:
            last = (total, count, squares)
    total, order, squares = last
    top = -(-total // order)
    rest = total - (top - 1) * order
    return Fraction(top * rest + (top - 1) * total - squares, 4), rest * (order - rest) + 1
