"""What does a network have to learn to add modulo p? The table, the quadratic network, and its exact solutions.

f(x) = V (Wᵀx)² with x = (e_a, e_b); W has shape (2p, K), V has shape (p, K) (Cullen et al. 2026, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.types import Array


def modular_table(p: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (p², 2p) and targets (p², p) of all pairs (a, b), in the order a·p + b."""
    a, b = np.divmod(np.arange(p * p), p)
    one_hot = np.eye(p)
    return np.concatenate([one_hot[a], one_hot[b]], axis=1), one_hot[(a + b) % p]


def quadratic_network(params: Mapping[str, Array], inputs: Array) -> Array:
    """Outputs (n, p) of the network with weights ``W`` (d, K) and ``V`` (p, K) on inputs (n, d)."""
    return (inputs @ params["W"]) ** 2 @ params["V"].T


def fourier_solution(p: int, phases: int) -> dict[str, np.ndarray]:
    """Weights that solve the task, with 4 or 6 units for each of the (p−1)/2 frequencies.

    Every unit is :math:`(\\cos(A+\\varphi) + \\cos(B+\\psi))^2` read out by :math:`\\cos(C+\\varphi+\\psi)`, with
    A = ωa, B = ωb, C = ωc and ω = 2πk/p. One term of the product of the three cosines, cos(A+B−C), does not depend
    on the phases; the sum over k of 2 cos(A+B−C) is p−1 where c = a+b and −1 elsewhere.

    - 4 units, (φ, ψ) = (0, 0), (−π/2, π/2), (π/4, 5π/4), (−π/4, −π/4): the other terms do not depend on the
      example, so the solution is exact under a centred loss;
    - 6 units, φ = 2πj/3 and ψ = −πj/3: the other terms vanish; the outputs are the targets minus 1/p.
    """
    if p < 3 or p % 2 == 0:
        raise BadInput(f"p must be an odd prime, got {p}", "use an odd prime")
    if phases == 4:
        pairs = [(0.0, 0.0), (-np.pi / 2, np.pi / 2), (np.pi / 4, 5 * np.pi / 4), (-np.pi / 4, -np.pi / 4)]
    elif phases == 6:
        pairs = [(2 * np.pi * j / 3, -np.pi * j / 3) for j in range(6)]
    else:
        raise BadInput(f"phases must be 4 or 6, got {phases}", "use 4 (centred loss) or 6")
    angle = 2 * np.pi * np.arange(p) / p
    units = [(k * angle, first, second) for k in range(1, (p + 1) // 2) for first, second in pairs]
    inner = np.array([np.concatenate([np.cos(t + first), np.cos(t + second)]) for t, first, second in units])
    outer = np.array([np.cos(t + first + second) for t, first, second in units]) * 4 / (phases * p)
    return {"W": inner.T, "V": outer.T}
