"""Do experiments with gradient descent show what the slides claim?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.claims.verdicts import all_agree, finding
from phasecast.core.answers import Answers
from phasecast.core.claim import Finding, RecipeCheck
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Verdict, show
from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.curvature.dmft import dmft
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


@dataclass(frozen=True)
class FeatureClaimsPolicy(Policy):
    """The criteria for statements that the slides make without a number."""

    large_early_share: float = rule(0.4, "chosen, not derived: the share of an early fit")
    small_early_share: float = rule(
        0.3, "chosen, not derived: the share where there is nothing to fit but the direction"
    )
    predicted_share: float = rule(0.85, "chosen, not derived: δ₅₀ below this times δ* is not 'well predicted'")
    least_ratio: float = rule(1.2, "chosen, not derived: of δ₅₀ between activations")
    ratio_width: float = rule(0.3, "chosen, not derived: relative difference between the ratios of success and theory")
    pointing: float = rule(
        0.2, "chosen, not derived: overlap² of a vector that points to the hard subspace; 1/d if none"
    )
    least_decay: float = rule(-0.25, "half of the exponent −1/2: a smaller decay would not be one")
    bounded_away: float = rule(0.3, "chosen, not derived: overlap that is 'bounded away from zero'; 0.03 at random")
    not_six: float = rule(7.5, "chosen, not derived: a δ_NN beyond it does not round to the printed 6")


POLICY = FeatureClaimsPolicy()


def _estimate(answers: Answers, id: str, **where: str | float) -> float:
    """The measured number of an answer; NaN where the study has no such answer."""
    chosen = answers.select(id, **where)
    measured = chosen[0].measurement if len(chosen) == 1 else None
    return math.nan if measured is None else float(np.asarray(measured.estimate))


def _predicted(answers: Answers, id: str, **where: str | float) -> float:
    """The predicted number of an answer; NaN where the study has none."""
    chosen = answers.select(id, **where)
    prediction = chosen[0].prediction if len(chosen) == 1 else None
    return math.nan if prediction is None else float(prediction)


def _judge_limit(answers: Answers) -> Finding:
    compared = answers.select("loss-limit").comparisons()
    agree = sum(one.verdict is Verdict.AGREES for one in compared)
    words = f"{agree} of {len(compared)} loss curves agree with the limit"
    return finding(words, compared, printed=agree == len(compared) > 0, experiment=True)


def _judge_grokking(answers: Answers) -> Finding:
    low, moderate, far = (_estimate(answers, "early-share", delta=delta) for delta in (5.0, 10.0, 50.0))
    words = (
        f"share of the fall of the training loss before the test loss falls: {moderate:.2f} at δ = 10, {far:.2f} at "
        f"50; δ = 5 {'does not learn' if np.isnan(low) else 'learns'}"
    )
    graded = moderate > POLICY.large_early_share and far < POLICY.small_early_share
    return finding(words, printed=bool(np.isnan(low) and graded), experiment=True)


def _judge_success(answers: Answers) -> Finding:
    small, large = (_estimate(answers, "half-success", activation="gelu", dimension=d) for d in (100, 400))
    star = _predicted(answers, "half-success-limit", activation="gelu")
    words = f"half of the runs succeed at δ = {small:.1f} for d = 100 and {large:.1f} for 400; δ*(200) = {star:.1f}"
    limit = POLICY.predicted_share * star
    return finding(words, printed=large >= limit, corrected=small < large < limit, experiment=True)


def _judge_activations(answers: Answers) -> Finding:
    names = ("gelu", "quadratic")
    halves = [_estimate(answers, "half-success", activation=name, dimension=400) for name in names]
    stars = [_predicted(answers, "half-success-limit", activation=name) for name in names]
    ratio, predicted = halves[0] / halves[1], stars[0] / stars[1]
    words = f"δ₅₀ of GeLU over quadratic {ratio:.2f}, δ* of one over the other {predicted:.2f}"
    follows = abs(ratio / predicted - 1) < POLICY.ratio_width
    return finding(words, printed=bool(ratio > POLICY.least_ratio and follows), experiment=True)


def _judge_spectrum(answers: Answers) -> Finding:
    compared = answers.comparisons()
    agree = all_agree(compared)
    above, below = (len(answers.select("outlier", delta=delta)) > 0 for delta in (10.0, 3.0))
    overlap = _estimate(answers, "overlap2", delta=10.0)
    words = f"outlier at δ = 10 with overlap² {overlap:.2f}, none at δ = 3; all numbers agree: {agree}"
    shows = above and not below and overlap > POLICY.pointing
    return finding(words, compared, printed=agree and shows, experiment=True)


def _judge_hard(answers: Answers) -> Finding:
    one = answers.comparison("hard-overlap-exponent")
    words = f"falls like d^({show(one.measurement.estimate, one.measurement.error)})"
    falls = one.verdict is Verdict.AGREES and float(one.measurement) < POLICY.least_decay
    return finding(words, printed=falls, experiment=True)


def _judge_easy(answers: Answers) -> Finding:
    one = answers.comparison("easy-overlap")
    size = float(one.measurement)
    words = f"{size:.2f} after ten steps, as in the limit"
    return finding(words, printed=one.verdict is Verdict.AGREES and size > POLICY.bounded_away, experiment=True)


def _judge_six(answers: Answers) -> Finding:
    address = "threshold-beside-success"
    star, half = (part(answers, address, loss="pseudo-huber") for part in (_predicted, _estimate))
    square = len(answers.select(address, loss="square")) > 0
    words = f"pseudo-Huber: δ*(200) = {star:.1f}, δ₅₀ = {half:.1f} at d = 200; square loss: " + (
        "a threshold" if square else "no outlier up to δ = 20"
    )
    return finding(words, printed=bool(star <= POLICY.not_six or square), experiment=True)


def _check_suboptimal() -> Finding:
    retrieval = target("z**2")
    best = float(algorithmic_threshold(retrieval))
    lowest = min(
        margin(dmft(Network(name, "pseudo-huber"), retrieval, best, 0.5, t, samples=8000).law(t), best)
        for name in ("gelu", "quadratic", "softplus", "swish", "tanh", "tanh2")
        for t in (0, 10)
    )
    words = f"δ_alg = {best:.3g}; least margin there over six activations, t = 0 and 10: {lowest:.3f}"
    return finding(words, printed=lowest > 0, experiment=True)


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
