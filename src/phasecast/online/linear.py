"""How fast does a linear student learn? Closed curves at any learning rate, and exact ones for discrete SGD.

With D_k the mean square of J − B in mode k, one-pass SGD on Gaussian inputs has, for N → ∞,

.. math:: \\dot D_k = -2\\eta\\lambda_k D_k + \\eta^2\\lambda_k \\sum_j w_j\\lambda_j D_j, \\qquad
          \\epsilon = \\tfrac12 \\sum_k w_k\\lambda_k D_k, \\qquad D_k(0) = 1+\\sigma_J^2

A diagonal less a matrix of rank one: its rates x solve the secular equation 1 = (η/2)Σ w λ²/(λ−x), which is stable at
any number of modes where the paper's eq. 6 and 57 need arbitrary precision. Numbers of units do not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Prediction
from phasecast.online.curve_result import Curve, check_alphas
from phasecast.online.spectrum import Spectrum

SOURCE = "Worschech & Rosenow 2024"
BISECTIONS = 70  # 2^−70 of the interval: below the rounding of float64, wherever the root is
ENTRIES = 4_000_000  # of a block of secular equations that are solved together: 32 MB per array


def linear_curve(
    modes: int, exponent: float, lr: float, sigma: float, alphas: ArrayLike, trained: int | None = None
) -> Curve:
    """ε(α) of a linear student at any learning rate, averaged over weights (eq. 6 in its stable form).

    With ``trained`` only the first N_l modes learn; the others stay at their random values and add noise to the steps.

    >>> linear_curve(8, 1.0, lr=1.0, sigma=1.0, alphas=[0.5, 2]).eps.round(6).tolist()
    [0.351982, 0.128449]
    """
    return general_curve(Spectrum.power_law(modes, exponent), lr, sigma, alphas, trained)


def general_curve(spectrum: Spectrum, lr: float, sigma: float, alphas: ArrayLike, trained: int | None = None) -> Curve:
    """:func:`linear_curve` for any spectrum."""
    grid = check_alphas(alphas)
    learn = count_trained(spectrum, trained)
    limit = float(stability_limit(spectrum, trained))
    if not 0 < lr < limit * (1 - 1e-12):
        raise BadInput(f"the learning rate {lr:g} is not below the stability limit", f"use 0 < η < {limit:.6g}")
    values, shares = spectrum.eigenvalues, spectrum.weights
    start = 1 + initial_variance(sigma)
    frozen = float(shares[learn:] @ values[learn:]) * start  # 2ε of what does not learn
    roots = np.sqrt(shares[:learn])
    rates, project = secular(values[:learn], roots * values[:learn], lr / 2)
    # y = √w D obeys y' = −2η(M y − (η/2) u·frozen), ε = (uᵀy + frozen)/2
    u = project(roots * values[:learn])
    steady = lr / 2 * u * frozen / rates
    y = steady + np.exp(-2 * lr * np.outer(grid, rates)) * (start * project(roots) - steady)
    eps = (y @ u + frozen) / 2
    return closed_curve(
        eps,
        grid,
        {"form": "secular, any learning rate", "stability limit": limit, "slowest rate": 2 * lr * rates.min()},
    )


def secular_weights(spectrum: Spectrum, lr: float) -> tuple[np.ndarray, np.ndarray]:
    """Rates x and weights of a linear student: ε = ½(1+σ_J²) Σ_k weight_k exp(−2ηx_kα), eq. 6 and 57 in stable form.

    To first order in η they are λ and wλ; x is λ̃ of the paper and the weight its b_kλ̃_k/L. The last rate turns negative
    at the stability limit.
    """
    check_rate(lr)
    roots = np.sqrt(spectrum.weights)
    rates, project = secular(spectrum.eigenvalues, roots * spectrum.eigenvalues, lr / 2)
    return rates, project(roots * spectrum.eigenvalues) * project(roots)


def small_rate_curve(
    spectrum: Spectrum, lr: float, sigma: float, alphas: ArrayLike, trained: int | None = None
) -> Curve:
    """ε(α) to first order in the learning rate: eq. 8, and with ``trained`` modes eq. 10.

    .. math:: \\epsilon = \\frac{1+\\sigma_J^2}{2}\\Bigl[\\sum_{k\\le N_l} w_k\\lambda_k e^{-2\\eta\\lambda_k\\alpha}
              + \\sum_{k>N_l} w_k\\lambda_k\\Bigr]

    Eq. 71 and 78 print the second sum from N_l; it starts at N_l + 1.
    """
    grid, learn = check_alphas(alphas), count_trained(spectrum, trained)
    check_rate(lr)
    weights = spectrum.weights * spectrum.eigenvalues
    decays = np.exp(-2 * lr * np.outer(grid, spectrum.eigenvalues[:learn])) @ weights[:learn]
    eps = (1 + initial_variance(sigma)) / 2 * (decays + weights[learn:].sum())
    return closed_curve(eps, grid, {"form": "first order in the learning rate"})


def stability_limit(spectrum: Spectrum, trained: int | None = None) -> Prediction[float]:
    """The learning rate from which ε grows, for N → ∞: η = 2/Σ_{k≤N_l} w λ, which is 2 for a spectrum of mean one."""
    learn = count_trained(spectrum, trained)
    value = 2 / float(spectrum.weights[:learn] @ spectrum.eigenvalues[:learn])
    return Prediction(value, "linear student, N → ∞", f"{SOURCE}, from the secular equation at x = 0", name="η limit")


def sgd_stability_limit(spectrum: Spectrum, inputs: int) -> Prediction[float]:
    """The learning rate from which E[ε] of discrete SGD with N inputs grows: 1 = (η/2N) Σ_i λ_i/(1 − ηλ_i/N)."""
    counts = spectrum.inputs_per_mode(inputs)
    values = spectrum.eigenvalues / inputs
    low, high = 0.0, 1 / values.max()
    for _ in range(200):
        middle = (low + high) / 2
        grows = middle / 2 * np.sum(counts * values / (1 - middle * values)) > 1 if middle < 1 / values.max() else True
        low, high = (low, middle) if grows else (middle, high)
    return Prediction(
        (low + high) / 2,
        f"linear student, {inputs} Gaussian inputs",
        "our own; fourth moments of the inputs",
        name="η limit",
    )


def sgd_curve(spectrum: Spectrum, inputs: int, lr: float, sigma: float, alphas: ArrayLike) -> Curve:
    """E[ε] of discrete one-pass SGD with N Gaussian inputs, exactly, after round(αN) steps.

    .. math:: D_k' = D_k - \\tfrac{2\\eta}{N}\\lambda_k D_k
              + \\tfrac{\\eta^2}{N^2}\\bigl(2\\lambda_k^2 D_k + \\lambda_k\\textstyle\\sum_j N_j\\lambda_j D_j\\bigr)
    """
    grid = check_alphas(alphas)
    counts = spectrum.inputs_per_mode(inputs)
    limit = float(sgd_stability_limit(spectrum, inputs))
    if not 0 < lr < limit * (1 - 1e-12):
        raise BadInput(f"the learning rate {lr:g} is not below the stability limit", f"use 0 < η < {limit:.6g}")
    step = lr / inputs * spectrum.eigenvalues
    roots = np.sqrt(counts)
    losses, project = secular(2 * step * (1 - step), roots * step, 1.0)  # 1 − the factor of each step
    u, start = project(roots * spectrum.eigenvalues), project(roots) * (1 + initial_variance(sigma))
    counted = np.rint(grid * inputs)
    powers = _powers(losses, counted)
    return closed_curve(
        powers @ (start * u) / (2 * inputs),
        counted / inputs,
        {"form": f"discrete SGD, N = {inputs}", "stability limit": limit},
    )


def gaussian_errors(
    values: np.ndarray, start: np.ndarray, noise: float, lr: float, steps: np.ndarray, trained: int
) -> np.ndarray:
    """½E[r²] on fresh Gaussian rows after numbers of steps, for a target with any power per mode and noise.

    ``values`` are the N eigenvalues, ``start`` is E[(J − B)²] in each of them. The recursion of :func:`sgd_curve` gains
    η²/N·λ_k σ²; modes beyond the first ``trained`` rest and act as noise. See :mod:`~phasecast.online.own_data`.
    """
    inputs = len(values)
    rest = noise + float(values[trained:] @ start[trained:]) / inputs
    learned = values[:trained]
    step = lr / inputs * learned
    losses, project = secular(2 * step * (1 - step), step, 1.0)
    steady = project(lr * step * rest) / losses
    powers = _powers(losses, steps)
    with np.errstate(over="ignore", invalid="ignore"):
        reached = steady + powers * (project(start[:trained]) - steady)
        return (reached @ project(learned) / inputs + rest) / 2


def _powers(losses: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """(1 − loss)^count of every loss, for every count."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # a negative factor is rounding: the step's second-moment matrix is positive
        logs = np.log1p(-np.clip(losses, None, 1.0))
        return np.where(counted[:, None] == 0, 1.0, np.exp(counted[:, None] * logs))


