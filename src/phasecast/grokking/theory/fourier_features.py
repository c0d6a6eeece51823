"""Has the network learned the Fourier features, and how far is it from its initialisation?

Power of each unit at each frequency :math:`2\\pi k/p`, the share of the strongest one, weight norm, and how much the
neural tangent kernel has turned since initialisation,
:math:`1 - \\langle\\Theta_0,\\Theta\\rangle/(\\|\\Theta_0\\|\\|\\Theta\\|)`: near zero while learning is lazy,
and growing as it becomes rich (Cullen et al. 2026, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.grokking.analysis.curves import alive
from phasecast.grokking.theory.pair_features import Params, centred, checked_pairs, checked_weights, hidden


def power(block: ArrayLike) -> np.ndarray:
    """Spectral power of the columns of ``block`` (p, K) at k = 0, …, (p−1)/2, shape ((p+1)/2, K).

    With both signs of k together, so that a column's powers add up to its squared norm.
    """
    block = np.asarray(block, dtype=float)
    p = len(block)
    if block.ndim != 2 or p < 3 or p % 2 == 0:
        raise BadInput(f"the weights have shape {block.shape}", "give (p, K) with p odd, at least 3")
    squared = np.abs(np.fft.rfft(block, axis=0)) ** 2 / p
    squared[1:] *= 2
    return squared


def best_frequency(*blocks: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """For each unit, the frequency k ≥ 1 with most power over the blocks together, and its share of all their power.

    The constant (k = 0) counts towards all power only: a pure Fourier feature has share one. A unit without weights
    has share zero.
    """
    powers = np.sum([power(block) for block in blocks], axis=0)
    best = powers[1:].argmax(axis=0) + 1
    total = powers.sum(axis=0)
    share = np.take_along_axis(powers, best[None], axis=0)[0] / np.where(total > 0, total, 1)
    return best, share


@dataclass(frozen=True)
class NeuronSpectra:
    """The spectra of all units.

    ``first``, ``second``, ``output`` ((p+1)/2, K): power of the rows of W for a, for b, and of V. ``frequencies`` and
    ``shares`` (K,): the strongest frequency k ≥ 1 of both halves of W together and its share; ``agreement`` (K,):
    whether a, b and V each have the same strongest frequency; ``live`` (K,); ``histogram`` ((p−1)/2,): how many live
    units have frequency 1, 2, …
    """

    first: np.ndarray
    second: np.ndarray
    output: np.ndarray
    frequencies: np.ndarray
    shares: np.ndarray
    agreement: np.ndarray
    live: np.ndarray
    histogram: np.ndarray


def neuron_spectra(params: Params, p: int) -> NeuronSpectra:
    """Fourier spectra of the rows of W and of V, after removing the constant that a unit may move from a to b.

    Adding c to W[a] for all a and taking it from W[p+b] changes nothing that the network computes, so both halves are
    given the same mean.
    """
    W, V = checked_weights(params, p)
    half = (W[:p].mean(axis=0) - W[p:].mean(axis=0)) / 2
    first, second = W[:p] - half, W[p:] + half
    frequencies, shares = best_frequency(first, second)
    spectra = power(first), power(second), power(V)
    leading = [one[1:].argmax(axis=0) for one in spectra]
    live = alive(V)
    return NeuronSpectra(
        *spectra,
        frequencies=frequencies,
        shares=shares,
        agreement=(leading[0] == leading[1]) & (leading[1] == leading[2]),
        live=live,
        histogram=np.bincount(frequencies[live], minlength=(p + 1) // 2)[1:],
    )


def weight_norm(params: Params) -> float:
    """√(‖W‖² + ‖V‖² + …) over all parameters."""
    return float(np.sqrt(sum(np.sum(np.asarray(leaf, dtype=float) ** 2) for leaf in params.values())))


def kernel_change(before: Params, after: Params, tokens: ArrayLike, p: int) -> float:
    """1 − alignment of the centred neural tangent kernels at two parameters, on the pairs ``tokens``.

    The kernels have (np)² entries and are never formed: ⟨Θ₀, Θ⟩ = ‖J₀ᵀJ‖², which the two row look-ups reduce to
    products of K × K matrices, one for each operand.
    """
    pairs = checked_pairs(tokens, p)
    if len(np.unique(pairs, axis=0)) < len(pairs):
        raise BadInput("some pairs occur twice", "give each pair once")
    old, new = (_Layer.of(params, pairs, p) for params in (before, after))
    lengths = _inner(old, old, pairs) * _inner(new, new, pairs)
    if not lengths > 0:
        raise BadInput("the tangent kernel is zero", "give parameters that are not all zero")
    return 1 - _inner(old, new, pairs) / float(np.sqrt(lengths))


@dataclass(frozen=True)
class _Layer:
    """Centred features, slopes 2XW, sums of slopes over the examples seen through X, and V."""

    features: np.ndarray
    slopes: np.ndarray
    through: np.ndarray
    V: np.ndarray

    @staticmethod
    def of(params: Params, pairs: np.ndarray, p: int) -> _Layer:
        W, V = checked_weights(params, p)
        inner = hidden(W, pairs, p)
        sums = np.zeros_like(W)
        np.add.at(sums, pairs[:, 0], 2 * inner)
        np.add.at(sums, p + pairs[:, 1], 2 * inner)
        return _Layer(centred(inner**2), 2 * inner, sums, V)


def _inner(one: _Layer, two: _Layer, pairs: np.ndarray) -> float:
    """‖J₁ᵀJ₂‖² from its four blocks (V,V), (V,W), (W,V), (W,W).

    With M_j = P⊥ diag(q_j) X the (W,W) block of units j, l is (V₁ᵀV₂)_jl M_jᵀM_l, and
    ‖M_jᵀM_l‖² = ‖Xᵀdiag(q_j q_l)X‖² − (2/n) m_jᵀXᵀdiag(q_j q_l)X m_l + |m_j|²|m_l|²/n² with m = Xᵀq.
    """
    n, p = len(pairs), len(one.V)
    both = np.sum((one.features.T @ two.features) ** 2) * p
    masses = [np.sum(layer.V**2, axis=0) for layer in (one, two)]
    squares = 2 * (one.slopes**2).T @ two.slopes**2
    mixed = 0.0
    for column in (0, 1):
        for operand in np.unique(pairs[:, column]):
            rows = pairs[:, column] == operand
            f1, f2, q1, q2 = one.features[rows], two.features[rows], one.slopes[rows], two.slopes[rows]
            squares += (q1.T @ q2) ** 2
            mixed += float(np.sum((f1.T @ q2) ** 2 @ masses[1]) + np.sum(masses[0] @ (q1.T @ f2) ** 2))
    through = [layer.slopes * hidden(layer.through, pairs, p) for layer in (one, two)]
    lengths = [np.sum(layer.through**2, axis=0) for layer in (one, two)]
    inner = squares - 2 / n * through[0].T @ through[1] + np.outer(*lengths) / n**2
    return float(both + mixed + np.sum((one.V.T @ two.V) ** 2 * inner))
