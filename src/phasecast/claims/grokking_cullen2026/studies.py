"""What Cullen et al. say about their experiments, and what the same experiments say when they are run to their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phasecast.claims.grokking_cullen2026.networks import GROKKING
from phasecast.claims.verdicts import verdict_of
from phasecast.core.claim import Claim, Finding, RecipeCheck
from phasecast.core.claim import ClaimVerdict as Verdict
from phasecast.core.results import Comparison, Measurement, Result, Status
from phasecast.core.results import Verdict as Agreement

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


EFFECTIVE_WIDTH = """
from phasecast.grokking import effective_width, quadratic, task, train
table, kept = task("addition", 23), {}
for width in (128, 256):
    *_, last = train(table, quadratic(table, width), steps=5000, lr=5e-3)
    kept[width] = effective_width(last.params()["V"])
    print(f"K = {width}: {kept[width]} units alive at step 5000; 2(p-1) = 44")
assert kept[128] == kept[256] == 44
""".strip()

SEVERITY = """
import numpy as np
from phasecast.grokking import grokking_severity, quadratic, task, train
from phasecast.grokking.analysis.decay_fits import decay_law
table, rates = task("addition", 23), np.geomspace(2e-3, 2e-2, 6)
seen = [p.curves for p in train(table, quadratic(table, 128), steps=4000, lr=rates, seeds=[0] * 6)]
step, a, b = (np.concatenate([c[k] for c in seen]) for k in ("step", "train_accuracy", "validation_accuracy"))
law = decay_law(rates, [grokking_severity(step, a[:, i], b[:, i]).value for i in range(6)])
print(f"{law.law}: AICc {law.estimate:.0f} below the exponential's; exponent {-law.constants['power law'][1]:.2f}")
assert law.law == "power law"
""".strip()

SAMPLER = """
from phasecast import llc
from phasecast.grokking import quadratic, split, task, train
from phasecast.grokking.training import centred_loss
from phasecast.sampling import Fixed
table = task("addition", 23); rows = split(table, 0.4)[0]; net = quadratic(table, 128)
*_, last = train(table, net, steps=3000, lr=5e-3)
model = (lambda w, d: centred_loss(net.apply(w, d[0]), d[1])), last.params(), (table.tokens[rows], table.labels[rows])
as_printed = llc(*model, nbeta=30.0, gamma=5.0, sampler=Fixed("sgld", 1e-4, draws=600, burn_in=100), chains=3).estimate
converged = llc(*model, nbeta=30.0, gamma=5.0, sampler="langevin", chains=4, target=0.03).value
print(f"SGLD as printed {as_printed:.0f}, converged {converged:.0f}"); assert as_printed < 0.5 * converged
""".strip()

SLOPES = """
from phasecast import llc
from phasecast.grokking import quadratic, split, task, train
from phasecast.grokking.training import centred_loss
table = task("addition", 17); rows = split(table, 0.5)[0]; data = table.tokens[rows], table.labels[rows]; found = {}
for K in (64, 128):
    net = quadratic(table, K); *_, last = train(table, net, steps=3000, lr=5e-3, fraction=0.5)
    loss = lambda w, d, net=net: centred_loss(net.apply(w, d[0]), d[1])
    found[K] = llc(loss, last.params(), data, nbeta=30.0, gamma=5.0, sampler="langevin", chains=4, target=0.03).value
