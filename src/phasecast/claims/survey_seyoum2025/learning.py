"""What the survey states about errors of learning, and what exact posteriors say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.claims.seeds import check_generator
from phasecast.claims.verdicts import all_agree, finding, shown
from phasecast.core.claim import Finding
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Prediction
from phasecast.core.statistics import mean_of
from phasecast.posterior.exact_learning import (
    FAMILIES,
    HALF_WIDTH,
    NODES,
    fluctuations,
    learning_coefficient,
    learning_errors,
    waic_gap_exponent,
)
from phasecast.posterior.scores.criteria import log_sum

SIZES = (50, 200, 800)  # factors of four, so that powers of n that differ by ½ are told apart


@dataclass(frozen=True)
class LearningPolicy(Policy):
    """How near to its limit a law of learning must be at finite n."""

    remainder: float = rule(3.0, "over n, the systematic width; the laws hold to O(1/n), the constant is chosen")
    rate_errors: float = rule(4.0, "errors of a power of n; chosen: looser than 3, since finite n biases the power")
    smaller_than: float = rule(-1.8, "power of n of what an expansion to n^(−3/2) leaves: −2, with 0.2 for finite n")
    power_within: float = rule(0.3, "of a power of n; less than half of the ½ between neighbouring orders plus noise")
    variance_within: float = rule(0.05, "of the ratio of variances from 1 at n = 800; chosen, not derived")
    correlation_below: float = rule(-0.99, "of errors whose sum does not fluctuate to leading order; chosen")
    same_variance: float = rule(1.5, "ratio up to which variances would be called asymptotically the same; chosen")


POLICY = LearningPolicy()


def _check_eq_2() -> Finding:
    """n E Bg and n E Bt by λ and ν, with Bayes errors and with the Gibbs error that is printed as Bt."""
    n, datasets = 600, 200
    width = POLICY.remainder / n
    ours, printed, sums = [], [], []
    for power in (1, 2):
        lam = float(learning_coefficient(power))
        for beta in (1.0, 2.0):
            errors = learning_errors(power, n, datasets, beta)
            nu = beta / 2 * errors.variance
            middle = (lam - nu) / beta
            exact = Prediction(0.0, source="Seyoum 2025, eq. (2)", systematic=width)
            for name, off, rows in (
                ("Bg", n * errors.generalisation - middle - nu, ours),
                ("Bt", n * errors.training - middle + nu, ours),
                ("Gibbs Bt", n * errors.gibbs_training - middle + nu, printed),
            ):
                rows.append(Comparison(exact, mean_of(off, "datasets"), name=f"{name} off, λ = {lam:g}, β = {beta:g}"))
            both = mean_of(n * (errors.generalisation + errors.training) + errors.variance, "datasets")
            sums.append(Comparison(Prediction(2 * lam / beta, systematic=width), both, name="n(Bg + Bt) + V"))
    right = all_agree(ours) and all_agree(sums)
    words = f"with Bayes losses: {shown(sums)}; with the printed Gibbs loss: {shown(printed[:1])}"
    return finding(words, (*ours, *sums, printed[0]), printed=all_agree(printed), corrected=right)


def _check_rates() -> Finding:
    rows = []
    for beta, power_of_n in ((2.0, -1.5), (0.5, -1.5), (1.0, -2.0)):
        exponent = waic_gap_exponent(2, beta, sizes=(100, 400, 1600), datasets=60)
        rows.append(
            Comparison(
                Prediction(power_of_n), exponent, tolerance=POLICY.rate_errors, name=f"power of n at β = {beta:g}"
            )
        )
    regular = waic_gap_exponent(1, 1.0, sizes=(100, 400), datasets=30, family="normal")
    words = f"{shown(rows)}; a regular model with a symmetric score has {float(regular.estimate):.2f} at β = 1"
    return finding(words, rows, printed=all_agree(rows))


def expansion(power: int, n: int, beta: float, seed: int = 0, family: str = "exponential") -> dict[str, float]:
    """CvL, WAIC, and the cumulants Y₁…Y₃ of log p over the posterior, averaged over a sample, for one dataset."""
    kind = FAMILIES[family]
    means = HALF_WIDTH / math.sqrt(n) * np.linspace(-1, 1, NODES) ** power
    ratio = kind.ratio(kind.draw(check_generator(seed, n), n), means)
    tempered = beta * ratio.sum(axis=0)
    posterior = np.exp(tempered - log_sum(tempered))
    mean = ratio @ posterior
    away = ratio - mean[:, None]
    second, third = (np.mean(away**k @ posterior) for k in (2, 3))
    bayes = -np.mean(np.log(np.exp(ratio) @ posterior))
    left_out = np.log(np.exp((1 - beta) * ratio) @ posterior) - np.log(np.exp(-beta * ratio) @ posterior)
    return {
        "CvL": float(-np.mean(left_out)),
        "WAIC": float(bayes + beta * second),
        "Y1": float(np.mean(mean)),
        "Y2": float(second),
        "Y3": float(third),
    }


def _fall(values: list[float], sizes: tuple[int, ...]) -> float:
    """The power of n of a typical size."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _check_cumulants() -> Finding:
    beta, datasets = 2.0, 30
    typical: dict[str, list[float]] = {name: [] for name in ("ours", "printed", "Y1", "Y2", "Y3")}
    for n in SIZES:
        rows = [expansion(2, n, beta, seed) for seed in range(datasets)]
        left: dict[str, list[float]] = {name: [] for name in typical}
        for row in rows:
            for name, sign in (("ours", 1), ("printed", -1)):  # cumulants of f = −log p flip odd signs
                y1, y2, y3 = sign * row["Y1"], row["Y2"], sign * row["Y3"]
                waic = row["WAIC"] - (-y1 + (2 * beta - 1) / 2 * y2 - y3 / 6)
                cv = row["CvL"] - (-y1 + (2 * beta - 1) / 2 * y2 - (3 * beta**2 - 3 * beta + 1) / 6 * y3)
                left[name].append(abs(waic) + abs(cv))
            for name in ("Y1", "Y2", "Y3"):
                left[name].append(abs(row[name]))
        for name, values in left.items():
            typical[name].append(float(np.mean(values)))
    falls = {name: _fall(values, SIZES) for name, values in typical.items()}
    small = falls["ours"] < POLICY.smaller_than
    orders = all(abs(falls[f"Y{k}"] + k / 2) < POLICY.power_within for k in (2, 3))
    as_printed = falls["printed"] < POLICY.smaller_than and abs(falls["Y2"]) < POLICY.power_within
    words = (
        f"what the expansion leaves falls like n^{falls['ours']:.2f} with cumulants of log p, n^{falls['printed']:.2f} "
        f"with those of −log p; Y₂ ~ n^{falls['Y2']:.2f}, Y₃ ~ n^{falls['Y3']:.2f}"
    )
    return finding(words, printed=as_printed, corrected=small and orders)


