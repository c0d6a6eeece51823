"""Where do the reference values of λ come from? From these few lines, which share no code with phasecast.

    python tests/reference/coefficients.py

Newton polyhedra by linear programming (λ = min Σw over weights w ≥ 0 with ⟨w, exponent⟩ ≥ 1; the multiplicity is one
more than the dimension of the set of minima), deep linear networks by the formula of Aoyagi (2024) with a search over
all sets of layers, and tanh units by that of Aoyagi (2009).
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import linprog


def newton(*exponents: tuple[int, ...]) -> tuple[Fraction, int]:
    A, size = -np.array(exponents, dtype=float), len(exponents[0])
    least = linprog(np.ones(size), A_ub=A, b_ub=-np.ones(len(A))).fun
    rng = np.random.default_rng(0)
    corners = [
        linprog(rng.normal(size=size), A_ub=A, b_ub=-np.ones(len(A)), A_eq=np.ones((1, size)), b_eq=[least]).x
        for _ in range(20 * size)
    ]
    dimension = np.linalg.matrix_rank(np.array(corners) - corners[0], tol=1e-6)
    return Fraction(least).limit_denominator(1000), int(dimension) + 1


def ideal(*generators: tuple[int, ...]) -> tuple[Fraction, int]:
    """K = Σ (monomial)²."""
    return newton(*[tuple(2 * power for power in one) for one in generators])


def deep_linear(widths: tuple[int, ...], rank: int) -> tuple[Fraction, int]:
    left = [width - rank for width in widths]
    for count in range(2, len(left) + 1):
        for chosen in combinations(range(len(left)), count):
            M, rest = [left[i] for i in chosen], [left[i] for i in range(len(left)) if i not in chosen]
            layers, total = count - 1, sum(left[i] for i in chosen)
            if total >= layers * max(M) and all(total < layers * other and max(M) < other for other in rest):
                ceiling = math.ceil(Fraction(total, layers))
                a = total - (ceiling - 1) * layers
                pairs = sum(x * y for x, y in combinations(M, 2))
                value = (
                    Fraction(-(rank**2) + rank * (widths[0] + widths[-1]), 2)
                    + Fraction(a * (layers - a), 4 * layers)
                    - Fraction(layers * (layers - 1), 4) * Fraction(total, layers) ** 2
                    + Fraction(pairs, 2)
                )
                return value, a * (layers - a) + 1
    raise ValueError("no set of layers fulfils the conditions")


def tanh(units: int) -> tuple[Fraction, int]:
    root = math.isqrt(units)
    return Fraction(units + root**2 + root, 4 * root + 2), 2 if root**2 == units else 1


if __name__ == "__main__":
    print("x⁴+x²y²+y⁶", *newton((4, 0), (2, 2), (0, 6)))
    print("x²y²", *newton((2, 2)))
    print("x⁴+x²y⁶", *newton((4, 0), (2, 6)))
    print("x²y²+z²", *newton((2, 2, 0), (0, 0, 2)))
    print("x²+xy+y²", *newton((2, 0), (1, 1), (0, 2)))
    print("ideal x1x2, x1x3, x2x3", *ideal((1, 1, 0), (1, 0, 1), (0, 1, 1)))
    for widths, rank in (((3, 4, 1), 1), ((2, 2, 2), 0), ((3, 3, 3), 0), ((2,) * 5, 0), ((10,) * 4, 5), ((5, 3, 4), 1)):
        print("deep linear", widths, rank, *deep_linear(widths, rank))
    print("tanh, 1 and 2 units", *tanh(1), *tanh(2))
