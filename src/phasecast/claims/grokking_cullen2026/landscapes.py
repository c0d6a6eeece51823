"""What the papers say about λ in small landscapes, and what we found."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.monomials import monomial, of_landscape
from phasecast.coefficients.small_problems.neighbourhood import RADIUS
from phasecast.coefficients.small_problems.temperature_quadrature import NBETAS, NODES, ladder
from phasecast.coefficients.small_problems.volume_scaling import volume_scaling
from phasecast.core.claim import ClaimVerdict, Finding, RecipeCheck
from phasecast.core.results import Comparison, Measurement, Prediction, Result, Verdict
from phasecast.models.landscapes import LANDSCAPES, Landscape

FIGURE_5 = {"x²+y²": Fraction(1), "x⁴+y⁴": Fraction(1, 2), "x²y⁴ at (1,0)": Fraction(1, 4)}


def _judge_figure_5(answers: Mapping[str, Result]) -> Finding:
    """Compare what was measured with what is printed, not with what we predict."""
    comparisons = tuple(
        Comparison(Coefficient(value, source="Cullen et al. 2026, Figure 5"), answer.measurement, name=label)
        for name, value in FIGURE_5.items()
        for label, answer in answers.items()
        if label.startswith(f"λ of {name},") and isinstance(answer, Comparison)
    )
    agree = sum(comparison.verdict is Verdict.AGREES for comparison in comparisons)
    holds = agree == len(comparisons) == 2 * len(FIGURE_5)
    verdict = ClaimVerdict.HOLDS if holds else ClaimVerdict.DOES_NOT_HOLD
    return Finding(verdict, f"{agree} of {len(comparisons)} measurements agree", comparisons)


def _check_min_not_max() -> Finding:
    measured = volume_scaling(LANDSCAPES["x²y⁴"].problem())
    smallest, largest = monomial([2, 4]), monomial([2])
    with_min = Comparison(smallest, measured, name="λ of x²y⁴ against the minimum")
    with_max = Comparison(
        Coefficient(largest.value, source="Seyoum 2025, as printed"),
        measured,
        name="λ of x²y⁴ against the maximum",
    )
    corrected = with_min.verdict is Verdict.AGREES and with_max.verdict is Verdict.DIFFERS
    return Finding(
        ClaimVerdict.HOLDS_CORRECTED if corrected else ClaimVerdict.NOT_REPRODUCED,
        f"measured {float(np.asarray(measured.estimate)):.4f}; minimum {smallest.value}, maximum {largest.value}",
        (with_min, with_max),
    )


def _check_multiplicity_correction() -> Finding:
    landscape = LANDSCAPES["x²y²"]
    values, errors = ladder(landscape.problem(), radius=RADIUS, nbetas=NBETAS, nodes=NODES)
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
    return Finding(
        ClaimVerdict.HOLDS if approaches else ClaimVerdict.DOES_NOT_HOLD,
        f"(λ − nβ E[L])·log nβ falls from {ratio[0]:.3f} to {ratio[-1]:.3f} on its way to m − 1 = 1",
        comparisons,
    )


def _check_intercept() -> Finding:
    nbetas = np.logspace(2, 6, 5)

    def errors_of(landscape: Landscape) -> tuple[float, float]:
        values, _ = ladder(landscape.problem(), radius=RADIUS, nbetas=nbetas, nodes=NODES)
        exact = float(of_landscape(landscape).value)
        return values[-1] - exact, np.polyfit(1 / np.log(nbetas), values, 1)[1] - exact

    (last_two, intercept_two), (last_one, intercept_one) = (errors_of(LANDSCAPES[name]) for name in ("x²y²", "x²y⁴"))
    helps_two, helps_one = abs(intercept_two) < abs(last_two), abs(intercept_one) < abs(last_one)
    verdicts = {
        (True, True): ClaimVerdict.HOLDS,
        (True, False): ClaimVerdict.HOLDS_CORRECTED,
        (False, True): ClaimVerdict.NOT_REPRODUCED,
        (False, False): ClaimVerdict.DOES_NOT_HOLD,
    }
    return Finding(
        verdicts[helps_two, helps_one],
        f"error of the last rung and of the intercept: x²y² {last_two:+.4f}, {intercept_two:+.4f}; "
        f"x²y⁴ {last_one:+.4f}, {intercept_one:+.4f}",
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
    corrected = verdicts == [Verdict.DIFFERS, Verdict.AGREES] * 2
    return Finding(
        ClaimVerdict.HOLDS_CORRECTED if corrected else ClaimVerdict.NOT_REPRODUCED,
        "K = L − H(q) for two unit normals; L + H(q) is off by twice the entropy",
        tuple(comparisons),
    )


CHECKS = {
    "grokking/figure-5": RecipeCheck("toy-landscapes", {"landscapes": tuple(FIGURE_5)}, _judge_figure_5),
    "grokking/eq-10": _check_multiplicity_correction,
    "grokking/intercept": _check_intercept,
    "grokking/kl-entropy": _check_entropy_sign,
}
"""The check of each claim; ``claims.toml`` has the statements."""
