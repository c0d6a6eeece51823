"""What Cullen et al. say about the way from memorising to generalising, and what small exact cases say."""

from __future__ import annotations

import numpy as np

from phasecast.claims.grokking_cullen2026.networks import GROKKING
from phasecast.claims.verdicts import verdict_of
from phasecast.coefficients.exact.jacobian_rank import float_rank, jacobian_rank
from phasecast.core.claim import Claim, Finding
from phasecast.core.claim import ClaimVerdict as Verdict
from phasecast.grokking.theory.gradient_signal import climb, ridge_signal, wide_scale
from phasecast.grokking.theory.pair_features import centred, hidden
from phasecast.grokking.theory.ridge import ridge_solution
from phasecast.models.modular import fourier_solution, modular_table, quadratic_network

FOURIER = 0.9  # the share of power in one frequency that makes a unit a Fourier feature


def _table(p: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.divmod(np.arange(p * p), p)
    return np.stack([first, second], axis=1), (first + second) % p


def _weights(p: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2 * p, width)) / np.sqrt(2 * p)


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
    return Finding(verdict_of(printed, ours and whole > p * width), "; ".join(words))


def _check_interpolation() -> Finding:
    """Ỹ − F̃V_ridge on the full table of p = 5, for widths below and above p² − 1 and for two ridge parameters."""
    tokens, labels = _table(5)
    residuals = {
        (width, ridge): ridge_solution(_weights(5, width), tokens, labels, 5, ridge).residual
        for width in (20, 24)
        for ridge in (1e-3, 1e-9)
    }
    words = "; ".join(f"K = {width}, η = {ridge:g}: {left:.2g}" for (width, ridge), left in residuals.items())
    never_zero = all(left > 0 for left in residuals.values())
    ours = residuals[20, 1e-9] > 0.01 and residuals[24, 1e-9] < 1e-3 < residuals[24, 1e-3]
    return Finding(verdict_of(not never_zero, never_zero and ours), f"‖Ỹ − F̃V‖/‖Ỹ‖ at p = 5: {words}")


def _check_signal() -> Finding:
    """The cosine of G_F with ỸỸᵀF̃ at the ridge solution, where the data are fitted and where they are not."""
    found = {}
    for name, p, n, width, ridge in (
        ("p = 11, 40% of the table, K = 64, fitted", 11, 48, 64, 1e-4),
        ("K = 512, fitted", 11, 48, 512, 1e-4),
        ("K = 64, not fitted", 11, 48, 64, 1e2),
        ("p = 7, full table, K = 128 p², fitted", 7, 49, 128 * 49, 1e-4),
    ):
        tokens, labels = _table(p)
        seen = np.random.default_rng(1).permutation(p * p)[:n]
        W = _weights(p, width)
        signal = ridge_signal(W, tokens[seen], labels[seen], p, ridge)
        residual = ridge_solution(W, tokens[seen], labels[seen], p, ridge).residual
        found[name] = (signal.cosine, residual, signal.scale / wide_scale(width, ridge, (2 * p) ** -0.5))
    words = "; ".join(f"{name}: cosine {cos:.3f}, residual {left:.2g}" for name, (cos, left, _) in found.items())
    narrow, broad, unfitted, wide = found.values()
    ours = unfitted[0] > 0.98 and unfitted[1] > 0.9 and wide[0] > 0.97 and abs(wide[2] - 1) < 0.1
    return Finding(verdict_of(min(narrow[0], broad[0]) > 0.9, ours), f"{words}; c/c_wide = {wide[2]:.3f}")


def _check_maxima() -> Finding:
    """Ascents of E on the full table and on 40% of it: how many end at one frequency."""
    p = 23
    tokens, labels = _table(p)
    rows = np.random.default_rng(1).permutation(p * p)[: int(0.4 * p * p)]
    full, part = climb(tokens, labels, p, starts=24), climb(tokens[rows], labels[rows], p, starts=24)
    on_full, on_part = (float(np.mean(found.shares > FOURIER)) for found in (full, part))
    words = (
        f"p = {p}: {on_full:.0%} of the ascents on the full table end at one frequency, with E from "
        f"{full.energies.min():.4f} to {full.energies.max():.4f} (p/4 = {p / 4}); on 40% of it {on_part:.0%}, with a "
        f"median share of {np.median(part.shares):.2f}"
    )
    ours = on_full == 1 and bool(np.allclose(full.energies, p / 4)) and on_part < 0.1
    return Finding(verdict_of(on_full == 1 and on_part > 0.9, ours), words)


def _check_remark_5_4() -> Finding:
    """The solution with 4 units a frequency has 2(p−1) units, fewer than 2p−1, and is exact."""
    words, fewer = [], True
    for p in (3, 5, 7, 11):
        inputs, targets = modular_table(p)
        point = fourier_solution(p, 4)
        width = point["V"].shape[1]
        left = float(np.abs(centred(quadratic_network(point, inputs) - targets)).max())
        fewer &= width < 2 * p - 1 and left < 1e-12
        words.append(f"p = {p}: {width} units leave {left:.1g}")
    return Finding(verdict_of(not fewer, fewer), "; ".join(words))


THEOREM_5_2 = """
import numpy as np
p, K = 3, 9
a, b = np.divmod(np.arange(p * p), p)
W = np.random.default_rng(0).normal(size=(2 * p, K))
F = (W[a] + W[p + b]) ** 2
rank = np.linalg.matrix_rank(F - F.mean(0))
print(f"rank of the centred features {rank}, printed min(l, K) = {min(p * p, K)}")
assert rank == p * p - 1
""".strip()

