"""Effective draws of nL a second against NumPyro's NUTS, in one run, as ratios; and Table 2's full setting.

python benchmarks/posterior_speed.py [--draws 1000] [--table-2]

Reduced rank regression (3, 3, 3), n = 1000, five β around 1/log n, four chains. What counts is what more draws
cost: each sampler runs with few and with three times as many, each twice, and compilation and warm-up cancel.
Needs the extra phasecast[numpyro].
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from phasecast.core.precision import float64
from phasecast.posterior import linear_data, network_data, polygon_network, reduced_rank, rlct, tempered, two_layer
from phasecast.posterior.rlct import around
from phasecast.sampling.traces import ess

CHAINS, WARMUP = 4, 500
BETAS = around(1000)


def program(summary: Any, beta: Any) -> None:
    """The same posterior, from the same sufficient statistics, so that the likelihood costs the same."""
    a = numpyro.sample("a", dist.Normal(0, 1).expand([3, 3]).to_event(2))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3, 3]).to_event(2))
    numpyro.factor("likelihood", -beta * MODEL.total_loss((a, b), summary))


MODEL = reduced_rank(3, 3, 3)


def by_numpyro(data: Any) -> Callable[[int, int], np.ndarray]:
    """nL (beta, chain, draw) by NumPyro, one β after another, chains vectorised."""
    summary = jax.tree.map(jnp.asarray, MODEL.summary(data))
    loss = jax.jit(jax.vmap(jax.vmap(lambda a, b: MODEL.total_loss((a, b), summary))))

    @functools.cache
    def sampler(draws: int) -> MCMC:
        settings = {"num_chains": CHAINS, "chain_method": "vectorized", "progress_bar": False, "jit_model_args": True}
        return MCMC(NUTS(program), num_warmup=WARMUP, num_samples=draws, **settings)

    def go(draws: int, seed: int) -> np.ndarray:
        found = []
        for number, beta in enumerate(BETAS):
            sampler(draws).run(jax.random.key(seed + number), summary, jnp.asarray(beta))
            places = sampler(draws).get_samples(group_by_chain=True)
            found.append(np.asarray(loss(places["a"], places["b"])))
        return np.stack(found)

    return go


def by_us(data: Any, sampler: Any) -> Callable[[int, int], np.ndarray]:
    def go(draws: int, seed: int) -> np.ndarray:
        tree = tempered(MODEL, data, BETAS, sampler=sampler, chains=CHAINS, draws=draws, warmup=WARMUP, seed=seed)
        return tree["sample_stats"].to_dataset()["nL"].values[0]

    return go


def effective(go: Callable[[int, int], np.ndarray], draws: int) -> tuple[float, float]:
    """Effective draws a second over all β, of further draws; and E[nL] at the middle β."""
    few, many = (_timed(go, count) for count in (draws, 3 * draws))
    return (many[0] - few[0]) / (many[1] - few[1]), many[2]


def _timed(go: Callable[[int, int], np.ndarray], draws: int) -> tuple[float, float, float]:
    go(draws, 0)
    start = time.perf_counter()
    losses = go(draws, 1)
    seconds = time.perf_counter() - start
    return sum(ess(one.T) for one in losses), seconds, float(losses[2].mean())


def table_2() -> None:
    truth = polygon_network(3, 5)
    start = time.perf_counter()
    found = rlct(
        two_layer(5, 2, prior_sd=50.0, truth=truth), network_data(truth, 1000, seed=0), around(20_000), method="slope",
        draws=5000, warmup=250,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    print(f"Table 2, m = 3, 5 β × 20 000 draws: {seconds:.0f} s with compilation (bar 300 s); ESS {found.ess:.0f}")
    print(found)


def main(words: list[str]) -> None:
    draws = int(words[words.index("--draws") + 1]) if "--draws" in words else 1000
    data = linear_data(list(np.random.default_rng(0).normal(size=(2, 3, 3))), 1000, seed=1)
    with float64():
        theirs, energy = effective(by_numpyro(data), draws)
    print(f"NumPyro NUTS: {theirs:.0f} effective draws a second, E[nL] {energy:.2f}", flush=True)
    for sampler, bar in (("nuts", 1), ("gibbs", 20)):
        ours, energy = effective(by_us(data, sampler), draws)
        verdict = "ok" if ours >= bar * theirs else "MISSED"
        rate = f"{ours:.0f} effective draws a second, E[nL] {energy:.2f}"
        print(f"our {sampler}: {rate}, {ours / theirs:.1f} × NumPyro (bar {bar} ×) {verdict}", flush=True)
    if "--table-2" in words:
        table_2()


if __name__ == "__main__":
    main(sys.argv[1:])
