"""Where should λ̂ lie along training? Exact lines for one training set, and what a quadratic landscape would give.

- lazy: ½ p min(n−1, K), only the second layer moves (Theorem 5.2);
- tangent: half the rank of the centred Jacobian at the parameters, a lower bound on λ there (Theorem 5.1);
- feature: ½ K_eff (3p−2), at most ½ p(n−1) (Theorem 5.5, with one more symmetry);
- Gauss-Newton: :math:`\\hat\\lambda(n\\beta,\\gamma) = \\frac12\\sum_i n\\beta e_i/(n\\beta e_i + \\gamma)` with e the
  eigenvalues of JᵀJ/n: what a sampler must give at this nβ and γ if the outputs are linear in the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.jacobian_rank import Rank
from phasecast.coefficients.exact.quadratic_networks import modular_addition
from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Prediction, Status
from phasecast.core.statistics import standard_error
from phasecast.grokking.theory.pair_features import Params, centred, checked_pairs, checked_weights, hidden, inputs_of

LARGEST_DENSE = 6000  # rows of a Gram matrix whose eigenvalues take less than a minute
SOURCE = "quadratic potential with a Gaussian localisation, with the Gauss-Newton matrix as the Hessian"


@dataclass(frozen=True)
class LanczosPolicy(Policy):
    """When a trace from Lanczos vectors counts as converged in their number."""

    largest_change: float = rule(
        1e-3, "chosen, not derived: a thousandth of the value is below the error of every λ̂ it is compared with"
    )


POLICY = LanczosPolicy()


def exact_lines(p: int, width: int, n: int, k_eff: int | None = None) -> dict[str, Coefficient]:
    """λ of ``n`` training pairs in general position: lazy, tangent at initialisation and, given K_eff, feature.

    >>> {name: float(line.value) for name, line in exact_lines(23, 128, 211, k_eff=44).items()}
    {'lazy': 1472.0, 'tangent': 2415.0, 'feature': 1474.0}
    """
    lines = {
        "lazy": modular_addition(p, width, train=n, regime="lazy"),
        "tangent": modular_addition(p, width, train=n, regime="ntk"),
    }
    if k_eff is not None:
        lines["feature"] = modular_addition(p, whole_number("k_eff", k_eff, 1), train=n)
    return lines


def jacobian_eigenvalues(params: Params, tokens: ArrayLike, p: int, *, single: bool = False) -> np.ndarray:
    """All eigenvalues of the smaller of J Jᵀ/n and JᵀJ/n, rising; J is the centred Jacobian of the outputs.

    J is never formed. The larger matrix has the same eigenvalues and more zeros. ``single`` uses float32, four times
    faster: accurate enough for Gauss-Newton values at γ/nβ above 10⁻⁶ of the largest eigenvalue, but not for a rank.
    """
    W, V = checked_weights(params, p)
    pairs = checked_pairs(tokens, p)
    outputs, weights = len(pairs) * p, W.size + V.size
    if min(outputs, weights) > LARGEST_DENSE:
        raise BadInput(
            f"{min(outputs, weights)} eigenvalues are too many to compute one by one",
            f"use gauss_newton_sampled, or at most {LARGEST_DENSE} outputs or parameters",
        )
    kind = np.float32 if single else np.float64
    inner = hidden(W, pairs, p).astype(kind)
    gram = (_output_gram if outputs <= weights else _weight_gram)(inner, V.astype(kind), pairs, p)
    return np.linalg.eigvalsh(gram / len(pairs)).astype(float)


def _output_gram(inner: np.ndarray, V: np.ndarray, pairs: np.ndarray, p: int) -> np.ndarray:
    """J Jᵀ, (np, np): δ_cc' FFᵀ + (δ_aa' + δ_bb') Σ_j 4 h_j h'_j V_cj V_c'j, with the mean over examples removed."""
    n = len(pairs)
    slopes = (2 * inner[:, None, :] * V[None]).reshape(n * p, -1)
    same = (pairs[:, None, :] == pairs[None]).sum(axis=2).astype(inner.dtype)
    gram = (slopes @ slopes.T).reshape(n, p, n, p)
    gram *= same[:, None, :, None]
    classes = np.arange(p)
    gram[:, classes, :, classes] += (inner**2) @ (inner**2).T
    gram -= gram.mean(axis=0, keepdims=True)
    gram -= gram.mean(axis=2, keepdims=True)
    return gram.reshape(n * p, n * p)


