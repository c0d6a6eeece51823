"""Do the figures of the paper show what it claims? Each is computed again at a small size, and judged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phasecast.claims.seeds import check_generator, shifted
from phasecast.claims.verdicts import finding
from phasecast.core.answers import Answers
from phasecast.core.claim import Finding, RecipeCheck
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Verdict
from phasecast.core.statistics import standard_error
from phasecast.online.dynamics import solve
from phasecast.online.linear import small_rate_curve
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.own_data.loading import load_data
from phasecast.online.sgd import simulate_data
from phasecast.online.spectrum import Spectrum

Judge = Callable[[Answers], Finding]


@dataclass(frozen=True)
class FigureClaimPolicy(Policy):
    """When a figure shows what the paper claims, beyond the verdicts of its comparisons."""

    no_excess: float = rule(1e-6, "chosen: relative excess over a bound that rounding may cause; Figure 7")
    near_power_law: float = rule(0.2, "chosen, not derived: largest relative change of a weight at η = 0.1, Figure 11")
    off_power_law: float = rule(1.0, "a weight that has changed by more than itself is off the power law, Figure 11")
    data_width: float = rule(0.05, "chosen, not derived: relative width of eq. 10 on data that are not Gaussian")
    data_errors: float = rule(3.0, "the tolerance of a comparison, in combined errors")
    forty_slope: float = rule(
        0.1, "chosen, not derived: distance from −1/3 at which the slope of 40 units counts as it"
    )
    learnt_cosine: float = rule(0.9, "chosen: cosine of student and teacher from which a teacher counts as learnt")


POLICY = FigureClaimPolicy()


def figure(number: int, judge: Judge) -> RecipeCheck:
    return RecipeCheck("scaling-figure", {"figure": number}, judge)


def _agree(answers: Answers) -> bool:
    """Whether there are comparisons and all of them agree."""
    comparisons = answers.comparisons()
    return bool(comparisons) and all(one.verdict is Verdict.AGREES for one in comparisons)


def _estimates(answers: Answers) -> list[float]:
    """The measured numbers of scalar answers."""
    return [float(np.asarray(answer.measurement.estimate)) for answer in answers if answer.measurement]


def _values(answers: Answers) -> str:
    """Measured numbers with their parameters, for people."""
    return "; ".join(f"{answer.label}: {value:.4g}" for answer, value in zip(answers, _estimates(answers), strict=True))


def _share(answers: Answers) -> str:
    agree = sum(one.verdict is Verdict.AGREES for one in answers.comparisons())
    return f"{agree} of {len(answers.comparisons())} comparisons agree"


def _all_agree(answers: Answers) -> Finding:
    ours = answers.select(theory="ours")
    return finding(_share(ours), printed=_agree(ours), experiment=True)


def _ours_not_printed(answers: Answers) -> Finding:
    ours, printed = answers.select(theory="ours"), answers.select(theory="printed")
    words = f"ours: {_share(ours)}; as printed: {_share(printed)}"
    return finding(words, printed=_agree(printed), corrected=_agree(ours))


def _judge_2(answers: Answers) -> Finding:
    ratio, finite = answers.select("rate-ratio"), answers.select("finite-size-error")
    infinite = _agree(ratio) and _agree(answers.select("curve"))
    words = f"{_values(finite)}; {_values(ratio)}"
    return finding(words, printed=infinite and _agree(finite), corrected=infinite)


def _check_data() -> Finding:
    """Figure 3 right on an array of our own: mixtures of few exponential causes, so not Gaussian."""
    rng = check_generator(3)
    hidden = rng.exponential(size=(6000, 24)) - 1
    rows = hidden @ (rng.normal(size=(24, 40)) * np.arange(1, 25)[:, None] ** -0.65) + 0.1 * rng.normal(size=(6000, 40))
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "data.npy", rows)
        data = load_data(Path(folder) / "data.npy")
    grid, worst = np.array([1.0, 10.0, 100.0]), 0.0
    spectrum = Spectrum.from_data(data)
    for trained in (4, 8):
        seeds = range(shifted(0), shifted(40))
        eps = np.stack([run.eps for run in simulate_data(data, 1, 1, 0.05, grid, seeds=seeds, trained=trained)])
        theory = small_rate_curve(spectrum, 0.05, 0.01, grid, trained).eps
        width = np.hypot(standard_error(eps), POLICY.data_width * theory)
        worst = max(worst, float(np.max(np.abs(eps.mean(axis=0) - theory) / width)))
    words = f"SGD on data that are not Gaussian is at most {worst:.1f} combined errors from eq. 10"
    return finding(words, printed=worst < POLICY.data_errors, experiment=True)


def _judge_7(answers: Answers) -> Finding:
    after = max(_estimates(answers.select("zeroth-order-excess", range="late")))
    ours = _agree(answers.select("sum-as-integral", theory="ours"))
    words = f"after 1/(2ηλ₊) the sum exceeds the zeroth order by up to {after:.2%} of itself; it is within our bound"
    return finding(words, printed=after < POLICY.no_excess, corrected=ours)


def _judge_10(answers: Answers) -> Finding:
    rises = answers.select("largest-weight-rise")
    small, large = (_estimates(rises.select(beta=beta)) for beta in (0.1, 1.0))
    words = f"largest rise of a log weight: {_values(rises)}"
    return finding(words, printed=min(small) > 0 > max(large), experiment=True)


def _judge_11(answers: Answers) -> Finding:
    rates = (0.1, 0.5, 1.0)
    changes = [change for lr in rates for change in _estimates(answers.select("largest-weight-change", lr=lr))]
    words = f"largest relative change of a weight at η = 0.1, 0.5, 1: {', '.join(f'{one:.3g}' for one in changes)}"
    grows = changes == sorted(changes) and changes[-1] > POLICY.off_power_law
    return finding(words, printed=changes[0] < POLICY.near_power_law and grows, experiment=True)


def _judge_13(answers: Answers) -> Finding:
    smallest = min(_estimates(answers.select("smallest-rate-ratio")))
    agree = _agree(answers.select("window-slope")) and _agree(answers.select("rate-ratio"))
    words = f"slopes agree; any η over small η is 2/(2−η), at least {smallest:.3f}"
    return finding(words, printed=agree and smallest > 1, experiment=True)


def _printed_slopes(answers: Answers) -> str:
    """Measured slopes with the printed ones, and whether they agree."""
    parts = []
    for answer in answers.select(theory="printed"):
        comparison, where = answer.result, answer.where
        assert isinstance(comparison, Comparison)
        setting = f"β = {where['beta']:g}" + (f", {where['start']} start" if "start" in where else "")
        slopes = f"slope {float(comparison.measurement):.3f}, printed {float(comparison.prediction):.3f}"
        parts.append(f"{setting}: {slopes}, {comparison.verdict}")
    return "; ".join(parts)


def _judge_16(answers: Answers) -> Finding:
    """−β is what is printed; the slope of the integral, which has N_l^{−β} − N^{−β}, is ours."""
    outside, inside = (answers.select("floor-slope", basis=basis) for basis in ("random", "eigen"))
    lower = min(_estimates(answers.select("smallest-floor-ratio")))
    same, printed = _agree(outside), inside.select(theory="printed")
    words = f"outside at least {lower:.2f} times inside; {_printed_slopes(inside)}"
    ours = same and _agree(inside.select(theory="ours")) and lower > 1
    return finding(words, printed=_agree(printed) and same, corrected=ours)


def _judge_6(answers: Answers) -> Finding:
    """Ours is the explicit sum, which must have the slope at every β; printed is the exponent, at every β and start.

    No β is left out: the exponent is the limit of the sum inside its window and is approached like
    (α/α_L)^{β/(1+β)}, so at β = 0.5 it cannot be seen with a thousand modes, by theory as by the equations.
    """
    slopes = answers.select("decay-slope")
    ours, printed = slopes.select(start="specialised", theory="ours"), slopes.select(theory="printed")
    return finding(_printed_slopes(slopes), printed=_agree(printed), corrected=_agree(ours))


def _judge_length(answers: Answers) -> Finding:
    """Ours must end before the plateau does, by no more than τ ln 2: a lower bound, with a bias."""
    short = _estimates(answers.select("length-shortfall"))
    ours, printed = answers.select(theory="ours"), answers.select(theory="printed")
    words = f"ours: {_share(ours)}; as printed: {_share(printed)}; "
    words += f"ours is short in {sum(one > 0 for one in short)} of {len(short)} cases"
    words += f", by {min(short):.2f} to {max(short):.2f} τ"
    return finding(words, printed=_agree(printed), corrected=_agree(ours) and min(short) > 0)


def _judge_20(answers: Answers) -> Finding:
    """A linearised decay is right if what it leaves out shrinks with J − B; the words say how much that is."""
    ratios = answers.select("error-ratio-when-halved")
    words = f"{_values(answers.select('explicit-decay-error'))}; {_values(ratios)}"
    return finding(words, printed=_agree(ratios), experiment=True)


def _check_forty() -> Finding:
    """One draw of 40 units at β = 0.5, to the end of the figure."""
    spectrum = Spectrum.power_law(512, 0.5)
    start = OrderParameters.draw(40, 40, spectrum, inputs=512, sigma=1e-6, seed=shifted(0))
    grid = np.geomspace(2e4, 5e4, 40)
    curve = solve(start, spectrum, 0.01, grid)
    slope = float(np.polyfit(np.log(grid), np.log(curve.eps), 1)[0])
    lengths = np.sqrt(np.outer(np.diagonal(curve.Q1[-1]), np.diagonal(curve.T1)))
    learnt = int(np.sum((curve.R1[-1] / lengths).max(axis=0) > POLICY.learnt_cosine))
    words = f"β = 0.5: slope {slope:.2f} for α in 2-5·10⁴, predicted −0.33; {learnt} of 40 teachers have a student then"
    return finding(words, printed=abs(slope + 1 / 3) < POLICY.forty_slope, experiment=True)


CHECKS = {
    "scaling/figure-2": figure(2, _judge_2),
    "scaling/figure-3": figure(3, _all_agree),
    "scaling/figure-4": figure(4, _judge_length),
    "scaling/figure-5": figure(5, _all_agree),
    "scaling/figure-6": figure(6, _judge_6),
    "scaling/figure-7": figure(7, _judge_7),
    "scaling/figure-8": figure(8, _all_agree),
    "scaling/figure-9": figure(9, _all_agree),
    "scaling/figure-10": figure(10, _judge_10),
    "scaling/figure-11": figure(11, _judge_11),
    "scaling/figure-12": figure(12, _all_agree),
    "scaling/figure-13": figure(13, _judge_13),
    "scaling/figure-14": _check_data,
    "scaling/figure-15": figure(15, _all_agree),
    "scaling/figure-16": figure(16, _judge_16),
    "scaling/figure-17": figure(17, _all_agree),
    "scaling/figure-18": figure(18, _ours_not_printed),
    "scaling/figure-19": figure(19, _judge_length),
    "scaling/figure-20": figure(20, _judge_20),
    "scaling/forty-units": _check_forty,
}
"""The check of each claim; ``claims.toml`` has the statements."""