INTERPOLATION = """
import numpy as np
p, K, eta = 5, 20, 1e-9
a, b = np.divmod(np.arange(p * p), p)
W = np.random.default_rng(0).normal(size=(2 * p, K))
F, Y = (W[a] + W[p + b]) ** 2, np.eye(p)[(a + b) % p]
F, Y = F - F.mean(0), Y - Y.mean(0)
V = np.linalg.solve(F.T @ F + eta * np.eye(K), F.T @ Y)
print(f"K < p² - 1 leaves {np.linalg.norm(Y - F @ V) / np.linalg.norm(Y):.2f} of the targets, assumed 0")
assert np.linalg.norm(Y - F @ V) > 0.01
""".strip()

SIGNAL = """
import numpy as np
from phasecast.grokking.theory.gradient_signal import ridge_signal
p, n, K = 11, 48, 64
a, b = np.divmod(np.random.default_rng(1).permutation(p * p)[:n], p)
W = np.random.default_rng(0).normal(size=(2 * p, K)) / np.sqrt(2 * p)
cosine = ridge_signal(W, np.stack([a, b], 1), (a + b) % p, p, 1e-4).cosine
print(f"the data are fitted, and the cosine of G_F with the printed direction is {cosine:.2f}")
assert cosine < 0.9
""".strip()

MAXIMA = """
import numpy as np
from phasecast.grokking.theory.gradient_signal import climb
p = 23
a, b = np.divmod(np.random.default_rng(1).permutation(p * p)[:211], p)
found = climb(np.stack([a, b], 1), (a + b) % p, p, starts=24)
print(f"the best frequency of a maximum has {np.median(found.shares):.0%} of its power (median)")
assert np.median(found.shares) < 0.5
""".strip()

REMARK = """
import numpy as np
from phasecast.models import fourier_solution, modular_table, quadratic_network
x, y = modular_table(5)
w = fourier_solution(5, 4)
rest = quadratic_network(w, x) - y
rest = abs(rest - rest.mean(0)).max()
print(f"{w['V'].shape[1]} units are exact to {rest:.0e}; printed at least {2 * 5 - 1}")
assert w["V"].shape[1] < 9 and rest < 1e-12
""".strip()

CLAIMS = (
    Claim(
        id="grokking/ridge-coefficient",
        source=f"{GROKKING}, Theorem 5.2",
        statement="At the ridge solution of random features λ = ½ p min(l, K), l the dimension that they span.",
        verdict=Verdict.HOLDS_CORRECTED,
        why="The loss is centred, so the rank is that of the centred features, one less than l when K ≥ l; and it is λ "
        "of the second layer alone: with the first layer free the same point has a larger one.",
        ours="λ over V alone is ½ p rank F̃ = ½ p min(n−1, K) on n pairs in general position, at every η.",
        counterexample=THEOREM_5_2,
        check=_check_theorem_5_2,
    ),
    Claim(
        id="grokking/ridge-interpolates",
        source=f"{GROKKING}, section 5.1, after eq. (4)",
        statement="The ridge solution may be assumed to interpolate the full data set, Ỹ − F̃V = 0, also with K ≪ p².",
        verdict=Verdict.HOLDS_CORRECTED,
        why="The residual is η(F̃F̃ᵀ + ηI)⁻¹Ỹ, never zero for η > 0; and random features reach Ỹ only with K ≥ n − 1.",
        ours="V_ridge interpolates n pairs in the limit η → 0 and for K ≥ n − 1; Theorem 5.2 does not need it.",
        counterexample=INTERPOLATION,
        check=_check_interpolation,
    ),
    Claim(
        id="grokking/gradient-signal",
        source=f"{GROKKING}, section 5.2",
        statement="After the top layer has largely fitted the training set, G_F ≈ c_η ỸỸᵀF̃.",
        verdict=Verdict.HOLDS_CORRECTED,
        why="At the ridge solution G_F = η A⁻¹ỸỸᵀA⁻¹F̃ with A = F̃F̃ᵀ + ηI, and A is far from a multiple of the identity "
        "where a network of ordinary width has fitted a training set.",
        ours="It holds where η ≫ F̃F̃ᵀ, when nothing is fitted (c = 1/η), and on the full table for K ≫ p² Gaussian "
        "units of variance s², with c = η/(4Ks⁴ + η)².",
        counterexample=SIGNAL,
        check=_check_signal,
    ),
    Claim(
        id="grokking/energy-maxima",
        source=f"{GROKKING}, section 5.2",
        statement="Local maxima of E(w) = ½‖Ỹᵀσ(Xw)‖² are the task's features.",
        verdict=Verdict.HOLDS_CORRECTED,
        why="On the full table E = p Σ_k U_k V_k over the powers at each frequency, so each maximum has one frequency. "
        "On 40% of the table, where networks grok, the maxima sit on single operands instead.",
        ours="On the unit sphere and the full table every local maximum is a Fourier feature with E = p/4; a training "
        "set must be nearly complete (about 80% at p = 23) for its maxima to resemble them.",
        counterexample=MAXIMA,
        check=_check_maxima,
    ),
    Claim(
        id="grokking/remark-5.4",
        source=f"{GROKKING}, Remark 5.4",
        statement="To represent modular addition one needs at least about 2p−1 units.",
        verdict=Verdict.HOLDS_CORRECTED,
        why="Four units a frequency are exact under the centred loss. Fewer than 3(p−1)/2 cannot be: the p−1 targets "
        "multiply as (p−1)/2 complex numbers, each a bilinear form of rank 3 over the reals (Alder & Strassen 1981).",
        ours="2(p−1) units are enough, and 3(p−1)/2 necessary.",
        counterexample=REMARK,
        check=_check_remark_5_4,
    ),
)
