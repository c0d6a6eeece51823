"""How large are the errors of Bayesian learning at finite n? Models of one or two parameters, by quadrature.

A prior on nodes w_k with weights φ_k makes every expectation a sum, and the identities of the theory exact:

.. math:: \\frac{dF}{d\\beta} = E_\\beta[nL], \\quad \\frac{dE_\\beta}{d\\beta} = -\\mathrm{Var}_\\beta[nL], \\quad
          F(n+1) - F(n) = -\\log p(X_{n+1} \\mid X^n), \\quad F_\\beta = \\beta E_\\beta[nL] + \\mathrm{KL}

with KL from the prior to the posterior at β. So the asymptotic laws can be tested at finite n: errors of learning, and
how fast cross-validation and WAIC converge to each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from phasecast.coefficients.exact.monomials import monomial
from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.results import Measurement
from phasecast.core.statistics import mean_of, standard_error
from phasecast.core.types import PyTree
from phasecast.posterior.scores.criteria import log_sum

HALF_WIDTH = 9.0  # the grid of a power model reaches this many posterior widths 1/√n, where e^(−81/2) is rounding
NODES = 321  # of the same grid: 18 nodes per posterior width make its sums exact to rounding


@dataclass(frozen=True, eq=False)
class GridModel:
    """A model on a grid of parameters.

    Parameters
    ----------
    nodes: shape (node,) or (node, parameter).
    log_prior: shape (node,): log φ_k; their exponentials are normalised here.
    log_likelihood: ``(nodes, data) -> (node, observation)``, log p(x|w).

    >>> def log_likelihood(p, x):
    ...     return np.log(np.where(x, p[:, None], 1 - p[:, None]))
    >>> coin = GridModel(np.linspace(0.005, 0.995, 100), np.zeros(100), log_likelihood)
    >>> tosses = np.array([1, 1, 0])
    >>> round(coin.free_energy(tosses), 2)  # −log of the Beta function at 3 and 2, log 12
    2.48
    """

    nodes: np.ndarray
    log_prior: np.ndarray
    log_likelihood: Callable[[np.ndarray, PyTree], np.ndarray]

    def __post_init__(self) -> None:
        prior = np.asarray(self.log_prior, dtype=float)
        if prior.shape != (len(self.nodes),) or np.isnan(prior).any():
            raise BadInput(f"the log prior has shape {prior.shape}", f"give one number per node, ({len(self.nodes)},)")
        object.__setattr__(self, "log_prior", prior - log_sum(prior))

    def losses(self, data: PyTree) -> np.ndarray:
        """nL(w) at every node."""
        return -self.log_likelihood(self.nodes, data).sum(axis=1)

    def free_energy(self, data: PyTree, beta: float = 1.0) -> float:
        """F = −log ∫ exp(−β nL) φ."""
        return float(-log_sum(self.log_prior - beta * self.losses(data)))

    def log_posterior(self, data: PyTree, beta: float = 1.0) -> np.ndarray:
        """Logarithms of the posterior's weights at β; ``criteria(log_likelihood, beta, log_weights)`` takes them."""
        return self.log_prior - beta * self.losses(data) + self.free_energy(data, beta)

    def energy(self, data: PyTree, beta: float = 1.0) -> tuple[float, float]:
        """E_β[nL] and Var_β[nL]."""
        weights, losses = np.exp(self.log_posterior(data, beta)), self.losses(data)
        mean = float(weights @ losses)
        return mean, float(weights @ (losses - mean) ** 2)

    def divergence(self, data: PyTree, beta: float = 1.0) -> float:
        """KL of the posterior at β from the prior."""
        log_posterior = self.log_posterior(data, beta)
        return float(np.exp(log_posterior) @ (log_posterior - self.log_prior))

    def predictive(self, data: PyTree, new: PyTree, beta: float = 1.0) -> np.ndarray:
        """log p(x|data) of every new observation."""
        return log_sum(self.log_posterior(data, beta)[:, None] + self.log_likelihood(self.nodes, new))


