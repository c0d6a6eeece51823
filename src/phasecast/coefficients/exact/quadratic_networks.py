"""What is λ of a two-layer network with squares, f(x) = V (Wᵀx)², at a generic true parameter?

There the map from parameters to the quadratic forms Q_k = Σ_j v_kj w_j w_jᵀ has constant rank, and λ is half that rank.
"""

from __future__ import annotations

from fractions import Fraction

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.bounds import is_prime
from phasecast.core.errors import BadInput, OutsideRegime, whole_number

SOURCE = "Cullen et al. 2026, Theorems 4.1 and 4.2 with the rank corrected (secants of P^(p−1) × P^(d−1) by O(1,2))"
SOURCE_BIASED = "Cullen et al. 2026, Theorems G.1 and G.2"
REGIME = "generic true parameter; inputs on which no quadratic form vanishes"


def quadratic(inputs: int, outputs: int, width: int, bias: bool = False) -> Coefficient:
    """λ of a quadratic network with d inputs, p outputs and K hidden units, half of :func:`generic_rank`.

    With biases :math:`f = V (W^\\top x + b)^2 + c` and one output,

    .. math:: \\lambda = \\tfrac14 (d+1)(d+2) \\;(K \\ge d), \\qquad
              \\lambda = \\tfrac12 \\left[\\tfrac12 K(2d-K+1) + K + 1\\right] \\;(K < d)

    >>> quadratic(4, 2, 3).value, quadratic(4, 2, 5).value, quadratic(4, 1, 2, bias=True).value
    (Fraction(15, 2), Fraction(10, 1), Fraction(5, 1))
    """
    d, p, k = whole_number("inputs", inputs, 1), whole_number("outputs", outputs, 1), whole_number("width", width, 1)
    if not bias:
        rank, source = generic_rank(d, p, k), SOURCE
    elif p == 1:
        forms = (d + 1) * (d + 2) // 2
        rank, source = (forms if k >= d else k * (2 * d - k + 1) // 2 + k + 1), SOURCE_BIASED
    else:
        raise OutsideRegime(f"no form with biases is known for {p} outputs", "use outputs = 1, or no bias")
    return Coefficient(Fraction(rank, 2), REGIME, source, name="quadratic")


def generic_rank(inputs: int, outputs: int, width: int) -> int:
    """The rank of (W, V) ↦ (Q_1, …, Q_p) at a generic point, with D = d(d+1)/2.

    - p = 1: K(2d−K+1)/2 for K ≤ d, else D: symmetric matrices of rank at most K;
    - D−d+1 < K < min(p, D): K(p+D−K): p × D matrices of rank at most K;
    - otherwise min(K(d+p−1), pD), and one less in the defective cases p = 3, d even ≥ 4, K = (3d−2)/2, and
      (p, d, K) = (5, 4, 6).
    """
    d, p, k = inputs, outputs, width
    forms = d * (d + 1) // 2
    if p == 1:
        return k * (2 * d - k + 1) // 2 if k <= d else forms
    if forms - d + 1 < k < min(p, forms):
        return k * (p + forms - k)
    defective = (p == 3 and d % 2 == 0 and d >= 4 and k == (3 * d - 2) // 2) or (p, d, k) == (5, 4, 6)
    return min(k * (d + p - 1), p * forms) - defective


def modular_addition(
    p: int,
    width: int,
    centred: bool = True,
    train: int | None = None,
    regime: str = "feature",
    dead_v: int = 0,
    dead_both: int = 0,
) -> Coefficient:
    """λ of the quadratic network that learns addition modulo a prime p, on the full table or on ``train`` pairs.

    The one-hot inputs have rank 2p−1, so each of the K live units has 3p−2 free directions, and c = 1 for a loss
    centred over the n examples, else 0:

    .. math:: \\lambda = \\tfrac12 \\min\\{K(3p-2),\\; p(n-c)\\} \\quad \\text{(feature and ntk)}, \\qquad
              \\lambda = \\tfrac12\\, p \\min\\{n-c, K\\} \\quad \\text{(lazy: the first layer is frozen)}

    Parameters
    ----------
    width: all hidden units, dead ones included.
    train: number of pairs; defaults to the full table, p². A given subset may have a smaller rank (``jacobian_rank``).
    regime: ``"feature"`` a generic true parameter, ``"lazy"`` only V moves, ``"ntk"`` linearised at a generic start.
    dead_v: units with V = 0 and w ≠ 0; each adds p/2.
    dead_both: units with V = 0 and w = 0; each adds min(p/2, (2p−1)/4).

    >>> modular_addition(7, 10).value, modular_addition(5, 40, regime="lazy").value
    (Fraction(95, 1), Fraction(60, 1))
    """
    if not is_prime(whole_number("p", p, 2)):
        raise BadInput(f"p = {p} is not prime", "use a prime number")
    k, dead_v, dead_both = (
        whole_number(name, value, least)
        for name, value, least in (("width", width, 1), ("dead_v", dead_v, 0), ("dead_both", dead_both, 0))
    )
    pairs = p * p if train is None else whole_number("train", train, 2)
    if pairs > p * p:
        raise BadInput(f"train is {pairs}, but there are only {p * p} pairs", f"use train ≤ {p * p}")
    if regime not in ("feature", "lazy", "ntk"):
        raise BadInput(f"unknown regime '{regime}'", "choose one of: feature, lazy, ntk")
    if dead_v + dead_both > k:
        raise BadInput(f"{dead_v + dead_both} dead units exceed the width {k}", "count dead units in the width")
    if regime != "feature" and dead_v + dead_both:
        raise OutsideRegime(f"dead units have no meaning in the {regime} regime", "use regime='feature'")
    examples = pairs - centred
    cap = Fraction(p * examples, 2)
    table = "full table" if train is None else f"{pairs} pairs in general position"
    where = f"{table}, {'centred' if centred else 'uncentred'} loss"
    if regime == "lazy":
        return Coefficient(
            Fraction(p * min(examples, k), 2),
            regime=f"lazy: V at its minimum, first layer frozen at random; {where}",
            source="Cullen et al. 2026, Theorem 5.2, with l = n − c in Corollary 5.3",
            name="modular-addition",
        )
    live = k - dead_v - dead_both
    value = Fraction(_rank_on_examples(p, live, examples, min(pairs, 2 * p - 1)), 2)
    value += dead_v * Fraction(p, 2) + dead_both * min(Fraction(p, 2), Fraction(2 * p - 1, 4))
    condition = {"feature": "generic true parameter", "ntk": "linearised at a generic start"}[regime]
    return Coefficient(
        min(value, cap),
        regime=f"{condition}; {where}",
        source="Cullen et al. 2026, Theorem 5.5 (feature) and 5.1 (ntk), with 3p−2 for the printed 3p−1",
        name="modular-addition",
    )


def _rank_on_examples(p: int, live: int, examples: int, input_rank: int) -> int:
    """The generic rank of the outputs on the examples as a function of the parameters of the live units."""
    counts = [live * (input_rank + p - 1), p * examples]
    if live <= min(p, examples):
        counts.append(live * (p + examples - live))
    return min(counts)
