"""Claims of "Deep learning is singular, and that's good" about λ and its estimate, and what we found."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from phasecast.core.claim import ClaimVerdict, Finding, RecipeCheck
from phasecast.core.results import Comparison, Result
from phasecast.posterior.exact_evidence import exact
from phasecast.posterior.rlct import around
from phasecast.posterior.zoo.monomial import monomial
from phasecast.posterior.zoo.two_layer import polygon_network

LAMBDAS = {1: 1 / 2, 2: 1 / 4, 3: 1 / 6}
"""λ of y = wᵏ + N(0, 1) at a true y of zero, by k."""
DATASETS = 25
WIDE = np.linspace(-9, 9, 1201)


def _finding(holds: bool, words: str) -> Finding:
    return Finding(ClaimVerdict.HOLDS if holds else ClaimVerdict.NOT_REPRODUCED, words)


def _over_means(n: int, value: Callable[[float], float]) -> float:
    """The average of ``value`` over the mean of n standard normal outputs, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return float(sum(w * value(z / np.sqrt(n)) for z, w in zip(nodes, weights, strict=True)) / weights.sum())


def bayes_error(power: int, n: int, mean: float) -> float:
    """KL from N(0, 1) to the Bayes predictive density of y = wᵏ + N(0, 1), w ~ N(0, 1), given the mean of n outputs."""
    w = np.sinh(np.linspace(-12, 12, 4001)) * 1e-3
    w = w[np.abs(w) < 8]
    log_mass = -(w**2) / 2 - n / 2 * (w**power - mean) ** 2 + np.log(np.gradient(w))
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    kept = mass > 1e-16 * mass.max()
    truth = np.exp(-(WIDE**2) / 2) / np.sqrt(2 * np.pi)
    ratio = np.exp(np.outer(WIDE, w[kept] ** power) - w[kept] ** (2 * power) / 2) @ mass[kept]  # p(y) over N(y; 0, 1)
    return float(-np.sum(truth * np.log(ratio)) * (WIDE[1] - WIDE[0]))


def _check_eq_9() -> Finding:
    sizes = (10**3, 10**5)
    found = {k: [n * _over_means(n, lambda mean, k=k, n=n: bayes_error(k, n, mean)) for n in sizes] for k in LAMBDAS}
    words = "; ".join(f"w^{k}: {few:.4f}, {many:.4f}, λ = {LAMBDAS[k]:.4f}" for k, (few, many) in found.items())
    near = [
        abs(many / LAMBDAS[k] - 1) < 0.03 and abs(many - LAMBDAS[k]) < abs(few - LAMBDAS[k])
        for k, (few, many) in found.items()
    ]
    return _finding(all(near), f"nG at n = 10³ and 10⁵, exact: {words}")


def _check_eq_10() -> Finding:
    n = 10_000
    grid = np.linspace(-1, 1, 200_001)

    def point_error(power: int, prior: float) -> Callable[[float], float]:
        def at(mean: float) -> float:
            best = grid[np.argmin(n / 2 * (grid**power - mean) ** 2 + prior * grid**2 / 2)]
            return best ** (2 * power) / 2

        return at

    mle = {k: n * _over_means(n, point_error(k, 0.0)) for k in LAMBDAS}
    maximum = {k: n * _over_means(n, point_error(k, 1.0)) for k in (1, 3)}
    words = f"nG of the MLE of w, w², w³: {mle[1]:.3f}, {mle[2]:.3f}, {mle[3]:.3f} (λ = ½, ¼, 1/6); "
    words += f"of the MAP of w, w³: {maximum[1]:.3f}, {maximum[3]:.3f}"
    regular = abs(mle[1] - 0.5) < 0.01 and abs(maximum[1] - 0.5) < 0.01
    never_less = all(mle[k] > 0.97 * LAMBDAS[k] for k in LAMBDAS)
    return _finding(regular and never_less and mle[3] > 0.45 and maximum[3] > 0.25, words)


def _slope(power: int, n: int) -> tuple[float, float]:
    """The slope of the exact E[nL] over 1/β near 1/log n, mean over data sets, and its standard error."""
    betas, slopes = around(n), []
    for seed in range(DATASETS):
        outputs = np.random.default_rng([18, n, seed]).normal(size=n)
        slopes.append(np.polyfit(1 / betas, exact(monomial((power,)), outputs, betas).energy, 1)[0])
    return float(np.mean(slopes)), float(np.std(slopes, ddof=1) / np.sqrt(DATASETS))


