"""How do walkers at several inverse temperatures move together? By Gibbs updates or NUTS, and by exchanging places.

After every step neighbours in β offer each other their places, the even pairs and the odd pairs in turn, and take them
with probability :math:`\\min(1, e^{(\\beta_{k+1} - \\beta_k)(nL_{k+1} - nL_k)})` (parallel tempering; Okabe et al. 2001
for the turns). One program, compiled once for a model, moves all walkers by a block of steps, whatever the data: while
they adapt, while they settle and while they are recorded. Adapting walkers exchange places too, so that what is found
at one temperature helps its neighbours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from phasecast.core.types import Array, Key, PyTree

if TYPE_CHECKING:
    import jax

ACCEPTANCE = 0.9  # target of NUTS, above the usual 0.8: posteriors of singular models have narrow places
FIRST_STEP = 1.0  # in units of the variances; too long a step ends its trajectory at once, too short a one goes on
MOVING = 0.5  # acceptance; chosen: half of the steps move, far from none in the first block and from what is aimed at
GAIN, GAIN_DECAY = 3.0, 0.6  # of the step size per block: none accepted shortens it 15-fold at first; then it settles

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
    """What is compiled once: the kind of steps, chains per temperature, and whether neighbours swap."""

    kind: Literal["gibbs", "nuts"] | str
    chains: int
    swap: bool


class NutsTuning(NamedTuple):
    """Step size (set, beta) and variances (set, beta, size) of the trajectories; Gibbs updates need none."""

    sizes: np.ndarray
    variances: np.ndarray


class Observed(NamedTuple):
    """What a block observed, with first axes (set, row): nL (…, step, beta, chain), means over steps, last places."""

    losses: np.ndarray
    means: dict[str, np.ndarray]
    places: PyTree

    @classmethod
    def joined(cls, parts: Sequence[Observed]) -> Observed:
        """Blocks one after another."""
        import jax

        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)

    def first(self, rows: int) -> Observed:
        """The first rows of it."""
        import jax

        return jax.tree.map(lambda leaf: leaf[:, :rows], self)


class WalkStart(NamedTuple):
    """Where walkers begin, keys for adapting and for walking, and nL at the best place."""

    places: PyTree
    for_warmup: Key
    for_draws: Key
    best: jax.Array


QUICKLY = {"xla_backend_optimization_level": 1}
"""LLVM's first level instead of its third: NUTS compiles in 70% of the time, and what is compiled is as fast."""


@functools.cache
def compiled_start() -> Any:
    """``(model, run, keys, best, summaries, betas)`` to the :class:`WalkStart` on each data set, compiled."""
    import jax

    def begin(
        model: TemperedModel, run: TemperedRun, keys: Key, best: PyTree, summaries: PyTree, betas: jax.Array
    ) -> WalkStart:
        def one(key: Key, best: PyTree, summary: PyTree) -> WalkStart:
            return _begin(model, run, key, best, summary, betas.shape[0])

        return jax.vmap(one)(keys, best, summaries)

    return jax.jit(begin, static_argnums=(0, 1), compiler_options=QUICKLY)


@functools.cache
def compiled_walk() -> Any:
    """``(model, run, places, tuning, numbers, keys, summaries, betas)`` to places and :class:`Observed`; compiled.

    ``numbers`` (rows, steps) and ``keys`` (set, rows, steps) name the steps: a walk in blocks is the walk at once.
    """
    import jax

    return jax.jit(_all_sets, static_argnums=(0, 1), compiler_options=QUICKLY)


def _all_sets(  # wide signature: what jit traces, after what it compiles for
    model: TemperedModel,
    run: TemperedRun,
    places: PyTree,
    tuning: NutsTuning | None,
    numbers: jax.Array,
    keys: Key,
    summaries: PyTree,
    betas: jax.Array,
) -> tuple[PyTree, Observed]:
    import jax

    def one(places: PyTree, tuning: NutsTuning | None, keys: Key, summary: PyTree) -> tuple[PyTree, Observed]:
        return _walk(model, run, places, tuning, (numbers, keys), summary, betas)

    return jax.vmap(one)(places, tuning, keys, summaries)


def _begin(
    model: TemperedModel, run: TemperedRun, key: Key, best: PyTree, summary: PyTree, temperatures: int
) -> WalkStart:
    """Every other chain at the best place, the others at draws of the prior."""
    import jax
    import jax.numpy as jnp

    for_start, for_warmup, for_draws = jax.random.split(key, 3)
    from_prior = jax.vmap(jax.vmap(model.init))(jax.random.split(for_start, (temperatures, run.chains)))
    at_best = jnp.arange(run.chains) % 2 == 1

    def begin(drawn: jax.Array, given: jax.Array) -> jax.Array:
        return jnp.where(at_best.reshape(1, run.chains, *(1,) * jnp.ndim(given)), given, drawn)

    places = jax.tree.map(begin, from_prior, best)
    return WalkStart(places, for_warmup, for_draws, model.total_loss(best, summary))


