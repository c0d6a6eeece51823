"""Are the printed plateaus, escapes and decays right?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.claims.seeds import shifted
from phasecast.claims.verdicts import finding
from phasecast.core.claim import Finding
from phasecast.core.policy import Policy, rule
from phasecast.online.asymptotic_decay import decay_rates
from phasecast.online.dynamics import solve, solve_many
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import equal_escape_time, equal_plateau, escape_time, plateau
from phasecast.online.plateau_length import measured_length, plateau_length
from phasecast.online.spectrum import Spectrum


@dataclass(frozen=True)
class PlateauClaimPolicy(Policy):
    """When a formula agrees with the equations."""

    level: float = rule(1e-3, "chosen: a sixth of the plateau's height 0.0058, so the plateau has been left")
    shorter: float = rule(0.6, "chosen, not derived: a plateau of less than this share of another is shorter")
    solved: float = rule(1e-6, "relative; the tolerance of the solver and of its Jacobian, with reserve")
    fixed_point: float = rule(1e-9, "relative; the residual of the fixed point is below 1e-10")
    printed_height: float = rule(0.01, "chosen, not derived: relative width that would still count as printed")
    printed_overlap: float = rule(0.02, "chosen, not derived: relative width that would still count as printed")
    escape_of_r: float = rule(0.05, "chosen, not derived: relative width; growth from 1e-4 is nearly linear")
    escape_of_eps: float = rule(0.1, "chosen, not derived: relative width; ε is a small difference here")
    printed_escape: float = rule(0.2, "chosen, not derived: a factor of 2 is claimed, so this tells them apart")
    exponent: float = rule(0.02, "chosen, not derived: width of the exponents 2 and −1 at M = 40 to 160")


POLICY = PlateauClaimPolicy()


def _equal(teachers: int, T: float, D: float) -> np.ndarray:
    return np.full((teachers, teachers), D / (teachers - 1)) + np.eye(teachers) * (T - D / (teachers - 1))


def _check_figure_1() -> Finding:
    medians = []
    for modes in (1, 16):
        spectrum = Spectrum.power_law(modes, 1.0)
        starts = [
            OrderParameters.draw(2, 2, spectrum, inputs=1024, sigma=0.01, seed=shifted(seed)) for seed in range(5)
        ]
        curves = solve_many(starts, spectrum, 0.1, np.linspace(1, 5000, 500), order=2)
        medians.append(float(np.median([curve.first_below(POLICY.level) for curve in curves])))
    shorter = medians[1] < POLICY.shorter * medians[0]
    words = f"ε < 1e-3 from α = {medians[0]:.0f} on with one eigenvalue, {medians[1]:.0f} with 16"
    return finding(words, printed=shorter, experiment=True)


def _check_height() -> Finding:
    M, T, D = 3, 1.1, 0.6
    exact = plateau(_equal(M, T, D)).eps
    ours = equal_plateau(M, T, D).eps
    printed = ours + (M - 1) / np.pi * (np.arcsin(D / (T + 1)) - np.arcsin(D / (M - 1) / (T + 1)))
    words = f"height {exact:.6f}, with D/(M−1) {ours:.6f}, printed {printed:.6f}"
    agrees = bool(abs(printed / exact - 1) < POLICY.printed_height)
    return finding(words, printed=agrees, corrected=abs(ours / exact - 1) < POLICY.fixed_point)


def _check_higher_orders() -> Finding:
    spectrum = Spectrum.power_law(6, 1.0)
    teacher = OrderParameters.draw(1, 2, spectrum, inputs=6, sigma=0.0, seed=shifted(3))
    at = plateau(teacher.moment(1, spectrum).T)
    modes = [at.moment(T) for T in teacher.T]
    R = np.stack([np.repeat(r[None], 2, axis=0) for r, _ in modes])
    start = OrderParameters(R, np.stack([np.full((2, 2), q) for _, q in modes]), teacher.T)
    late = solve(start, spectrum, 0.5, [20.0]).final
    assert late is not None
    third = late.moment(3, spectrum)
    T1, T3 = teacher.moment(1, spectrum).T, third.T
    ours = np.allclose(third.R[0], at.moment(T3)[0], rtol=POLICY.solved)
    printed = np.allclose(third.R[0], at.R * np.diagonal(T3) / np.diagonal(T1), rtol=POLICY.printed_overlap)
    return finding(f"R^(3) on the plateau is {third.R[0].round(3)}", printed=printed, corrected=ours)


def _check_escape() -> Finding:
    spectrum, lr = Spectrum.power_law(6, 1.0), 0.5
    second = spectrum.moment(2)
    tau = equal_escape_time(2, lr, T2=second)
    general = float(escape_time(np.eye(2), second * np.eye(2), lr))
    at = plateau(np.eye(2))
    R = np.full((6, 2, 2), at.R[0]) + 1e-4 * np.array([[1, -1], [-1, 1]]) * spectrum.eigenvalues[:, None, None]
    teachers = OrderParameters.infinite(2, 2, spectrum, sigma=0.0).T
    start = OrderParameters(R, np.full((6, 2, 2), at.Q) + 1e-6 * np.eye(2), teachers)
    curve = solve(start, spectrum, lr, np.array([2.0, 3.5]) * tau)
    apart = np.abs(curve.R1[:, 0] - curve.R1[:, 1]).max(axis=1)
    of_r = 1.5 * tau / np.log(apart[1] / apart[0])
    gaps = at.eps - curve.eps
    of_eps = 1.5 * tau / np.log(gaps[1] / gaps[0])
    words = f"eq. 15 gives {tau:.1f}; measured for r {of_r:.1f}, for ε {of_eps:.1f}"
    right = abs(of_r / tau - 1) < POLICY.escape_of_r and abs(general / tau - 1) < POLICY.solved
    right = bool(right and abs(2 * of_eps / tau - 1) < POLICY.escape_of_eps)
    return finding(words, printed=bool(abs(of_eps / tau - 1) < POLICY.printed_escape), corrected=right)


def _check_length() -> Finding:
    spectrum, inputs = Spectrum.power_law(10, 0.25), 7000
    start = OrderParameters.draw(4, 4, spectrum, inputs=inputs, sigma=0.01, seed=shifted(0))
    length = plateau_length(start, spectrum, 0.1, start=300, inputs=inputs)
    measured = measured_length(solve(start, spectrum, 0.1, np.arange(0, 5000, 10.0)), 300, length.reach)
    words = f"measured {measured:.0f}; ours {length.ours:.0f}, printed {length.printed:.0f}, "
    words += f"with τ for τ/2 {length.printed_with_tau:.0f}"
    right, wrong = (abs(value - measured) < length.tau for value in (length.ours, length.printed))
    return finding(words, printed=wrong, corrected=right)


def _check_escape_scaling() -> Finding:
    def tau(teachers: int, modes: int) -> float:
        return equal_escape_time(teachers, 0.01, T2=Spectrum.power_law(modes, 1.0).moment(2))

    in_units = np.log(tau(160, 512) / tau(40, 512)) / np.log(4)
    in_modes = np.log(tau(40, 2048) / tau(40, 512)) / np.log(4)
    words = f"τ ∼ M^{in_units:.3f} L^{in_modes:.3f}"
    near = abs(in_units - 2) < POLICY.exponent and abs(in_modes + 1) < POLICY.exponent
    return finding(words, printed=bool(near))


def _check_rates() -> Finding:
    spectrum, M = Spectrum.power_law(6, 1.0), 4
    rates = np.real(decay_rates(M, spectrum, 1e-3, order=1))
    a = 2e-3 / (np.sqrt(3) * np.pi * M)

    def present(factor: float) -> bool:
        gaps = (np.min(abs(rates / (a * factor * value) - 1)) for value in spectrum.eigenvalues)
        return all(gap < POLICY.solved for gap in gaps)

    slow, fast, printed = (present(factor) for factor in (2 - np.sqrt(3), 2 + 3 * np.sqrt(3), 2 + np.sqrt(3)))
    words = f"rates at M = 4: 2−√3 present: {slow}; 2+3√3: {fast}; 2+√3: {printed}"
    return finding(words, printed=printed, corrected=slow and fast)


CHECKS = {
    "scaling/figure-1": _check_figure_1,
    "scaling/eq-99": _check_height,
    "scaling/eq-98": _check_higher_orders,
    "scaling/eq-15": _check_escape,
    "scaling/eq-12": _check_length,
    "scaling/escape-scaling": _check_escape_scaling,
    "scaling/eq-17": _check_rates,
}
"""The check of each claim; ``claims.toml`` has the statements."""
