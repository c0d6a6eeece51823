"""What Cullen et al. say about their experiments, and what the same experiments say when they are run to their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from phasecast.claims.verdicts import verdict_of
from phasecast.core.claim import ClaimVerdict as Verdict
from phasecast.core.claim import Finding, RecipeCheck
from phasecast.core.results import Comparison, Measurement, Result, Status
from phasecast.core.results import Verdict as Agreement
from phasecast.core.types import Array, PyTree

RATES = (0.001, 0.0013, 0.0017, 0.0023, 0.003, 0.0039, 0.0051, 0.0067, 0.0088, 0.0116, 0.0152, 0.02)
CLOSE = 0.7  # a rank correlation that one may call mirroring
CHANCE = 0.05  # of shifted curves that correlate as well, below which it is no accident


def _measured(answers: Mapping[str, Result], *words: str) -> dict[str, Measurement]:
    """The measurements whose names have all these words."""
    found = {}
    for name, answer in answers.items():
        if all(word in name for word in words):
            found[name] = answer.measurement if isinstance(answer, Comparison) else answer
    return {name: one for name, one in found.items() if isinstance(one, Measurement)}


def _number(one: Measurement) -> float:
    return float(np.asarray(one.estimate))


def _shown(found: Mapping[str, Measurement]) -> str:
    return "; ".join(f"{name}: {_number(one):.3g} ± {float(one.error):.2g}" for name, one in found.items())


def _comparisons(answers: Mapping[str, Result]) -> tuple[Comparison, ...]:
    return tuple(answer for answer in answers.values() if isinstance(answer, Comparison))


def _judge_effective_width(answers: Mapping[str, Result]) -> Finding:
    """Does K_eff grow with K? When just generalised, and when trained on."""
    [early] = _measured(answers, "per unit of width", "just").values()
    [late] = [one for name, one in _measured(answers, "per unit of width").items() if "just" not in name]
    settled = [one for one in _comparisons(answers) if one.name.startswith("K_eff at")]
    fixed = abs(_number(late)) < 0.05 and all(one.verdict is Agreement.AGREES for one in settled)
    grows = _number(late) > 0.5
    words = f"K_eff per unit of K: {_number(early):.2f} just generalised, {_number(late):.2f} trained on"
    return Finding(verdict_of(grows, False) if grows or fixed else Verdict.NOT_REPRODUCED, words, tuple(settled))


def _judge_severity(answers: Mapping[str, Result]) -> Finding:
    """The law of GSM over the learning rate, where there is one."""
    laws: dict[str, Any] = dict(_measured(answers, "law of GSM"))
    decided = {name: one.law for name, one in laws.items() if one.status is Status.OK}
    if not decided:
        return Finding(Verdict.OPEN, f"no weight decay decides: {_shown(laws)}")
    holds = all(law == "exponential" for law in decided.values())
    return Finding(verdict_of(holds, set(decided.values()) == {"power law"}), f"{decided}; ΔAICc {_shown(laws)}")


def _judge_size(answers: Mapping[str, Result]) -> Finding:
    """Does the critical ratio, where half of the pairs are answered, agree with about 2.5 to 3?"""
    found: dict[str, Any] = dict(_measured(answers, "critical"))
    located = [one for one in found.values() if one.status is not Status.REFUSED]
    if not located:
        return Finding(Verdict.OPEN, "no critical size was located")
    holds = all(one.verdict is Agreement.AGREES for one in _comparisons(answers))
    words = "; ".join(f"{one.name}: {_number(one):.2f}, from {one.low:.2f} to {one.high:.2f}" for one in located)
    return Finding(Verdict.HOLDS if holds else Verdict.DOES_NOT_HOLD, words, _comparisons(answers))


def _judge_slopes(answers: Mapping[str, Result]) -> Finding:
    """Slopes of calibrated λ̂ over p and over K against those of K(3p−1)/2, and whether λ̂ rises at all."""
    lines = tuple(one for one in _comparisons(answers) if "slope" in one.name and "calibrated" in one.name)
    printed = all(one.verdict is Agreement.AGREES for one in lines)
    rises = all(_number(one.measurement) > 0 for one in lines)
    shares = [_number(one.measurement) / float(np.asarray(one.prediction.value)) for one in lines]
    before = _measured(answers, "before training", "calibrated")
    words = f"slopes are {min(shares):.2f} to {max(shares):.2f} of the printed ones; {_shown(before)}"
    return Finding(verdict_of(printed, rises), words, lines)


def _judge_mirror(answers: Mapping[str, Result]) -> Finding:
    """ρ of λ̂ with the validation loss, over the whole run, for each weight decay and sampler."""
    found = {name: one for name, one in _measured(answers, "ρ of λ̂").items() if one.status is not Status.REFUSED}
    whole = {name: one for name, one in found.items() if "whole run" in name}
    if not whole:
        return Finding(Verdict.OPEN, "no training has enough points")
    close = all(_number(one) > CLOSE for one in whole.values())
    by_chance = any(one.diagnostics["chance"] >= CHANCE for one in whole.values())
    words = "; ".join(
        f"{name.removeprefix('ρ of λ̂ with the validation loss, ')}: {_number(one):+.2f} ± {float(one.error):.2f}, "
        f"lag ×{one.diagnostics['lag']:.2g}, chance {one.diagnostics['chance']:.2f}"
        for name, one in found.items()
    )
    return Finding((Verdict.OPEN if by_chance else Verdict.HOLDS) if close else Verdict.NOT_REPRODUCED, words)


def _judge_sampler(answers: Mapping[str, Result]) -> Finding:
    """Is λ̂ by SGLD as printed that of a calibrated sampler, at the same nβ and γ?"""
    [one] = [one for one in _comparisons(answers) if "SGLD" in one.name]
    converged = float(np.asarray(one.prediction.value))
    words = f"SGLD {_number(one.measurement):.0f} ± {float(one.measurement.error):.0f}, converged {converged:.0f}"
    return Finding(verdict_of(one.verdict is Agreement.AGREES), words, (one,))


def trained_problem(p: int, width: int, fraction: float) -> tuple[Callable[[PyTree, PyTree], Array], PyTree, PyTree]:
    """Loss, weights and training data of a quadratic network that was trained on addition modulo p."""
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
    "grokking/critical-data-size": RecipeCheck("grokking-data", {"p": (23,), "seeds": 1}, _judge_size),
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
