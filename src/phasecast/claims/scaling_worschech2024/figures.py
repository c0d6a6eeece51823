"""Claims that the figures of the paper make, each checked by computing the figure again at a small size."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phasecast.claims.scaling_worschech2024.equations import SCALING, corrected, holds
from phasecast.core.answers import Answers
from phasecast.core.claim import Claim, ClaimVerdict, Finding, RecipeCheck
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Verdict
from phasecast.online.dynamics import solve
from phasecast.online.linear import small_rate_curve
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.sgd import load_data, simulate_data
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
    return holds(_agree(ours), _share(ours))


def _ours_not_printed(answers: Answers) -> Finding:
    ours, printed = answers.select(theory="ours"), answers.select(theory="printed")
    return corrected(_agree(ours), _agree(printed), f"ours: {_share(ours)}; as printed: {_share(printed)}")


def _judge_2(answers: Answers) -> Finding:
    ratio, finite = answers.select("rate-ratio"), answers.select("finite-size-error")
    infinite = _agree(ratio) and _agree(answers.select("curve"))
    return corrected(infinite, infinite and _agree(finite), f"{_values(finite)}; {_values(ratio)}")


def _check_data() -> Finding:
    """Figure 3 right on an array of our own: pixels are products and squares of few hidden causes, so not Gaussian."""
    rng = np.random.default_rng(3)
    hidden = rng.exponential(size=(6000, 24)) - 1
    rows = hidden @ (rng.normal(size=(24, 40)) * np.arange(1, 25)[:, None] ** -0.65) + 0.1 * rng.normal(size=(6000, 40))
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "data.npy", rows)
        data = load_data(Path(folder) / "data.npy")
    grid, worst = np.array([1.0, 10.0, 100.0]), 0.0
    spectrum = Spectrum.from_data(data)
    for trained in (4, 8):
        eps = np.stack([run.eps for run in simulate_data(data, 1, 1, 0.05, grid, seeds=40, trained=trained)])
        error = eps.std(axis=0, ddof=1) / np.sqrt(len(eps))
        theory = small_rate_curve(spectrum, 0.05, 0.01, grid, trained).eps
        worst = max(
            worst, float(np.max(np.abs(eps.mean(axis=0) - theory) / np.hypot(error, POLICY.data_width * theory)))
        )
    return holds(
        worst < POLICY.data_errors,
        f"SGD on data that are not Gaussian is {worst:.1f} combined errors off eq. 10 at most",
    )


def _judge_7(answers: Answers) -> Finding:
    after = max(_estimates(answers.select("zeroth-order-excess", range="late")))
    ours = _agree(answers.select("sum-as-integral", theory="ours"))
    words = f"after 1/(2ηλ₊) the sum exceeds the zeroth order by up to {after:.2%} of itself; it is within our bound"
    return corrected(ours, after < POLICY.no_excess, words)


def _judge_10(answers: Answers) -> Finding:
    rises = answers.select("largest-weight-rise")
    small, large = (_estimates(rises.select(beta=beta)) for beta in (0.1, 1.0))
    return holds(min(small) > 0 > max(large), f"largest rise of a log weight: {_values(rises)}")


def _judge_11(answers: Answers) -> Finding:
    rates = (0.1, 0.5, 1.0)
    changes = [change for lr in rates for change in _estimates(answers.select("largest-weight-change", lr=lr))]
    words = f"largest relative change of a weight at η = 0.1, 0.5, 1: {', '.join(f'{one:.3g}' for one in changes)}"
    grows = changes == sorted(changes) and changes[-1] > POLICY.off_power_law
    return holds(changes[0] < POLICY.near_power_law and grows, words)


def _judge_13(answers: Answers) -> Finding:
    smallest = min(_estimates(answers.select("smallest-rate-ratio")))
    agree = _agree(answers.select("window-slope")) and _agree(answers.select("rate-ratio"))
    return holds(agree and smallest > 1, f"slopes agree; any η over small η is 2/(2−η), at least {smallest:.3f}")


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
    return corrected(same and _agree(inside.select(theory="ours")) and lower > 1, _agree(printed) and same, words)


def _judge_6(answers: Answers) -> Finding:
    """Ours is the explicit sum, which must have the slope at every β; printed is the exponent, at every β and start.

    No β is left out: the exponent is the limit of the sum inside its window and is approached like
    (α/α_L)^{β/(1+β)}, so at β = 0.5 it cannot be seen with a thousand modes, by theory as by the equations.
    """
    slopes = answers.select("decay-slope")
    ours, printed = slopes.select(start="specialised", theory="ours"), slopes.select(theory="printed")
    return corrected(_agree(ours), _agree(printed), _printed_slopes(slopes))


def _judge_length(answers: Answers) -> Finding:
    """Ours must end before the plateau does, by no more than τ ln 2: a lower bound, with a bias."""
    short = _estimates(answers.select("length-shortfall"))
    finding = _ours_not_printed(answers)
    words = f"{finding.found}; ours is short in {sum(one > 0 for one in short)} of {len(short)} cases"
    words += f", by {min(short):.2f} to {max(short):.2f} τ"
    return Finding(finding.verdict if min(short) > 0 else ClaimVerdict.NOT_REPRODUCED, words)


def _judge_20(answers: Answers) -> Finding:
    """A linearised decay is right if what it leaves out shrinks with J − B; the words say how much that is."""
    ratios = answers.select("error-ratio-when-halved")
    return holds(_agree(ratios), f"{_values(answers.select('explicit-decay-error'))}; {_values(ratios)}")


def _check_forty() -> Finding:
    """One draw of 40 units at β = 0.5, to the end of the figure."""
    spectrum = Spectrum.power_law(512, 0.5)
    start = OrderParameters.draw(40, 40, spectrum, inputs=512, sigma=1e-6, seed=0)
    grid = np.geomspace(2e4, 5e4, 40)
    curve = solve(start, spectrum, 0.01, grid)
    slope = float(np.polyfit(np.log(grid), np.log(curve.eps), 1)[0])
    lengths = np.sqrt(np.outer(np.diagonal(curve.Q1[-1]), np.diagonal(curve.T1)))
    learnt = int(np.sum((curve.R1[-1] / lengths).max(axis=0) > POLICY.learnt_cosine))
    words = f"β = 0.5: slope {slope:.2f} for α in 2-5·10⁴, predicted −0.33; {learnt} of 40 teachers have a student then"
    return Finding(
        ClaimVerdict.HOLDS if abs(slope + 1 / 3) < POLICY.forty_slope else ClaimVerdict.NOT_REPRODUCED, words
    )


FIGURE_2 = """
import numpy as np
from phasecast.online import Spectrum, general_curve, sgd_curve, sgd_stability_limit
spectrum = Spectrum.power_law(128, 1.0)  # N = L = 128, η = 1, σ² = 1 as in the figure
infinite = general_curve(spectrum, 1.0, 1.0, [1, 10, 100]).eps
finite = sgd_curve(spectrum, 128, 1.0, 1.0, [1, 10, 100]).eps
print(f"N → ∞ {infinite}; SGD with 128 inputs {finite}, diverging from {sgd_stability_limit(spectrum, 128).value:.4f}")
assert np.all(finite > 10 * infinite)
""".strip()

FIGURE_7 = """
import numpy as np
from phasecast.online import Spectrum, integral_curve, small_rate_curve
spectrum = Spectrum.power_law(128, 0.5)
lr, alpha = 1 / (2 * spectrum.largest), np.array([1.0, 5.0, 10.0])
exact = small_rate_curve(spectrum, lr, 1.0, alpha).eps
ends = [k**-1.5 * np.exp(-alpha * k**-1.5) for k in (1.0, 128.0)]
bound = integral_curve(128, 0.5, lr, 1.0, alpha).value + 2 * spectrum.largest / 256 * sum(ends) / 2
print(f"sum {exact}, integral with zeroth order {bound}")
assert np.any(exact > bound)
""".strip()

FIGURE_6 = """
import numpy as np
from phasecast.online import OrderParameters, Spectrum, solve
spectrum, grid = Spectrum.power_law(128, 0.5), np.geomspace(2500, 10_000, 20)
start = OrderParameters.draw(6, 6, spectrum, inputs=128, sigma=1e-6, seed=0)
eps = solve(start, spectrum, 0.05, grid).eps
slope = np.polyfit(np.log(grid), np.log(eps), 1)[0]
print(f"slope {slope:.2f}, −β/(1+β) = {-1 / 3:.2f}")
assert slope < -0.5
""".strip()

FIGURE_16 = """
import numpy as np
from phasecast.online import feature_floor
trained = np.array([10, 30, 100])
floor = [float(feature_floor(1024, 0.3, 0.01, int(n)).value) for n in trained]
slopes = np.diff(np.log(floor)) / np.diff(np.log(trained))
print(f"N = 1024, β = 0.3: local slopes {slopes.round(2)}, not −0.3")
assert np.all(slopes < -0.38)
""".strip()

FIGURE_18 = """
import numpy as np
from phasecast.online import OrderParameters, Spectrum, plateau
spectrum = Spectrum.power_law(10, 0.25)
state = OrderParameters.draw(4, 4, spectrum, inputs=7000, sigma=0.01, seed=0)
T1, T6 = state.moment(1, spectrum).T, state.moment(6, spectrum).T
at = plateau(T1)
right, printed = at.moment(T6)[0], at.R * np.diagonal(T6) / np.diagonal(T1)
print(f"R^(6) of the four teachers {right.round(1)}, printed {printed.round(1)}")
assert np.max(abs(printed / right - 1)) > 0.03
""".strip()

FIGURE_19 = """
import numpy as np
from phasecast.online import OrderParameters, Spectrum, measured_length, plateau_length, solve
spectrum = Spectrum.power_law(8, 0.25)
start = OrderParameters.draw(4, 4, spectrum, inputs=7000, sigma=0.01, seed=0)
found = plateau_length(start, spectrum, 0.1, start=500, inputs=7000)
measured = measured_length(solve(start, spectrum, 0.1, np.arange(50, 6000, 25.0)), 500, found.reach)
print(f"measured {measured:.0f}, printed {found.printed:.0f}, ours {found.ours:.0f}")
assert found.printed < 0.9 * measured < found.ours
""".strip()


def _claim(number: int, statement: str, verdict: ClaimVerdict, why: str, check, ours="", counterexample="") -> Claim:
    return Claim(
        id=f"scaling/figure-{number}", source=f"{SCALING}, Figure {number}", statement=statement, verdict=verdict,
        why=why, check=check, ours=ours, counterexample=counterexample,
    )  # fmt: skip


HOLDS, CORRECTED = ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_CORRECTED

CLAIMS = (
    _claim(
        2,
        "At η = 1 and N = 128 the exact ε lies above the one for small η; eq. 9 is what a student shows.",
        CORRECTED,
        "The curve is that of N → ∞. SGD with N = L = 128 diverges from η = 1.0013 on and is far above it.",
        figure(2, _judge_2),
        "For N → ∞ ε is 2/(2−η) times the small-rate one in the window; with 128 inputs use sgd_curve. Eq. 9 holds.",
        FIGURE_2,
    ),
    _claim(
        3,
        "With N_l trained features ε follows eq. 10, on Gaussian inputs.",
        HOLDS,
        "SGD agrees with eq. 10; the dashed lines of the figure cannot be eq. 11 as printed (scaling/eq-11). For "
        "data see scaling/figure-14.",
        figure(3, _all_agree),
    ),
    _claim(
        4,
        "On the plateau R has M heights and Q one; eq. 12 gives its length.",
        CORRECTED,
        "Heights are exact for any teachers by plateau(T1). The printed length is 23% short, ours 6%; see "
        "scaling/eq-12.",
        figure(4, _judge_length),
        "plateau_length(…).ours, a bound from below: here short by 0.51 τ.",
        FIGURE_19,
    ),
    _claim(
        5,
        "More units make the plateau longer, more distinct eigenvalues shorter, as eq. 15 says.",
        HOLDS,
        "The e-folding time of the differences between students, measured on the plateau, is escape_time(T1, T2) of "
        "each draw; how it grows with M and L on average is scaling/escape-scaling.",
        figure(5, _all_agree),
    ),
    _claim(
        6,
        "In the specialised phase ε falls like α^{−β/(1+β)} in all configurations; eq. 17 is the decay.",
        CORRECTED,
        "Of six slopes two are near the exponent. Specialised students, K = M = 2, L = 1024: −0.44 at β = "
        "0.5 for −0.33, "
        "which is not the exponent, −0.51 at β = 1 and −0.60 at β = 1.5, which are. Random students, K = M = "
        "6, L = 128: "
        "−0.72, −0.64, −0.89, none of them. ε is a sum over slow and fast rates; where students have "
        "specialised that sum "
        "has all three slopes to 0.001. It comes near the exponent like (α/α_L)^{β/(1+β)} only, with α_L = "
        "1/(rate λ_L).",
        figure(6, _judge_6),
        "asymptotic_curve at every β; −β/(1+β) is its limit for 1/(slow λ₊) ≪ α and (α fast λ_L)^{β/(1+β)} ≪ 1, after "
        "the last unit has specialised.",
        FIGURE_6,
    ),
    _claim(
        7,
        "For α > 1/(2ηλ₊) the integral with its zeroth-order correction bounds the sum.",
        CORRECTED,
        "The sum is above it by up to 0.25% just after; the worst case at α = 0 holds.",
        figure(7, _judge_7),
        "The sum is within max h of the integral at every α, h the summand (integral_curve's systematic).",
        FIGURE_7,
    ),
    _claim(
        8,
        "At η = 0.01 the zeroth-order correction is enough.",
        HOLDS,
        "It is within 1.4% of the sum for α > 1/(2ηλ₊), at β = 0.5 and 0.01.",
        figure(8, _all_agree),
    ),
    _claim(
        9,
        "For α > 1/(2ηλ₊) the second gamma function may be left out (eq. 52).",
        HOLDS,
        "6% off at that point for β = 1, below 1% soon after.",
        figure(9, _all_agree),
    ),
    _claim(
        10,
        "At η = 1 the weights b λ̃ of the exact solution lose their power law where β is small.",
        HOLDS,
        "At β = 0.1 the last weights rise by a factor of two to three; at β = 1 they fall to the end.",
        figure(10, _judge_10),
    ),
    _claim(
        11,
        "The weights leave the power law the more, the larger η and the smaller β.",
        HOLDS,
        "Largest relative change 0.17, 1.7 and 20 at η = 0.1, 0.5 and 1, always of the last mode at β = 0.01.",
        figure(11, _judge_11),
    ),
    _claim(
        12,
        "The rates λ̃ stay near the eigenvalues.",
        HOLDS,
        "Each lies between its eigenvalue and the next below, as for every rank-one change.",
        figure(12, _all_agree),
    ),
    _claim(
        13,
        "A larger η raises ε without changing its scaling.",
        HOLDS,
        "The slopes in the window agree to 0.005; the factor is 2/(2−η). For N → ∞ only; see scaling/figure-2.",
        figure(13, _judge_13),
    ),
    _claim(
        14,
        "The spectrum of image data follows a power law; ε with it follows eq. 10.",
        HOLDS,
        "The second half is what we can check on any array (scikit-learn's digits among them); β = 0.3 of CIFAR-5m "
        "needs that data set: `phasecast run scaling-figure --set figure=14 --set data=YOUR.npy` fits yours.",
        _check_data,
    ),
    _claim(
        15,
        "Outside the eigenbasis SGD ends at the floor of eq. 88.",
        HOLDS,
        "SGD agrees with eq. 84 at every α, and with its limit.",
        figure(15, _all_agree),
    ),
    _claim(
        16,
        "The floor falls like N_l^{−β}, in the eigenbasis and outside it.",
        CORRECTED,
        "Both fall with the same slope, which is −β only where N_l^β ≪ N^β. At N = 256 it is −0.54 for −0.3 "
        "and −0.85 for "
        "−0.75, which is not −β, and −1.05 for −1 and −1.49 for −1.5, which is within 0.06. We predict the "
        "slope of the "
        "integral over the untrained features instead, and that is right at all four.",
        figure(16, _judge_16),
        "The local slope is −β/(1 − (N_l/N)^β); outside the floor is 1.6 to 3 times higher.",
        FIGURE_16,
    ),
    _claim(
        17,
        "For small L the fixed point of eq. 95 gives the height of the plateau.",
        HOLDS,
        "To 4·10⁻⁵ at N = 7000 and L ≤ 12; plateau(T1) is exact.",
        figure(17, _all_agree),
    ),
    _claim(
        18,
        "R^(l) of higher order has M heights on the plateau, T^(l)/T^(1) times R^(1).",
        CORRECTED,
        "The off-diagonal entries of T^(l) enter: the printed heights are off by up to 5% at l = 6.",
        figure(18, _ours_not_printed),
        "R^(l) = T^(l) a with the coefficients a of plateau(T1), exactly.",
        FIGURE_18,
    ),
    _claim(
        19,
        "Eq. 117 estimates the length of the plateau, for L from 2 to 8 and M from 2 to 8.",
        CORRECTED,
        "It is 15 to 20% short, and undefined for M = 2: e·R* = 1.11 is more than an overlap can be. Ours is "
        "short too, "
        "always: in seven of seven cases (six different plateaus) by 0.18 to 0.61 τ, which is 3 to 7% of the length.",
        figure(19, _judge_length),
        "plateau_length(…).ours ends before the plateau, by at most τ ln 2: it lets differences grow at "
        "their first rate "
        "to the end, and growth slows on the way. For two or three teachers its end is half of their final difference.",
        FIGURE_19,
    ),
    _claim(
        20,
        "From α₀ = 1000 on the linearised decay is that of the equations, in excellent agreement.",
        HOLDS,
        "For M = 2 the printed rates are right (for others see scaling/eq-17), and what is left out is of third order: "
        "with J − B halved it halves. It is not nothing: 12% of ε for L = 3 (ε₀ = 9·10⁻⁴), 4% for L = 9.",
        figure(20, _judge_20),
    ),
    Claim(
        id="scaling/forty-units",
        source=f"{SCALING}, Figure 6 left",
        statement="K = M = 40, L = N = 512: ε falls like α^{−β/(1+β)} up to α = 5·10⁴, for β from 0.5 to 1.5.",
        verdict=ClaimVerdict.NOT_REPRODUCED,
        why="One draw at β = 0.5 has −0.65 for −0.33; four at β = 1 have −0.60, −0.50, −0.50, −0.53, so −0.53 ± 0.02; "
        "two at β = 1.5 have −0.66 and −0.90 for −0.60 (α from 2 to 5·10⁴, first order). At the end 3 to 25 of 40 "
        "teachers have a student (cosine above 0.9) and ε still falls in steps, one for each further group that "
        "specialises: at β = 1 the local slope is between −0.45 and −0.75 up to 2·10⁵. The specialised phase is later.",
        check=_check_forty,
    ),
)
