"""How to draw from the posterior at several inverse temperatures? Parallel tempering with Gibbs updates or NUTS.

All walkers (inverse temperatures × chains) move together. Neighbours in β exchange parameters within a chain only, so
chains from the prior and chains from the truth never mix, and can be compared.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from phasecast.core.bounds import check_bounds, check_memory
from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.precision import float64
from phasecast.core.types import PyTree
from phasecast.posterior.model import Model
from phasecast.progress import Metric, report_step, shows_progress
from phasecast.sampling.tempering import (
    Lengths,
    NutsTuning,
    Observed,
    TemperedRun,
    WalkStart,
    compiled_start,
    compiled_walk,
    first_tuning,
    next_step_size,
    next_variances,
    tempered_log_density,
)

if TYPE_CHECKING:
    import jax
    import xarray as xr

Sampler = Literal["auto", "gibbs", "nuts"]
SAMPLERS = ("auto", "gibbs", "nuts")
STARTS = ("prior", "truth")
SETTLE = 0.5  # NUTS runs this share of the warm-up again with exchanges and its final step size; chosen, not derived
DESCENTS = 4  # starts of the search for the maximum of the posterior; chosen: one start may end in a local maximum
FEWEST_TO_ADAPT = 20  # below, there are too few steps to estimate variances from
BLOCK = 50  # steps between two looks at the walkers; chosen: many enough that starting them costs nothing
LOOK_GROWTH = 1.25  # blocks from one look at the error to the next: few looks, and at most a quarter too much
FEWEST_AT_INTERRUPT = 100  # draws, below which Ctrl-C has nothing to return
STRIDE = 25  # most steps between places that the adaptation sees
NEW_VARIANCES = (0.15, 0.4, 0.75)  # of the warm-up: when variances are estimated anew, each time from longer chains

Enough: TypeAlias = "Callable[[np.ndarray], bool]"
"""Whether traces of nL (dataset, beta, chain, draw) are long enough."""

Watch: TypeAlias = "Callable[[int, int | None, Metric], None]"
"""Called with steps taken, steps in all, and what the walkers do."""


class SamplingPlan(NamedTuple):
    """How a run samples; how long is filled in when the sampler is known."""

    kind: str
    chains: int
    swap: bool
    seed: int
    lengths: Lengths = Lengths(0, 0, 0, 0)


@shows_progress("tempered posteriors")
def tempered(  # wide signature: documented API, the options of one sampler run
    model: Model,
    data: PyTree,
    betas: Sequence[float] | np.ndarray = (1.0,),
    *,
    sampler: Sampler = "auto",
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    thin: int = 10,
    swap: bool = True,
    pointwise: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Tempered posteriors as a DataTree with dimensions (dataset, beta, chain, draw).

    Parameters
    ----------
    data: one data set, or a *list* of data sets of the same size.
    betas: inverse temperatures, increasing.
    sampler: ``"gibbs"``, ``"nuts"``, or ``"auto"`` for Gibbs if the model provides it and NUTS otherwise.
    chains: half of them start from the prior, half from ``model.truth`` or the maximum of the posterior.
    draws, warmup: steps per chain that are stored, and discarded steps before them.
    thin: steps between stored parameters; nL is stored at every step.
    swap: whether neighbours in β exchange parameters.
    progress: show a line on stderr where it takes longer than two seconds.
    pointwise: also store the log-likelihood of every observation at β = 1, at every ``thin``-th step.

    Group ``sample_stats`` has nL in float64, the share of divergent steps, mean acceptance, the share of accepted
    exchanges, and ``best``, nL at the start of the chains from the truth; ``posterior`` has the parameters.

    >>> from phasecast.posterior.zoo.linear import linear_data, linear_model
    >>> tree = tempered(linear_model(2), linear_data([[[1.0, 0.0]]], 50, seed=0), [0.5, 1.0], draws=20, warmup=0)
    >>> dict(tree["sample_stats"].sizes)["draw"], tree["sample_stats/nL"].dtype.name
    (20, 'float64')
    """
    plan = SamplingPlan(sampler, chains, swap, seed)
    return tempered_until(model, data, betas, plan, (draws, warmup, thin), pointwise=pointwise)