def _weight_gram(inner: np.ndarray, V: np.ndarray, pairs: np.ndarray, p: int) -> np.ndarray:
    """JᵀJ over all parameters, V first and then W, from the dense Jacobian, which is small when this is used."""
    n, width = inner.shape
    rows, places = np.arange(n), np.arange(p)
    by_V = np.zeros((n, p, p, width), inner.dtype)
    by_V[:, places, places] = (inner**2)[:, None]
    by_W = np.zeros((n, p, 2 * p, width), inner.dtype)
    slopes = 2 * inner[:, None, :] * V[None]
    by_W[rows, :, pairs[:, 0]] = slopes
    by_W[rows, :, p + pairs[:, 1]] = slopes
    jacobian = centred(np.concatenate([by_V, by_W], axis=2).reshape(n, p, -1)).reshape(n * p, -1)
    return jacobian.T @ jacobian


def rank_from_eigenvalues(eigenvalues: np.ndarray, n: int, p: int) -> Rank:
    """The rank of J from the eigenvalues of its Gram matrix, and how clear it is (``gap`` of singular values)."""
    values = np.sort(np.abs(np.asarray(eigenvalues, dtype=float)))[::-1]
    rank = int(np.sum(values > len(values) * np.finfo(float).eps * values[0]))
    gap = math.sqrt(values[rank - 1] / values[rank]) if 0 < rank < len(values) and values[rank] > 0 else math.inf
    return Rank(rank, (n * p, len(values)), False, gap)


def gauss_newton(eigenvalues: ArrayLike, nbeta: float, gamma: float, nonlinear: float = 0.0) -> Prediction:
    """λ̂ at nβ and γ from the eigenvalues of JᵀJ/n; ``nonlinear`` times it (:func:`nonlinearity`) is its systematic.

    It depends on nβ/γ alone, and a sampler gives it only if γ keeps the chains where the outputs are linear: for
    p = 23, K = 128 after memorising, at nβ/γ = 6, it is 263, and HMC gives 266 at γ = 500 but 583 at γ = 5.

    >>> gauss_newton([2.0, 0.5, 0.0], nbeta=10, gamma=5).value
    0.65
    """
    _check(nbeta, gamma)
    if not nonlinear >= 0:
        raise BadInput(f"nonlinear is {nonlinear:g}", "give a fraction, 0 for outputs that are linear")
    scaled = nbeta * np.clip(np.asarray(eigenvalues, dtype=float), 0, None)
    value = 0.5 * float(np.sum(scaled / (scaled + gamma)))
    return Prediction(
        value,
        regime=f"nβ = {nbeta:g}, γ = {gamma:g}; outputs linear in the parameters within the reach of γ",
        source=SOURCE,
        systematic=nonlinear * value,
        name="Gauss-Newton λ̂",
    )


def nonlinearity(params: Params, tokens: ArrayLike, p: int, gamma: float, *, draws: int = 32, seed: int = 0) -> float:
    """How far the outputs are from linear within the reach of γ: E‖Δf − JΔw‖²/E‖JΔw‖² under Δw ~ N(0, 1/γ).

    Well below one, the Gauss-Newton value applies to the network; near one or above, it does not.
    """
    _check(1.0, gamma)
    W, V = checked_weights(params, p)
    pairs = checked_pairs(tokens, p)
    inner, rng = hidden(W, pairs, p), np.random.default_rng(seed)
    straight, bent = 0.0, 0.0
    for _ in range(whole_number("draws", draws, 1)):
        dW, dV = (rng.standard_normal(block.shape) / math.sqrt(gamma) for block in (W, V))
        moved = hidden(dW, pairs, p)
        linear = centred(2 * inner * moved @ V.T + inner**2 @ dV.T)
        change = centred((inner + moved) ** 2 @ (V + dV).T - inner**2 @ V.T)
        straight += float(np.sum(linear**2))
        bent += float(np.sum((change - linear) ** 2))
    return bent / straight


