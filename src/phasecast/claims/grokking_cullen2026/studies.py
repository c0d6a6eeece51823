"""Do the experiments of Cullen et al. come out as they report when they are run to the end?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phasecast.claims.verdicts import all_agree, finding, undecided
from phasecast.core.answers import Answers
from phasecast.core.claim import Finding, RecipeCheck
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status, Verdict, show
from phasecast.core.statistics import weighted_line
from phasecast.core.types import Array, PyTree
from phasecast.grokking.analysis.decay_fits import EXPONENTIAL, POWER, DecayLaw
from phasecast.grokking.analysis.transition import Transition

RATES = (0.001, 0.0013, 0.0017, 0.0023, 0.003, 0.0039, 0.0051, 0.0067, 0.0088, 0.0116, 0.0152, 0.02)
"""Learning rates of the check of Figure 4: twelve, spread evenly in log over a factor of 20."""

MODULI = (17, 19, 23, 29, 31)
"""Of the check of the critical size of the training set; the paper has six from 53 to 103."""


@dataclass(frozen=True)
class JudgePolicy(Policy):
    """When an experiment counts as what the paper describes."""

    grows: float = rule(0.5, "chosen, not derived: K_eff in proportion to K means a slope of order one")
    fixed: float = rule(0.05, "chosen, not derived: a tenth of the slope that would count as growth")
    close: float = rule(0.7, "chosen, not derived: a rank correlation that one may call mirroring")
    fewest_moduli: int = rule(3, "a line through two moduli has no residual")
    chance: float = rule(0.05, "the usual 5% level, here of shifted curves that correlate as well")


POLICY = JudgePolicy()


def _judge_effective_width(answers: Answers) -> Finding:
    """Does K_eff grow with K? When just generalised, and after further training."""
    [early] = _measured(answers.select("width-slope", when="just-generalised")).values()
    [late] = _measured(answers.select("width-slope", when="end")).values()
    settled = answers.select("effective-width").comparisons()
    slope = float(late.estimate)
    fixed = abs(slope) < POLICY.fixed and all_agree(settled)
    words = f"K_eff per unit of K: {float(early.estimate):.2f} just generalised, {slope:.2f} after further training"
    return finding(words, settled, printed=slope > POLICY.grows, experiment=not fixed)


def _judge_severity(answers: Answers) -> Finding:
    """The law of GSM over the learning rate, if there is one."""
    laws = {label: one for label, one in _measured(answers.select("decay-law")).items() if isinstance(one, DecayLaw)}
    decided = {label: one.law for label, one in laws.items() if one.status is Status.OK}
    if not decided:
        return undecided(f"no weight decay decides: {_shown(laws)}")
    chosen = set(decided.values())
    return finding(f"{decided}; ΔAICc {_shown(laws)}", printed=chosen == {EXPONENTIAL}, corrected=chosen == {POWER})


def _judge_size(answers: Answers) -> Finding:
    """Does the critical ratio, at which half of the pairs are answered correctly, agree with about 2.5 to 3?"""
    ratios = answers.select("critical-ratio")
    located = [
        one for one in _measured(ratios).values() if isinstance(one, Transition) and one.status is not Status.REFUSED
    ]
    if not located:
        return undecided("no critical size was located")
    words = "; ".join(f"{one.name}: {float(one):.2f}, from {one.low:.2f} to {one.high:.2f}" for one in located)
    words += _growth(ratios)
    return finding(words, ratios.comparisons(), printed=all_agree(ratios.comparisons()), experiment=True)


def _growth(ratios: Answers) -> str:
    """How the critical N/(M ln M) depends on M: a slope of 0 in logarithms is M ln M, 1 − 1/ln M would be M²."""
    known = {
        float(str(one.where["p"])): one.measurement
        for one in ratios
        if one.measurement is not None and one.measurement.status is not Status.REFUSED
    }
    if len(known) < POLICY.fewest_moduli:
        return f"; {len(known)} moduli cannot tell M ln M from other growth"
    values = np.array([float(one) for one in known.values()])
    errors = np.array([float(np.asarray(one.error)) for one in known.values()]) / values
    line = weighted_line(np.log(list(known)), np.log(values), errors)
    return f"; N/(M ln M) changes like M^({show(line.slope, line.slope_error)})"


def _judge_slopes(answers: Answers) -> Finding:
    """Slopes of calibrated λ̂ over p and over K against those of K(3p−1)/2, and whether λ̂ rises at all."""
    calibrated = answers.select(sampler="calibrated")
    lines = (*calibrated.select("slope-over-p").comparisons(), *calibrated.select("slope-over-width").comparisons())
    slopes = [float(one.measurement.estimate) for one in lines]
    shares = [slope / float(one.prediction) for slope, one in zip(slopes, lines, strict=True)]
    before = _measured(calibrated.select("share-before-training"))
    words = f"slopes are {min(shares):.2f} to {max(shares):.2f} of the printed ones; {_shown(before)}"
    return finding(words, lines, printed=all_agree(lines), corrected=all(slope > 0 for slope in slopes))


def _judge_mirror(answers: Answers) -> Finding:
    """ρ of λ̂ with the validation loss, over the whole run, for each weight decay and sampler."""
    defended = [
        (answer, one)
        for answer in answers.select("mirror-correlation")
        if (one := answer.measurement) is not None and one.status is not Status.REFUSED
    ]
    whole = [one for answer, one in defended if answer.where["span"] == "whole-run"]
    if not whole:
        return undecided("no training has enough points")
    words = "; ".join(
        f"weight decay {answer.where['weight_decay']:g}, {answer.where['sampler']}, {answer.where['span']}: "
        f"{float(one):+.2f} ± {float(one.error):.2f}, lag ×{one.diagnostics['lag']:.2g}, "
        f"chance {one.diagnostics['chance']:.2f}"
        for answer, one in defended
    )
    close = all(float(one) > POLICY.close for one in whole)
    if close and any(one.diagnostics["chance"] >= POLICY.chance for one in whole):
        return undecided(words)
    return finding(words, printed=close, experiment=True)


def _judge_sampler(answers: Answers) -> Finding:
    """Is λ̂ by SGLD as printed that of a calibrated sampler, at the same nβ and γ?"""
    [one] = answers.select("llc-sgld").comparisons()
    estimate, error = float(one.measurement.estimate), float(one.measurement.error)
    words = f"SGLD {estimate:.0f} ± {error:.0f}, converged {float(one.prediction):.0f}"
    if one.verdict not in (Verdict.AGREES, Verdict.DIFFERS):
        return undecided(f"{words}: {one.verdict}")
    return finding(words, (one,), printed=one.verdict is Verdict.AGREES)


def _measured(answers: Answers) -> dict[str, Measurement]:
    """The measurements among the answers, by label."""
    return {one.shown: one.measurement for one in answers if one.measurement is not None}


def _shown(measured: dict[str, Measurement] | dict[str, DecayLaw]) -> str:
    return "; ".join(f"{label}: {float(one.estimate):.3g} ± {float(one.error):.2g}" for label, one in measured.items())


def trained_problem(p: int, width: int, fraction: float) -> tuple[Callable[[PyTree, PyTree], Array], PyTree, PyTree]:
    """Loss, weights and training data of a quadratic network trained on addition modulo p."""
    from phasecast.grokking import quadratic, split, task, train
    from phasecast.grokking.training import centred_loss

    table = task("addition", p)
    rows = split(table, fraction)[0]
    network = quadratic(table, width)
    *_, last = train(table, network, steps=3000, lr=5e-3, fraction=fraction)
    data = table.tokens[rows], table.labels[rows]
    return lambda weights, rows: centred_loss(network.apply(weights, rows[0]), rows[1]), last.params(), data


CHECKS = {
    "grokking/section-6.2": RecipeCheck(
        "grokking-width", {"widths": (128, 192, 256), "seeds": 1}, _judge_effective_width
    ),
    "grokking/figure-4": RecipeCheck(
        "grokking-severity",
        {"rates": RATES, "weight_decays": (1e-4,), "llc": False, "steps": 6000},
        _judge_severity,
    ),
    "grokking/critical-data-size": RecipeCheck("grokking-data", {"p": MODULI, "seeds": 1}, _judge_size),
    "grokking/sgld-settings": RecipeCheck(
        "grokking-sampler", {"step_sizes": (1e-4,), "gammas": (5.0,), "long": 200}, _judge_sampler
    ),
    "grokking/section-6.3": RecipeCheck("grokking-mirror", {"values": (1e-4, 1e-5), "checkpoints": 14}, _judge_mirror),
    "grokking/figures-1-2": RecipeCheck(
        "grokking-coefficient",
        {"p": (17, 19, 23), "widths": (64, 96, 128), "samplers": ("calibrated",)},
        _judge_slopes,
    ),
}
"""The check of each claim; ``claims.toml`` has the statements."""
