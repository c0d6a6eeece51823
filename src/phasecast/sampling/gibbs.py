"""What should λ̂ of a product of matrices be? An exact sampler, without step size, gradient or rejection.

Under :math:`e^{-n\\beta L(w) - \\frac\\gamma2 |w - w^*|^2}` with
:math:`L(w) = \\tfrac12 \\lVert W_1 \\cdots W_L - W^*_1 \\cdots W^*_L \\rVert_F^2`
every factor is Gaussian given the others, so that :math:`\\hat\\lambda(\\gamma) = n\\beta\\, E[L - L^*]` can be
sampled factor by factor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Measurement, Status
from phasecast.models.matrix_products import product_name, true_factors

BATCHES = 16  # per chain: with four chains the standard error is known to 9 %
BATCH_IN_TIMES = 3  # a batch shorter than this many autocorrelation times hides part of the variance
AGREE = 3.0  # standard errors between halves or starts: one false alarm in 370


@dataclass(frozen=True)
class GibbsTrace:
    """What the sampler observed after each sweep; the traces have shape (chains, sweeps).

    ``excess`` is :math:`n\\beta(L - L^*)`, ``expected`` its mean given all factors but the last (the same expectation
    with less noise), ``distance`` is :math:`|w - w^*|^2`, and ``factors`` is where the chains ended.
    """

    excess: np.ndarray
    expected: np.ndarray
    distance: np.ndarray
    factors: tuple[np.ndarray, ...]


def gibbs_coefficient(
    widths: Sequence[int],
    rank: int,
    *,
    nbeta: float,
    gamma: float,
    sweeps: int = 2000,
    chains: int = 4,
    seed: int = 0,
    singular_values: Sequence[float] | None = None,
) -> Measurement:
    """:math:`\\hat\\lambda(\\gamma) = n\\beta\\, E[L - L^*]` at finite nβ and γ, by :func:`gibbs`.

    It tends to λ as γ → 0 and nβ → ∞, and is exact up to its error for every γ and nβ. The burn-in is the first of
    1/16, 1/8, 1/4, 1/2 of the sweeps after which neither the two halves of the rest nor the chains from the two kinds
    of start differ by more than three errors. The error comes from the spread of 16 long batches per chain around the
    mean of all chains. There is a warning where nothing settles or a batch has less than three autocorrelation times.

    >>> one = gibbs_coefficient((3, 2), 1, nbeta=100, gamma=10, sweeps=200)  # one factor: 6/2 · 100/110
    >>> round(one.value, 6), round(one.error, 6)
    (2.727273, 0.0)
    """
    sweeps = whole_number("sweeps", sweeps, 4 * BATCHES)
    chains = whole_number("chains", chains, 2)
    truth = true_factors(widths, rank, singular_values=singular_values)
    trace = gibbs(truth, nbeta=nbeta, gamma=gamma, sweeps=sweeps, chains=chains, seed=seed)
    observed = (trace.expected, trace.excess, trace.distance)
    burn_in, settled = sweeps // 2, False
    for halvings in (4, 3, 2, 1):
        if all(_settled(series[:, sweeps >> halvings :]) for series in observed):
            burn_in, settled = sweeps >> halvings, True
            break
    expected, excess, distance = (series[:, burn_in:] for series in observed)
    times = {name: autocorrelation_time(series) for name, series in (("λ̂", expected), ("|w−w*|²", distance))}
    reasons = []
    if not settled:
        reasons.append(f"the chains still move after {burn_in} of {sweeps} sweeps; use more sweeps")
    if expected.shape[1] < BATCHES * BATCH_IN_TIMES * max(times.values()):
        needed = math.ceil(2 * BATCHES * BATCH_IN_TIMES * max(times.values()))
        reasons.append(f"a batch is too short for this autocorrelation; use at least {needed} sweeps")
    return Measurement(
        float(expected.mean()),
        long_batch_error(expected),
        Status.WARNING if reasons else Status.OK,
        {
            "nβ": float(nbeta),
            "γ": float(gamma),
            "burn-in": burn_in,
            "nβΔL as sampled": float(excess.mean()),
            "its error": long_batch_error(excess),
            "|w−w*|²": float(distance.mean()),
            **{f"sweeps between independent {name}": value for name, value in times.items()},
        },
        error_kind="mcse",
        reasons=reasons,
        name=f"λ̂ of {product_name(widths, rank)}",
    )


def gibbs(
    truth: Sequence[np.ndarray],
    *,
    nbeta: float,
    gamma: float,
    sweeps: int,
    chains: int = 4,
    seed: int = 0,
    start: Sequence[np.ndarray] | None = None,
    gauge: bool = True,
) -> GibbsTrace:
    """Samples of :math:`e^{-n\\beta L(w) - \\frac\\gamma2|w - w^*|^2}`: each sweep draws every factor anew.

    ``truth`` is w*, the true factors (:func:`phasecast.models.matrix_products.true_factors`).

    L does not change under :math:`(W_i G, G^{-1} W_{i+1})`, and where little is left over by the rank single factors
    hardly move along these orbits (autocorrelations of thousands of sweeps at full rank). With ``gauge`` a sweep also
    draws from the target along random one-parameter pieces of each orbit, which takes about as long again.

    Without ``start`` (factors with a leading axis of chains) chains 0, 2, … begin at w*, the limit of large γ, and
    chains 1, 3, … at a draw from :math:`N(w^*, 1/\\gamma)`, the limit of small nβ: they come from both sides.
    """
    for name, value in (("nbeta", nbeta), ("gamma", gamma)):
        if not (math.isfinite(value) and value > 0):
            raise BadInput(f"{name} is {value}", f"give a positive {name}")
    target = functools.reduce(np.matmul, truth)
    rng = np.random.default_rng(seed)
    sweeps, chains = whole_number("sweeps", sweeps, 1), whole_number("chains", chains, 1)
    if start is None:
        wide = (np.arange(chains) % 2)[:, None, None] / math.sqrt(gamma)
        factors = [factor + wide * rng.standard_normal((chains, *factor.shape)) for factor in truth]
    else:
        factors = [np.array(factor, dtype=float) for factor in start]
        if [factor.shape for factor in factors] != [(chains, *factor.shape) for factor in truth]:
            raise BadInput("the start has other shapes than the factors", "give arrays (chains, rows, columns)")
    excess, expected, distance = (np.empty((chains, sweeps)) for _ in range(3))
    for sweep in range(sweeps):
        rights: list[np.ndarray | None] = [None]
        for factor in factors[:0:-1]:
            rights.append(factor if rights[-1] is None else factor @ rights[-1])
        left = None
        for i, right in enumerate(reversed(rights)):
            conditional = Conditional.of(left, right, target, truth[i], nbeta, gamma)
            factors[i] = conditional.draw(rng.standard_normal((chains, *truth[i].shape)))
            if i == len(truth) - 1:
                expected[:, sweep] = conditional.expected_excess(left, target, nbeta, gamma)
            left = factors[i] if left is None else left @ factors[i]
        assert left is not None
        excess[:, sweep] = nbeta / 2 * np.sum((left - target) ** 2, axis=(1, 2))
        if gauge:
            for i in range(len(truth) - 1):
                factors[i : i + 2] = _stretch(rng, factors[i : i + 2], truth[i : i + 2], gamma)
        distance[:, sweep] = sum(np.sum((w - t) ** 2, axis=(1, 2)) for w, t in zip(factors, truth, strict=True))
    return GibbsTrace(excess, expected, distance, tuple(factors))


@dataclass(frozen=True)
class Conditional:
    """The Gaussian of one factor W given the product A on its left and the product B on its right.

    Its precision is :math:`n\\beta\\, A^\\top A \\otimes BB^\\top + \\gamma`, and precision times mean is
    :math:`n\\beta\\, A^\\top M B^\\top + \\gamma W^*`. With :math:`A^\\top A = U a U^\\top` and
    :math:`BB^\\top = V b V^\\top` the entries of :math:`U^\\top W V` are independent, with precisions
    :math:`n\\beta\\, a_j b_k + \\gamma`. None stands for a product of no factors, the identity.
    """

    turned_mean: np.ndarray
    precision: np.ndarray
    rows: np.ndarray | None
    columns: np.ndarray | None

    @classmethod
    def of(
        cls,
        left: np.ndarray | None,
        right: np.ndarray | None,
        target: np.ndarray,
        truth: np.ndarray,
        nbeta: float,
        gamma: float,
    ) -> Conditional:
        """From stacks of products (chains, …), the target product M and the true factor W*."""
        weighted_mean, rows, columns = target, None, None
        a, b = np.ones((1, truth.shape[0])), np.ones((1, truth.shape[1]))
        if left is not None:
            a, rows = np.linalg.eigh(left.mT @ left)
            weighted_mean = left.mT @ weighted_mean
        if right is not None:
            b, columns = np.linalg.eigh(right @ right.mT)
            weighted_mean = weighted_mean @ right.mT
        # eigenvalues that are zero come out a little negative
        precision = nbeta * np.maximum(a, 0)[:, :, None] * np.maximum(b, 0)[:, None, :] + gamma
        weighted_mean = nbeta * weighted_mean + gamma * truth
        weighted_mean = weighted_mean if rows is None else rows.mT @ weighted_mean
        weighted_mean = weighted_mean if columns is None else weighted_mean @ columns
        return cls(weighted_mean / precision, precision, rows, columns)

    def draw(self, noise: np.ndarray) -> np.ndarray:
        """The factor that standard normal ``noise`` stands for; zeros give the mean."""
        turned = self.turned_mean + noise / np.sqrt(self.precision)
        turned = turned if self.rows is None else self.rows @ turned
        return turned if self.columns is None else turned @ self.columns.mT

    def expected_excess(self, left: np.ndarray | None, target: np.ndarray, nbeta: float, gamma: float) -> np.ndarray:
        """:math:`n\\beta E[L]` for the last factor: L at the mean, and half a unit for each direction that L fixes."""
        mean = self.draw(np.zeros_like(self.turned_mean))
        product = mean if left is None else left @ mean
        at_mean = nbeta / 2 * np.sum((product - target) ** 2, axis=(1, 2))
        return at_mean + 0.5 * np.sum(1 - gamma / self.precision, axis=(1, 2))


def long_batch_error(series: np.ndarray) -> float:
    """Standard error of the mean of ``series`` (chains, sweeps), from long batches around the mean of all chains."""
    means = _batches(series)
    return float(means.std(ddof=1) / math.sqrt(means.size))


def autocorrelation_time(series: np.ndarray) -> float:
    """Sweeps between independent samples, :math:`1 + 2\\sum_t \\rho_t`, of chains (chains, sweeps) of one target.

    The sum stops where a pair of neighbours turns negative and is made to fall (Geyer 1992, initial monotone
    sequence). The correlations are around the mean of all chains, so that chains in different places look slow.
    """
    length = series.shape[1]
    transform = np.fft.rfft(series - series.mean(), 2 * length, axis=1)
    covariance = np.fft.irfft(abs(transform) ** 2, axis=1)[:, :length].mean(axis=0) / length
    if covariance[0] <= (1e-12 * np.abs(series).max()) ** 2:
        return 1.0  # constant up to rounding
    pairs = (covariance / covariance[0])[: length - length % 2].reshape(-1, 2).sum(axis=1)
    end = int(np.argmax(pairs < 0)) if np.any(pairs < 0) else len(pairs)
    return max(1.0, float(2 * np.minimum.accumulate(pairs[:end]).sum() - 1))


def _batches(series: np.ndarray) -> np.ndarray:
    """Means of batches, (chains, BATCHES); a remainder is left out at the beginning."""
    length = series.shape[1] // BATCHES
    return series[:, series.shape[1] - length * BATCHES :].reshape(len(series), BATCHES, length).mean(axis=2)


def _settled(series: np.ndarray) -> bool:
    """Whether early and late batches, and chains from the two kinds of start, agree."""
    means = _batches(series)
    halves = means[:, : BATCHES // 2], means[:, BATCHES // 2 :]
    starts = means[0::2], means[1::2]
    for one, other in (halves, starts):
        error = math.sqrt(one.var(ddof=1) / one.size + other.var(ddof=1) / other.size)
        if abs(one.mean() - other.mean()) > AGREE * error + 1e-9 * abs(one.mean()):
            return False
    return True


def _stretch(
    rng: np.random.Generator, pair: Sequence[np.ndarray], truth: Sequence[np.ndarray], gamma: float
) -> list[np.ndarray]:
    """Two neighbours after :math:`(W_i G, G^{-1} W_{i+1})`, G = Q diag(±eˢ) Qᵀ, with s and the sign from the target.

    Q does not depend on the state. In its basis the hidden units are independent: with column c and row d of a unit,
    c* and d* of the truth, and p and q entries, the density along the orbit (Liu & Sabatti 2000) is

    .. math:: \\log\\pi(s) = (p - q) s - \\tfrac\\gamma2 |e^s c - c^*|^2 - \\tfrac\\gamma2 |e^{-s} d - d^*|^2
    """
    first, second = pair
    chains, p, width = first.shape
    q = second.shape[2]
    turn = _orthogonal(rng, (chains, width, width))
    first, second = first @ turn, turn.mT @ second
    cc, dd = np.sum(first**2, axis=1), np.sum(second**2, axis=2)
    c, d = np.sum(first * (truth[0] @ turn), axis=1), np.sum(second * (turn.mT @ truth[1]), axis=2)

    def log_density(s: np.ndarray) -> np.ndarray:
        grow, shrink = np.exp(s), np.exp(-s)
        return s * (p - q) - gamma * (grow * (grow * cc / 2 - c) + shrink * (shrink * dd / 2 - d))

    # a slice sampler's window must not change along the orbit: |c||d| does not
    window = 4 / np.sqrt(1 + 4 * gamma * np.sqrt(cc * dd))
    level = log_density(np.zeros_like(cc)) - rng.standard_exponential(cc.shape)
    low = -window * rng.random(cc.shape)
    high = low + window
    s, open_ = np.zeros_like(cc), np.ones(cc.shape, dtype=bool)
    while open_.any():
        proposal = low + (high - low) * rng.random(cc.shape)
        inside = log_density(proposal) >= level
        s = np.where(open_ & inside, proposal, s)
        open_ &= ~inside
        low = np.where(proposal < 0, proposal, low)
        high = np.where(proposal < 0, high, proposal)
    scale = np.exp(s)
    # the sign is drawn from its two probabilities: σ(2γ(c + d)) for plus
    plus = np.log(rng.random(cc.shape)) <= -np.logaddexp(0, -2 * gamma * (scale * c + d / scale))
    scale = np.where(plus, scale, -scale)
    return [(first * scale[:, None, :]) @ turn.mT, turn @ (second / scale[:, :, None])]


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal(shape))[0]