print(f"a unit more adds {(found[128] - found[64]) / 64:.2f} to the sampled coefficient, printed (3p-1)/2 = 25")
assert found[128] - found[64] < 0.2 * 25 * 64
""".strip()

CLAIMS = (
    Claim(
        id="grokking/section-6.2",
        source=f"{GROKKING}, section 6.2",
        statement="The generalising solution has no fixed K_eff: a wider network keeps more units, in proportion to K.",
        verdict=Verdict.DOES_NOT_HOLD,
        why="It holds for the moment at which validation accuracy passes 0.95, where runs were stopped. Trained on, "
        "all but 2(p−1) units die, whatever the width was.",
        ours="K_eff settles at 2(p−1), 4 units for each frequency: 44 for p = 23 and 60 for p = 31 at K = 128.",
        counterexample=EFFECTIVE_WIDTH,
        check=RecipeCheck("grokking-width", {"widths": (128, 192, 256), "seeds": 1}, _judge_effective_width),
    ),
    Claim(
        id="grokking/figure-4",
        source=f"{GROKKING}, section 6.4 and Figure 4",
        statement="The grokking severity falls exponentially with the learning rate.",
        verdict=Verdict.HOLDS_CORRECTED,
        why="It falls, but over a factor of 20 in the rate an exponential, with or without a floor, misses it by tens "
        "of per cent and a power law by a few; AICc and left-out points agree.",
        ours="At a fixed number of steps GSM falls as a power of the learning rate, with an exponent near −0.6 at "
        "weight decay 1e-4 and −0.35 at 1e-5 (p = 23, K = 128, full batch).",
        counterexample=SEVERITY,
        check=RecipeCheck(
            "grokking-severity",
            {"rates": RATES, "weight_decays": (1e-4,), "llc": False, "steps": 6000},
            _judge_severity,
        ),
    ),
    Claim(
        id="grokking/critical-data-size",
        source=f"{GROKKING}, H.3.2 and Figure 14",
        statement="A network generalises from N of about 2.5 to 3 times M ln M pairs on, M being the modulus.",
        verdict=Verdict.HOLDS,
        why="For M = 23 accuracy is 0 up to 2.25 and 1 from 2.75 on, with the change at 2.46, the lower end of what is "
        "printed. One modulus cannot tell M ln M from other growth.",
        check=RecipeCheck("grokking-data", {"p": (23,), "seeds": 1}, _judge_size),
    ),
    Claim(
        id="grokking/sgld-settings",
        source=f"{GROKKING}, H.1",
        statement="SGLD with ε = 1e-4, 100 steps of burn-in and 600 draws estimates λ̂ at nβ = 30 and γ = 5.",
        verdict=Verdict.DOES_NOT_HOLD,
        why="From w* the chains need about 2500 steps to come within 10% of the converged excess loss, so the draws "
        "are taken on the way up; how far up depends on curvature and noise, which is no common scale.",
        ours="With ε = 1e-3, or ten times the steps, SGLD agrees with HMC within its errors at these nβ and γ.",
        counterexample=SAMPLER,
        check=RecipeCheck("grokking-sampler", {"step_sizes": (1e-4,), "gammas": (5.0,), "long": 200}, _judge_sampler),
    ),
    Claim(
        id="grokking/section-6.3",
        source=f"{GROKKING}, section 6.3 and Figures 3, 9",
        statement="λ̂ along training closely mirrors the validation loss.",
        verdict=Verdict.OPEN,
        why="Ranks agree, ρ from 0.8 to 0.97 for weight decays 1e-4 and 1e-5 and both samplers, lags below a factor of "
        "two; but both curves rise once and fall once, and with a dozen checkpoints 8 to 33% of shifted curves agree "
        "as well (a dozen points cannot give less than 8%). In size they differ: the validation loss falls by a factor "
        "of a thousand while converged λ̂, 480 before training, rises to 580 and falls to 530. More points decide.",
        check=RecipeCheck("grokking-mirror", {"values": (1e-4, 1e-5), "checkpoints": 14}, _judge_mirror),
    ),
    Claim(
        id="grokking/figures-1-2",
        source=f"{GROKKING}, section 6.1 and Figures 1, 2",
        statement="λ̂ of the trained network is linear in p and in K, which validates the predicted K(3p−1)/2.",
        verdict=Verdict.HOLDS_CORRECTED,
        why="The lines are nearly straight, but their slopes are 0.15 of the printed ones over p and about 0.1 over K, "
        "and nine tenths of λ̂ are there before training: at nβ = 30 and γ = 5 it measures what the pull lets all K "
        "units do. K_eff at the end is 2(p−1) and does not depend on K.",
        ours="λ̂ at nβ = 30, γ = 5 grows about linearly in p and K before training as after it; it is evidence for no "
        "formula of λ.",
        counterexample=SLOPES,
        check=RecipeCheck(
            "grokking-coefficient",
            {"p": (17, 19, 23), "widths": (64, 96, 128), "samplers": ("calibrated",)},
            _judge_slopes,
        ),
    ),
)
