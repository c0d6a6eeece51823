"""Claims about plateaus, escapes and the end of learning, and what we found."""

from __future__ import annotations

import numpy as np

from phasecast.claims.scaling_worschech2024.equations import corrected, holds
from phasecast.core.claim import Finding
from phasecast.online.asymptotic_decay import decay_rates
from phasecast.online.dynamics import solve, solve_many
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import equal_escape_time, equal_plateau, escape_time, plateau
from phasecast.online.plateau_length import measured_length, plateau_length
from phasecast.online.spectrum import Spectrum


def _equal(teachers: int, T: float, D: float) -> np.ndarray:
    return np.full((teachers, teachers), D / (teachers - 1)) + np.eye(teachers) * (T - D / (teachers - 1))


def _check_figure_1() -> Finding:
    medians = []
    for modes in (1, 16):
        spectrum = Spectrum.power_law(modes, 1.0)
        starts = [OrderParameters.draw(2, 2, spectrum, inputs=1024, sigma=0.01, seed=seed) for seed in range(5)]
        curves = solve_many(starts, spectrum, 0.1, np.linspace(1, 5000, 500), order=2)
        medians.append(float(np.median([curve.first_below(1e-3) for curve in curves])))
    shorter = medians[1] < 0.6 * medians[0]
    return holds(shorter, f"ε < 1e-3 from α = {medians[0]:.0f} on with one eigenvalue, {medians[1]:.0f} with 16")


def _check_height() -> Finding:
    M, T, D = 3, 1.1, 0.6
    exact = plateau(_equal(M, T, D)).eps
    ours = equal_plateau(M, T, D).eps
    printed = ours + (M - 1) / np.pi * (np.arcsin(D / (T + 1)) - np.arcsin(D / (M - 1) / (T + 1)))
    words = f"height {exact:.6f}, with D/(M−1) {ours:.6f}, printed {printed:.6f}"
    return corrected(abs(ours / exact - 1) < 1e-9, abs(printed / exact - 1) < 0.01, words)


def _check_higher_orders() -> Finding:
    spectrum = Spectrum.power_law(6, 1.0)
    teacher = OrderParameters.draw(1, 2, spectrum, inputs=6, sigma=0.0, seed=3)
    found = plateau(teacher.moment(1, spectrum).T)
    modes = [found.moment(T) for T in teacher.T]
    R = np.stack([np.repeat(r[None], 2, axis=0) for r, _ in modes])
    start = OrderParameters(R, np.stack([np.full((2, 2), q) for _, q in modes]), teacher.T)
    late = solve(start, spectrum, 0.5, [20.0]).final
    assert late is not None
    third = late.moment(3, spectrum)
    T1, T3 = teacher.moment(1, spectrum).T, third.T
    ours = bool(np.allclose(third.R[0], found.moment(T3)[0], rtol=1e-6))
    printed = bool(np.allclose(third.R[0], found.R * np.diagonal(T3) / np.diagonal(T1), rtol=0.02))
    return corrected(ours, printed, f"R^(3) on the plateau is {third.R[0].round(3)}")


def _check_escape() -> Finding:
    spectrum, lr = Spectrum.power_law(6, 1.0), 0.5
    second = spectrum.moment(2)
    tau = equal_escape_time(2, lr, T2=second)
    general = float(escape_time(np.eye(2), second * np.eye(2), lr).value)
    at = plateau(np.eye(2))
    R = np.full((6, 2, 2), at.R[0]) + 1e-4 * np.array([[1, -1], [-1, 1]]) * spectrum.eigenvalues[:, None, None]
    start = OrderParameters(R, np.full((6, 2, 2), at.Q) + 1e-6 * np.eye(2), OrderParameters.infinite(
        2, 2, spectrum, sigma=0.0).T)  # fmt: skip
    curve = solve(start, spectrum, lr, np.array([2.0, 3.5]) * tau)
    apart = np.abs(curve.R1[:, 0] - curve.R1[:, 1]).max(axis=1)
    of_r = 1.5 * tau / np.log(apart[1] / apart[0])
    gaps = at.eps - curve.eps
    of_eps = 1.5 * tau / np.log(gaps[1] / gaps[0])
    words = f"eq. 15 says {tau:.1f}; r has {of_r:.1f}, ε has {of_eps:.1f}"
    right = abs(of_r / tau - 1) < 0.05 and abs(general / tau - 1) < 1e-6 and abs(2 * of_eps / tau - 1) < 0.1
    return corrected(right, abs(of_eps / tau - 1) < 0.2, words)


def _check_length() -> Finding:
    spectrum, inputs = Spectrum.power_law(10, 0.25), 7000
    start = OrderParameters.draw(4, 4, spectrum, inputs=inputs, sigma=0.01, seed=0)
    found = plateau_length(start, spectrum, 0.1, start=300, inputs=inputs)
    measured = measured_length(solve(start, spectrum, 0.1, np.arange(0, 5000, 10.0)), 300, found.reach)
    printed = f"printed {found.printed:.0f}, with τ for τ/2 {found.printed_with_tau:.0f}"
    words = f"measured {measured:.0f}; ours {found.ours:.0f}, {printed}"
    ours = abs(found.ours - measured) < found.tau
    return corrected(ours, abs(found.printed - measured) < found.tau, words)


def _check_escape_scaling() -> Finding:
    def tau(teachers: int, modes: int) -> float:
        return equal_escape_time(teachers, 0.01, T2=Spectrum.power_law(modes, 1.0).moment(2))

    in_units = np.log(tau(160, 512) / tau(40, 512)) / np.log(4)
    in_modes = np.log(tau(40, 2048) / tau(40, 512)) / np.log(4)
    words = f"τ ∼ M^{in_units:.3f} L^{in_modes:.3f}"
    return holds(abs(in_units - 2) < 0.02 and abs(in_modes + 1) < 0.02, words)


def _check_rates() -> Finding:
    spectrum, M = Spectrum.power_law(6, 1.0), 4
    found = np.real(decay_rates(M, spectrum, 1e-3, order=1))
    a = 2e-3 / (np.sqrt(3) * np.pi * M)

    def there(factor: float) -> bool:
        return all(np.min(abs(found / (a * factor * value) - 1)) < 1e-6 for value in spectrum.eigenvalues)

    words = (
        f"M = 4: 2−√3 there: {there(2 - np.sqrt(3))}; 2+3√3: {there(2 + 3 * np.sqrt(3))}; 2+√3: {there(2 + np.sqrt(3))}"
    )
    return corrected(there(2 - np.sqrt(3)) and there(2 + 3 * np.sqrt(3)), there(2 + np.sqrt(3)), words)


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
