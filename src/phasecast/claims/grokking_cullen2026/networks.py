"""What Cullen et al. and the survey say about λ of networks, and what exact ranks of Jacobians say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from phasecast.coefficients.exact.jacobian_rank import feature_span, jacobian_rank
from phasecast.coefficients.exact.linear_networks import deep_linear
from phasecast.coefficients.exact.quadratic_networks import generic_rank, modular_addition, quadratic
from phasecast.core.claim import Claim, ClaimVerdict, Finding
from phasecast.models.modular import modular_table, quadratic_network

GROKKING = "Cullen et al. 2026 (arXiv 2603.01192)"
SURVEY = "Seyoum 2025, survey of singular learning theory"


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


QUADRATIC = """
import numpy as np
from phasecast.coefficients import jacobian_rank
from phasecast.models import quadratic_network
rng = np.random.default_rng(0)
d, p, K = 4, 2, 5
weights = {"W": rng.integers(1, 30, (d, K)), "V": rng.integers(1, 30, (p, K))}
rank = jacobian_rank(quadratic_network, weights, rng.integers(-9, 10, (30, d)), exact=True).rank
print(f"rank {rank}, printed K(d+p-1) = {K * (d + p - 1)}")
assert rank == 20
""".strip()

MODULAR = """
import numpy as np
from phasecast.coefficients import jacobian_rank
from phasecast.models import modular_table, quadratic_network
rng = np.random.default_rng(0)
p, K = 5, 3
weights = {"W": rng.integers(1, 30, (2 * p, K)), "V": rng.integers(1, 30, (p, K))}
rank = jacobian_rank(quadratic_network, weights, modular_table(p)[0], exact=True, centred=True).rank
print(f"rank {rank}, printed K(3p-1) = {K * (3 * p - 1)}, ours K(3p-2) = {K * (3 * p - 2)}")
assert rank == K * (3 * p - 2)
""".strip()

DEPTH_TWO = """
import numpy as np
from phasecast.coefficients import jacobian_rank
rng = np.random.default_rng(0)
d, m = 3, 5
weights = {"A": rng.integers(1, 30, (m, d)), "B": rng.integers(1, 30, (1, m))}
rank = jacobian_rank(lambda w, x: x @ w["A"].T @ w["B"].T, weights, np.eye(d), exact=True).rank
print(f"only {d} numbers come out, so twice λ is {rank}; printed {d + (m - 1) / 2}")
assert rank == d
""".strip()

DEFINITION_4 = """
from fractions import Fraction
D, l = [2, 2, 2], 2  # widths 2-2-2, rank 0
M = -(-sum(D) // l)
a = sum(D) - (M - 1) * l
printed = Fraction(M * a + (M - 1) * sum(D), 4 * l) - Fraction(sum(x * x for x in D), 4)
ours = Fraction(M * a + (M - 1) * sum(D) - sum(x * x for x in D), 4)
print(f"printed {printed}, ours {ours}; a loss cannot have a negative λ")
assert printed < 0 < ours
""".strip()

CLAIMS = (
    Claim(
        id="grokking/theorem-4.1",
        source=f"{GROKKING}, Theorem 4.1 (G.5)",
        statement="With K ≥ d(d+1)/2 units whose squares span all forms, λ = p d(d+1)/4.",
        verdict=ClaimVerdict.HOLDS,
        why="The exact Jacobian rank is p d(d+1)/2: V alone reaches every form.",
        check=_check_4_1,
    ),
    Claim(
        id="grokking/theorem-4.2",
        source=f"{GROKKING}, Theorem 4.2 (G.6)",
        statement="With K < d(d+1)/2 and three conditions that are said to be generic, λ = K(d+p−1)/2.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why="The step from (2) to Δv = 0 is invalid: changes of V and W can cancel, and the generic rank is smaller.",
        ours="λ is half the generic rank of phasecast.coefficients.quadratic; K(d+p−1) is only its upper limit.",
        counterexample=QUADRATIC,
        check=_check_4_2,
    ),
    Claim(
        id="grokking/corollary-5.3",
        source=f"{GROKKING}, Corollary 5.3",
        statement="The lazy λ of modular addition is between p min(2p−1, K)/2 and p min(p(2p−1), K)/2.",
        verdict=ClaimVerdict.HOLDS,
        why="The features span exactly p² directions (p²−1 when centred), so λ = p min(p²−c, K)/2, inside the bounds.",
        check=_check_corollary_5_3,
    ),
    Claim(
        id="grokking/theorem-5.5",
        source=f"{GROKKING}, Theorem 5.5, eq. (6)",
        statement="At a feature solution of modular addition λ = K_eff(3p−1)/2.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why="The one-hot pairs have rank 2p−1, so each unit has one more symmetry: (W_a + c, W_b − c).",
        ours="λ = K(3p−2)/2 at a generic point of K live units, at most p(p²−c)/2; a dead unit is not free.",
        counterexample=MODULAR,
        check=_check_5_5,
    ),
    Claim(
        id="grokking/biases",
        source=f"{GROKKING}, Theorems G.1 and G.2, Example G.3",
        statement="With biases, one output: λ = (d+1)(d+2)/4 for K ≥ d, else (K(2d−K+1)/2 + K + 1)/2; 5 for d=4, K=2.",
        verdict=ClaimVerdict.HOLDS,
        why="The exact ranks agree, on inputs where no quadratic vanishes; on a sphere one form does.",
        check=_check_biases,
    ),
    Claim(
        id="survey/definition-4",
        source=f"{SURVEY}, Definition 4",
        statement="The middle term of Aoyagi's λ is (Ma + (M−1)ΣD)/(4ℓ).",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why="With 4ℓ the formula gives −3/4 for two 2 × 2 factors of zero; with 4 it gives 3/2, half the codimension.",
        ours="(Ma + (M−1)ΣD − ΣD²)/4, as in phasecast.coefficients.deep_linear.",
        counterexample=DEFINITION_4,
        check=_check_definition_4,
    ),
    Claim(
        id="survey/depth-two",
        source=f"{SURVEY}, example computation",
        statement="A scalar output through m hidden units from d inputs, rank 1, has λ = d/2 + (m−1)/4.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why="Whatever m is, the network computes d numbers and reaches all of them: it is as regular as regression.",
        ours="λ = d/2 for every m, and d/2 + 1/2 with a free output bias.",
        counterexample=DEPTH_TWO,
        check=_check_depth_two,
    ),
)
