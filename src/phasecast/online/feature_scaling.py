"""How do N_l trainable features and the time α lower the error? Power laws of the linear curve, with their errors.

The sum of eq. 8 as an integral (Euler-Maclaurin) is a difference of incomplete gamma functions; its window of power-law
decay α^{−β/(1+β)}; and the floor that untrained features leave, N_l^{−β}, in the eigenbasis or out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Prediction
from phasecast.online.curve_result import Curve, check_alphas
from phasecast.online.linear import SOURCE, check_rate, closed_curve, count_trained, initial_variance
from phasecast.online.spectrum import Spectrum


def integral_curve(
    modes: int, exponent: float, lr: float, sigma: float, alphas: ArrayLike, trained: int | None = None
) -> Prediction[np.ndarray]:
    """Eq. 9 (50) and, with ``trained`` modes, eq. 11 (79) corrected; ``value`` at each α.

    .. math:: \\epsilon \\approx \\frac{(1+\\sigma_J^2)\\lambda_+}{2L}
              \\Bigl[\\frac1\\beta\\bigl(N_l^{-\\beta}-L^{-\\beta}\\bigr)
              + \\frac{z^{-s}}{1+\\beta}\\bigl(\\Gamma(s, z N_l^{-(1+\\beta)}) - \\Gamma(s, z)\\bigr)\\Bigr]

    with z = 2ηλ₊α and s = β/(1+β). The learned sum ends at N_l; printed is L, which counts the frozen modes twice.
    ``systematic`` is a bound that holds for every α: with h(k) the summand, the sum less the integral is between
    h(1) + h(N_l) − max h and max h, because h has one maximum; the frozen sum falls, so its bound is its first term.
    Eq. 49, ½h(1), is not a bound: at late times ½h(L) is left.
    """
    from scipy.special import gamma, gammainc, gammaincc

    grid = check_alphas(alphas)
    check_rate(lr)
    spectrum = Spectrum.power_law(modes, exponent)
    learn = count_trained(spectrum, trained)
    scale = (1 + initial_variance(sigma)) * spectrum.largest / (2 * modes)
    z, s = 2 * lr * spectrum.largest * grid, exponent / (1 + exponent)
    near, far = z * learn ** -(1 + exponent), z
    # from the side on which the two are small, so that their difference does not cancel
    lower, upper = gammainc(s, far) - gammainc(s, near), gammaincc(s, near) - gammaincc(s, far)
    difference = gamma(s) * np.where(near > s, upper, lower)
    with np.errstate(divide="ignore", invalid="ignore"):
        learned = np.where(z > 0, z**-s * difference / (1 + exponent), (1 - learn**-exponent) / exponent)
    frozen = (learn**-exponent - modes**-exponent) / exponent
    ranks = np.arange(1, learn + 1)[None] ** -(1.0 + exponent)
    terms = ranks * np.exp(-z[:, None] * ranks)
    peak = np.where((z > 1) & (near < 1), np.exp(-1) / np.where(z > 0, z, 1), np.maximum(terms[:, 0], terms[:, -1]))
    bound = np.maximum(peak, np.abs(terms[:, 0] + terms[:, -1] - peak))
    bound = bound + ((learn + 1.0) ** -(1 + exponent) if learn < modes else 0.0)
    return Prediction(
        scale * (learned + frozen),
        regime="linear student, first order in the learning rate, sum replaced by an integral",
        source=f"{SOURCE}, eq. 9 and 11, the learned sum ending at N_l",
        systematic=scale * bound,
        name="ε",
    )


def power_law_window(modes: int, exponent: float, lr: float) -> tuple[float, float]:
    """Between which α the linear curve falls like α^{−β/(1+β)} (section 4.2), without reserve for the corners.

    1/(2ηλ₊) < α < Γ((2β+1)/(1+β))^{(1+β)/β} L^{1+β}/(2ηλ₊)
    """
    from scipy.special import gamma

    check_rate(lr)
    largest = Spectrum.power_law(modes, exponent).largest
    stretch = gamma((2 * exponent + 1) / (1 + exponent)) ** ((1 + exponent) / exponent)
    first = 1 / (2 * lr * largest)
    return first, float(first * stretch * modes ** (1 + exponent))


def feature_floor(modes: int, exponent: float, sigma: float, trained: int) -> Prediction[float]:
    """ε for α → ∞ with N_l trained modes: the exact sum of eq. 71 over the modes beyond N_l.

    Its integral, eq. 74, is (1+σ_J²)λ₊/(2βL)·(N_l^{−β} − L^{−β}): a power law in N_l where N_l ≪ L.
    """
    spectrum = Spectrum.power_law(modes, exponent)
    learn = count_trained(spectrum, trained)
    rest = float(spectrum.weights[learn:] @ spectrum.eigenvalues[learn:])
    floor = (1 + initial_variance(sigma)) / 2 * rest
    return Prediction(floor, "α → ∞, small learning rate", f"{SOURCE}, eq. 71 from N_l + 1", name="ε")


def rotated_curve(covariance: ArrayLike, trained: int, lr: float, sigma: float, alphas: ArrayLike) -> Curve:
    """ε(α) with the first N_l coordinates trained, whatever the covariance; first order in η, averaged over weights.

    From eq. 84: with Δ = J − B, the trained part relaxes to −Σ̃⁻¹Σ_cross Δ̂, and ε = ΔᵀΣΔ/(2N).
    """
    grid = check_alphas(alphas)
    check_rate(lr)
    matrix, learn = _blocks(covariance, trained)
    size = len(matrix)
    values, vectors = np.linalg.eigh(matrix[:learn, :learn])
    cross = vectors.T @ matrix[:learn, learn:]
    coupling = (cross**2).sum(axis=1) / values  # of each trained direction to the frozen ones
    decay = np.exp(-lr * np.outer(grid, values))
    traces = decay**2 @ values + np.trace(matrix[learn:, learn:]) - (1 - decay**2) @ coupling
    return closed_curve((1 + initial_variance(sigma)) * traces / (2 * size), grid, {"form": "eq. 84, first order"})


@overload
def rotated_floor(covariance: ArrayLike, trained: int, sigma: float) -> Prediction[float]: ...
@overload
def rotated_floor(covariance: ArrayLike, trained: Sequence[int], sigma: float) -> Prediction[np.ndarray]: ...
def rotated_floor(covariance: ArrayLike, trained: int | Sequence[int], sigma: float) -> Prediction:
    """ε for α → ∞ with the first N_l coordinates trained (eq. 88), for a covariance of any trace.

    .. math:: \\epsilon = \\frac{1+\\sigma_J^2}{2N}\\,\\mathrm{Tr}\\bigl(\\hat\\Sigma
              - \\Sigma_\\times^\\top\\tilde\\Sigma^{-1}\\Sigma_\\times\\bigr)

    With Σ = CCᵀ, C lower triangular, the matrix in brackets is that of the last rows and columns of C, so that one
    factorisation serves every N_l: ``trained`` may be a list; the value is then an array.
    """
    counts = np.atleast_1d(np.asarray(trained))
    matrix, _ = _blocks(covariance, int(counts.max()))
    squares = np.linalg.cholesky(matrix) ** 2
    # column j of C counts where j ≥ N_l; what is above the diagonal is zero
    rests = np.cumsum(squares.sum(axis=0)[::-1])[::-1]
    value = (1 + initial_variance(sigma)) * np.append(rests, 0.0)[[whole_number("trained", int(n), 1) for n in counts]]
    floor = value / (2 * len(matrix))
    return Prediction(
        floor if np.ndim(trained) else float(floor[0]), "α → ∞, small learning rate", f"{SOURCE}, eq. 88", name="ε"
    )


def _blocks(covariance: ArrayLike, trained: int) -> tuple[np.ndarray, int]:
    matrix = np.asarray(covariance, dtype=float)
    Spectrum.from_covariance(matrix)  # raises bad input if it is not a covariance
    if whole_number("trained", trained, 1) > len(matrix):
        raise BadInput(f"{trained} trained coordinates of {len(matrix)}", f"use at most {len(matrix)}")
    return matrix, trained
