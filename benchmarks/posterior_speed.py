"""Effective draws of nL a second against NumPyro's NUTS, in one run, as ratios; and Table 2's full setting.

python benchmarks/posterior_speed.py [--draws 1000] [--table-2]

Reduced rank regression (3, 3, 3), n = 1000, five β around 1/log n, four chains. Each sampler runs twice; the second
time counts, without compilation. Needs the extra phasecast[numpyro].
"""

from __future__ import annotations

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


def by_numpyro(data: Any, draws: int) -> Callable[[int], np.ndarray]:
    """nL (beta, chain, draw) by NumPyro, one β after another, chains vectorised."""
    summary = jax.tree.map(jnp.asarray, MODEL.summary(data))
    mcmc = MCMC(
        NUTS(program), num_warmup=WARMUP, num_samples=draws, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False, jit_model_args=True,
    )  # fmt: skip
    loss = jax.jit(jax.vmap(jax.vmap(lambda a, b: MODEL.total_loss((a, b), summary))))

    def go(seed: int) -> np.ndarray:
        found = []
        for number, beta in enumerate(BETAS):
            mcmc.run(jax.random.key(seed + number), summary, jnp.asarray(beta))
            places = mcmc.get_samples(group_by_chain=True)
            found.append(np.asarray(loss(places["a"], places["b"])))
        return np.stack(found)

    return go


def by_us(data: Any, draws: int, sampler: Any) -> Callable[[int], np.ndarray]:
    def go(seed: int) -> np.ndarray:
        tree = tempered(MODEL, data, BETAS, sampler=sampler, chains=CHAINS, draws=draws, warmup=WARMUP, seed=seed)
        return tree["sample_stats"].to_dataset()["nL"].values[0]

    return go


def effective(go: Callable[[int], np.ndarray]) -> tuple[float, float, float]:
    """Effective draws a second over all β, seconds, and E[nL] at the middle β, of the second of two runs."""
    go(0)
    start = time.perf_counter()
    losses = go(1)
    seconds = time.perf_counter() - start
    return sum(ess(one.T) for one in losses) / seconds, seconds, float(losses[2].mean())


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
        theirs, seconds, energy = effective(by_numpyro(data, draws))
    print(f"NumPyro NUTS: {theirs:.0f} effective draws a second ({seconds:.1f} s), E[nL] {energy:.2f}")
    for sampler, bar in (("nuts", 1), ("gibbs", 20)):
        ours, seconds, energy = effective(by_us(data, draws, sampler))
        ratio = ours / theirs
        verdict = "ok" if ratio >= bar else "MISSED"
        words_ = f"{ours:.0f} effective draws a second ({seconds:.1f} s), E[nL] {energy:.2f}"
        print(f"our {sampler}: {words_}, {ratio:.1f} × NumPyro (bar {bar} ×) {verdict}")
    if "--table-2" in words:
        table_2()


if __name__ == "__main__":
    main(sys.argv[1:])
