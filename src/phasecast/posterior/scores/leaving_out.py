"""How well would an observation be predicted that was left out, and how well do the draws determine that?

The posterior without observation i is the posterior with weights r = e^{−βℓ_i}. Their tail is smoothed (PSIS, Vehtari
et al. 2024), and its shape k says how they converge. With smoothed, normalised weights W,

.. math:: \\mathrm{LOO}_i = -\\log p_i, \\quad p_i = \\sum_s W_{si} e^{\\ell_{si}}, \\quad
          g_{si} = -W_{si}\\,(e^{\\ell_{si}} - p_i)/p_i

and g is what draw s adds to the error. Its sums over observations and over contiguous batches of draws give the
standard error of the mean, also for draws of a chain. What the largest of S draws does not show is added: beyond it a
tail r^{−1/k} has a share 1/S of the draws with mean r_max/(1 − k), which is W_max/(1 − k) of the sum. One such draw
more or less is an error of its own for each observation. For k > ½, where weights have no finite variance, all
observations lack such draws most of the time, so that their errors add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

BATCHES = 32  # of the draws: the error is then uncertain by an eighth, and batches are long beside most chains' memory


@dataclass(frozen=True)
class LeftOut:
    """Losses of the observations, the shapes of their weights' tails, and the error of the mean loss over draws."""

    losses: np.ndarray
    pareto_k: np.ndarray
    error: float


def left_out(
    ll: np.ndarray, beta: float, logw: np.ndarray, relative_efficiency: float, *, fewest_draws: int, infinite: float
) -> LeftOut:
    """PSIS-LOO of every observation; NaN with fewer than ``fewest_draws`` draws.

    ``ll`` has shape (draw, observation), ``logw`` are normalised. ``infinite`` is the shape above which weights have no
    finite variance. The error is NaN for unequal ``logw``, which may be those of a quadrature.
    """
    draws, count = ll.shape
    if draws < fewest_draws:
        return LeftOut(np.full(count, np.nan), np.full(count, np.nan), math.nan)
    losses, shapes, largest, influence = np.empty(count), np.empty(count), np.empty(count), np.zeros(draws)
    for i, column in enumerate(ll.T):
        smooth, shapes[i] = _smoothed(logw - beta * column, relative_efficiency)
        losses[i], largest[i] = -_log_sum(smooth + column), math.exp(smooth.max())
        influence -= np.exp(smooth + column + losses[i]) - np.exp(smooth)
    batches = min(BATCHES, draws // fewest_draws)
    if batches < 2 or np.ptp(logw) > 0:
        return LeftOut(losses, shapes, math.nan)
    sums = np.array([part.sum() for part in np.array_split(influence, batches)]) / count
    # a normal mean over an error from B batches has Student's distribution, with variance (B − 1)/(B − 3)
    error = math.sqrt(batches / max(batches - 3, 1) * float(np.sum(sums**2)))
    unseen = np.where(shapes > 0, largest / np.maximum(1 - shapes, 1e-9), 0.0) / count
    together = float(unseen[shapes > infinite].sum())
    return LeftOut(losses, shapes, math.hypot(error, float(np.linalg.norm(unseen)), together))


def _smoothed(raw: np.ndarray, relative_efficiency: float) -> tuple[np.ndarray, float]:
    """Normalised log weights with a smooth tail, and its shape k; unchanged if the tail is one repeated draw."""
    from arviz_stats.base.array import BaseArray

    efficiency = _rounded_up(len(raw), relative_efficiency)
    try:  # arviz-stats takes the log-likelihood and smooths its negative
        smooth, shape = BaseArray().psislw(-raw, r_eff=efficiency)  # pyright: ignore[reportArgumentType]
    except ValueError:
        smooth, shape = raw, np.inf if np.ptp(raw) > 0 else 0.0
    return smooth - _log_sum(smooth), float(shape)


def _rounded_up(draws: int, relative_efficiency: float) -> float:
    """The efficiency with which arviz-stats smooths ⌈3√(S/r)⌉ draws, as ArviZ 0.23 and the R package loo do.

    By itself it rounds down, which moves LOO by 10⁻⁵; up to S r = 225 the tail is S/5 in all of them.
    """
    if draws * relative_efficiency <= 225:
        return relative_efficiency
    tail = np.ceil(3 * (draws / relative_efficiency) ** 0.5)
    return float(9 * draws / (tail + 0.5) ** 2)


def _log_sum(terms: np.ndarray) -> float:
    from scipy.special import logsumexp

    return float(np.asarray(logsumexp(terms)))
