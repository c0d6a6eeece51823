"""What "Deep learning is singular, and that's good" states about singularities, and what we found."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from phasecast.claims.singular_iclr2021.rlct import SINGULAR
from phasecast.claims.verdicts import verdict_of
from phasecast.core.claim import Claim, ClaimVerdict, Finding
from phasecast.posterior.singularity import (
    change_along,
    effective_parameters,
    flat_minimum_entropy,
    relu_network,
    scaling_direction,
    singularity,
)


def _network(seed: int, widths: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(widths)]


def _check_lemma_a1() -> Finding:
    inputs = np.random.default_rng(0).normal(size=(200, 2))
    layers = _network(1, (2, 3, 2, 1))
    units = [(layer, unit) for layer, width in ((0, 3), (1, 2)) for unit in range(width)]
    changes = [change_along(layers, scaling_direction(layers, *unit), inputs) for unit in units]
    found = singularity(relu_network, layers, inputs)
    left = found.parameters - found.fisher_rank.rank
    holds = max(changes) < 1e-12 and left >= len(units)
    words = f"{len(units)} directions change f by at most {max(changes):.0e} of their parts; I(w) lacks {left} of "
    return Finding(verdict_of(holds), words + f"{found.parameters} directions")


def _check_eq_13() -> Finding:
    """One output, f = wx: I = E[x² (y − f)²], against the printed constant and on and off the truth."""
    x = np.linspace(-1, 1, 21)
    rng = np.random.default_rng(0)
    rows = []
    for w in (1.0, 0.5):
        y = x + rng.normal(size=(100_000, 21))
        score = np.mean((y - w * x) ** 2 * x**2, axis=1)
        found = singularity(lambda w, x: w * x, np.array(w), x[:, None], truth=x[:, None]).fisher[0, 0]
        rows.append((float(score.mean()), float(score.std() / np.sqrt(len(score))), float(found), float(np.mean(x**2))))
    outputs = 1
    constant = 1 / (2 ** ((outputs - 3) / 2) * np.pi ** ((outputs - 2) / 2))
    at_truth, off = rows
    ours = all(abs(mean - found) < 4 * error for mean, error, found, _ in rows)
    printed = all(abs(mean - constant * plain) < 4 * error for mean, error, _, plain in rows)
    words = (
        f"at the truth {at_truth[0]:.4f} ± {at_truth[1]:.4f}, ours {at_truth[2]:.4f}, printed "
        f"{constant * at_truth[3]:.4f}; off it {off[0]:.4f}, ours {off[2]:.4f}, E[JᵀJ] {off[3]:.4f}"
    )
    return Finding(verdict_of(printed, ours), words)


def _check_eq_6() -> Finding:
    """K = Σ c w² in two of three parameters: the right side of (6) is d' = 2λ, not λ."""
    found = effective_parameters(
        lambda w: w[0] ** 2 + 5 * w[1] ** 2, lambda rng, count: rng.uniform(-1, 1, (count, 3)), multiplicity=1
    )
    value, error = float(np.asarray(found.estimate)), float(np.asarray(found.error))
    words = f"2 log(V(at)/V(t))/log a → {value:.3f} ± {error:.3f}, where d' = 2 and λ = 1"
    return Finding(verdict_of(abs(value - 1) < 4 * error, abs(value - 2) < 4 * error), words)


def _check_eq_7() -> Finding:
    """K = 2u² + 5v² with a third, flat, parameter: the log volume of K < t₀ in a box, by draws."""
    curvatures, tolerance = np.array([2.0, 5.0]), 1e-3
    hessian = np.diag([*(2 * curvatures), 0.0])
    draws = np.random.default_rng(0).uniform(-0.05, 0.05, (400_000, 2))
    share = np.mean(draws**2 @ curvatures < tolerance)
    error = np.sqrt((1 - share) / share / len(draws))
    constant = np.log(np.pi)  # the area of the unit disc, which eq. (5) leaves out
    measured = -np.log(share * 0.1**2 / tolerance**1.5) + constant
    ours = flat_minimum_entropy(hessian, tolerance)
    off = abs(ours - measured) / error
    words = f"−log V/t₀^(d/2) is {measured:.4f} ± {error:.4f}, ours {ours:.4f}; over all d directions the sum is −∞"
    return Finding(verdict_of(False, off < 4), words)


