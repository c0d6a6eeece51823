"""Would we defend this λ̂? Reasons to refuse it, and reasons to warn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from phasecast.coefficients.llc.level import Level, LevelPhase
from phasecast.coefficients.llc.plan import Plan
from phasecast.core.results import Status
from phasecast.sampling.traces import drift


@dataclass
class Judgement:
    """Reasons against a λ̂; without any it is ok."""

    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def status(self) -> Status:
        return Status.REFUSED if self.refusals else Status.WARNING if self.warnings else Status.OK

    @property
    def reasons(self) -> list[str]:
        return self.refusals + self.warnings


def judge_levels(plan: Plan, levels: list[Level], value: float, gap: float) -> Judgement:
    """What speaks against λ̂ = ``value``, sampled at these levels; ``gap`` is what descent from w* gains."""
    verdict, policy = Judgement(), plan.policy
    if not (math.isfinite(value) and value > 0):
        verdict.refusals.append(
            f"λ̂ is {value:.3g}: params is not a minimum of this loss, or the chains are lost; train further"
        )
        return verdict
    if levels[-1].phase is LevelPhase.BROKEN:
        verdict.refusals.append(
            "the loss is not finite however small the step: start from parameters where it is smooth"
        )
    if gap > policy.large_gap * value:
        verdict.refusals.append(
            f"descent from params gains {gap:.3g} in nβL, {gap / value:.0%} of λ̂: params is not a minimum; train "
            "further, or give the training's L2 as prior"
        )
    elif gap > policy.small_gap * value:
        verdict.warnings.append(f"descent from params gains {gap:.3g} in nβL, {gap / value:.0%} of λ̂: see value_min")
    for level in levels:
        verdict.refusals += _against_level(plan, level)
    _judge_stein(plan, levels[-1], verdict)
    return verdict


def judge_bias(plan: Plan, value: float, bias: float, error: float, always: bool) -> Judgement:
    """What a fixed step does to λ̂; ``always`` states the bias even where it is small."""
    verdict, policy = Judgement(), plan.policy
    sentence = f"the step size biases λ̂ by about {bias:.3g} ± {error:.2g} (measured at half the step)"
    if abs(bias) > max(policy.bias_errors * error, policy.large_bias * abs(value)):
        verdict.refusals.append(f"{sentence}: use a smaller step")
    elif always or abs(bias) > policy.small_bias * abs(value) or error > policy.large_bias * abs(value):
        verdict.warnings.append(sentence)
    return verdict


def judge_budget(plan: Plan, last: Level, value: float, error: float) -> Judgement:
    """Whether the budget ended too early."""
    verdict, policy = Judgement(), plan.policy
    if last.phase is LevelPhase.SPENT:
        reason = (
            f"the budget of {plan.budget:.3g} gradients was spent before sampling was done (error {error:.3g}): "
            "allow more with max_grads, or a larger target"
        )
        close = error <= policy.unfinished_error * plan.target * abs(value)
        enough = close and last.steps >= policy.unfinished_steps
        (verdict.warnings if enough else verdict.refusals).append(reason)
    return verdict


def _against_level(plan: Plan, level: Level) -> list[str]:
    """Reasons to refuse what a level says."""
    policy, record = plan.policy, level.record
    where, refusals = f"at γ = {level.tuning.gamma:.3g}", []
    if plan.kernel.adjusted:
        if level.steps and level.rhat > policy.largest_rhat:
            refusals.append(f"chains disagree {where} (R-hat {level.rhat:.3f}): allow more gradients with max_grads")
        if record.acceptance and np.mean(record.acceptance) < policy.lowest_acceptance:
            refusals.append(f"only {np.mean(record.acceptance):.0%} of the steps are accepted {where}: use a larger γ")
        if level.divergent_share > policy.most_divergent:
            refusals.append(f"{level.divergent_share:.2%} of the steps diverge {where}: use a larger γ")
    elif len(record.radius.means) >= policy.fewest_drift_bins:
        moved, error = drift(record.radius.means)
        if abs(moved) > max(policy.drift_errors * error, policy.drift_share * record.radius.mean):
            share = moved / record.radius.mean
            refusals.append(f"|w − w*|² still drifts by {share:.1%} {where}: allow more gradients")
    return refusals


def _judge_stein(plan: Plan, last: Level, verdict: Judgement) -> None:
    """Stein's identity: nβ E[u·∇L] + γ E|u|² is d for the target."""
    policy = plan.policy
    stein, error = last.stein
    z = stein / error if error else 0.0
    if abs(z) > policy.large_stein and abs(stein) > policy.small_stein * last.size:
        sentence = f"Stein's identity is off by {stein:.3g} ({abs(z):.1f} standard errors)"
        if plan.kernel.adjusted:
            verdict.warnings.append(f"{sentence}: the chains may not have visited all of the target")
        else:
            verdict.refusals.append(
                f"{sentence}: the steps are too long for this target; use a smaller step or an adjusted sampler"
            )
