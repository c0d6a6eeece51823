"""Where do the reference thresholds at t = 0 come from? From these few lines, which share no code with phasecast.

    python tests/reference/thresholds_at_the_start.py

One unit on the sphere, hidden latent z. With G = ℓ''σ'² + ℓ'σ'' at the unit's pre-activation W, independent of z, the
resolvent α > 0 of the Hessian below its bulk obeys λ(α) = E[G/(1 + αG/δ)] − 1/α; the edge is the largest λ(α) for
α < δ/|min G|, and an eigenvalue whose eigenvector sees z lies where E[G(z² − 1)/(1 + αG/δ)] = −1/α.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

NODES, WEIGHTS = np.polynomial.legendre.leggauss(1200)
Z = 9 * NODES
P = 9 * WEIGHTS * np.exp(-(Z**2) / 2) / np.sqrt(2 * np.pi)


def curvature(labels: np.ndarray, loss: str) -> np.ndarray:
    """G over (W, z) for GeLU; ``loss`` is square or pseudo-huber."""
    density = np.exp(-(Z**2) / 2) / np.sqrt(2 * np.pi)
    value, first, second = Z * ndtr(Z), ndtr(Z) + Z * density, (2 - Z**2) * density
    r = value[:, None] - labels[None, :]
    root = np.sqrt(1 + r**2)
    slope, bend = (r, np.ones_like(r)) if loss == "square" else (r / root, root**-3)
    return bend * first[:, None] ** 2 + slope * second[:, None]


def edge_and_outlier(G: np.ndarray, delta: float) -> tuple[float, float, float]:
    """The edge, the eigenvalue below it (nan if there is none) and what its equation has left over at the edge."""
    weights = P[:, None] * P[None, :]
    top = delta / -G.min() * (1 - 1e-9)

    def level(alpha: float) -> float:
        return float(np.sum(weights * G / (1 + alpha * G / delta))) - 1 / alpha

    def outlier(alpha: float) -> float:
        return float(np.sum(weights * G * (Z**2 - 1) / (1 + alpha * G / delta))) + 1 / alpha

    highest: Any = minimize_scalar(
        lambda alpha: -level(alpha), bounds=(1e-3, top), method="bounded", options={"xatol": 1e-10}
    )
    at = highest.x
    left = outlier(at)
    place: Any = brentq(outlier, 1e-3, at) if left < 0 else None
    return level(at), np.nan if place is None else level(place), left


def threshold(G: np.ndarray, low: float, high: float) -> float:
    place: Any = brentq(lambda delta: edge_and_outlier(G, delta)[2], low, high, xtol=1e-8)
    return float(place)


if __name__ == "__main__":
    square, huber = curvature(np.tanh(Z) ** 2, "square"), curvature(Z**2, "pseudo-huber")
    print("δ*, GeLU, square loss, tanh(z)²:", threshold(square, 3.5, 6.0))
    print("δ*, GeLU, pseudo-Huber, z²:", threshold(huber, 1.2, 3.0))
    print("edge and outlier at δ = 10:", edge_and_outlier(huber, 10.0)[:2])