def _check_eq_18() -> Finding:
    words, near = [], True
    for k, value in LAMBDAS.items():
        (few, few_error), (many, many_error) = _slope(k, 10**3), _slope(k, 10**5)
        closer = abs(many - value) < abs(few - value) + 3 * np.hypot(few_error, many_error)
        near &= bool(closer and abs(many - value) < 3 * many_error + 0.03 * value)
        words.append(f"w^{k}: {few:.3f} ± {few_error:.3f}, {many:.3f} ± {many_error:.3f}, λ = {value:.3f}")
    return _finding(near, f"slope of the exact E[nL] over 1/β at n = 10³ and 10⁵: {'; '.join(words)}")


def _check_eq_20() -> Finding:
    """y = μ + N(0, 1) in d dimensions at once: an estimate off by Δ has G = |Δ|²/2 exactly."""
    rng = np.random.default_rng(20)
    n, held_out, d = 1000, 10_000, 11
    ratios = []
    for _ in range(300):
        off = rng.normal(size=d) / np.sqrt(n)
        noise = rng.normal(size=(held_out, d))
        ratios.append(np.mean(off @ off / 2 - noise @ off) / (off @ off / 2))
    mean, spread = float(np.mean(ratios)), float(np.std(ratios, ddof=1))
    predicted = float(np.sqrt(2 / (held_out * d / (2 * n))))
    words = f"(20) over G: mean {mean:.3f}, standard deviation {spread:.3f}; √(2/(n′G)) = {predicted:.3f}"
    right = abs(mean - 1) < 4 * spread / np.sqrt(300) and abs(spread / predicted - 1) < 0.15
    negligible = spread < 0.05
    return Finding(
        ClaimVerdict.HOLDS_CORRECTED
        if right and not negligible
        else ClaimVerdict.HOLDS
        if right
        else ClaimVerdict.OPEN,
        words,
    )


def _check_figure_2() -> Finding:
    x = np.stack(np.meshgrid(*[np.linspace(-1, 1, 81)] * 2), -1).reshape(-1, 2)
    ranks, crossing, spreads = [], True, []
    for m in (3, 4, 5):
        truth = polygon_network(m, m)
        u = x @ truth["w"].T + truth["b"]
        on = (u > 0).astype(float)
        crossing &= bool(np.all((on.min(axis=0) == 0) & (on.max(axis=0) == 1)))
        jacobian = np.concatenate([np.maximum(u, 0), on, on * x[:, :1], on * x[:, 1:], np.ones((len(x), 1))], axis=1)
        ranks.append(int(np.linalg.matrix_rank(jacobian)))
        spreads.append(float(np.maximum(u, 0).sum(axis=1).var()))
    words = f"every hinge crosses the square; variance of f {', '.join(f'{s:.3f}' for s in spreads)}; ranks {ranks}"
    return _finding(crossing and ranks == [3 * m + 1 for m in (3, 4, 5)] and spreads == sorted(spreads), words)


def _judge_table_2(answers: Mapping[str, Result]) -> Finding:
    (answer,) = answers.values()
    assert isinstance(answer, Comparison)
    measured = answer.measurement
    value, error = float(np.asarray(measured.estimate)), float(np.asarray(measured.error))
    words = f"without noise in the labels and at nβ ≥ 10⁵, λ̂ = {value:.2f} ± {error:.2f} for m = 3; printed 0.526"
    against = str(answer.verdict) == "agrees" and value - 5 * error > 1
    return Finding(ClaimVerdict.DOES_NOT_HOLD if against else ClaimVerdict.OPEN, words, (answer,))


def _judge_protocol(answers: Mapping[str, Result]) -> Finding:
    compared = tuple(answer for answer in answers.values() if isinstance(answer, Comparison))
    agree = all(str(answer.verdict) == "agrees" for answer in compared)
    warned = all(any("constant submodel" in r for r in answer.measurement.reasons) for answer in compared)
    values = ", ".join(f"{float(np.asarray(answer.measurement.estimate)):.3f}" for answer in compared)
    return Finding(
        ClaimVerdict.HOLDS if agree and warned else ClaimVerdict.NOT_REPRODUCED,
        f"slopes {values}, each of a posterior that {'sits' if warned else 'does not sit'} in the constant submodel",
        compared,
    )


CHECKS = {
    "singular/table-2": RecipeCheck(
        "rlct-relu",
        {"true_units": (3,), "labels": "clean", "datasets": 2, "draws": 600, "warmup": 600},
        _judge_table_2,
    ),
    "singular/table-2-estimates": RecipeCheck("rlct-relu", {"datasets": 6}, _judge_protocol),
    "singular/figure-2": _check_figure_2,
    "singular/eq-9": _check_eq_9,
    "singular/eq-10": _check_eq_10,
    "singular/eq-18": _check_eq_18,
    "singular/eq-20": _check_eq_20,
}
"""The check of each claim; ``claims.toml`` has the statements."""