def _check_mirror() -> Finding:
    n, datasets = 800, 100
    rows, losses = [], []
    for power in (1, 2):
        ratio, correlation = fluctuations(power, n, datasets)
        errors = learning_errors(power, n, datasets)
        entropy_spread = 0.5 / n  # Var of −log N(x; 0, 1) is 1/2
        losses.append((np.var(errors.cross_validation) + entropy_spread) / np.var(errors.generalisation))
        rows.append((ratio, correlation))
    right = all(
        abs(ratio - 1) < POLICY.variance_within and correlation < POLICY.correlation_below
        for ratio, correlation in rows
    )
    words = "; ".join(
        f"λ = {learning_coefficient(power)}: Var Cv / Var Bg = {ratio:.3f}, correlation {correlation:.4f}, with the "
        f"loss CvL {loss:.0f}"
        for power, (ratio, correlation), loss in zip((1, 2), rows, losses, strict=True)
    )
    return finding(words, printed=right and max(losses) < POLICY.same_variance, corrected=right)


CHECKS = {
    "survey/eq-2": _check_eq_2,
    "survey/eq-1-rates": _check_rates,
    "survey/cumulants": _check_cumulants,
    "survey/mirror": _check_mirror,
}
"""The check of each claim; ``claims.toml`` has the statements."""