def tempered_until(
    model: Model,
    data: PyTree,
    betas: Sequence[float] | np.ndarray,
    plan: SamplingPlan,
    steps: tuple[int, int, int],
    *,
    pointwise: bool = False,
    enough: Enough | None = None,
    watch: Watch | None = None,
) -> xr.DataTree:
    """:func:`tempered` that may end before the last draw: as soon as ``enough``, or at Ctrl-C with some draws.

    ``steps`` are draws, warm-up and thin. With several data sets in turn, the first decides how many draws there are.
    """
    (draws, warmup, thin), chains, swap, seed = steps, plan.chains, plan.swap, plan.seed
    grid = check_betas(betas)
    sets = as_datasets(data)
    kind = _chosen(model, plan.kind)
    lengths = _lengths(draws, warmup if kind == "nuts" else min(warmup, max(draws, 1)), thin, kind)
    whole_number("chains", chains, 1)
    check_bounds(chains=chains, seed=seed)
    check_memory(
        8.0 * grid.size * chains * draws * len(sets), "this many draws and chains", "use fewer, they are all kept"
    )
    if pointwise and not np.any(grid == 1.0):
        raise BadInput("pointwise log-likelihoods need β = 1, which is not sampled", "add 1 to betas")
    model.check(sets[0])
    for one in sets[1:]:
        model.check_data(one)
    plan = SamplingPlan(kind, chains, swap, seed, lengths)
    with float64():
        parts = []
        for first, group in _groups(sets, kind):
            report_step(f"{kind} on {len(group)} of {len(sets)} data sets, {len(grid)} temperatures", first, len(sets))
            parts.append(_sample(model, group, grid, plan, first, enough if not parts else None, watch))
            done = parts[0][0]["nL"].shape[-1] // thin
            plan = plan._replace(lengths=lengths._replace(recorded=done))
        stats, params = (_joined([part[number] for part in parts]) for number in range(2))
        likelihood = _pointwise(model, sets, params, grid) if pointwise else None
    return _tree(model, grid, plan, stats, params, likelihood)


def check_betas(betas: Sequence[float] | np.ndarray | str) -> np.ndarray:
    """The grid of inverse temperatures, or bad input."""
    try:
        grid = np.asarray(betas, dtype=float)
    except (TypeError, ValueError):
        raise BadInput(f"invalid betas {betas!r}", "give positive numbers that increase") from None
    if grid.ndim != 1 or grid.size == 0 or not np.all(np.isfinite(grid) & (grid > 0)) or np.any(np.diff(grid) <= 0):
        raise BadInput(
            f"invalid betas {np.array2string(grid, precision=4, threshold=8)}", "give positive numbers that increase"
        )
    return grid


def as_datasets(data: PyTree) -> list[PyTree]:
    """A list of data sets of the same size; anything but a list is one data set."""
    import jax

    sets = data if isinstance(data, list) else [data]
    if not sets:
        raise BadInput("the list of data sets is empty", "give at least one")
    shapes = {tuple(np.shape(leaf) for leaf in jax.tree.leaves(one)) for one in sets}
    if len(shapes) > 1:
        raise BadInput("the data sets differ in size", "give data sets of the same size, or a tuple or dict for one")
    return sets


def _chosen(model: Model, sampler: str) -> str:
    if sampler not in SAMPLERS:
        raise unknown("sampler", sampler, SAMPLERS)
    if sampler == "gibbs" and model.gibbs is None:
        raise BadInput(f"{model.name} has no Gibbs update", "use sampler='nuts', or give the model one")
    return ("nuts" if model.gibbs is None else "gibbs") if sampler == "auto" else sampler


