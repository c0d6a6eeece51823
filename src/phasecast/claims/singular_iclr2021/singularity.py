"""What "Deep learning is singular, and that's good" states about singularities, and what we found."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from phasecast.claims.seeds import check_generator
from phasecast.claims.verdicts import finding
from phasecast.core.claim import Finding
from phasecast.core.policy import Policy, rule
from phasecast.posterior.singularity import (
    change_along,
    effective_parameters,
    flat_minimum_entropy,
    relu_network,
    scaling_direction,
    singularity,
)


@dataclass(frozen=True)
class SingularityPolicy(Policy):
    """When two numbers of a check are the same."""

    rounding: float = rule(1e-12, "sums of a few hundred doubles of order one are exact to about this")
    errors: float = rule(4.0, "standard errors; chosen: one false alarm in 16 000, since the checks are run often")


POLICY = SingularityPolicy()


def _network(seed: int, widths: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = check_generator(seed)
    return [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(widths)]


def _check_lemma_a1() -> Finding:
    inputs = check_generator(0).normal(size=(200, 2))
    layers = _network(1, (2, 3, 2, 1))
    units = [(layer, unit) for layer, width in ((0, 3), (1, 2)) for unit in range(width)]
    changes = [change_along(layers, scaling_direction(layers, *unit), inputs) for unit in units]
    point = singularity(relu_network, layers, inputs)
    left = point.parameters - point.fisher_rank.rank
    holds = max(changes) < POLICY.rounding and left >= len(units)
    words = f"{len(units)} directions change f by at most {max(changes):.0e} of their parts; I(w) lacks {left} of "
    return finding(words + f"{point.parameters} directions", printed=holds)


def _check_eq_13() -> Finding:
    """One output, f = wx: I = E[x² (y − f)²], against the printed constant and on and off the truth."""
    x = np.linspace(-1, 1, 21)
    rng = check_generator(0)
    rows = []
    for w in (1.0, 0.5):
        y = x + rng.normal(size=(100_000, 21))
        score = np.mean((y - w * x) ** 2 * x**2, axis=1)
        fisher = singularity(lambda w, x: w * x, np.array(w), x[:, None], truth=x[:, None]).fisher[0, 0]
        error = float(score.std() / np.sqrt(len(score)))
        rows.append((float(score.mean()), error, float(fisher), float(np.mean(x**2))))
    outputs = 1
    constant = 1 / (2 ** ((outputs - 3) / 2) * np.pi ** ((outputs - 2) / 2))
    at_truth, off = rows
    ours = all(abs(mean - fisher) < POLICY.errors * error for mean, error, fisher, _ in rows)
    printed = all(abs(mean - constant * plain) < POLICY.errors * error for mean, error, _, plain in rows)
    words = (
        f"at the truth {at_truth[0]:.4f} ± {at_truth[1]:.4f}, ours {at_truth[2]:.4f}, printed "
        f"{constant * at_truth[3]:.4f}; off it {off[0]:.4f}, ours {off[2]:.4f}, E[JᵀJ] {off[3]:.4f}"
    )
    return finding(words, printed=printed, corrected=ours)


def _check_eq_6() -> Finding:
    """K = Σ c w² in two of three parameters: the right side of (6) is d' = 2λ, not λ."""
    volume = effective_parameters(
        lambda w: w[0] ** 2 + 5 * w[1] ** 2, lambda rng, count: rng.uniform(-1, 1, (count, 3)), multiplicity=1
    )
    value, error = float(volume.estimate), float(volume.error)
    words = f"2 log(V(at)/V(t))/log a → {value:.3f} ± {error:.3f}, where d' = 2 and λ = 1"
    is_lambda, is_twice = (abs(value - limit) < POLICY.errors * error for limit in (1, 2))
    return finding(words, printed=is_lambda, corrected=is_twice)


def _check_eq_7() -> Finding:
    """K = 2u² + 5v² with a third, flat, parameter: the log volume of K < t₀ in a box, by draws."""
    curvatures, tolerance = np.array([2.0, 5.0]), 1e-3
    hessian = np.diag([*(2 * curvatures), 0.0])
    draws = check_generator(0).uniform(-0.05, 0.05, (400_000, 2))
    share = np.mean(draws**2 @ curvatures < tolerance)
    error = np.sqrt((1 - share) / share / len(draws))
    constant = np.log(np.pi)  # the area of the unit disc, which eq. (5) leaves out
    measured = -np.log(share * 0.1**2 / tolerance**1.5) + constant
    ours = flat_minimum_entropy(hessian, tolerance)
    off = abs(ours - measured) / error
    words = f"−log V/t₀^(d/2) is {measured:.4f} ± {error:.4f}, ours {ours:.4f}; over all d directions the sum is −∞"
    return finding(words, printed=False, corrected=off < POLICY.errors)


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
    words = f"the integral is the printed cubic to {off:.0e}; K''' jumps from −2 to −4"
    return finding(words, printed=off < POLICY.rounding)


CHECKS = {
    "singular/lemma-a1": _check_lemma_a1,
    "singular/eq-13": _check_eq_13,
    "singular/eq-6": _check_eq_6,
    "singular/eq-7": _check_eq_7,
    "singular/example-a4": _check_example_a4,
}
"""The check of each claim; ``claims.toml`` has the statements."""
