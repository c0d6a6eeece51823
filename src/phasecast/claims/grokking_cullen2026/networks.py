"""Do exact ranks of Jacobians confirm what Cullen et al. say about λ of networks?"""

from __future__ import annotations

import functools

import numpy as np

from phasecast.claims.generic_points import generic_integers
from phasecast.claims.verdicts import exact_finding, finding
from phasecast.coefficients.exact.jacobian_rank import feature_span, jacobian_rank
from phasecast.coefficients.exact.quadratic_networks import generic_rank, modular_addition, quadratic
from phasecast.core.claim import Finding
from phasecast.models.modular import modular_table, quadratic_network

_integers = functools.partial(generic_integers, largest=29)


def _exact_rank(d: int, p: int, k: int) -> int:
    """The exact Jacobian rank of a quadratic network at random integer weights, on inputs in general position."""
    weights = {"W": _integers(1, d, k), "V": _integers(2, p, k)}
    return jacobian_rank(quadratic_network, weights, _integers(3, d * (d + 1) // 2 + 6, d), exact=True).rank


def _check_4_1() -> Finding:
    cases = [(2, 1, 3), (2, 2, 4), (3, 2, 6), (3, 3, 8)]
    return exact_finding((f"d, p, K = {d}, {p}, {k}", p * d * (d + 1) // 2, _exact_rank(d, p, k)) for d, p, k in cases)


def _check_4_2() -> Finding:
    cases = [(2, 1, 2), (4, 2, 3), (4, 2, 5), (4, 3, 5)]
    return exact_finding(
        ((f"d, p, K = {d}, {p}, {k}", k * (d + p - 1), _exact_rank(d, p, k)) for d, p, k in cases),
        corrected=all(generic_rank(d, p, k) == _exact_rank(d, p, k) for d, p, k in cases),
    )


def _modular_rank(p: int, k: int) -> int:
    weights = {"W": _integers(1, 2 * p, k), "V": _integers(2, p, k)}
    return jacobian_rank(quadratic_network, weights, modular_table(p)[0], exact=True, centred=True).rank


def _check_5_5() -> Finding:
    cases = [(3, 2), (5, 3), (5, 8)]
    return exact_finding(
        ((f"p, K = {p}, {k}", k * (3 * p - 1), _modular_rank(p, k)) for p, k in cases),
        corrected=all(2 * modular_addition(p, k).fraction == _modular_rank(p, k) for p, k in cases),
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
    return finding(words + "; it is p² each time", printed=holds)


def _check_biases() -> Finding:
    def network(w, x):
        return (x @ w["W"] + w["b"]) ** 2 @ w["V"].T + w["c"]

    rows = []
    for d, k in ((2, 1), (3, 2), (4, 2), (2, 2), (3, 4)):
        weights = {"W": _integers(1, d, k), "V": _integers(2, 1, k), "b": _integers(4, k), "c": _integers(5, 1)}
        rank = jacobian_rank(network, weights, _integers(3, (d + 1) * (d + 2) // 2 + 6, d), exact=True).rank
        rows.append((f"d, K = {d}, {k}", int(2 * quadratic(d, 1, k, bias=True).fraction), rank))
    return exact_finding(rows)


CHECKS = {
    "grokking/theorem-4.1": _check_4_1,
    "grokking/theorem-4.2": _check_4_2,
    "grokking/corollary-5.3": _check_corollary_5_3,
    "grokking/theorem-5.5": _check_5_5,
    "grokking/biases": _check_biases,
}
"""The check of each claim; ``claims.toml`` has the statements."""
