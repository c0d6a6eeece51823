"""Claims about experiments with gradient descent, and what we found by running them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phasecast.core.claim import ClaimVerdict, Finding, RecipeCheck
from phasecast.core.results import Comparison, Measurement, Result, Verdict, show
from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.curvature.dmft import dmft
from phasecast.features.setting.functions import activation, loss
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import target
from phasecast.features.simulation.margins import margin

GROKKING: Mapping[str, Any] = {
    "deltas": (5.0, 10.0, 17.5, 50.0), "dimension": 300, "runs": 6, "steps": 500, "looks": 30, "limit_steps": 16,
}  # fmt: skip
SUCCESS: Mapping[str, Any] = {
    "dimensions": (100, 400), "deltas": (2.0, 3.0, 4.0, 5.0, 6.5, 8.5, 11.0), "runs": 8, "times": (20, 200),
    "theory_dimension": 300, "theory_seeds": 3,
}  # fmt: skip
SCAN: Mapping[str, Any] = {
    "losses": ("pseudo-huber", "square"), "targets": ("z**2",), "a_values": (1.0,), "spheres": (False,), "runs": 4,
}  # fmt: skip


def _holds(fine: bool, words: str, answers: Mapping[str, Result] | None = None) -> Finding:
    verdict = ClaimVerdict.HOLDS if fine else ClaimVerdict.NOT_REPRODUCED
    compared = tuple(one for one in (answers or {}).values() if isinstance(one, Comparison))
    return Finding(verdict, words, compared)


def _number(answers: Mapping[str, Result], name: str) -> float:
    one = answers.get(name)
    measured = one.measurement if isinstance(one, Comparison) else one
    return float(np.asarray(measured.estimate)) if isinstance(measured, Measurement) else float("nan")


def _predicted(answers: Mapping[str, Result], name: str) -> float:
    one = answers.get(name)
    return float(np.asarray(one.prediction.value)) if isinstance(one, Comparison) else float("nan")


def _judge_limit(answers: Mapping[str, Result]) -> Finding:
    kept = {name: one for name, one in answers.items() if isinstance(one, Comparison)}
    agree = sum(one.verdict is Verdict.AGREES for one in kept.values())
    return _holds(agree == len(kept) > 0, f"{agree} of {len(kept)} loss curves agree with the limit", kept)


def _judge_grokking(answers: Mapping[str, Result]) -> Finding:
    low, moderate, far = (_number(answers, f"early share, δ = {delta:g}") for delta in (5, 10, 50))
    words = (
        f"share of the fall of the training loss before the test loss falls: {moderate:.2f} at δ = 10, {far:.2f} at "
        f"50; δ = 5 {'does not learn' if np.isnan(low) else 'learns'}"
    )
    return _holds(bool(np.isnan(low) and moderate > 0.4 and far < 0.3), words)


def _judge_success(answers: Mapping[str, Result]) -> Finding:
    small, large = (_number(answers, f"δ₅₀, gelu, d = {d}") for d in (100, 400))
    star = _predicted(answers, "δ₅₀ for d → ∞, gelu")
    below = large < 0.85 * star
    words = f"half of the runs succeed at δ = {small:.1f} for d = 100 and {large:.1f} for 400; δ*(200) = {star:.1f}"
    return Finding(ClaimVerdict.HOLDS_CORRECTED if below and small < large else ClaimVerdict.HOLDS, words)


def _judge_activations(answers: Mapping[str, Result]) -> Finding:
    found = {one: _number(answers, f"δ₅₀, {one}, d = 400") for one in ("gelu", "quadratic")}
    stars = {one: _predicted(answers, f"δ₅₀ for d → ∞, {one}") for one in found}
    ratio, predicted = found["gelu"] / found["quadratic"], stars["gelu"] / stars["quadratic"]
    words = f"δ₅₀ of GeLU over quadratic {ratio:.2f}, δ* of one over the other {predicted:.2f}"
    return _holds(bool(ratio > 1.2 and abs(ratio / predicted - 1) < 0.3), words)


def _judge_spectrum(answers: Mapping[str, Result]) -> Finding:
    kept = [one for one in answers.values() if isinstance(one, Comparison)]
    agree = all(one.verdict is Verdict.AGREES for one in kept)
    above, below = "outlier, δ = 10" in answers, "outlier, δ = 3" in answers
    overlap = _number(answers, "overlap², δ = 10")
    words = f"outlier at δ = 10 with overlap² {overlap:.2f}, none at δ = 3; all numbers agree: {agree}"
    return _holds(agree and above and not below and overlap > 0.2, words, answers)


def _judge_hard(answers: Mapping[str, Result]) -> Finding:
    one = answers["exponent of the hard overlap"]
    assert isinstance(one, Comparison)
    words = f"falls like d^({show(one.measurement.estimate, one.measurement.error)})"
    return _holds(one.verdict is Verdict.AGREES and _number(answers, "exponent of the hard overlap") < -0.25, words)


def _judge_easy(answers: Mapping[str, Result]) -> Finding:
    name = next(name for name in answers if name.startswith("easy overlap"))
    one = answers[name]
    assert isinstance(one, Comparison)
    size = _number(answers, name)
    return _holds(one.verdict is Verdict.AGREES and size > 0.3, f"{size:.2f} after ten steps, as the limit says")


def _judge_six(answers: Mapping[str, Result]) -> Finding:
    name = "pseudo-huber, y = z**2, a = 1, η = 0.5"
    star, half = _predicted(answers, name), _number(answers, name)
    square = "square, y = z**2, a = 1, η = 0.5" in answers
    words = f"pseudo-Huber: δ*(200) = {star:.1f}, δ₅₀ = {half:.1f} at d = 200; square loss: " + (
        "a threshold" if square else "no outlier up to δ = 20"
    )
    return Finding(ClaimVerdict.NOT_REPRODUCED if star > 7.5 and not square else ClaimVerdict.HOLDS, words)


def _check_suboptimal() -> Finding:
    one = target("z**2")
    best = float(np.asarray(algorithmic_threshold(one).value))
    lowest = min(
        margin(dmft(Network(activation(name), loss("pseudo-huber")), one, best, 0.5, t, samples=8000).law(t), best)
        for name in ("gelu", "quadratic", "softplus", "swish", "tanh", "tanh2")
        for t in (0, 10)
    )
    words = f"δ_alg = {best:.3g}; least margin there over six activations, t = 0 and 10: {lowest:.3f}"
    return _holds(lowest > 0, words)


CHECKS = {
    "features/dmft": RecipeCheck("feature-grokking", GROKKING, _judge_limit),
    "features/grokking": RecipeCheck("feature-grokking", GROKKING, _judge_grokking),
    "features/predictive": RecipeCheck("feature-success", SUCCESS, _judge_success),
    "features/activations": RecipeCheck("feature-success", SUCCESS, _judge_activations),
    "features/spectrum": RecipeCheck("feature-spectrum", {}, _judge_spectrum),
    "features/hard-overlap": RecipeCheck("feature-overlap", {}, _judge_hard),
    "features/easy-overlap": RecipeCheck("feature-overlap", {}, _judge_easy),
    "features/sub-optimal": _check_suboptimal,
    "features/gelu-six": RecipeCheck("feature-scan", SCAN, _judge_six),
}
"""The check of each claim; ``claims.toml`` has the statements."""
