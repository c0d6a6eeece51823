"""Do the samplers draw from the posterior? Simulation-based calibration (Talts et al. 2018).

Parameters are drawn from the prior and data from the parameters. Then the rank of the true parameters among draws of
the posterior is uniform, for every function of parameters and data. A χ² test over many such draws gives a p-value; the
answer is z = Φ⁻¹(1 − p) with error 1, and the truth is 0. It is covered where p > 0.01: ranks cannot be too even.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from phasecast.studies.arena.family import Family, Outcome

RANKS = 64  # ranks 0 … 63 from 63 draws
BINS = 8
DOUBTFUL = 0.01  # p-value below which a sampler misses; one of a hundred right ones does
CERTAIN = 1e-6  # p-value below which a wrong likelihood counts as seen
HOT = 0.3  # inverse temperature of the walkers that are exchanged with


@dataclass(frozen=True)
class Calibration:
    """Which sampler on which linear network, how often, and which function is ranked."""

    sampler: str
    widths: tuple[int, ...]
    n: int
    statistic: str
    noise: float
    sets: int
    draw: int

    def __str__(self) -> str:
        wrong = f", data with noise {self.noise:g} instead of 1" if self.noise != 1 else ""
        return (
            f"{self.sampler} on linear {'-'.join(map(str, self.widths))}, n = {self.n}, rank of the {self.statistic} "
            f"in {self.sets} data sets drawn with {self.draw}{wrong}"
        )


DATA_SETS = {"gibbs": 240, "exchange": 240, "nuts": 64, "hmc": 40}
"""How many are drawn: NUTS and the chains of λ̂ move one data set at a time, so that they get fewer."""


def calibration(rng: np.random.Generator, sampler: str) -> Calibration:
    """Regular and singular networks; regular ones alone for the chains of λ̂, which have one array of weights."""
    widths = tuple(int(w) for w in rng.integers(1, 4, 2 if sampler == "hmc" else int(rng.integers(2, 4))))
    statistic = "loss" if sampler == "hmc" else str(rng.choice(["loss", "first output weight"]))
    sets, draw = DATA_SETS[sampler], int(rng.integers(2**31))
    return Calibration(sampler, widths, int(rng.integers(5, 40)), statistic, 1.0, sets, draw)


def wrong_likelihood(rng: np.random.Generator) -> Calibration:
    """The same with noise of three times the size in the data: a control that must be seen."""
    widths = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    return Calibration("gibbs", widths, int(rng.integers(10, 40)), "loss", 3.0, 240, int(rng.integers(2**31)))


def p_value(problem: Calibration, seed: int) -> float:
    """Of the χ² test that all ranks are equally likely."""
    from scipy.stats import chisquare

    ranks = hmc_ranks(problem, seed) if problem.sampler == "hmc" else tempered_ranks(problem, seed)
    counts = np.bincount(ranks * BINS // RANKS, minlength=BINS)
    return float(chisquare(counts).pvalue)


def _draw(problem: Calibration, number: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Factors from the prior, and data from them."""
    rng = np.random.default_rng([problem.draw, number])
    widths = problem.widths
    factors = [rng.normal(size=(widths[i + 1], widths[i])) for i in range(len(widths) - 1)]
    x = rng.normal(size=(problem.n, widths[0]))
    return factors, {"x": x, "y": x @ product(factors).T + problem.noise * rng.normal(size=(problem.n, widths[-1]))}


def product(factors: list[np.ndarray]) -> np.ndarray:
    """W_L ⋯ W_1."""
    total = factors[0]
    for factor in factors[1:]:
        total = factor @ total
    return total


