"""Does λ of small landscapes behave as Cullen et al. say? Volumes and integrals give the answer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from phasecast.claims.verdicts import all_agree, finding
from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.monomials import of_landscape
from phasecast.coefficients.small_problems.neighbourhood import RADIUS
from phasecast.coefficients.small_problems.temperature_quadrature import NBETAS, NODES, scaled_losses
from phasecast.core.answers import Answers
from phasecast.core.claim import Finding, RecipeCheck
from phasecast.core.results import Comparison, Measurement, Prediction, Verdict
from phasecast.models.landscapes import LANDSCAPES, Landscape

FIGURE_5 = {"x²+y²": Fraction(1), "x⁴+y⁴": Fraction(1, 2), "x²y⁴ at (1,0)": Fraction(1, 4)}


def _judge_figure_5(answers: Answers) -> Finding:
    """Compare what was measured with what is printed, not with what we predict."""
    comparisons = [
        Comparison(
            Coefficient(value, source="Cullen et al. 2026, Figure 5"),
            answers.measurement("coefficient", landscape=name, method=method),
            name=f"λ of {name}, by {method}",
        )
        for name, value in FIGURE_5.items()
        for method in ("volume", "quadrature")
    ]
    agree = sum(comparison.verdict is Verdict.AGREES for comparison in comparisons)
    sentence = f"{agree} of {len(comparisons)} measurements agree"
    return finding(sentence, comparisons, printed=all_agree(comparisons))


def _check_multiplicity_correction() -> Finding:
    landscape = LANDSCAPES["x²y²"]
    values, errors = scaled_losses(landscape.problem(), radius=RADIUS, nbetas=NBETAS, nodes=NODES)
    predicted = of_landscape(landscape)
    comparisons = tuple(
        Comparison(
            predicted.at(nbeta=float(nbeta)),
            Measurement(float(value), float(error), error_kind="quadrature"),
            name=f"nβ E[L] of x²y² at nβ = {nbeta:.0e}",
        )
        for nbeta, value, error in zip(NBETAS, values, errors, strict=True)
    )
    ratio = (float(predicted.value) - values) * np.log(NBETAS)  # → m − 1 = 1
    approaches = bool(np.all(np.diff(ratio) < 0) and abs(ratio[-1] - 1) < 1 / np.log(NBETAS[-1]))
    return finding(
        f"(λ − nβ E[L])·log nβ falls from {ratio[0]:.3f} to {ratio[-1]:.3f}, towards m − 1 = 1",
        comparisons,
        printed=approaches,
    )


def _check_intercept() -> Finding:
    nbetas = np.logspace(2, 6, 5)

    def errors_of(landscape: Landscape) -> tuple[float, float]:
        values, _ = scaled_losses(landscape.problem(), radius=RADIUS, nbetas=nbetas, nodes=NODES)
        exact = float(of_landscape(landscape).value)
        return values[-1] - exact, np.polyfit(1 / np.log(nbetas), values, 1)[1] - exact

    (last_two, intercept_two), (last_one, intercept_one) = (errors_of(LANDSCAPES[name]) for name in ("x²y²", "x²y⁴"))
    helps_two, helps_one = abs(intercept_two) < abs(last_two), abs(intercept_one) < abs(last_one)
    return finding(
        f"errors of the value at the largest nβ and of the intercept: x²y² {last_two:+.4f}, {intercept_two:+.4f}; "
        f"x²y⁴ {last_one:+.4f}, {intercept_one:+.4f}",
        printed=helps_two and helps_one,
        corrected=helps_two,
    )


def _check_entropy_sign() -> Finding:
    x, width = np.linspace(-12, 12, 24_001, retstep=True)
    q = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    comparisons = []
    for mean in (0.0, 1.0):
        log_p = -((x - mean) ** 2) / 2 - np.log(2 * np.pi) / 2
        divergence, loss = np.sum(q * (np.log(q) - log_p)) * width, -np.sum(q * log_p) * width
        entropy = -np.sum(q * np.log(q)) * width
        exact = Measurement(float(divergence), 1e-9, error_kind="quadrature")
        comparisons += [
            Comparison(Prediction(float(loss + entropy), source="as printed"), exact, name=f"K = L + H, mean {mean}"),
            Comparison(Prediction(float(loss - entropy), source="corrected"), exact, name=f"K = L − H, mean {mean}"),
        ]
    verdicts = [comparison.verdict for comparison in comparisons]
    return finding(
        "K = L − H(q) for two unit normals; L + H(q) is off by twice the entropy",
        comparisons,
        printed=verdicts[::2] == [Verdict.AGREES] * 2,
        corrected=verdicts == [Verdict.DIFFERS, Verdict.AGREES] * 2,
    )


CHECKS = {
    "grokking/figure-5": RecipeCheck("toy-landscapes", {"landscapes": tuple(FIGURE_5)}, _judge_figure_5),
    "grokking/eq-10": _check_multiplicity_correction,
    "grokking/intercept": _check_intercept,
    "grokking/kl-entropy": _check_entropy_sign,
}
"""The check of each claim; ``claims.toml`` has the statements."""