def _walk(
    model: TemperedModel,
    run: TemperedRun,
    places: PyTree,
    tuning: NutsTuning | None,
    numbered: tuple[jax.Array, Key],
    summary: PyTree,
    betas: jax.Array,
) -> tuple[PyTree, Observed]:
    """All walkers on one data set: where they end, what they observed, and the places they were at."""
    import jax
    import jax.numpy as jnp

    temperatures = betas.shape[0]
    move = _gibbs_move(model, summary, betas) if tuning is None else _nuts_move(model, summary, betas, *tuning)

    def step(places: PyTree, numbered: tuple[jax.Array, Key]) -> tuple[PyTree, dict[str, Any]]:
        number, key = numbered
        for_move, for_swap = jax.random.split(key)
        places, (acceptance, divergent) = move(for_move, places)
        losses = jax.vmap(jax.vmap(lambda p: model.total_loss(p, summary)))(places)
        taken = jnp.zeros((temperatures, run.chains))
        if run.swap and temperatures > 1:
            places, losses, taken = _exchange(for_swap, number, places, losses, betas)
        return places, {"nL": losses, "acceptance": acceptance, "divergent": divergent, "swapped": taken}

    def several(places: PyTree, numbered: tuple[jax.Array, Key]) -> tuple[PyTree, Observed]:
        """Steps until the next place is recorded; all but nL is averaged."""
        places, observed = jax.lax.scan(step, places, numbered)
        losses = observed.pop("nL")
        return places, Observed(losses, jax.tree.map(lambda x: x.astype(float).mean(0), observed), places)

    return jax.lax.scan(several, places, numbered)


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


def first_tuning(places: PyTree, temperatures: int) -> NutsTuning:
    """Where the adaptation of NUTS begins: variances of one, and steps that are rather too long, which cost little."""
    import jax

    leaves = jax.tree.leaves(places)
    sets, size = len(leaves[0]), sum(int(np.prod(leaf.shape[3:])) for leaf in leaves)
    return NutsTuning(np.full((sets, temperatures), FIRST_STEP), np.ones((sets, temperatures, size)))


def next_step_size(tuning: NutsTuning, acceptance: np.ndarray, updates: int) -> NutsTuning:
    """Longer steps at temperatures that accept more than :data:`ACCEPTANCE`, shorter ones at others.

    ``acceptance`` (set, row, beta, chain) is what the last block observed, ``updates`` how many there were before.
    """
    accepted = np.nan_to_num(acceptance).mean(axis=(1, 3))
    gain = GAIN / (updates + 1) ** GAIN_DECAY
    return tuning._replace(sizes=tuning.sizes * np.exp(gain * (accepted - ACCEPTANCE)))


def next_variances(tuning: NutsTuning, places: Sequence[PyTree], acceptance: np.ndarray) -> NutsTuning:
    """Variances within the chains where they were, drawn towards a small one as Stan does it; steps start again.

    At temperatures where the last block accepted less than :data:`MOVING` nothing is changed: chains that hardly moved
    have variances so small that the next trajectories are a hundred times too long.
    """
    flat = np.concatenate([_flattened(part) for part in places], axis=1)  # (set, row, beta, chain, size)
    if len(flat[0]) < 2:
        return tuning
    within = np.var(flat, axis=1, ddof=1).mean(axis=2)
    count = flat.shape[1] * flat.shape[3]
    variances = count / (count + 5) * within + 1e-3 * 5 / (count + 5)
    moving = np.nan_to_num(acceptance).mean(axis=(1, 3)) >= MOVING
    usable = np.isfinite(variances) & (variances > 0) & moving[..., None]
    kept = np.where(usable, variances, tuning.variances)
    return NutsTuning(np.where(moving, FIRST_STEP, tuning.sizes), kept)


def _flattened(places: PyTree) -> np.ndarray:
    """All parameters of (set, row, beta, chain, …) in one last axis, in the order of ``ravel_pytree``."""
    import jax

    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(places)]
    return np.concatenate([leaf.reshape(*leaf.shape[:4], -1) for leaf in leaves], axis=-1)


def _nuts_move(model: TemperedModel, summary: PyTree, betas: jax.Array, sizes: Array, masses: Array) -> Move:
    import blackjax
    import jax

    kernel = blackjax.nuts.build_kernel()

    def one(key: Key, place: PyTree, beta: jax.Array, size: Array, mass: Array) -> tuple[PyTree, Any]:
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
