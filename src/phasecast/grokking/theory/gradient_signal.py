"""Which way does the loss push the hidden features, and where would that lead? (Cullen et al. 2026, section 5.2.)

The gradient signal is :math:`G_F = -\\partial J/\\partial F = (\\tilde Y - \\tilde F V)V^\\top`. At the ridge solution
it is, exactly,

.. math:: G_F = \\eta A^{-1}\\tilde Y\\tilde Y^\\top A^{-1}\\tilde F, \\qquad A = \\tilde F\\tilde F^\\top + \\eta I,

and the paper replaces A by a multiple of the identity: :math:`G_F \\approx c_\\eta\\tilde Y\\tilde Y^\\top\\tilde F`.
Each unit then climbs the energy :math:`E(w) = \\frac12\\|\\tilde Y^\\top\\sigma(Xw)\\|^2`. On the full table, with
w = (u, v),

.. math:: E = p \\sum_{k=1}^{(p-1)/2} U_k V_k, \\qquad U_k = \\tfrac2p|\\hat u_k|^2,\\ V_k = \\tfrac2p|\\hat v_k|^2,

so that on the unit sphere every local maximum has one frequency and E = p/4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.grokking.theory.fourier_features import best_frequency
from phasecast.grokking.theory.pair_features import (
    Params,
    centred,
    checked_pairs,
    checked_weights,
    hidden,
    inputs_of,
    one_hot,
)
from phasecast.grokking.theory.ridge import ridge_solution

CONVERGED = 1e-7  # ∇E along the sphere relative to 4E = w·∇E; the energy is then known to 1e-14, rounding
SETTLED = 100 * CONVERGED  # of an ascent that ran out of steps: its energy is known to 1e-10
LARGEST_SHIFT = 1e3  # in units of E; larger shifts make steps too small for the energy to rise beyond rounding


@dataclass(frozen=True)
class Signal:
    """G_F (n, K) beside ỸỸᵀF̃: their cosine, the best c in G ≈ c ỸỸᵀF̃, and ‖G − cỸỸᵀF̃‖/‖G‖ = √(1 − cos²)."""

    gradient: np.ndarray
    cosine: float
    scale: float
    residual: float


def gradient_signal(params: Params, tokens: ArrayLike, labels: ArrayLike, p: int) -> Signal:
    """G_F of a network in training, for the summed loss (that of the mean loss is n times smaller)."""
    W, V = checked_weights(params, p)
    features = centred(hidden(W, checked_pairs(tokens, p), p) ** 2)
    targets = centred(one_hot(labels, p))
    gradient = (targets - features @ V.T) @ V
    aligned = targets @ (targets.T @ features)
    size = float(np.linalg.norm(gradient) * np.linalg.norm(aligned))
    if size == 0:
        raise BadInput("the gradient signal is zero: V = 0, or the data are fitted exactly", "use another checkpoint")
    cosine = float(np.sum(gradient * aligned)) / size
    scale = float(np.sum(gradient * aligned) / np.sum(aligned**2))
    residual = float(np.linalg.norm(gradient - scale * aligned) / np.linalg.norm(gradient))
    return Signal(gradient, cosine, scale, residual)


def ridge_signal(W: ArrayLike, tokens: ArrayLike, labels: ArrayLike, p: int, ridge: float) -> Signal:
    """G_F with the second layer at its ridge solution."""
    fitted = ridge_solution(W, tokens, labels, p, ridge)
    return gradient_signal({"W": W, "V": fitted.V}, tokens, labels, p)


def wide_scale(width: int, ridge: float, deviation: float) -> float:
    """c_η on the full table for many units with Gaussian weights of standard deviation s: η/(4Ks⁴ + η)².

    The kernel of random squares is 2s⁴(δ_aa' + δ_bb')². Ỹ depends on a + b alone, so it is orthogonal to functions of
    one operand, and on the rest the kernel is 4s⁴ times the identity: there the paper's approximation becomes exact.
    """
    return ridge / (4 * width * deviation**4 + ridge) ** 2


def energy(w: ArrayLike, tokens: ArrayLike, labels: ArrayLike, p: int) -> tuple[np.ndarray, np.ndarray]:
    """E of each column of ``w`` (2p, K), shape (K,), and its gradient Xᵀ(2Xw ∘ ỸỸᵀ(Xw)²), shape (2p, K)."""
    pairs = checked_pairs(tokens, p)
    return _energy(np.asarray(w, dtype=float), pairs, centred(one_hot(labels, p)), inputs_of(pairs, p).T, p)


def _energy(
    w: np.ndarray, pairs: np.ndarray, targets: np.ndarray, transposed: np.ndarray, p: int
) -> tuple[np.ndarray, np.ndarray]:
    inner = hidden(w, pairs, p)
    aligned = targets.T @ inner**2
    return np.sum(aligned**2, axis=0) / 2, transposed @ (2 * inner * (targets @ aligned))


def fourier_energy(p: int, first: float, second: float) -> float:
    """E on the full table of a unit with one frequency, |u|² = ``first`` and |v|² = ``second``: p |u|²|v|²."""
    return p * first * second


@dataclass(frozen=True)
class Ascent:
    """Where ascents of E on the unit sphere end.

    ``weights`` (2p, starts), ``energies`` (starts,), ``frequencies`` and ``shares`` (starts,): the best single
    frequency and its share of all spectral power of each end; ``converged`` (starts,).
    """

    weights: np.ndarray
    energies: np.ndarray
    frequencies: np.ndarray
    shares: np.ndarray
    converged: np.ndarray


def climb(
    tokens: ArrayLike,
    labels: ArrayLike,
    p: int,
    *,
    starts: int = 64,
    steps: int = 3000,
    seed: int = 0,
    initial: ArrayLike | None = None,
) -> Ascent:
    """Ascend E on the unit sphere from random starts, all at once, or from the columns of ``initial`` (2p, starts).

    Each step is w ← (∇E + αw)/‖∇E + αw‖, the shifted power method for a form of degree four; α grows when the energy
    would decrease and shrinks when it increases, so that energies never decrease.
    """
    whole_number("starts", starts, 1)
    pairs = checked_pairs(tokens, p)
    targets, transposed = centred(one_hot(labels, p)), inputs_of(pairs, p).T
    if initial is None:
        initial = np.random.default_rng(seed).standard_normal((2 * p, starts))
    w = np.asarray(initial, dtype=float)
    if w.ndim != 2 or len(w) != 2 * p or not np.all(np.linalg.norm(w, axis=0) > 0):
        raise BadInput(f"the starts have shape {w.shape}", f"give ({2 * p}, starts), no column zero")
    w = w / np.linalg.norm(w, axis=0)
    value, slope = _energy(w, pairs, targets, transposed, p)
    shift = value.copy()
    for _ in range(steps):
        trial = slope + shift * w
        trial /= np.linalg.norm(trial, axis=0)
        new, new_slope = _energy(trial, pairs, targets, transposed, p)
        better = new >= value
        w, slope = np.where(better, trial, w), np.where(better, new_slope, slope)
        shift = np.where(better, shift / 2, np.minimum(4 * shift + value, LARGEST_SHIFT * value))
        value = np.where(better, new, value)
        if np.all(_slope_along_sphere(w, value, slope) < CONVERGED):
            break
    frequencies, shares = best_frequency(w[:p], w[p:])
    return Ascent(w, value, frequencies, shares, _slope_along_sphere(w, value, slope) < SETTLED)


def _slope_along_sphere(w: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.linalg.norm(slope - 4 * value * w, axis=0) / np.maximum(4 * value, 1e-300)
