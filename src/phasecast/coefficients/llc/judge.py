"""Would we defend this λ̂? Reasons to refuse it, and reasons to warn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from phasecast.coefficients.llc.level import Level, LevelPhase
from phasecast.coefficients.llc.plan import Plan
from phasecast.core.results import Status


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


def judge_levels(plan: Plan, levels: list[Level], value: float, error: float, gap: float) -> Judgement:
    """What speaks against λ̂ = ``value``, sampled at these levels; ``gap`` is what descent from w* gains."""
    verdict, policy = Judgement(), plan.policy
    if any(level.phase is LevelPhase.BROKEN for level in levels):
        verdict.refusals.append(
            "the loss is not finite however small the step: start from parameters where it is smooth"
        )
    if not math.isfinite(value) or not any(level.steps or level.provisional for level in levels):
        verdict.refusals.append("nothing was sampled: allow more time with seconds, or more gradients with max_grads")
        return verdict
    gap = gap if math.isfinite(gap) else 0.0
    above = value + gap
    cold = any(level.phase is LevelPhase.COLD for level in levels)
    if not cold and (above < -policy.lost_errors * error or (above <= 0 and not error > 0)):
        verdict.refusals.append(
            f"λ̂ relative to the lowest loss that a descent found is {above:.3g}: the chains are lost; use a larger γ"
        )
    elif above < 0:
        still = ", still warming up," if cold else ""
        verdict.warnings.append(
            f"the chains{still} are lower than the descent from w* (by {-above:.3g}): value_min is too low"
        )
    elif gap > policy.small_gap * max(abs(value), above):
        verdict.warnings.append(
            f"w* is not a minimum (descent lowers nβL by {gap:.3g}): λ̂ is relative to L(w*), value_min to the minimum"
        )
    warm = [level for level in levels if level.steps and level.warmed_up]
    for level in warm:
        verdict.refusals += _against_level(plan, level)
    if warm:
        _judge_stein(plan, warm[-1], verdict)
    return verdict


def judge_bias(plan: Plan, value: float, bias: float, error: float) -> Judgement:
    """What a fixed step does to λ̂."""
    verdict, policy = Judgement(), plan.policy
    sentence = f"the step size biases λ̂ by about {bias:.3g} ± {error:.2g} (measured at half the step)"
    if abs(bias) > max(policy.bias_errors * error, policy.large_bias * abs(value)):
        verdict.refusals.append(f"{sentence}: use a smaller step")
    elif abs(bias) > policy.small_bias * abs(value) or error > policy.large_bias * abs(value):
        verdict.warnings.append(sentence)
    return verdict


def judge_budget(plan: Plan, last: Level, error: float, cause: str) -> Judgement:
    """Whether sampling ended too early, and why: ``cause`` names what ended it."""
    verdict, policy = Judgement(), plan.policy
    if last.phase in (LevelPhase.SPENT, LevelPhase.COLD):
        cold = last.phase is LevelPhase.COLD
        still_warm = ", while the chains were still warming up: the error holds how far they moved last" if cold else ""
        few = last.times < policy.few_times and not cold
        only = f", after {last.times:.1f} autocorrelation times of the loss" if few else ""
        reason = f"{cause} ended sampling at an error of {error:.2g}{still_warm}{only}"
        close = error <= policy.unfinished_error * plan.target * last.scale
        long = last.steps >= policy.unfinished_steps and last.times >= policy.fewest_times
        enough = last.provisional is not None if cold else long
        (verdict.warnings if close and enough else verdict.refusals).append(reason)
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
    else:
        for name, share in level.drifts(policy).items():
            refusals.append(f"{name} still drifts by {share:.1%} {where}: allow more time with seconds")
    return refusals


def _judge_stein(plan: Plan, last: Level, verdict: Judgement) -> None:
    """Stein's identity: nβ E[u·∇L] + γ E|u|² is d for the target."""
    policy = plan.policy
    stein, error = last.stein
    stein -= 2 * last.heating  # what noisy gradients add to it, in directions of the loss and of γ alike
    error = math.hypot(error, 2 * policy.heated_width * last.heating)
    z = stein / error if error else 0.0
    if abs(z) > policy.large_stein and abs(stein) > policy.small_stein * last.size:
        sentence = f"Stein's identity is off by {stein:.3g} ({abs(z):.1f} standard errors)"
        if plan.kernel.adjusted:
            verdict.warnings.append(f"{sentence}: the chains may not have visited all of the target")
        else:
            verdict.refusals.append(
                f"{sentence}: the steps are too long for this target; use a smaller step or an adjusted sampler"
            )
