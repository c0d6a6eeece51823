"""Where do the reference numbers of online learning come from? From these lines, which share no code with phasecast.

    python tests/reference/online_numbers.py

prints every number that ``test_online_plateau.py`` and ``test_online_linear.py`` call a reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import expm
from scipy.optimize import brentq, minimize_scalar


def spectrum(modes: int, beta: float) -> np.ndarray:
    """λ_l ∝ l^{−(1+β)} with mean one."""
    values = np.arange(1, modes + 1) ** -(1 + beta)
    return values / values.mean()


def plateau(teachers: int) -> float:
    """The least ε of students that are all c·ΣB_n, for orthonormal teachers: R = c, Q = Mc²."""

    def error(c: float) -> float:
        Q = teachers * c**2
        students = teachers * np.arcsin(Q / (1 + Q))
        cross = teachers * np.arcsin(c / np.sqrt(2 * (1 + Q)))
        return (students + np.arcsin(0.5) - 2 * cross) / np.pi

    least: Any = minimize_scalar(error, bounds=(0, 2), method="bounded", options={"xatol": 1e-12})
    return least.fun


def escape_time(teachers: int, second: float, lr: float) -> float:
    """Eq. 15 of Worschech & Rosenow with T1 = 1, D1 = D2 = 0 and T2 = ``second``."""
    M = teachers
    return np.pi / (2 * lr) * np.sqrt(2 * M - 1) * (2 * M + 1) ** 1.5 / second


def linear_curve(modes: int, beta: float, lr: float, sigma: float, alphas: list[float]) -> list[float]:
    """ε = ½ mean(λD), dD_l/dα = ηλ_l(−2D_l + η·mean(λD)), D(0) = 1 + σ²."""
    values = spectrum(modes, beta)
    drift = lr * (-2 * np.diag(values) + lr * np.outer(values, values) / modes)
    return [float(values @ expm(drift * alpha) @ np.full(modes, 1 + sigma**2) / modes / 2) for alpha in alphas]


def stability_limit(modes: int, beta: float) -> float:
    """The η at which the second moments of discrete SGD with N = L inputs stop to shrink."""
    values = spectrum(modes, beta)

    def growth(lr: float) -> float:
        noise = np.outer(values, values) + 2 * np.diag(values**2)
        change = -2 * lr / modes * np.diag(values) + lr**2 / modes**2 * noise
        return float(np.linalg.eigvals(change).real.max())

    place: Any = brentq(growth, 0.2, 2.0, xtol=1e-12)
    return float(place)


if __name__ == "__main__":
    print("plateau, 2 and 4 teachers:", plateau(2), plateau(4))
    print("escape time:", escape_time(4, float(np.mean(spectrum(10, 0.25) ** 2)), 0.1))
    print("linear curve:", linear_curve(8, 1.0, 1.0, 1.0, [0.5, 2, 10, 50]))
    print("stability limit, β = 1 and 1/4:", stability_limit(256, 1.0), stability_limit(256, 0.25))