def _check_example_a4() -> Finding:
    b = np.array([0.25, 0.5, 1.0])
    nodes, weights = np.polynomial.legendre.leggauss(8)

    def loss(b: float) -> float:
        cuts = sorted({-1.0, 0.0, b, 1.0})
        total = 0.0
        for low, high in pairwise(cuts):
            x = (low + high) / 2 + (high - low) / 2 * nodes
            total += (high - low) / 2 * weights @ (np.maximum(x - b, 0) - np.maximum(x, 0)) ** 2
        return float(total)

    above = np.array([loss(one) for one in b]) - (b**2 - 2 / 3 * b**3)
    below = np.array([loss(-one) for one in b]) - (b**2 + b**3 / 3)
    off = max(abs(above).max(), abs(below).max())
    return Finding(verdict_of(off < 1e-12), f"the integral is the printed cubic to {off:.0e}; K''' jumps from −2 to −4")


EQ_13 = """
import numpy as np
x = np.linspace(-1, 1, 21)
y = x + np.random.default_rng(0).normal(size=(100_000, 21))  # the truth f = x, one output
score = np.mean((y - x) ** 2 * x**2)  # d/dw log p(y|x, w) of f = wx is (y − f) x
printed = np.mean(x**2) / (2 ** (-1) * np.pi ** (-1 / 2))
print(f"Fisher information {score:.3f}, E[x²] = {np.mean(x**2):.3f}, printed {printed:.3f}")
assert abs(score - np.mean(x**2)) < 0.01 < abs(score - printed)
""".strip()

EQ_6 = """
import numpy as np
w = np.random.default_rng(0).uniform(-1, 1, (10**6, 3))
K = w[:, 0] ** 2 + 5 * w[:, 1] ** 2  # regular in two parameters of three: λ = 1
right = 2 * np.log(np.mean(K < 0.02) / np.mean(K < 0.01)) / np.log(2)
print(f"2 log(V(2t)/V(t))/log 2 = {right:.2f} = 2λ")
assert abs(right - 2) < 0.1
""".strip()

EQ_7 = """
import numpy as np
from phasecast.posterior.singularity import flat_minimum_entropy
hessian = np.diag([4.0, 10.0, 0.0])  # K = 2u² + 5v², and a flat direction
c = np.linalg.eigvalsh(hessian) / 2
with np.errstate(divide="ignore"):
    printed = 0.5 * np.log(1e-3) + 0.5 * np.sum(np.log(c))
print(f"sum over d directions {printed}, over the d' curved ones {flat_minimum_entropy(hessian, 1e-3):.3f}")
assert np.isneginf(printed)
""".strip()

CLAIMS = (
    Claim(
        id="singular/lemma-a1",
        source=f"{SINGULAR}, Lemmas A.1 and A.2",
        statement="Every hidden ReLU unit has a direction along which f does not change, so I(w) is degenerate.",
        verdict=ClaimVerdict.HOLDS,
        why="It generates the scaling of a unit's incoming against its outgoing weights; there may be more directions.",
        check=_check_lemma_a1,
    ),
    Claim(
        id="singular/eq-13",
        source=f"{SINGULAR}, eq. (13)",
        statement="I(w) = 2^(−(M−3)/2) π^(−(M−2)/2) E⟨∂f, ∂f⟩ at every w.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why="The density of y integrates to one, so the constant is 1; off W₀ the misfit adds to the covariance.",
        ours="I(w) = E[JᵀJ] + E[Jᵀ(f−f₀)(f−f₀)ᵀJ]; the second part vanishes on W₀.",
        counterexample=EQ_13,
        check=_check_eq_13,
    ),
    Claim(
        id="singular/eq-6",
        source=f"{SINGULAR}, eq. (6) and the text after it",
        statement="The right side of (6) is equal to λ.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why="V ~ t^λ, and (6) has a factor two in front.",
        ours="It is 2λ, the number of effective parameters d' in the minimally singular case.",
        counterexample=EQ_6,
        check=_check_eq_6,
    ),
    Claim(
        id="singular/eq-7",
        source=f"{SINGULAR}, eq. (7)",
        statement="−log V(t₀)/t₀^(d/2) = (d−d')/2 log t₀ + ½ Σ_{i ≤ d} log c_i.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why="There are d' curvatures; the others are zero and their logarithm is not finite.",
        ours="The same with the sum over the d' curved directions (pc.posterior.flat_minimum_entropy).",
        counterexample=EQ_7,
        check=_check_eq_7,
    ),
    Claim(
        id="singular/example-a4",
        source=f"{SINGULAR}, Example A.4",
        statement="K(b) = ∫ (ReLU(x−b) − ReLU(x))² q is C² and not C³ at b = 0.",
        verdict=ClaimVerdict.HOLDS,
        why="The integral is b²N − 2b³/3 above zero and b²N − b³/3 below.",
        check=_check_example_a4,
    ),
)