def tempered_ranks(problem: Calibration, seed: int) -> np.ndarray:
    """Of Gibbs sampling, of NUTS, or of Gibbs sampling with exchanges at a second temperature."""
    from phasecast import posterior
    from phasecast.posterior.tempered import params_of

    model = posterior.deep_linear(problem.widths)
    drawn = [_draw(problem, number) for number in range(problem.sets)]
    exchanging = problem.sampler == "exchange"
    thin = 10 if len(problem.widths) > 2 or problem.sampler == "nuts" else 1
    tree = posterior.tempered(
        model,
        [data for _, data in drawn],
        [HOT, 1.0] if exchanging else [1.0],
        sampler="nuts" if problem.sampler == "nuts" else "gibbs",
        chains=1,
        draws=(RANKS - 1) * thin,
        warmup=200,
        thin=thin,
        swap=exchanging,
        seed=seed,
    )
    stored = params_of(model, tree)
    ranks = []
    for number, (truth, data) in enumerate(drawn):
        draws = [[np.asarray(part)[number, -1, 0, at] for part in stored] for at in range(RANKS - 1)]
        values = [_value(problem, factors, data) for factors in draws]
        ranks.append(int(np.sum(np.array(values) < _value(problem, truth, data))))
    return np.array(ranks)


def _value(problem: Calibration, factors: list[np.ndarray], data: dict[str, np.ndarray]) -> float:
    total = product(factors)
    if problem.statistic == "loss":
        return float(np.sum((data["y"] - data["x"] @ total.T) ** 2))
    return float(total[0, 0])


def hmc_ranks(problem: Calibration, seed: int) -> np.ndarray:
    """Of the chains of λ̂: with w* = 0, γ = 1 and nβ = n they draw from the posterior under a standard normal prior."""
    import jax.numpy as jnp

    import phasecast as pc

    def loss(w, d):
        return jnp.mean(jnp.sum((d["y"] - d["x"] @ w.T) ** 2, axis=1)) / 2

    ranks = []
    for number in range(problem.sets):
        (truth,), data = _draw(problem, number)
        found = pc.llc(
            loss, np.zeros_like(truth), data, nbeta=problem.n, gamma=1.0, sampler="hmc", target=0.2, seconds=None,
            seed=seed + number, progress=False,
        )  # fmt: skip
        excess = np.asarray(found.traces["excess"]).ravel()
        spaced = excess[np.linspace(0, len(excess) - 1, RANKS - 1).astype(int)]
        at_zero = float(np.sum(data["y"] ** 2)) / 2
        true = float(np.sum((data["y"] - data["x"] @ truth.T) ** 2)) / 2 - at_zero
        ranks.append(int(np.sum(spaced < true)))
    return np.array(ranks)


def judge(problem: Calibration, seed: int) -> Outcome:
    from scipy.special import ndtri

    p = p_value(problem, seed)
    z = float(ndtri(1 - min(max(p, 1e-15), 1 - 1e-15)))
    least = z - float(ndtri(1 - DOUBTFUL))
    return Outcome("ok", max(z, 0.0), 1.0, 0.0, words=f"{problem}: p = {p:.2g}", interval=(least, math.inf))


def judge_control(problem: Calibration, seed: int) -> Outcome:
    """Refused where the wrong likelihood is seen; an ok would be wrong."""
    p = p_value(problem, seed)
    status = "refused" if p < CERTAIN else "ok"
    return Outcome(status, p, 0.0, math.nan, words=str(problem), reasons=f"ranks are not uniform: p = {p:.1g}")


UNIFORM = "ranks of true parameters are uniform"
COUNTS = {"gibbs": (4, 1), "exchange": (4, 1), "nuts": (3, 1), "hmc": (2, 1)}
FAMILIES = (
    *(
        Family(
            f"calibration-{sampler}",
            "the chains of llc, by HMC" if sampler == "hmc" else f"posterior.tempered, {sampler}",
            UNIFORM,
            functools.partial(calibration, sampler=sampler),
            judge,
            full,
            quick,
        )
        for sampler, (full, quick) in COUNTS.items()
    ),
    Family(
        "calibration-control",
        "this test of calibration itself",
        "data with three times the noise that the model has",
        wrong_likelihood,
        judge_control,
        2,
        1,
        refusing="the likelihood is wrong on purpose, which must be seen",
    ),
)
