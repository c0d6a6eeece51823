"""What is the law of the curvature of a wide network after one step?

With m → ∞ neurons, half with a_j = a and half with −a, f = 0 at the start and F_j = a_j ℓ'(0, y) σ'(V_j + b). A step of
size η for each neuron (η/m of the slides, which would move nothing at a fixed η) gives

.. math:: V_j(1) = V_j - \\eta a_j\\Big[\\frac{\\ell'\\sigma'_j}{\\delta} + \\mathbb E\\ell'\\,
          \\frac{\\mathbb E[\\sigma'V]}{\\|\\theta\\|^2} V_j + \\kappa + \\sqrt{\\frac{\\mathbb E\\ell'^2\\,
          \\mathrm{Var}\\,\\sigma'}{\\delta}}\\,\\xi_j\\Big], \\qquad
          \\kappa = \\mathbb E\\sigma'\\Big(\\mathbb E[\\ell'z_E]\\cdot z_E + \\sqrt{\\mathbb E\\ell'^2/\\delta}\\,
          \\zeta\\Big).

ζ is common to all neurons of an example: the gradients of two neurons have the covariance (E σ')² a_j a_k E ℓ'². The
output after the step is the mean over neurons, a function of ℓ' and κ alone,

.. math:: f_1 = \\tfrac a2\\,\\mathbb E_{V,\\xi}\\big[\\sigma(V^+(1)+b) - \\sigma(V^-(1)+b)\\big],

and G_j = a_j ℓ'(f_1, y) σ''(V_j(1) + b). The derivation is ours, from the mean-field equations of Wang & Montanari
2026.
"""

from __future__ import annotations

import math

import numpy as np

from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.lower_bound import curvature_floor
from phasecast.features.curvature.quadrature import gaussian_points, start_points
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target

PLACES = 33  # grid points of ℓ' and of κ in the table of f₁, which a spline interpolates


def wide_step_laws(
    network: Network, target: Target, lr: float, delta: float, fineness: float = 1.0
) -> tuple[CurvatureLaw, ...]:
    """The laws at t = 1 of the blocks with a_j = a and a_j = −a."""
    from scipy.interpolate import RectBivariateSpline

    V, z, y, noise, weights = start_points(network, target, fineness, fresh=2)  # ξ_j and ζ
    norm, (a, _) = network.initial_norm, network.a_each
    b = network.b_each[0]
    x, share = gaussian_points(1, 0.2)
    unit_slope = _first(network, norm * x[:, 0] + b)
    mean, along, square = (float(share @ part) for part in (unit_slope, unit_slope * x[:, 0] / norm, unit_slope**2))
    loss_slope = evaluate_batched(network.loss, "first", np.zeros(len(y)), y)
    strength = math.sqrt(float(weights @ loss_slope**2) / delta)
    along_easy = (weights * loss_slope) @ (z @ target.easy)
    kappa = mean * (z @ target.easy @ along_easy + strength * noise[:, 1])
    spread = strength * math.sqrt(max(square - mean**2, 0.0))
    drag = float(weights @ loss_slope) * along

    def moved(
        sign: float, V: np.ndarray, loss_slope: np.ndarray | float, kappa: np.ndarray, xi: np.ndarray
    ) -> np.ndarray:
        return V - lr * sign * a * (loss_slope * _first(network, V + b) / delta + drag * V + kappa + spread * xi)

    inner, inner_share = gaussian_points(2, 0.15)
    own, xi = np.tile(norm * inner[:, 0], PLACES), np.tile(inner[:, 1], PLACES)
    grid_slope, grid_kappa = (np.linspace(part.min() - 1e-9, part.max() + 1e-9, PLACES) for part in (loss_slope, kappa))
    common = np.repeat(grid_kappa, len(inner))
    table = np.zeros((PLACES, PLACES))
    for row, p in enumerate(grid_slope):
        for sign in (1.0, -1.0):
            values = evaluate_batched(network.activation, "", moved(sign, own, p, common, xi) + b)
            table[row] += sign * a / 2 * (values.reshape(PLACES, -1) @ inner_share)
    output = RectBivariateSpline(grid_slope, grid_kappa, table).ev(loss_slope, kappa)
    after = evaluate_batched(network.loss, "first", output, y)
    laws = []
    for block, sign in enumerate((1.0, -1.0)):
        there = moved(sign, V[:, 0], loss_slope, kappa, noise[:, 0])
        G = sign * a * after * evaluate_batched(network.activation, "second", there + b)
        floor = curvature_floor(network, target, block, moved=True)
        laws.append(CurvatureLaw(G, z @ target.hard, weights, floor, time=1.0, delta=delta, block=block))
    return tuple(laws)


def _first(network: Network, u: np.ndarray) -> np.ndarray:
    return evaluate_batched(network.activation, "first", u)