def power_model(power: int, radius: float = 1.0, nodes: int = NODES) -> GridModel:
    """N(w^power, 1) with w uniform on (−radius, radius); where N(0, 1) is true λ = 1/(2 power)."""
    whole_number("power", power, 1)
    points, weights = np.polynomial.legendre.leggauss(whole_number("nodes", nodes, 3))

    def log_likelihood(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return -((np.asarray(x) - (w**power)[:, None]) ** 2) / 2 - math.log(2 * math.pi) / 2

    return GridModel(radius * points, np.log(weights), log_likelihood)


class Errors(NamedTuple):
    """Of every dataset, shape (dataset,): errors are losses less the entropy, or its value on the sample."""

    generalisation: np.ndarray
    training: np.ndarray
    gibbs_training: np.ndarray
    cross_validation: np.ndarray
    variance: np.ndarray

    def waic(self, n: int, beta: float = 1.0) -> np.ndarray:
        """The WAIC error: training error + βV/n."""
        return self.training + beta * self.variance / n


@dataclass(frozen=True)
class Family:
    """A one-parameter family p(x|m) with truth m = 0, for :func:`learning_errors`.

    ``ratio(x, m)`` is log p(x|m)/q(x), shape (x, m); ``draw(rng, n)`` samples q; ``nodes()`` integrate over it.
    """

    ratio: Callable[[np.ndarray, np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    nodes: Callable[[], tuple[np.ndarray, np.ndarray]]


FAMILIES = {
    "normal": Family(
        lambda x, m: np.outer(x, m) - m**2 / 2,
        lambda rng, n: rng.normal(size=n),
        lambda: np.polynomial.hermite_e.hermegauss(40),
    ),
    "exponential": Family(
        lambda x, m: m - np.outer(x, np.expm1(m)),
        lambda rng, n: rng.exponential(size=n),
        lambda: np.polynomial.laguerre.laggauss(40),
    ),
}
"""N(m, 1), and the exponential distribution with rate e^m, whose score is skewed."""


def learning_errors(
    power: int, n: int, datasets: int, beta: float = 1.0, *, family: str = "normal", seed: int = 0
) -> Errors:
    """Bg, Bt, Gt, Cv and V of p(x|w^power) where w = 0 is true, exactly, for samples of n.

    The prior is uniform over a range that scales like 1/√n, wider than any posterior, so n enters by the sample alone.
    """
    if family not in FAMILIES:
        raise unknown("family", family, FAMILIES)
    kind = FAMILIES[family]
    means = (
        HALF_WIDTH / math.sqrt(whole_number("n", n, 2)) * np.linspace(-1, 1, NODES) ** whole_number("power", power, 1)
    )
    nodes, weights = kind.nodes()
    ratio_new = np.exp(kind.ratio(nodes, means))
    rng = np.random.default_rng([seed, power, n])
    rows = []
    for _ in range(whole_number("datasets", datasets, 2)):
        ratio = kind.ratio(kind.draw(rng, n), means)
        tempered = beta * ratio.sum(axis=0)
        posterior = np.exp(tempered - log_sum(tempered))
        density = np.exp(ratio)
        mean = ratio @ posterior
        left_out = np.log(density ** (1 - beta) @ posterior) - np.log(density**-beta @ posterior)
        rows.append(
            (
                -(weights @ np.log(ratio_new @ posterior)) / weights.sum(),
                -np.mean(np.log(density @ posterior)),
                -np.mean(mean),
                -np.mean(left_out),
                np.sum((ratio - mean[:, None]) ** 2 @ posterior),
            )
        )
    return Errors(*np.array(rows).T)


def learning_coefficient(power: int) -> Fraction:
    """λ of N(w^power, 1) where w = 0 is true: that of K = w^(2 power)/2."""
    return monomial([2 * power]).fraction


def singular_fluctuation(variances: np.ndarray | Sequence[float], beta: float = 1.0) -> Measurement:
    """ν(β) = (β/2) E[V] over datasets, from their functional variances.

    >>> abs(float(singular_fluctuation(learning_errors(1, 200, 50).variance).value) - 0.5) < 0.05
    True
    """
    return mean_of(beta / 2 * np.asarray(variances, dtype=float), "datasets", "singular fluctuation ν")


def sum_law(power: int, n: int, datasets: int, *, seed: int = 0) -> Measurement:
    """n(Bg + Cv)/2 at β = 1, which tends to λ for every dataset (Watanabe 2010, Theorem 2; survey eq. 3)."""
    errors = learning_errors(power, n, datasets, seed=seed)
    return mean_of(n * (errors.generalisation + errors.cross_validation) / 2, "datasets", "n(Bg + Cv)/2")


def waic_gap_exponent(
    power: int,
    beta: float,
    sizes: tuple[int, ...] = (50, 100, 200, 400, 800),
    datasets: int = 60,
    *,
    family: str = "exponential",
    seed: int = 0,
) -> Measurement[float]:
    """The power of n with which the typical |CvL − WAIC| falls: −3/2, and −2 at β = 1 (survey eq. 1).

    Those are bounds that singular models with a skewed score reach, such as the exponential family at power 2. Where
    the score is symmetric or the model regular the third cumulants nearly cancel and it falls faster. It is the slope
    of log √⟨(CvL − WAIC)²⟩ over log n, with the error that the datasets leave.
    """
    log_sizes, log_gaps, log_errors = [], [], []
    for n in sizes:
        errors = learning_errors(power, n, datasets, beta, family=family, seed=seed)
        squares = (errors.cross_validation - errors.waic(n, beta)) ** 2
        log_sizes.append(math.log(n))
        log_gaps.append(math.log(squares.mean()) / 2)
        log_errors.append(float(standard_error(squares)) / squares.mean() / 2)
    away = np.array(log_sizes) - np.mean(log_sizes)
    share = away / np.sum(away**2)
    return Measurement(
        float(share @ np.array(log_gaps)),
        float(np.sqrt(np.sum((share * np.array(log_errors)) ** 2))),
        error_kind="datasets",
        name=f"power of n in CvL − WAIC at β = {beta:g}",
    )


def fluctuations(power: int, n: int, datasets: int, *, seed: int = 0) -> tuple[float, float]:
    """Var Cv / Var Bg and the correlation of Cv and Bg over datasets at β = 1.

    Their sum does not fluctuate to order 1/n (survey eq. 3), so the ratio tends to 1 and the correlation to −1.
    """
    errors = learning_errors(power, n, datasets, seed=seed)
    covariance = np.cov(errors.generalisation, errors.cross_validation)
    return (
        float(covariance[1, 1] / covariance[0, 0]),
        float(covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])),
    )
