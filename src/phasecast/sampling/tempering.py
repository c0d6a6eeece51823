"""How walkers at several inverse temperatures move together: Gibbs, NUTS, and exchanges of places.

After every step neighbours in β offer each other their places, the even pairs and the odd pairs in turn, and take them
with probability :math:`\\min(1, e^{(\\beta_{k+1} - \\beta_k)(nL_{k+1} - nL_k)})` (parallel tempering; Okabe et al. 2001
for the turns). All of it is compiled once for a model and the lengths of a run, whatever the data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

ACCEPTANCE = 0.9  # of NUTS: posteriors of singular models have narrow places


class TemperedModel(Protocol):
    """What the walkers need of a model; :class:`phasecast.posterior.Model` has it."""

    @property
    def init(self) -> Callable[[Any], Any]: ...

    @property
    def log_prior(self) -> Callable[[Any], Any]: ...

    @property
    def gibbs(self) -> Callable[[Any, Any, Any, Any], Any] | None: ...

    def total_loss(self, params: Any, summary: Any) -> Any: ...


class Lengths(NamedTuple):
    """How long to go: steps to adapt, steps to settle, places kept, and steps from one of them to the next."""

    warmup: int
    settle: int
    kept: int
    thin: int


@functools.cache
def compiled() -> Any:
    """``(model, kind, chains, lengths, swap, keys, summaries, best, betas)`` to what the walkers saw and where."""
    import jax

    return jax.jit(_all_sets, static_argnums=(0, 1, 2, 3, 4))


def _all_sets(
    model: TemperedModel,
    kind: str,
    chains: int,
    lengths: Lengths,
    swap: bool,
    keys: Any,
    summaries: Any,
    best: Any,
    betas: Any,
) -> Any:
    import jax

    def one(key: Any, summary: Any, best: Any) -> Any:
        return _ladder(model, kind, chains, lengths, swap, key, summary, best, betas)

    return jax.vmap(one)(keys, summaries, best)


def _ladder(
    model: TemperedModel,
    kind: str,
    chains: int,
    lengths: Lengths,
    swap: bool,
    key: Any,
    summary: Any,
    best: Any,
    betas: Any,
) -> Any:
    """All walkers on one data set: traces (beta, chain, …) of what they saw, and the places they were at."""
    import jax
    import jax.numpy as jnp

    rungs = betas.shape[0]
    for_start, for_warmup, for_draws = jax.random.split(key, 3)
    from_prior = jax.vmap(jax.vmap(model.init))(jax.random.split(for_start, (rungs, chains)))
    at_best = jnp.arange(chains) % 2 == 1

    def begin(drawn: Any, given: Any) -> Any:
        kept = at_best.reshape(1, chains, *(1,) * jnp.ndim(given))
        return jnp.where(kept, given, drawn)

    places = jax.tree.map(begin, from_prior, best)
    if kind == "gibbs":
        move = _gibbs_move(model, summary, betas)
    else:
        tuning = _adapt(model, summary, betas, places, for_warmup, lengths.warmup)
        places, move = tuning[0], _nuts_move(model, summary, betas, *tuning[1:])

    def step(places: Any, numbered: Any) -> Any:
        number, key = numbered
        for_move, for_swap = jax.random.split(key)
        places, (acceptance, divergent) = move(for_move, places)
        losses = jax.vmap(jax.vmap(lambda p: model.total_loss(p, summary)))(places)
        taken = jnp.zeros((rungs, chains))
        if swap and rungs > 1:
            places, losses, taken = _exchange(for_swap, number, places, losses, betas)
        return places, {"nL": losses, "acceptance": acceptance, "divergent": divergent, "swapped": taken}

    def several(places: Any, numbered: Any) -> Any:
        """Steps until the next place is kept; all but nL is averaged."""
        places, seen = jax.lax.scan(step, places, numbered)
        losses = seen.pop("nL")
        return places, (losses, jax.tree.map(lambda x: x.astype(float).mean(0), seen), places)

    settle = -(-lengths.settle // lengths.thin)  # steps to settle are taken like the others, and forgotten
    shape = (settle + lengths.kept, lengths.thin)
    numbers = jnp.arange(shape[0] * shape[1]).reshape(shape)
    _, seen = jax.lax.scan(several, places, (numbers, jax.random.split(for_draws, shape)))
    losses, means, kept = jax.tree.map(lambda leaf: leaf[settle:], seen)
    stats = {name: values.mean(0) for name, values in means.items()}
    stats["nL"] = jnp.moveaxis(losses.reshape(-1, rungs, chains), 0, -1)
    stats["best"] = model.total_loss(best, summary)
    return stats, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 2), kept)


def _gibbs_move(model: TemperedModel, summary: Any, betas: Any) -> Any:
    import jax
    import jax.numpy as jnp

    assert model.gibbs is not None
    update = jax.vmap(jax.vmap(model.gibbs, (0, 0, None, None)), (0, 0, None, 0))

    def move(key: Any, places: Any) -> Any:
        shape = jax.tree.leaves(places)[0].shape[:2]
        moved = update(jax.random.split(key, shape), places, summary, betas)
        return moved, (jnp.ones(shape), jnp.zeros(shape, dtype=bool))

    return move


def log_density(model: TemperedModel, summary: Any, beta: Any) -> Any:
    """log φ(w) − β nL(w), as a function of w."""
    return lambda params: model.log_prior(params) - beta * model.total_loss(params, summary)


def _adapt(model: TemperedModel, summary: Any, betas: Any, places: Any, key: Any, steps: int) -> Any:
    """Step size and diagonal mass of NUTS at every β, as Stan does it; the median over chains is taken."""
    import blackjax
    import jax
    import jax.numpy as jnp

    def one(key: Any, place: Any, beta: Any) -> Any:
        adaptation: Any = blackjax.window_adaptation(
            blackjax.nuts, log_density(model, summary, beta), target_acceptance_rate=ACCEPTANCE
        )
        (state, tuned), _ = adaptation.run(key, place, steps)
        return state.position, tuned["step_size"], tuned["inverse_mass_matrix"]

    shape = jax.tree.leaves(places)[0].shape[:2]
    over = jax.vmap(jax.vmap(one, (0, 0, None)), (0, 0, 0))
    places, sizes, masses = over(jax.random.split(key, shape), places, betas)
    return places, jnp.median(sizes, axis=1), jnp.median(masses, axis=1)


def _nuts_move(model: TemperedModel, summary: Any, betas: Any, sizes: Any, masses: Any) -> Any:
    import blackjax
    import jax

    kernel = blackjax.nuts.build_kernel()

    def one(key: Any, place: Any, beta: Any, size: Any, mass: Any) -> Any:
        target = log_density(model, summary, beta)
        state, info = kernel(key, blackjax.nuts.init(place, target), target, size, mass)
        return state.position, (info.acceptance_rate, info.is_divergent)

    over = jax.vmap(jax.vmap(one, (0, 0, None, None, None)), (0, 0, 0, 0, 0))

    def move(key: Any, places: Any) -> Any:
        shape = jax.tree.leaves(places)[0].shape[:2]
        return over(jax.random.split(key, shape), places, betas, sizes, masses)

    return move


def _exchange(key: Any, number: Any, places: Any, losses: Any, betas: Any) -> Any:
    """Neighbours in β swap places; ``taken`` is 1 where rung k and k + 1 did, NaN where they were not asked."""
    import jax
    import jax.numpy as jnp

    rungs, chains = losses.shape
    gain = (betas[1:] - betas[:-1])[:, None] * (losses[1:] - losses[:-1])
    asked = (jnp.arange(rungs - 1) % 2 == number % 2)[:, None]
    taken = asked & (jnp.log(jax.random.uniform(key, gain.shape)) < gain)
    none = jnp.zeros((1, chains), dtype=bool)
    up, down = jnp.concatenate([taken, none]), jnp.concatenate([none, taken])
    source = jnp.arange(rungs)[:, None] + up.astype(int) - down.astype(int)

    def swapped(leaf: Any) -> Any:
        return leaf[source, jnp.arange(chains)[None, :]]

    # half of the steps ask a pair, so a mean over steps is half the share of exchanges that are taken
    share = 2.0 * jnp.concatenate([taken, none])
    return jax.tree.map(swapped, places), swapped(losses), share
