"""What Cullen et al. say about their experiments, and what the same experiments say when they are run to their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phasecast.coefficients.claim_checks import verdict_of
from phasecast.core.claim import ClaimVerdict as Verdict
from phasecast.core.claim import Finding
from phasecast.core.results import Comparison, Measurement, Result, Status
from phasecast.core.results import Verdict as Agreement


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
    """Does the interval of the critical ratio meet 2.5 to 3?"""
    found: dict[str, Any] = dict(_measured(answers, "critical"))
    located = [one for one in found.values() if one.status is not Status.REFUSED]
    if not located:
        return Finding(Verdict.OPEN, "no critical size was located")
    holds = all(one.low <= 3.0 and one.high >= 2.5 for one in located)
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
    strong = [_number(one) > 0.7 and one.diagnostics["chance"] < 0.05 for one in whole.values()]
    words = "; ".join(
        f"{name.removeprefix('ρ of λ̂ with the validation loss, ')}: {_number(one):+.2f} ± {float(one.error):.2f}, "
        f"lag ×{one.diagnostics['lag']:.2g}, chance {one.diagnostics['chance']:.2f}"
        for name, one in found.items()
    )
    return Finding(Verdict.HOLDS if all(strong) else Verdict.NOT_REPRODUCED, words)


EFFECTIVE_WIDTH = """
from phasecast.grokking import effective_width, quadratic, task, train
table, kept = task("addition", 23), {}
for width in (128, 256):
    pieces = train(table, quadratic(table, width), steps=5000, lr=5e-3, checkpoints=[1800, 5000])
    kept[width] = [effective_width(p.params()["V"]) for p in pieces if p.at_checkpoint]
    print(f"K = {width}: {kept[width][0]} units alive at step 1800, {kept[width][1]} at step 5000; 2(p-1) = 44")
assert kept[256][0] > kept[128][0] and kept[128][1] == kept[256][1] == 44
""".strip()

SEVERITY = """
import numpy as np
from phasecast.grokking import grokking_severity, quadratic, task, train
from phasecast.grokking.laws import decay_law
table, rates = task("addition", 23), np.geomspace(2e-3, 2e-2, 6)
seen = [p.curves for p in train(table, quadratic(table, 128), steps=4000, lr=rates, seeds=[0] * 6)]
step, a, b = (np.concatenate([c[k] for c in seen]) for k in ("step", "train_accuracy", "validation_accuracy"))
law = decay_law(rates, [grokking_severity(step, a[:, i], b[:, i]).value for i in range(6)])
print(f"{law.law}: AICc {law.estimate:.0f} below the exponential's; exponent {-law.constants['power law'][1]:.2f}")
assert law.law == "power law"
""".strip()