def gauss_newton_sampled(
    params: Params,
    tokens: ArrayLike,
    p: int,
    nbeta: float,
    gamma: float,
    *,
    probes: int = 16,
    depth: int = 40,
    seed: int = 0,
) -> Measurement:
    """The same for networks too large for all eigenvalues: ½ tr[A(A + γ/nβ)⁻¹] by Lanczos from random signs.

    Each probe z gives zᵀf(JJᵀ/n)z from the ``depth`` Lanczos vectors that it spans (Ubaru, Chen & Saad 2017). The error
    is that over the probes, combined with the change that the last third of the depth makes.
    """
    _check(nbeta, gamma)
    whole_number("probes", probes, 2)
    W, V = checked_weights(params, p)
    pairs = checked_pairs(tokens, p)
    n, inner = len(pairs), hidden(W, pairs, p)
    features = centred(inner**2)
    transposed = inputs_of(pairs, p).T
    depth = min(whole_number("depth", depth, 3), n * p)

    def apply(outputs: np.ndarray) -> np.ndarray:
        """JJᵀ/n on many output tables at once, (n, probes, p)."""
        many = centred(outputs)
        back = 2 * inner[:, None, :] * (many @ V)
        moved = hidden((transposed @ back.reshape(n, -1)).reshape(2 * p, probes, -1), pairs, p)
        by_W = (2 * inner[:, None, :] * moved) @ V.T
        by_V = features @ (features.T @ many.reshape(n, -1))
        return centred(by_W + by_V.reshape(many.shape)) / n

    rng = np.random.default_rng(seed)
    diagonals, beside, sizes = _lanczos(apply, rng.choice([-1.0, 1.0], (n, probes, p)), depth)
    values, shallow = (
        np.array([_quadrature(d[:m], b[: m - 1], nbeta, gamma) for d, b in zip(diagonals, beside, strict=True)])
        for m in (depth, max(2, 2 * depth // 3))
    )
    samples, change = sizes * values / 2, float(np.mean(sizes * (values - shallow) / 2))
    value, error = float(samples.mean()), float(standard_error(samples))
    reasons = []
    if abs(change) > max(error, POLICY.largest_change * value):
        reasons = [f"the last third of the Lanczos vectors changes it by {change:.2g}: use a larger depth"]
    return Measurement(
        value,
        math.hypot(error, change),
        Status.WARNING if reasons else Status.OK,
        {"probes": probes, "depth": depth, "change": change},
        reasons=reasons,
        name="Gauss-Newton λ̂",
        policy=POLICY.plain(),
    )


def _lanczos(
    apply: Callable[[np.ndarray], np.ndarray], start: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tridiagonal matrices (probes, depth) and (probes, depth − 1) of a symmetric map, and the squared starts."""
    probes = start.shape[1]
    start = centred(start)
    sizes = np.sum(start**2, axis=(0, 2))
    vector = start / np.sqrt(sizes)[:, None]
    before, off = np.zeros_like(vector), np.zeros(probes)
    diagonals, beside = np.zeros((probes, depth)), np.zeros((probes, depth))
    for step in range(depth):
        new = apply(vector) - off[:, None] * before
        diagonals[:, step] = np.sum(new * vector, axis=(0, 2))
        new -= diagonals[:, step][:, None] * vector
        off = np.sqrt(np.sum(new**2, axis=(0, 2)))
        beside[:, step] = off
        before, vector = vector, new / np.where(off > 0, off, 1)[:, None]
    return diagonals, beside[:, :-1], sizes


def _quadrature(diagonal: np.ndarray, beside: np.ndarray, nbeta: float, gamma: float) -> float:
    from scipy.linalg import eigh_tridiagonal

    nodes, vectors = eigh_tridiagonal(diagonal, beside)
    scaled = nbeta * np.clip(nodes, 0, None)
    return float(np.sum(vectors[0] ** 2 * scaled / (scaled + gamma)))


def _check(nbeta: float, gamma: float) -> None:
    if not (nbeta > 0 and gamma > 0):
        raise BadInput(f"nbeta = {nbeta:g}, gamma = {gamma:g}", "use positive numbers")
