"""How much data does the best fast algorithm need? δ_alg for targets of one latent.

.. math:: \\frac1{\\delta_{alg}} = \\mathbb E_y\\big[(\\mathbb E[z^2 - 1 \\mid y])^2\\big]

for a hard direction (Mondelli & Montanari 2018; the slides' "Prior work"): the sample ratio at which the best spectral
method, and message passing, start to correlate with it. Phase retrieval, y = z², has E[z²|y] = y and δ_alg = 1/2.
"""

from __future__ import annotations

import math

import numpy as np

from phasecast.core.errors import OutsideRegime
from phasecast.core.results import Prediction
from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.curvature.quadrature import find_breaks, gaussian_points, panels
from phasecast.features.policy import POLICY
from phasecast.features.setting.target import Target, target

FINE = 40_000  # points of z without noise; the error is the distance to half of them
CELLS = 4000  # of y without noise; one holds about ten points
SOURCE = "Mondelli & Montanari 2018; Wang & Montanari 2026, 'Prior work'"


def algorithmic_threshold(choice: str | Target, *, noise: float = 0.0) -> Prediction:
    """δ_alg; zero where the direction is easy. ``systematic`` is the error of the integration.

    >>> algorithmic_threshold("z**2").words()[:6]
    '0.5000'
    """
    chosen = target(choice, noise=noise)
    if chosen.latents > 1:
        raise OutsideRegime(f"the target has {chosen.latents} latents", "δ_alg is known for one latent only")
    regime = "weak recovery by the best known fast algorithms, n/d → δ"
    if chosen.easy.shape[1]:
        return Prediction(0.0, regime + "; the direction is easy", SOURCE, name="δ_alg")
    fine, coarse = (_information(chosen, share) for share in (1.0, 0.5))
    if fine < POLICY.least_information:
        raise OutsideRegime(
            "y carries no information about z² either, so that n of order d is not enough",
            "use a target with E[z²|y] that is not constant",
        )
    return Prediction(1 / fine, regime, SOURCE, abs(1 / fine - 1 / coarse) + 1e-12, name="δ_alg")


def _information(one: Target, share: float) -> float:
    """E (E[z²−1|y])²: by cells of equal y without noise, by the Gaussian likelihood with it."""
    from scipy.special import ndtri

    if one.noise == 0:
        line, widths = panels((*find_breaks(one), 0.0), 9.0, round(FINE * share))
        weights = widths * np.exp(-(line**2) / 2)
        weights /= weights.sum()
        y = evaluate_batched(one, "labels", line[:, None], np.zeros(line.size))
        order = np.argsort(y, kind="stable")
        rank = np.cumsum(weights[order]) - weights[order] / 2
        same = np.concatenate([[0], np.cumsum(np.diff(y[order]) > 1e-12 * (1 + np.ptp(y)))])
        start = rank[np.searchsorted(same, same)]  # equal labels go to the cell of the first of them
        # cells finer in the tails, where z² − 1 is large: equal steps of the normal score of the rank
        score = ndtri(np.clip(start, 1e-16, 1 - 1e-16))
        cell = np.floor((score + 9) / 18 * CELLS * share).astype(int)
        atom = np.bincount(same, weights[order])[same] > 2 / (CELLS * share)  # labels with a weight of their own
        cell = np.where(atom, cell.max() + 1 + same, cell)
        mass = np.bincount(cell, weights[order])
        sums = np.bincount(cell, weights[order] * (line[order] ** 2 - 1))
        full = mass > 0
        return float((sums[full] ** 2 / mass[full]).sum())
    points, weights = gaussian_points(1, 0.5 * share)
    clean = evaluate_batched(one, "labels", points, np.zeros(len(points)))
    grid = np.linspace(clean.min() - 9 * one.noise, clean.max() + 9 * one.noise, round(6000 * share))
    total = 0.0
    for part in np.array_split(grid, 20):
        likelihood = np.exp(-(((part[:, None] - clean) / one.noise) ** 2) / 2) / (math.sqrt(2 * math.pi) * one.noise)
        mass, sums = likelihood @ weights, likelihood @ (weights * (points[:, 0] ** 2 - 1))
        likely = mass > 1e-200
        total += float((sums[likely] ** 2 / mass[likely]).sum())
    return total * float(grid[1] - grid[0])
