"""How do walkers at several inverse temperatures move together? By Gibbs updates or NUTS, and by exchanging places.

After every step neighbours in β offer each other their places, the even pairs and the odd pairs in turn, and take them
with probability :math:`\\min(1, e^{(\\beta_{k+1} - \\beta_k)(nL_{k+1} - nL_k)})` (parallel tempering; Okabe et al. 2001
for the turns). All of it is compiled once for a model and the lengths of a run, whatever the data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from phasecast.core.types import Key, PyTree

if TYPE_CHECKING:
    import jax

ACCEPTANCE = 0.9  # target of NUTS, above the usual 0.8: posteriors of singular models have narrow places

Move: TypeAlias = "Callable[[Key, PyTree], tuple[PyTree, tuple[jax.Array, jax.Array]]]"
"""``move(key, places)``: the places after one step of all walkers, with acceptance and divergences (beta, chain)."""


class TemperedModel(Protocol):
    """What the walkers need of a model; :class:`phasecast.posterior.Model` has it."""

    @property
    def init(self) -> Callable[[Key], PyTree]: ...

    @property
    def log_prior(self) -> Callable[[PyTree], Any]: ...

    @property
    def gibbs(self) -> Callable[[Key, PyTree, PyTree, Any], PyTree] | None: ...

    def total_loss(self, params: PyTree, summary: PyTree) -> Any: ...


class Lengths(NamedTuple):
    """How long to go: steps to adapt, steps to settle, places recorded, and steps from one of them to the next."""

    warmup: int
    settle: int
    recorded: int
    thin: int


class TemperedRun(NamedTuple):
    """What is compiled once: the kind of steps, chains per temperature, lengths, and whether neighbours swap places."""

    kind: Literal["gibbs", "nuts"] | str
    chains: int
    lengths: Lengths
    swap: bool


@functools.cache
def compiled_walk() -> Any:
    """``(model, run, keys, summaries, best, betas)`` to what the walkers observed and where they were, compiled."""
    import jax

    return jax.jit(_all_sets, static_argnums=(0, 1))


def _all_sets(
    model: TemperedModel, run: TemperedRun, keys: Key, summaries: PyTree, best: PyTree, betas: jax.Array
) -> tuple[dict[str, Any], PyTree]:
    import jax

    def one(key: Key, summary: PyTree, best: PyTree) -> tuple[dict[str, Any], PyTree]:
        return _walk(model, run, key, summary, best, betas)

    return jax.vmap(one)(keys, summaries, best)


def _walk(
    model: TemperedModel, run: TemperedRun, key: Key, summary: PyTree, best: PyTree, betas: jax.Array
) -> tuple[dict[str, Any], PyTree]:
    """All walkers on one data set: traces (beta, chain, …) of what they observed, and the places they were at."""
    import jax
    import jax.numpy as jnp

    temperatures, chains, lengths = betas.shape[0], run.chains, run.lengths
    for_start, for_warmup, for_draws = jax.random.split(key, 3)
    from_prior = jax.vmap(jax.vmap(model.init))(jax.random.split(for_start, (temperatures, chains)))
    at_best = jnp.arange(chains) % 2 == 1

    def begin(drawn: jax.Array, given: jax.Array) -> jax.Array:
        return jnp.where(at_best.reshape(1, chains, *(1,) * jnp.ndim(given)), given, drawn)

    places = jax.tree.map(begin, from_prior, best)
    if run.kind == "gibbs":
        move = _gibbs_move(model, summary, betas)
    else:
        tuning = _adapt(model, summary, betas, places, for_warmup, lengths.warmup)
        places, move = tuning[0], _nuts_move(model, summary, betas, *tuning[1:])

    def step(places: PyTree, numbered: tuple[jax.Array, Key]) -> tuple[PyTree, dict[str, Any]]:
        number, key = numbered
        for_move, for_swap = jax.random.split(key)
        places, (acceptance, divergent) = move(for_move, places)
        losses = jax.vmap(jax.vmap(lambda p: model.total_loss(p, summary)))(places)
        taken = jnp.zeros((temperatures, chains))
        if run.swap and temperatures > 1:
            places, losses, taken = _exchange(for_swap, number, places, losses, betas)
        return places, {"nL": losses, "acceptance": acceptance, "divergent": divergent, "swapped": taken}

    def several(places: PyTree, numbered: tuple[jax.Array, Key]) -> tuple[PyTree, Any]:
        """Steps until the next place is recorded; all but nL is averaged."""
        places, observed = jax.lax.scan(step, places, numbered)
        losses = observed.pop("nL")
        return places, (losses, jax.tree.map(lambda x: x.astype(float).mean(0), observed), places)

    settle = -(-lengths.settle // lengths.thin)  # steps to settle are taken like the others, and forgotten
    shape = (settle + lengths.recorded, lengths.thin)
    numbers = jnp.arange(shape[0] * shape[1]).reshape(shape)
    _, observed = jax.lax.scan(several, places, (numbers, jax.random.split(for_draws, shape)))
    losses, means, recorded = jax.tree.map(lambda leaf: leaf[settle:], observed)
    stats = {name: values.mean(0) for name, values in means.items()}
    stats["nL"] = jnp.moveaxis(losses.reshape(-1, temperatures, chains), 0, -1)
    stats["best"] = model.total_loss(best, summary)
    return stats, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 2), recorded)


def _gibbs_move(model: TemperedModel, summary: PyTree, betas: jax.Array) -> Move:
    import jax
    import jax.numpy as jnp

    assert model.gibbs is not None
    update = jax.vmap(jax.vmap(model.gibbs, (0, 0, None, None)), (0, 0, None, 0))

    def move(key: Key, places: PyTree) -> tuple[PyTree, tuple[jax.Array, jax.Array]]:
        shape = jax.tree.leaves(places)[0].shape[:2]
        moved = update(jax.random.split(key, shape), places, summary, betas)
        return moved, (jnp.ones(shape), jnp.zeros(shape, dtype=bool))

    return move


def tempered_log_density(model: TemperedModel, summary: PyTree, beta: jax.Array | float) -> Callable[[PyTree], Any]:
    """log φ(w) − β nL(w), as a function of w."""
    return lambda params: model.log_prior(params) - beta * model.total_loss(params, summary)


def _adapt(
    model: TemperedModel, summary: PyTree, betas: jax.Array, places: PyTree, key: Key, steps: int
) -> tuple[PyTree, jax.Array, jax.Array]:
    """Step size and diagonal mass of NUTS at every β, as Stan does it; the median over chains is taken."""
    import blackjax
    import jax
    import jax.numpy as jnp

    def one(key: Key, place: PyTree, beta: jax.Array) -> tuple[PyTree, jax.Array, jax.Array]:
        adaptation: Any = blackjax.window_adaptation(
            blackjax.nuts, tempered_log_density(model, summary, beta), target_acceptance_rate=ACCEPTANCE
        )
        (state, tuned), _ = adaptation.run(key, place, steps)
        return state.position, tuned["step_size"], tuned["inverse_mass_matrix"]

    shape = jax.tree.leaves(places)[0].shape[:2]
    over = jax.vmap(jax.vmap(one, (0, 0, None)), (0, 0, 0))
    places, sizes, masses = over(jax.random.split(key, shape), places, betas)
    return places, jnp.median(sizes, axis=1), jnp.median(masses, axis=1)


def _nuts_move(model: TemperedModel, summary: PyTree, betas: jax.Array, sizes: jax.Array, masses: jax.Array) -> Move:
    import blackjax
    import jax

    kernel = blackjax.nuts.build_kernel()

    def one(key: Key, place: PyTree, beta: jax.Array, size: jax.Array, mass: jax.Array) -> tuple[PyTree, Any]:
        target = tempered_log_density(model, summary, beta)
        state, info = kernel(key, blackjax.nuts.init(place, target), target, size, mass)
        return state.position, (info.acceptance_rate, info.is_divergent)

    over = jax.vmap(jax.vmap(one, (0, 0, None, None, None)), (0, 0, 0, 0, 0))

    def move(key: Key, places: PyTree) -> tuple[PyTree, tuple[jax.Array, jax.Array]]:
        shape = jax.tree.leaves(places)[0].shape[:2]
        return over(jax.random.split(key, shape), places, betas, sizes, masses)

    return move


def _exchange(
    key: Key, number: jax.Array, places: PyTree, losses: jax.Array, betas: jax.Array
) -> tuple[PyTree, jax.Array, jax.Array]:
    """Neighbours in β swap places; ``taken`` is 1 where temperatures k and k + 1 did, counted twice."""
    import jax
    import jax.numpy as jnp

    temperatures, chains = losses.shape
    gain = (betas[1:] - betas[:-1])[:, None] * (losses[1:] - losses[:-1])
    turn = (jnp.arange(temperatures - 1) % 2 == number % 2)[:, None]
    taken = turn & (jnp.log(jax.random.uniform(key, gain.shape)) < gain)
    none = jnp.zeros((1, chains), dtype=bool)
    up, down = jnp.concatenate([taken, none]), jnp.concatenate([none, taken])
    source = jnp.arange(temperatures)[:, None] + up.astype(int) - down.astype(int)

    def swapped(leaf: jax.Array) -> jax.Array:
        return leaf[source, jnp.arange(chains)[None, :]]

    # a pair has its turn at half of the steps, so a mean over steps is half the share of exchanges that are taken
    share = 2.0 * jnp.concatenate([taken, none])
    return jax.tree.map(swapped, places), swapped(losses), share
