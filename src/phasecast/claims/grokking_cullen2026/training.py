"""Do the theorems of Cullen et al. about the way from memorising to generalising hold in small exact cases?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.claims.seeds import check_generator
from phasecast.claims.verdicts import finding
from phasecast.coefficients.exact.jacobian_rank import float_rank, jacobian_rank
from phasecast.core.claim import Finding
from phasecast.core.policy import Policy, rule
from phasecast.grokking.theory.gradient_signal import climb, ridge_signal, wide_scale
from phasecast.grokking.theory.pair_features import centred, hidden
from phasecast.grokking.theory.ridge import ridge_solution
from phasecast.models.modular import fourier_solution, modular_table, quadratic_network


@dataclass(frozen=True)
class CheckPolicy(Policy):
    """When a statement about limits counts as true of a finite case."""

    fourier: float = rule(
        0.9, "chosen, not derived: share of power at one frequency that makes a unit a Fourier feature"
    )
    aligned: float = rule(0.9, "chosen, not derived: cosine above which G_F ≈ c ỸỸᵀF̃ counts as true")
    unfitted: float = rule(0.98, "chosen, not derived: where nothing is fitted the cosine tends to 1")
    residual: float = rule(0.9, "chosen, not derived: relative residual above which the data count as not fitted")
    wide: float = rule(
        0.97, "chosen, not derived: the cosine tends to 1 with the width; tests/truth/test_grokking_measures.py"
    )
    wide_scale: float = rule(0.1, "chosen, not derived: relative distance of c from its limit at 128 p² units")
    left: float = rule(0.01, "chosen, not derived: relative residual that is clearly not rounding")
    small: float = rule(1e-3, "chosen, not derived: between rounding and the residual at η = 1e-3 of a wide layer")
    rounding: float = rule(1e-12, "a few thousand roundings of float64")
    few: float = rule(0.1, "chosen, not derived: share of ascents below which almost none ends at one frequency")
    ridge: float = rule(1e-3, "chosen: an η > 0 whose residual is far above rounding, to show beside the limit η → 0")


POLICY = CheckPolicy()


def _table(p: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.divmod(np.arange(p * p), p)
    return np.stack([first, second], axis=1), (first + second) % p


def _weights(p: int, width: int, seed: int = 0) -> np.ndarray:
    return check_generator(seed).standard_normal((2 * p, width)) / np.sqrt(2 * p)


def _check_theorem_5_2() -> Finding:
    """The rank of the centred features against min(l, K) with l = p², and against the rank of the whole Jacobian."""
    words, printed, ours = [], True, True
    for p, width in ((3, 4), (3, 9), (5, 8), (5, 30)):
        tokens, _ = _table(p)
        W = _weights(p, width)
        rank = float_rank(centred(hidden(W, tokens, p) ** 2)).rank
        printed &= rank == min(p * p, width)
        ours &= rank == min(p * p - 1, width)
        words.append(f"p, K = {p}, {width}: rank {rank}, printed {min(p * p, width)}")
    p, width = 3, 4
    tokens, labels = _table(p)
    W = _weights(p, width)
    point = {"W": W, "V": ridge_solution(W, tokens, labels, p, 1e-6).V}
    whole = jacobian_rank(quadratic_network, point, modular_table(p)[0], centred=True).rank
    words.append(f"with W free too the rank at the ridge point is {whole}, not {p * width} (p, K = {p}, {width})")
    return finding("; ".join(words), printed=printed, corrected=ours and whole > p * width)


def _check_interpolation() -> Finding:
    """Ỹ − F̃V_ridge on the full table of p = 5, for widths below and above p² − 1, with a ridge and in the limit."""
    tokens, labels = _table(5)
    widths = (20, 24)
    ridge = {width: ridge_solution(_weights(5, width), tokens, labels, 5, POLICY.ridge).residual for width in widths}
    limit = {width: _unreached(_weights(5, width), tokens, labels) for width in widths}
    words = "; ".join(
        f"K = {width}: {ridge[width]:.2g} with η = {POLICY.ridge:g}, {limit[width]:.2g} for η → 0" for width in widths
    )
    never_zero = all(left > 0 for left in ridge.values())
    ours = limit[20] > POLICY.left and limit[24] < POLICY.small < ridge[24]
    return finding(f"‖Ỹ − F̃V‖/‖Ỹ‖ at p = 5: {words}", printed=not never_zero, corrected=never_zero and ours)


def _unreached(W: np.ndarray, tokens: np.ndarray, labels: np.ndarray) -> float:
    """The residual of least squares, which that of a ridge tends to; how fast depends on the smallest eigenvalue."""
    features, targets = centred(hidden(W, tokens, 5) ** 2), centred(np.eye(5)[labels])
    residual = targets - features @ np.linalg.lstsq(features, targets, rcond=None)[0]
    return float(np.linalg.norm(residual) / np.linalg.norm(targets))


def _check_signal() -> Finding:
    """The cosine of G_F with ỸỸᵀF̃ at the ridge solution, with and without fitted data."""
    cases = {}
    for name, p, n, width, ridge in (
        ("p = 11, 40% of the table, K = 64, fitted", 11, 48, 64, 1e-4),
        ("K = 512, fitted", 11, 48, 512, 1e-4),
        ("K = 64, not fitted", 11, 48, 64, 1e2),
        ("p = 7, full table, K = 128 p², fitted", 7, 49, 128 * 49, 1e-4),
    ):
        tokens, labels = _table(p)
        rows = check_generator(1).permutation(p * p)[:n]
        W = _weights(p, width)
        signal = ridge_signal(W, tokens[rows], labels[rows], p, ridge)
        residual = ridge_solution(W, tokens[rows], labels[rows], p, ridge).residual
        cases[name] = (signal.cosine, residual, signal.scale / wide_scale(width, ridge, (2 * p) ** -0.5))
    words = "; ".join(f"{name}: cosine {cos:.3f}, residual {left:.2g}" for name, (cos, left, _) in cases.items())
    narrow, broad, unfitted, wide = cases.values()
    nothing_fitted = unfitted[0] > POLICY.unfitted and unfitted[1] > POLICY.residual
    wide_limit = wide[0] > POLICY.wide and abs(wide[2] - 1) < POLICY.wide_scale
    return finding(
        f"{words}; c/c_wide = {wide[2]:.3f}",
        printed=min(narrow[0], broad[0]) > POLICY.aligned,
        corrected=nothing_fitted and wide_limit,
    )


def _check_maxima() -> Finding:
    """Ascents of E on the full table and on 40% of it: how many end at one frequency."""
    p = 23
    tokens, labels = _table(p)
    rows = check_generator(1).permutation(p * p)[: int(0.4 * p * p)]
    full, part = climb(tokens, labels, p, starts=24), climb(tokens[rows], labels[rows], p, starts=24)
    on_full, on_part = (float(np.mean(ascent.shares > POLICY.fourier)) for ascent in (full, part))
    words = (
        f"p = {p}: {on_full:.0%} of the ascents on the full table end at one frequency, with E from "
        f"{full.energies.min():.4f} to {full.energies.max():.4f} (p/4 = {p / 4}); on 40% of it {on_part:.0%}, with a "
        f"median share of {np.median(part.shares):.2f}"
    )
    ours = on_full == 1 and bool(np.allclose(full.energies, p / 4)) and on_part < POLICY.few
    return finding(words, printed=on_full == 1 and on_part > 1 - POLICY.few, corrected=ours)


def _check_remark_5_4() -> Finding:
    """The solution with 4 units per frequency has 2(p−1) units, fewer than 2p−1, and is exact."""
    words, fewer = [], True
    for p in (3, 5, 7, 11):
        inputs, targets = modular_table(p)
        point = fourier_solution(p, 4)
        width = point["V"].shape[1]
        left = float(np.abs(centred(np.asarray(quadratic_network(point, inputs)) - targets)).max())
        fewer &= width < 2 * p - 1 and left < POLICY.rounding
        words.append(f"p = {p}: {width} units leave {left:.1g}")
    return finding("; ".join(words), printed=not fewer, corrected=fewer)


CHECKS = {
    "grokking/ridge-coefficient": _check_theorem_5_2,
    "grokking/ridge-interpolates": _check_interpolation,
    "grokking/gradient-signal": _check_signal,
    "grokking/energy-maxima": _check_maxima,
    "grokking/remark-5.4": _check_remark_5_4,
}
"""The check of each claim; ``claims.toml`` has the statements."""
