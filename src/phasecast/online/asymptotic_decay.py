"""How does learning end? Rates near perfect learning, the curve that they make, and the largest learning rate.

For as many students as teachers each eigenmode of J − B decays with M rates, those of the curvature
m_nm = ⟨g'(y_n)g'(y_m)⟩ = (2/π)/√((1+T_nn)(1+T_mm) − T_nm²) at T^(1), with eigenvectors v and eigenvalues μ:

.. math:: \\epsilon \\approx \\frac1{2M}\\sum_k w_k\\lambda_k \\sum_v \\mu_v\\, v^\\top D[k] v\\;
          e^{-2\\eta\\lambda_k\\mu_v\\alpha/M}, \\qquad D = Q - R - R^\\top + T

At T^(1) = 1 these are two: in the paper's terms ε has the rates a(2−√3)λ_k and a(2+√3(M−1))λ_k with a = 2η/(√3πM);
printed is 2+√3, which is M = 2.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasecast.core.errors import BadInput, OutsideRegime, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Prediction
from phasecast.online.curve_result import check_alphas
from phasecast.online.dynamics import generalisation_error, overlap_rates
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.spectrum import Spectrum

SOURCE = "Worschech & Rosenow 2024"
MOST_DIRECTIONS = 1200  # of all units, up to which the curvature is diagonalised; chosen, bounds time and memory

IMAGINARY_STEP = 1e-30  # of derivatives; its square is below the rounding of numbers of size one


@dataclass(frozen=True)
class ExplicitDecayPolicy(Policy):
    """How wide the explicit decay is, and from which start on it is refused.

    What is left out is at most c√ε₀ relative to ε, with c = max(third_order, growth·M), plus leak·(Mε₀)².
    """

    third_order: float = rule(
        16.0,
        "largest c measured for M = 1 to 3, T = 1, over the directions of largest third order, of curvature, random",
    )
    growth: float = rule(7.0, "c per teacher; 23 was measured at M = 4, and more teachers are an extrapolation")
    leak: float = rule(1.0, "chosen: the estimate (Mε₀)² of what fast directions leave in slow ones is used as it is")
    widest: float = rule(
        0.5, "chosen: relative width up to which learning is nearly perfect, ε₀ < 10⁻³ for two teachers"
    )


POLICY = ExplicitDecayPolicy()


def asymptotic_rates(teachers: int, spectrum: Spectrum, lr: float) -> tuple[np.ndarray, np.ndarray]:
    """The slow and the fast decay rate of ε in each mode at T^(1) = 1, to first order in η."""
    M = whole_number("teachers", teachers, 1)
    slow = 2 / math.pi * (1 / math.sqrt(3) - 0.5)
    fast = slow + M / math.pi
    scale = 2 * lr / M * spectrum.eigenvalues
    return scale * slow, scale * fast


def asymptotic_curve(
    state: OrderParameters, spectrum: Spectrum, lr: float, alphas: ArrayLike
) -> Prediction[np.ndarray]:
    """ε(α) from a state near perfect learning, explicitly and to first order in η, α counted from that state.

    Replaces eq. 17 (122), which needs eigenvectors in arbitrary precision. Students are matched with teachers by their
    overlap. The curvature is exact, ⟨g'(y_i)g'(y_j)ξξᵀ⟩ = m_ij(Σ − ΣB(1+C)⁻¹BᵀΣ/N) with B and C of teachers i and j, so
    that what is left out is of third order in J − B.

    ``systematic`` is how large that may be from a start with ε₀: c√ε₀ ε + (Mε₀)²e^{−sα}. The first term is the third
    order of ε, which adds up along the way: for M = 1, where the flow is δ' = −hδ − tδ²/2, from (t/3h)δ₀ = 4.04√ε₀ to
    three times as much; the second is what fast directions leave in the slowest, of rate s. c was measured for T = 1
    and M = 1 to 4, from the directions in which the third order of ε is largest (4.0, 7.8, 9.6 and 11.1 times √ε₀ at
    the start), from those of the curvature and from random ones: at most 16, 9, 12 and 23, and 2 to 8 where students
    learnt by themselves. More than four teachers are an extrapolation. Refused if c√ε₀ > ``POLICY.widest``: from
    ε₀ of 10⁻³ on for one or two teachers, 3·10⁻⁴ for four.

    Beyond ``MOST_DIRECTIONS`` of all units the part along the teachers is left out too (as in the module's formula); it
    fades as fewer and fewer modes are left to learn.
    """
    from scipy.optimize import linear_sum_assignment

    grid = check_alphas(alphas)
    _, students, teachers = state.shape
    if students != teachers:
        raise BadInput(f"{students} students, {teachers} teachers", "perfect learning like this needs as many")
    if not (math.isfinite(lr) and lr > 0):
        raise BadInput(f"the learning rate is {lr:g}", "use η > 0")
    first = state.moment(1, spectrum)
    _, order = linear_sum_assignment(-first.R.T)  # the student of each teacher
    begin = max(float(generalisation_error(first.R, first.Q, first.T)), 0.0)
    c = max(POLICY.third_order, POLICY.growth * teachers)
    if c * math.sqrt(begin) > POLICY.widest:
        raise OutsideRegime(
            f"ε = {begin:.2g} at the start is not near perfect learning",
            f"start where ε < {(POLICY.widest / c) ** 2:.1g}, or solve the equations",
        )
    J, B = state.factors()
    if teachers * J.shape[0] * J.shape[2] <= MOST_DIRECTIONS:
        curvatures, sizes = _all_directions(J[:, order] - B, B, first.T, spectrum)
        rates = 2 * lr / teachers * curvatures
        eps, regime = np.exp(-np.outer(grid, rates)) @ sizes / (2 * teachers), "near perfect learning, first order in η"
    else:
        eps = _without_the_teachers(state, order, first.T, spectrum, lr, grid)
        rates = 2 * lr / teachers * np.linalg.eigvalsh(_curvature(first.T))[0] * spectrum.eigenvalues
        regime = "near perfect learning, first order in η, few modes left to learn"
    leak = POLICY.leak * (teachers * begin) ** 2 * np.exp(-max(rates.min(), 0.0) * grid)
    systematic = c * math.sqrt(begin) * eps + leak
    return Prediction(eps, regime, f"{SOURCE}, eq. 17 made explicit", systematic=systematic, name="ε")


def _all_directions(
    apart: np.ndarray, B: np.ndarray, T1: np.ndarray, spectrum: Spectrum
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the curvature in every direction of all units, and twice M times the part of ε in each.

    In coordinates y = √(wλ)(J − B), ε = yᵀSy/(2M) and dy/dα = −(η/M)ΛSy, which Λ^{1/2}SΛ^{1/2} diagonalises.
    """
    modes, teachers, rank = B.shape
    values = np.repeat(spectrum.eigenvalues, rank)
    scale = np.sqrt(np.repeat(spectrum.weights, rank) * values)
    y, b = (part.swapaxes(0, 1).reshape(teachers, -1) * scale for part in (apart, B))
    size = modes * rank
    S = np.empty((teachers, size, teachers, size))
    m = _curvature(T1)
    for i, j in itertools.product(range(teachers), repeat=2):
        pair = [i, j]
        inverse = np.linalg.inv(np.eye(2) + T1[np.ix_(pair, pair)])
        S[i, :, j] = m[i, j] * (np.eye(size) - b[pair].T @ inverse @ b[pair])
    roots = np.tile(np.sqrt(values), teachers)
    matrix = roots[:, None] * S.reshape(teachers * size, -1) * roots
    curvatures, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return curvatures, curvatures * (vectors.T @ (y.ravel() / roots)) ** 2


def _without_the_teachers(
    state: OrderParameters, order: np.ndarray, T1: np.ndarray, spectrum: Spectrum, lr: float, grid: np.ndarray
) -> np.ndarray:
    """The formula of the module: mΣ for the curvature, mode by mode."""
    teachers = len(T1)
    R = state.R[:, order]
    D = state.Q[:, order][:, :, order] - R - R.swapaxes(1, 2) + state.T
    curvatures, vectors = np.linalg.eigh(_curvature(T1))
    sizes = np.einsum("iv,kij,jv->kv", vectors, D, vectors) * curvatures
    eps = np.zeros(grid.size)
    for size, curvature in zip(sizes.T, curvatures, strict=True):
        rates = 2 * lr / teachers * curvature * spectrum.eigenvalues
        eps += np.exp(-np.outer(grid, rates)) @ (spectrum.weights * spectrum.eigenvalues * size) / (2 * teachers)
    return eps


def decay_rates(
    teachers: int, spectrum: Spectrum, lr: float, order: int = 2
) -> NDArray[np.floating] | NDArray[np.complexfloating]:
    """All decay rates near perfect learning for T = 1 and students that stay alike up to exchange, slowest first.

    Eigenvalues of the Jacobian of the order-parameter equations in (r, q, s, c), with their sign turned; negative ones
    grow. To second order in η they replace the printed matrices 119 and 120.
    """
    first, second = _jacobians(teachers, spectrum)
    matrix = lr * first + (lr**2 * second if order == 2 else 0)
    rates = -np.linalg.eigvals(matrix)
    return rates[np.argsort(rates.real)]


def max_learning_rate(teachers: int, spectrum: Spectrum) -> Prediction[float]:
    """The learning rate above which perfect learning is unstable, for erf units, N → ∞, K = M and T = 1.

    The smallest η > 0 at which J₁ + ηJ₂ is singular, J₁ and J₂ the two orders of the Jacobian. A null vector is the
    same in every mode, because λ_k divides out, so that only the mean of the spectrum matters and one mode is enough.
    """
    first, second = _jacobians(teachers, Spectrum(np.array([spectrum.moment(1)])))
    values = np.linalg.eigvals(np.linalg.solve(first, second))
    real = values.real[abs(values.imag) < 1e-9 * np.max(abs(values))]
    candidates = [-1 / value for value in real if value < -1e-12 * np.max(abs(values))]
    if not candidates:
        raise BadInput("perfect learning is stable at every learning rate here", "check the spectrum")
    return Prediction(min(candidates), "erf, K = M, T = 1, N → ∞", "our own Jacobian", name="η_max")


def scaling_exponent(exponent: float) -> float:
    """−β/(1+β), the slope of log ε over log α inside the power-law window."""
    return -exponent / (1 + exponent)


def _curvature(T1: np.ndarray) -> np.ndarray:
    """⟨g'(y_n)g'(y_m)⟩."""
    t = 1 + np.diagonal(T1)
    return 2 / math.pi / np.sqrt(np.outer(t, t) - T1**2)


def _jacobians(teachers: int, spectrum: Spectrum) -> tuple[np.ndarray, np.ndarray]:
    """The Jacobian at R = Q = T = 1 in symmetric variables, by powers of η: shapes (fields·L, fields·L).

    A column is Im f(x + ih)/h, which nothing cancels in, so h can be so small that its square is lost in rounding.
    """
    M = whole_number("teachers", teachers, 1)
    modes = spectrum.modes
    eye = np.eye(M)
    shapes = [eye, 1 - eye] if M > 1 else [eye]
    places = [(0, 0), (0, 1)][: len(shapes)]
    T = np.repeat(eye[None], modes, axis=0)

    def rates(x: np.ndarray, order: int) -> np.ndarray:
        fields = x.reshape(2 * len(shapes), modes)
        R, Q = (
            T + sum(fields[start + n][:, None, None] * shape for n, shape in enumerate(shapes))
            for start in (0, len(shapes))
        )
        dR, dQ = overlap_rates(R, Q, T, spectrum.eigenvalues, spectrum.weights, 1.0, "erf", order)
        return np.concatenate([np.asarray(part)[:, i, j] for part, (i, j) in itertools.product((dR, dQ), places)])

    steps = 1j * IMAGINARY_STEP * np.eye(2 * len(shapes) * modes)
    first, both = (
        np.stack([np.imag(rates(step, order)) for step in steps], axis=1) / IMAGINARY_STEP for order in (1, 2)
    )
    return first, both - first
