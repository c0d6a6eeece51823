"""What did chains observe? A series in bounded memory: means over bins of steps, and one draw of each bin.

When there are too many bins, neighbours are joined. Means over bins keep the error of the mean exactly; one draw of
each is what R-hat and plots need.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phasecast.sampling import mixing

MOST_BINS = 2048  # bounds memory and the cost of an error; a thousand bins know an error to about 2%
FEWEST_DRAWS = 8  # fewer cannot be split into halves of chains for R-hat and the effective sample size


@dataclass
class Trace:
    """One observable of all chains, over time."""

    chains: int
    width: int = 1
    means: np.ndarray = field(default_factory=lambda: np.empty(0))
    draws: np.ndarray = field(default_factory=lambda: np.empty(0))
    rest: np.ndarray = field(default_factory=lambda: np.empty(0))
    square: np.ndarray = field(default_factory=lambda: np.empty(0))
    steps: int = 0

    def __post_init__(self) -> None:
        for name in ("means", "draws", "rest"):
            if getattr(self, name).size == 0:
                setattr(self, name, np.empty((0, self.chains)))
        if self.square.size == 0:
            self.square = np.zeros(self.chains)

    def append(self, values: np.ndarray) -> None:
        """Add steps, an array (steps, chains)."""
        values = np.asarray(values, dtype=float)
        self.steps += len(values)
        self.square = self.square + np.sum(values**2, axis=0)
        rows = np.concatenate([self.rest, values])
        whole = len(rows) // self.width
        blocks = rows[: whole * self.width].reshape(whole, self.width, self.chains)
        self.rest = rows[whole * self.width :]
        self.means = np.concatenate([self.means, blocks.mean(axis=1)])
        self.draws = np.concatenate([self.draws, blocks[:, -1]])
        while len(self.means) > MOST_BINS:
            even = len(self.means) // 2 * 2
            left = self.means[even:] * self.width  # an odd bin waits with the rest, as if its steps were all alike
            self.rest = np.concatenate([np.repeat(left / self.width, self.width, axis=0), self.rest])
            self.means = self.means[:even].reshape(-1, 2, self.chains).mean(axis=1)
            self.draws = self.draws[1:even:2]
            self.width *= 2

    @property
    def mean(self) -> float:
        """The mean over all whole bins and chains."""
        return float(self.means.mean()) if self.means.size else float("nan")

    @property
    def variance(self) -> float:
        """The variance of single steps."""
        total = self.steps * self.chains
        if not total:
            return float("nan")
        every = (self.means.sum(axis=0) * self.width + self.rest.sum(axis=0)).sum() / total
        return float(self.square.sum() / total - every**2)

    @property
    def error(self) -> float:
        """The standard error of the mean, with the correlation of the steps."""
        return mcse(self.means)

    def later(self, share: float) -> Trace:
        """The last part of it, for when the first part turned out to be warm-up; its variance is that of its draws."""
        keep = max(1, round(len(self.means) * share))
        means, draws = self.means[-keep:], self.draws[-keep:]
        steps = keep * self.width
        return Trace(self.chains, self.width, means, draws, self.rest[:0], np.sum(draws**2, axis=0) * self.width, steps)


OBSERVED = ("loss", "radius", "pull")


def all_finite(observed: dict[str, np.ndarray]) -> bool:
    """Whether steps stayed where the loss is finite."""
    return all(np.all(np.isfinite(observed[name])) for name in OBSERVED)


@dataclass
class Record:
    """What the chains of a level observed: L − L*, |w − w*|², (w − w*)·∇L, acceptance and divergences."""

    chains: int
    loss: Trace
    radius: Trace
    pull: Trace
    acceptance: list[float] = field(default_factory=list)
    divergences: int = 0

    @classmethod
    def empty(cls, chains: int) -> Record:
        return cls(chains, Trace(chains), Trace(chains), Trace(chains))

    def append(self, observed: dict[str, np.ndarray]) -> None:
        """Note what some steps observed; nothing but divergences, if it is not finite."""
        self.divergences += int(np.sum(observed["divergent"]))
        if all_finite(observed):
            for name in OBSERVED:
                getattr(self, name).append(observed[name])
            self.acceptance.append(float(np.mean(observed["acceptance"])))

    def keep_later(self, share: float) -> None:
        """Forget the first steps, up to the last ``share`` of them."""
        self.loss, self.radius, self.pull = (trace.later(share) for trace in (self.loss, self.radius, self.pull))


def mcse(means: np.ndarray) -> float:
    """The standard error of the mean of a series (steps, chains), by its effective sample size."""
    if len(means) < FEWEST_DRAWS:
        return float("inf")
    if np.ptp(means) == 0:
        return 0.0
    return mixing.mean_error(means)


def batch_error(means: np.ndarray, batches: int = 10) -> float:
    """The standard error of the mean of a series (steps, chains) from the spread of a few long batches.

    With few batches the spread is uncertain, so the error is scaled such that ±2 errors hold as often as ±2 standard
    deviations of a normal distribution (Student's t).
    """
    from scipy.special import ndtr, stdtrit

    if len(means) < 2 * batches:
        return float("inf")
    whole = len(means) // batches * batches
    spread = means[-whole:].mean(axis=1).reshape(batches, -1).mean(axis=1)
    wider = stdtrit(batches - 1, ndtr(2)) / 2
    return float(wider * spread.std(ddof=1) / np.sqrt(batches))


def slow_error(means: np.ndarray, times: float, batches: int = 5) -> float:
    """The standard error of the mean of a series (steps, chains) that is only so many autocorrelation times τ long.

    Batches shorter than τ are alike, so their spread shows too little of the variance of the mean. For an exponential
    autocorrelation exp(−2|t|/τ) both are known, and so are the degrees of freedom ν = (tr AΣ)²/tr(AΣAΣ) of that spread
    (Satterthwaite), with Σ the covariance of the batch means and A what takes their mean away. The error is scaled by
    the ratio, and by Student's t with ν as in :func:`batch_error`.
    """
    from scipy.special import ndtr, stdtrit

    if len(means) < batches:
        return float("inf")
    whole = len(means) // batches * batches
    spread = means[-whole:].mean(axis=1).reshape(batches, -1).mean(axis=1)
    away = np.eye(batches) - 1 / batches
    centred = away @ _batch_covariance(times / batches, batches)
    shown, freedom = np.trace(centred) / (batches - 1), np.trace(centred) ** 2 / np.trace(centred @ centred)
    wider = stdtrit(freedom, ndtr(2)) / 2
    return float(wider * spread.std(ddof=1) * np.sqrt(mean_variance(times) / shown))


def mean_variance(times: float) -> float:
    """Var(mean)/Var of a series with autocorrelation exp(−2|t|/τ), over so many τ: 1/times for long ones, at most 1."""
    length = 2 * times
    return 2 / length * (1 + np.expm1(-length) / length) if length > 1e-4 else 1.0 - length / 3


def _batch_covariance(times: float, batches: int) -> np.ndarray:
    """The covariance of neighbouring batch means, each over so many τ, of the series in :func:`mean_variance`."""
    length = 2 * times
    apart = np.abs(np.subtract.outer(np.arange(batches), np.arange(batches)))
    gap = np.maximum(apart - 1.0, 0.0)  # between the batches; none within one
    between = (np.expm1(-length) / length) ** 2 * np.exp(-length * gap)
    return np.where(apart == 0, mean_variance(times), between)


def ess(draws: np.ndarray) -> float:
    """The effective number of independent draws in a series (steps, chains)."""
    if len(draws) < FEWEST_DRAWS or np.ptp(draws) == 0:
        return float("nan")
    return mixing.effective_draws(draws)


def rhat(draws: np.ndarray) -> float:
    """How far chains, or the halves of a single one, are from agreement (Vehtari et al. 2021)."""
    if len(draws) < FEWEST_DRAWS or np.ptp(draws) == 0:
        return float("nan")
    if draws.shape[1] == 1:
        half = len(draws) // 2
        draws = np.concatenate([draws[:half], draws[half : 2 * half]], axis=1)
    return mixing.rank_rhat(draws)


def drift(means: np.ndarray) -> tuple[float, float]:
    """The second half minus the first, and its standard error."""
    half = len(means) // 2
    first, second = means[:half], means[-half:]
    return float(second.mean() - first.mean()), float(np.hypot(mcse(first), mcse(second)))
