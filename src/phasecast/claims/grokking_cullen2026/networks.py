"""What Cullen et al. and the survey say about λ of networks, and what exact ranks of Jacobians say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from phasecast.coefficients.exact.jacobian_rank import feature_span, jacobian_rank
from phasecast.coefficients.exact.linear_networks import deep_linear
from phasecast.coefficients.exact.quadratic_networks import generic_rank, modular_addition, quadratic
from phasecast.core.claim import ClaimVerdict, Finding
from phasecast.models.modular import modular_table, quadratic_network


def _integers(seed: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 30, shape) * rng.choice([-1, 1], shape)


def _exact_rank(d: int, p: int, k: int) -> int:
    """The exact Jacobian rank of a quadratic network at random integer weights, on inputs in general position."""
    weights = {"W": _integers(1, d, k), "V": _integers(2, p, k)}
    return jacobian_rank(quadratic_network, weights, _integers(3, d * (d + 1) // 2 + 6, d), exact=True).rank


def _judge(found: Iterable[tuple[str, int, int]], corrected: Callable[[], bool] | None = None) -> Finding:
    """Compare printed numbers with exact ones, (case, printed, exact); and, if they differ, our version of them."""
    rows = list(found)
    words = "; ".join(f"{case}: printed {printed}, exact {exact}" for case, printed, exact in rows)
    if all(printed == exact for _, printed, exact in rows):
        return Finding(ClaimVerdict.HOLDS, words)
    mended = corrected is not None and corrected()
    return Finding(ClaimVerdict.HOLDS_CORRECTED if mended else ClaimVerdict.DOES_NOT_HOLD, words)


def _check_4_1() -> Finding:
    cases = [(2, 1, 3), (2, 2, 4), (3, 2, 6), (3, 3, 8)]
    return _judge((f"d, p, K = {d}, {p}, {k}", p * d * (d + 1) // 2, _exact_rank(d, p, k)) for d, p, k in cases)


def _check_4_2() -> Finding:
    cases = [(2, 1, 2), (4, 2, 3), (4, 2, 5), (4, 3, 5)]
    return _judge(
        ((f"d, p, K = {d}, {p}, {k}", k * (d + p - 1), _exact_rank(d, p, k)) for d, p, k in cases),
        lambda: all(generic_rank(d, p, k) == _exact_rank(d, p, k) for d, p, k in cases),
    )


def _modular_rank(p: int, k: int) -> int:
    weights = {"W": _integers(1, 2 * p, k), "V": _integers(2, p, k)}
    return jacobian_rank(quadratic_network, weights, modular_table(p)[0], exact=True, centred=True).rank


def _check_5_5() -> Finding:
    cases = [(3, 2), (5, 3), (5, 8)]
    return _judge(
        ((f"p, K = {p}, {k}", k * (3 * p - 1), _modular_rank(p, k)) for p, k in cases),
        lambda: all(2 * _value(modular_addition(p, k)) == _modular_rank(p, k) for p, k in cases),
    )


def _check_corollary_5_3() -> Finding:
    rows = []
    for p in (3, 5):
        span = feature_span(modular_table(p)[0], np.square)
        rows.append((p, 2 * p - 1 <= span <= p * (2 * p - 1), span == p * p, span))
    words = "; ".join(
        f"p = {p}: the features span {span}, between {2 * p - 1} and {p * (2 * p - 1)}" for p, _, _, span in rows
    )
    holds = all(inside and exact for _, inside, exact, _ in rows)
    return Finding(ClaimVerdict.HOLDS if holds else ClaimVerdict.DOES_NOT_HOLD, words + "; it is p² each time")


def _check_biases() -> Finding:
    def network(w, x):
        return (x @ w["W"] + w["b"]) ** 2 @ w["V"].T + w["c"]

    rows = []
    for d, k in ((2, 1), (3, 2), (4, 2), (2, 2), (3, 4)):
        weights = {"W": _integers(1, d, k), "V": _integers(2, 1, k), "b": _integers(4, k), "c": _integers(5, 1)}
        rank = jacobian_rank(network, weights, _integers(3, (d + 1) * (d + 2) // 2 + 6, d), exact=True).rank
        rows.append((f"d, K = {d}, {k}", int(2 * _value(quadratic(d, 1, k, bias=True))), rank))
    return _judge(rows)


def _printed_definition_4(widths: tuple[int, ...], rank: int) -> Fraction:
    """The survey's formula as printed, with 4ℓ under the middle term, for three layers where ℓ = 2."""
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
    corrected = printed != _value(exact) and _value(exact) == Fraction(3, 2)
    verdict = ClaimVerdict.HOLDS_CORRECTED if corrected else ClaimVerdict.NOT_REPRODUCED
    return Finding(verdict, f"2-2-2 at rank 0: printed {printed}, exact {exact.value}")


def _check_depth_two() -> Finding:
    """At factors that are generic with product of rank one the Jacobian has rank d, whatever the width."""
    rows = []
    for d, m in ((3, 1), (3, 4), (5, 2)):
        weights = {"A": _integers(1, m, d), "B": _integers(2, 1, m)}
        rank = jacobian_rank(lambda w, x: x @ w["A"].T @ w["B"].T, weights, np.eye(d), exact=True).rank
        rows.append((f"d, m = {d}, {m}, twice λ", int(2 * (Fraction(d, 2) + Fraction(m - 1, 4))), rank))
    return _judge(rows, lambda: all(2 * _value(deep_linear((d, m, 1), 1)) == d for d in (3, 5) for m in (1, 2, 4)))


def _value(coefficient: object) -> Fraction:
    return Fraction(coefficient.value)  # pyright: ignore[reportAttributeAccessIssue]


CHECKS = {
    "grokking/theorem-4.1": _check_4_1,
    "grokking/theorem-4.2": _check_4_2,
    "grokking/corollary-5.3": _check_corollary_5_3,
    "grokking/theorem-5.5": _check_5_5,
    "grokking/biases": _check_biases,
}
"""The check of each claim; ``claims.toml`` has the statements."""
