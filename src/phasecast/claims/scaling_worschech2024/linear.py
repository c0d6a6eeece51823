"""Are the printed curves of linear students right?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.claims.seeds import check_generator
from phasecast.claims.verdicts import finding
from phasecast.core.claim import Finding
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Value
from phasecast.online.feature_scaling import integral_curve, power_law_window, rotated_floor
from phasecast.online.linear import general_curve, small_rate_curve
from phasecast.online.spectrum import Spectrum


@dataclass(frozen=True)
class LinearClaimPolicy(Policy):
    """When a closed form agrees with what was computed."""

    euler_steps: float = rule(0.02, "chosen, not derived: relative width, with reserve for Euler steps of 1e-3 in α")
    bound_rounding: float = rule(1.001, "a bound may be exceeded by this factor, for rounding")
    slope: float = rule(0.01, "chosen, not derived: width of the slope −1/2 well inside the window")
    average_errors: float = rule(4.0, "chosen: one normal deviation exceeds it with probability 6e-5")


POLICY = LinearClaimPolicy()


def _first(values: Value) -> float:
    return float(np.asarray(values)[0])


def _check_eq_6() -> Finding:
    spectrum, lr = Spectrum.power_law(8, 1.0), 1.5
    values, shares = spectrum.eigenvalues, spectrum.weights
    D, steps = np.full(8, 2.0), 40_000
    start = shares @ (values * D) / 2
    for _ in range(steps):  # to α = 40
        D = D + 40 / steps * lr * values * (-2 * D + lr * (shares * values) @ D)
    end = shares @ (values * D) / 2
    printed = np.linalg.eigvals(np.diag(values) - lr * np.outer(values, shares * values)).real.min()
    ours = general_curve(spectrum, lr, 1.0, [40]).eps[0]
    words = f"ε goes from {start:.2f} to {end:.2g}, ours {ours:.2g}; the slowest printed rate is {printed:.2g}"
    return finding(words, printed=bool(printed > 0), corrected=bool(abs(ours / end - 1) < POLICY.euler_steps))


def _check_eq_9() -> Finding:
    grid = np.geomspace(1e-3, 1e4, 60)
    inside = True
    for modes, beta in ((128, 0.5), (256, 1.0)):
        exact = small_rate_curve(Spectrum.power_law(modes, beta), 0.1, 0.01, grid).eps
        integral = integral_curve(modes, beta, 0.1, 0.01, grid)
        bound = integral.systematic * POLICY.bound_rounding + 1e-14
        inside &= bool(np.all(abs(exact - integral.value) <= bound))
    first, last = power_law_window(4096, 1.0, 0.1)
    window = np.geomspace(10 * first, last / 1000, 30)
    curve = small_rate_curve(Spectrum.power_law(4096, 1.0), 0.1, 0.01, window)
    slope = np.polyfit(np.log(window), np.log(curve.eps), 1)[0]
    words = f"within the bounds; slope {slope:.3f} well inside the window"
    return finding(words, printed=bool(inside and abs(slope + 0.5) < POLICY.slope))


def _check_eq_49() -> Finding:
    spectrum, lr, alpha = Spectrum.power_law(128, 0.5), 0.01, 100.0
    exact = small_rate_curve(spectrum, lr, 1.0, [alpha]).eps[0]
    integral = integral_curve(128, 0.5, lr, 1.0, [alpha])
    gap = exact - _first(integral.value)
    printed = 2 * spectrum.largest / (2 * 128) * np.exp(-2 * lr * spectrum.largest * alpha)
    ours = _first(integral.systematic)
    words = f"sum less integral {gap:.2g}, printed bound {printed:.2g}, ours {ours:.2g}"
    return finding(words, printed=bool(gap <= printed), corrected=bool(abs(gap) <= ours))


def _check_eq_11() -> Finding:
    modes, trained, lr, sigma = 256, 50, 0.05, 0.01
    exact = small_rate_curve(Spectrum.power_law(modes, 1.0), lr, sigma, [100], trained).eps[0]
    ours = integral_curve(modes, 1.0, lr, sigma, [100], trained)
    frozen = (1 + sigma**2) / 2 * Spectrum.power_law(modes, 1.0).largest / modes * (1 / trained - 1 / modes)
    printed = frozen + _first(integral_curve(modes, 1.0, lr, sigma, [100]).value)
    words = f"exact sum {exact:.6f}, ours {_first(ours.value):.6f}, printed {printed:.6f}"
    within = _first(ours.systematic)
    right, wrong = (bool(abs(value - exact) < within) for value in (_first(ours.value), printed))
    return finding(words, printed=wrong, corrected=right)


def _check_eq_88() -> Finding:
    covariance = 0.6 ** abs(np.subtract.outer(np.arange(12), np.arange(12)))
    rng = check_generator(0)
    off = 0.1 * rng.normal(size=(50_000, 12)) - rng.normal(size=(50_000, 12))
    off[:, :5] = -np.linalg.solve(covariance[:5, :5], covariance[:5, 5:] @ off[:, 5:].T).T
    eps = np.einsum("ri,ij,rj->r", off, covariance, off) / 24
    error, value = eps.std() / np.sqrt(len(eps)), float(rotated_floor(covariance, 5, 0.1))
    words = f"{value:.6f}; over 50 000 weights {eps.mean():.4f} ± {error:.4f}"
    return finding(words, printed=bool(abs(eps.mean() - value) < POLICY.average_errors * error))


CHECKS = {
    "scaling/eq-6": _check_eq_6,
    "scaling/eq-9": _check_eq_9,
    "scaling/eq-49": _check_eq_49,
    "scaling/eq-11": _check_eq_11,
    "scaling/eq-88": _check_eq_88,
}
"""The check of each claim; ``claims.toml`` has the statements."""