def _lengths(draws: int, warmup: int, thin: int, kind: str) -> Lengths:
    whole_number("draws", draws, 4)
    whole_number("warmup", warmup, 0)
    check_bounds(draws=draws, warmup=warmup)
    whole_number("thin", thin, 1)
    if draws % thin:
        raise BadInput(f"draws = {draws} is not a multiple of thin = {thin}", "change one of them")
    if kind == "nuts" and warmup < FEWEST_TO_ADAPT:
        raise BadInput(f"a warm-up of {warmup} steps cannot adapt NUTS", f"use at least {FEWEST_TO_ADAPT}, better 500")
    settle = math.ceil(SETTLE * warmup) if kind == "nuts" else warmup
    return Lengths(warmup if kind == "nuts" else 0, settle, draws // thin, thin)


def _groups(sets: list[PyTree], kind: str) -> list[tuple[int, list[PyTree]]]:
    """Data sets sampled together, after the number of the first: all with Gibbs, one at a time with NUTS.

    The trees of NUTS differ too much in depth to share a compiled loop.
    """
    return [(0, sets)] if kind == "gibbs" else [(number, [one]) for number, one in enumerate(sets)]


def _sample(
    model: Model,
    sets: list[PyTree],
    betas: np.ndarray,
    plan: SamplingPlan,
    first: int,
    enough: Enough | None,
    watch: Watch | None,
) -> tuple[dict[str, np.ndarray], PyTree]:
    """Statistics and stored parameters of all walkers on these data sets; ``first`` numbers their random streams."""
    import jax
    import jax.numpy as jnp

    keys = jnp.stack([jax.random.fold_in(jax.random.key(plan.seed), first + number) for number in range(len(sets))])
    summaries = [model.summary(one) for one in sets]
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *summaries)
    best = [model.truth if model.truth is not None else posterior_mode(model, one, plan.seed) for one in sets]
    best = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf, dtype=float) for leaf in leaves]), *best)
    run = TemperedRun(plan.kind, plan.chains, plan.swap)
    start: WalkStart = compiled_start()(model, run, keys, best, stacked, betas)
    walkers = _Walkers(model, run, stacked, betas, start.places)
    schedule = _schedule(plan.lengths)
    if plan.kind == "nuts":
        walkers.adapt(start.for_warmup, -(-plan.lengths.warmup // schedule.block), schedule, watch)
    observed = walkers.walk(start.for_draws, schedule, enough, watch)
    every = schedule.rows_per_place
    rows = observed.losses.shape[1]
    stats = {name: values.mean(axis=1) for name, values in observed.means.items()}
    stats["nL"] = _traces(observed)
    stats["best"] = np.asarray(start.best)
    kept = jax.tree.map(lambda leaf: np.moveaxis(leaf[:, np.arange(every - 1, rows, every)], 1, 3), observed.places)
    return stats, kept


class _Schedule(NamedTuple):
    """A walk in blocks of ``rows`` rows of ``stride`` steps: ``settle`` blocks to forget, ``recorded`` to keep."""

    stride: int
    rows: int
    rows_per_place: int
    settle: int
    recorded: int

    @property
    def block(self) -> int:
        """Steps of a block."""
        return self.stride * self.rows


def _schedule(lengths: Lengths) -> _Schedule:
    """Blocks of about :data:`BLOCK` steps that fit the lengths."""
    thin = lengths.thin
    stride = _largest_divisor(thin, STRIDE)
    per_place = thin // stride
    settle, recorded = -(-lengths.settle // thin) * per_place, lengths.recorded * per_place
    rows = _largest_divisor(math.gcd(settle, recorded), max(1, BLOCK // stride))
    return _Schedule(stride, rows, per_place, settle // rows, recorded // rows)


def _largest_divisor(number: int, most: int) -> int:
    return next(divisor for divisor in range(min(number, most), 0, -1) if number % divisor == 0)


class _Walkers:
    """All walkers on some data sets, moved block by block."""

    def __init__(self, model: Model, run: TemperedRun, summaries: PyTree, betas: np.ndarray, places: PyTree) -> None:
        self._model, self._run, self._summaries, self._betas, self._places = model, run, summaries, betas, places
        self._tuning: NutsTuning | None = first_tuning(places, betas.size) if run.kind == "nuts" else None

    def _move(self, numbers: np.ndarray, keys: jax.Array) -> Observed:
        import jax

        self._places, observed = compiled_walk()(
            self._model, self._run, self._places, self._tuning, numbers, keys, self._summaries, self._betas
        )
        return jax.tree.map(np.asarray, observed)

    def adapt(self, key: jax.Array, blocks: int, schedule: _Schedule, watch: Watch | None) -> None:
        """Find step sizes and variances, in ``blocks`` blocks; variances come from the places since the last time."""
        assert self._tuning is not None
        keys = _step_keys(key, (blocks, schedule.rows, schedule.stride))
        renewals = {max(1, round(share * blocks)) for share in NEW_VARIANCES}
        since: list[PyTree] = []
        updates, acceptance = 0, np.empty(0)
        for number in range(blocks):
            if number in renewals:
                self._tuning, since, updates = next_variances(self._tuning, since, acceptance), [], 0
            observed = self._move(_numbers(number, schedule), keys[:, number])
            acceptance = observed.means["acceptance"]
            self._tuning = next_step_size(self._tuning, acceptance, updates)
            updates += 1
            since.append(observed.places)
            if watch is not None:
                watch((number + 1) * schedule.block, blocks * schedule.block, "warm-up")

    def walk(self, key: jax.Array, schedule: _Schedule, enough: Enough | None, watch: Watch | None) -> Observed:
        """Settle, then record until there is enough."""
        total = schedule.settle + schedule.recorded
        keys = _step_keys(key, (total, schedule.rows, schedule.stride))
        parts: list[Observed] = []
        look = 0
        try:
            for number in range(total):
                observed = self._move(_numbers(number, schedule), keys[:, number])
                if number >= schedule.settle:
                    parts.append(observed)
                if watch is not None:
                    watch((number + 1) * schedule.block, total * schedule.block, "sampling" if parts else "settling")
                whole = len(parts) * schedule.rows % schedule.rows_per_place == 0
                if parts and enough is not None and whole and len(parts) >= look:
                    look = math.ceil(LOOK_GROWTH * len(parts))
                    if enough(_traces(Observed.joined(parts))):
                        break
        except KeyboardInterrupt:
            places = len(parts) * schedule.rows // schedule.rows_per_place
            if enough is None or places * schedule.rows_per_place * schedule.stride < FEWEST_AT_INTERRUPT:
                raise
            kept = places * schedule.rows_per_place
            return Observed.joined(parts).first(kept)
        return Observed.joined(parts)


def _numbers(block: int, schedule: _Schedule) -> np.ndarray:
    first = block * schedule.block
    return np.arange(first, first + schedule.block).reshape(schedule.rows, schedule.stride)


def _step_keys(keys: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """One key per step, (set, *shape), the same for a step whatever the blocks are."""
    import jax

    count = math.prod(shape)
    return jax.vmap(lambda key: jax.random.split(key, count))(keys).reshape(len(keys), *shape)


def _traces(observed: Observed) -> np.ndarray:
    """nL as (dataset, beta, chain, draw)."""
    losses = observed.losses
    return np.moveaxis(losses.reshape(len(losses), -1, *losses.shape[3:]), 1, -1)


def posterior_mode(model: Model, data: PyTree, seed: int = 0) -> PyTree:
    """The highest maximum of the posterior density at β = 1 that L-BFGS reaches from several draws of the prior."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree
    from scipy.optimize import minimize

    with float64():
        summary = jax.tree.map(jnp.asarray, model.summary(data))
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 2**31 - 1), DESCENTS)
        slope, unravel = _slope(), ravel_pytree(model.init(keys[0]))[1]

        def energy(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = slope(model, jnp.asarray(flat), summary)
            return float(value), np.asarray(gradient)

        descents = []
        for key in keys:
            with np.errstate(all="ignore"):
                start = np.asarray(ravel_pytree(model.init(key))[0])
                descents.append(minimize(energy, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}))
        finite = [descent for descent in descents if np.isfinite(descent.fun)]
        if not finite:
            raise BadInput(
                "no descent from the prior reaches a finite posterior density", "fix the model, or give truth"
            )
        return unravel(jnp.asarray(min(finite, key=lambda descent: descent.fun).x))


@functools.cache
def _slope() -> Any:
    import jax
    from jax.flatten_util import ravel_pytree

    def energy(model: Model, flat: jax.Array, summary: PyTree) -> jax.Array:
        unravel = ravel_pytree(model.init(jax.random.key(0)))[1]
        return -tempered_log_density(model, summary, 1.0)(unravel(flat))

    return jax.jit(jax.value_and_grad(energy, 1), static_argnums=0)


def _joined(parts: list[PyTree]) -> PyTree:
    import jax

    return jax.tree.map(lambda *leaves: np.ascontiguousarray(np.concatenate(leaves)), *parts)


def _pointwise(model: Model, sets: list[PyTree], params: PyTree, betas: np.ndarray) -> np.ndarray:
    """The log-likelihood of every observation at the parameters of β = 1: (dataset, chain, stored, observation)."""
    import jax
    import jax.numpy as jnp

    at = int(np.flatnonzero(betas == 1.0)[0])
    over = jax.jit(jax.vmap(jax.vmap(model.log_likelihood, (0, None)), (0, None)))
    return np.stack(
        [
            np.asarray(over(jax.tree.map(lambda leaf, s=number: jnp.asarray(leaf[s, at]), params), one))
            for number, one in enumerate(sets)
        ]
    )


def _tree(
    model: Model,
    betas: np.ndarray,
    plan: SamplingPlan,
    stats: dict[str, np.ndarray],
    params: PyTree,
    likelihood: np.ndarray | None,
) -> xr.DataTree:
    import jax
    import xarray as xr

    draws, thin, chains = stats["nL"].shape[-1], plan.lengths.thin, plan.chains
    dims = ("dataset", "beta", "chain")
    stored = np.arange(thin - 1, draws, thin)
    coords = {
        "dataset": np.arange(stats["nL"].shape[0]),
        "beta": betas,
        "chain": np.arange(chains),
        "start": ("chain", np.array([STARTS[number % 2] for number in range(chains)])),
    }
    traces = xr.Dataset(
        {name: ((*dims, "draw")[: values.ndim], values) for name, values in stats.items()},
        coords=coords | {"draw": np.arange(draws)},
        attrs={"sampler": plan.kind, "model": model.name},
    )
    flat = [
        (jax.tree_util.keystr(path, simple=True, separator=".") or "w", leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    ]
    variables = {
        name: ((*dims, "draw", *(f"{name}_dim_{axis}" for axis in range(leaf.ndim - 4))), leaf) for name, leaf in flat
    }
    groups = {"sample_stats": traces, "posterior": xr.Dataset(variables, coords=coords | {"draw": stored})}
    if likelihood is not None:
        groups["log_likelihood"] = xr.Dataset(
            {"y": (("dataset", "chain", "draw", "observation"), likelihood)},
            coords={name: coords[name] for name in ("dataset", "chain", "start")} | {"draw": stored},
        )
    return xr.DataTree.from_dict(groups)


def params_of(model: Model, tree: xr.DataTree) -> PyTree:
    """The parameters stored by :func:`tempered`, in the model's own tree, with axes (dataset, beta, chain, draw)."""
    import jax

    shape = jax.eval_shape(model.init, jax.random.key(0))
    names = [
        jax.tree_util.keystr(path, simple=True, separator=".") or "w"
        for path, _ in jax.tree_util.tree_leaves_with_path(shape)
    ]
    leaves = [tree["posterior"][name].values for name in names]
    return jax.tree.unflatten(jax.tree.structure(shape), leaves)