def secular(
    diagonal: np.ndarray, vector: np.ndarray, strength: float
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Eigenvalues of diag(d) − s·u uᵀ and the projection of a vector on its eigenvectors.

    Each eigenvalue is found by bisection as a distance from the nearer pole, so the distances d − x that make up the
    eigenvectors have full relative precision. Equal entries of the diagonal are merged first.
    """
    merged, groups = np.unique(-diagonal, return_inverse=True)
    d = -merged
    weight = np.sqrt(np.bincount(groups, vector**2))
    count = d.size
    distances = np.empty((count, count))  # d_j − x_k
    for begin in range(0, count, max(ENTRIES // count, 1)):
        block = np.arange(begin, min(begin + max(ENTRIES // count, 1), count))
        width = np.append(d[:-1] - d[1:], strength * np.sum(weight**2) + np.finfo(float).tiny)[block]
        squares = strength * weight**2

        def value(offset: np.ndarray, origin: np.ndarray, squares: np.ndarray = squares) -> np.ndarray:
            with np.errstate(divide="ignore", invalid="ignore"):
                return 1 - (squares / ((d[None] - d[origin][:, None]) - offset[:, None])).sum(axis=1)

        # f = 1 − Σ s u²/(d − x) falls from +∞ at the lower pole to −∞ at the upper one
        upper = value(-width / 2, block) > 0  # then the root is above the middle
        upper |= block == count - 1  # below the last pole there is no other
        origin = np.where(upper, block, np.minimum(block + 1, count - 1))
        low = np.where(upper, -width, 0.0)
        low = np.where(upper & (block < count - 1), -width / 2, low)
        high = np.where(upper, 0.0, width / 2)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            below = value(middle, origin) > 0
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        distances[block] = (d[None] - d[origin][:, None]) - ((low + high) / 2)[:, None]
    x = d - distances[np.arange(count), np.arange(count)]
    vectors = weight / distances
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    share = np.divide(vector, weight[groups], out=np.zeros_like(vector), where=weight[groups] > 0)

    def project(other: np.ndarray) -> np.ndarray:
        return vectors @ np.bincount(groups, share * other, minlength=count)

    return x, project


def closed_curve(eps: np.ndarray, grid: np.ndarray, how: dict[str, Any]) -> Curve:
    """A curve that a formula gives exactly; its error is rounding."""
    rounding = 1e-12 * np.abs(eps) + 1e-17
    return Curve(eps, rounding, diagnostics=how, error_kind="exact", name="ε", alpha=grid)


def count_trained(spectrum: Spectrum, trained: int | None) -> int:
    """How many modes learn: N_l, defaults to all."""
    if trained is None:
        return spectrum.modes
    if whole_number("trained", trained, 1) > spectrum.modes:
        raise BadInput(f"{trained} trained modes of {spectrum.modes}", f"use at most {spectrum.modes}")
    return trained


def initial_variance(sigma: float) -> float:
    """σ_J²."""
    if not (np.isfinite(sigma) and sigma >= 0):
        raise BadInput(f"σ_J is {sigma}", "give a standard deviation ≥ 0")
    return sigma**2


def check_rate(lr: float) -> None:
    """Bad input unless η > 0."""
    if not (np.isfinite(lr) and lr > 0):
        raise BadInput(f"the learning rate is {lr:g}", "use η > 0")
