"""How to draw from the posterior at several inverse temperatures? Parallel tempering with Gibbs updates or NUTS.

All walkers (inverse temperatures × chains) move together. Neighbours in β exchange parameters within a chain only, so
chains from the prior and chains from the truth never mix, and can be compared.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from phasecast.core.bounds import check_bounds, check_memory
from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.precision import float64
from phasecast.core.types import PyTree
from phasecast.posterior.model import Model
from phasecast.progress import report_step, shows_progress
from phasecast.sampling.tempering import Lengths, TemperedRun, compiled_walk, tempered_log_density

if TYPE_CHECKING:
    import jax
    import xarray as xr

Sampler = Literal["auto", "gibbs", "nuts"]
SAMPLERS = ("auto", "gibbs", "nuts")
STARTS = ("prior", "truth")
SETTLE = 0.5  # NUTS runs this share of the warm-up again with exchanges and its final step size; chosen, not derived
DESCENTS = 4  # starts of the search for the maximum of the posterior; chosen: one start may end in a local maximum
FEWEST_TO_ADAPT = 20  # below, the window adaptation of Stan and blackjax estimates no variances


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
    grid = check_betas(betas)
    sets = as_datasets(data)
    kind = _chosen(model, sampler)
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
    plan = _Plan(kind, chains, lengths, swap, seed)
    with float64():
        parts = []
        for first, group in _groups(sets, kind):
            report_step(f"{kind} on {len(group)} of {len(sets)} data sets, {len(grid)} temperatures", first, len(sets))
            parts.append(_sample(model, group, grid, plan, first))
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


class _Plan(NamedTuple):
    """How a run samples."""

    kind: str
    chains: int
    lengths: Lengths
    swap: bool
    seed: int


def _groups(sets: list[PyTree], kind: str) -> list[tuple[int, list[PyTree]]]:
    """Data sets sampled together, after the number of the first: all with Gibbs, one at a time with NUTS.

    The trees of NUTS differ too much in depth to share a compiled loop.
    """
    return [(0, sets)] if kind == "gibbs" else [(number, [one]) for number, one in enumerate(sets)]


def _sample(
    model: Model, sets: list[PyTree], betas: np.ndarray, plan: _Plan, first: int
) -> tuple[dict[str, np.ndarray], PyTree]:
    """Statistics and stored parameters of all walkers on these data sets; ``first`` numbers their random streams."""
    import jax
    import jax.numpy as jnp

    kind, chains, lengths, swap, seed = plan
    keys = jnp.stack([jax.random.fold_in(jax.random.key(seed), first + number) for number in range(len(sets))])
    summaries = [model.summary(one) for one in sets]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *summaries)
    best = [model.truth if model.truth is not None else posterior_mode(model, one, seed) for one in sets]
    best = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf, dtype=float) for leaf in leaves]), *best)
    stats, params = compiled_walk()(
        model, TemperedRun(kind, chains, lengths, swap), keys, stacked, best, jnp.asarray(betas)
    )
    return {name: np.asarray(values) for name, values in stats.items()}, jax.tree.map(np.asarray, params)


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

    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


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
    plan: _Plan,
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
