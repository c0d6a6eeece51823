"""Draws from the posterior at several inverse temperatures at once, which exchange places.

All walkers (inverse temperatures × chains) move together. Exchanges stay within a chain, so that chains from the
prior and chains from the truth never meet, and can be compared.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.precision import float64
from phasecast.posterior.model import Model
from phasecast.sampling.tempering import Lengths, compiled, log_density

if TYPE_CHECKING:
    import xarray as xr

Sampler = Literal["auto", "gibbs", "nuts"]
SAMPLERS = ("auto", "gibbs", "nuts")
STARTS = ("prior", "truth")
SETTLE = 0.5  # of the warm-up, once more, with exchanges and the steps as they will be
DESCENTS = 4  # from draws of the prior, to find where the posterior is largest


def tempered(
    model: Model,
    data: Any,
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
) -> xr.DataTree:
    """Tempered posteriors as a DataTree with dimensions (dataset, beta, chain, draw).

    Parameters
    ----------
    data: one data set, or a *list* of data sets of the same size.
    betas: inverse temperatures, increasing.
    sampler: ``"gibbs"``, ``"nuts"``, or ``"auto"`` for Gibbs where the model has it.
    chains: half of them start from the prior, half from ``model.truth`` or the maximum of the posterior.
    draws, warmup: steps of each chain that are kept, and before.
    thin: steps between the parameters that are kept; nL is kept at every step.
    swap: whether neighbours in β exchange places.
    pointwise: keep the log-likelihood of every observation at β = 1 too, at every ``thin``-th step.

    Group ``sample_stats`` has nL in float64, the share of divergent steps, mean acceptance, the share of exchanges
    taken, and ``best``, nL where chains from the truth began; ``posterior`` has the parameters.

    >>> from phasecast.posterior.zoo.linear import linear, linear_data
    >>> tree = tempered(linear(2), linear_data([[[1.0, 0.0]]], 50, seed=0), [0.5, 1.0], draws=20, warmup=0)
    >>> dict(tree["sample_stats"].sizes)["draw"], tree["sample_stats/nL"].dtype.name
    (20, 'float64')
    """
    grid = check_betas(betas)
    sets = as_datasets(data)
    kind = _chosen(model, sampler)
    lengths = _lengths(draws, warmup if kind == "nuts" else min(warmup, max(draws, 1)), thin, kind)
    whole_number("chains", chains, 1)
    if pointwise and not np.any(grid == 1.0):
        raise BadInput("the log-likelihood of observations is kept at β = 1, which is not sampled", "add 1 to betas")
    model.check(sets[0])
    for one in sets[1:]:
        model.check_data(one)
    with float64():
        found = [
            _sample(model, group, grid, kind, chains, lengths, swap, seed, first)
            for first, group in _groups(sets, kind)
        ]
        stats, places = (_joined([part[number] for part in found]) for number in range(2))
        likelihood = _pointwise(model, sets, places, grid) if pointwise else None
    return _tree(model, grid, chains, stats, places, likelihood, thin, kind)


def check_betas(betas: Any) -> np.ndarray:
    """The grid of inverse temperatures, or bad input."""
    try:
        grid = np.asarray(betas, dtype=float)
    except (TypeError, ValueError):
        raise BadInput(f"betas are {betas!r}", "give positive numbers that increase") from None
    if grid.ndim != 1 or grid.size == 0 or not np.all(np.isfinite(grid) & (grid > 0)) or np.any(np.diff(grid) <= 0):
        raise BadInput(
            f"betas are {np.array2string(grid, precision=4, threshold=8)}", "give positive numbers that increase"
        )
    return grid


def as_datasets(data: Any) -> list[Any]:
    """A list of data sets of the same size; what is no list is one data set."""
    import jax

    sets = data if isinstance(data, list) else [data]
    if not sets:
        raise BadInput("there are no data sets", "give at least one")
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
    whole_number("thin", thin, 1)
    if draws % thin:
        raise BadInput(f"{draws} draws are no multiple of thin = {thin}", "choose them so")
    if kind == "nuts" and warmup < 20:
        raise BadInput(f"a warm-up of {warmup} steps cannot adapt NUTS", "use at least 20, better 500")
    settle = math.ceil(SETTLE * warmup) if kind == "nuts" else warmup
    return Lengths(warmup if kind == "nuts" else 0, settle, draws // thin, thin)


def _groups(sets: list[Any], kind: str) -> list[tuple[int, list[Any]]]:
    """Gibbs moves all data sets together; the trees of NUTS differ too much in depth for that."""
    return [(0, sets)] if kind == "gibbs" else [(number, [one]) for number, one in enumerate(sets)]


def _sample(
    model: Model, sets: list[Any], betas: np.ndarray, kind: str, chains: int, lengths: Lengths, swap: bool, seed: int,
    first: int,
) -> tuple[dict[str, np.ndarray], Any]:  # fmt: skip
    import jax
    import jax.numpy as jnp

    keys = jnp.stack([jax.random.fold_in(jax.random.key(seed), first + number) for number in range(len(sets))])
    summaries = [model.summary(one) for one in sets]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *summaries)
    best = [model.truth if model.truth is not None else descend(model, one, seed) for one in sets]
    best = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf, dtype=float) for leaf in leaves]), *best)
    stats, places = compiled()(model, kind, chains, lengths, swap, keys, stacked, best, jnp.asarray(betas))
    return {name: np.asarray(values) for name, values in stats.items()}, jax.tree.map(np.asarray, places)


def descend(model: Model, data: Any, seed: int = 0) -> Any:
    """The largest posterior density at β = 1 that descents from draws of the prior find (L-BFGS)."""
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

        found = []
        for key in keys:
            with np.errstate(all="ignore"):
                start = np.asarray(ravel_pytree(model.init(key))[0])
                found.append(minimize(energy, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}))
        good = [one for one in found if np.isfinite(one.fun)]
        if not good:
            raise BadInput(
                "no descent from the prior finds a finite posterior density", "mend the model, or give truth"
            )
        return unravel(jnp.asarray(min(good, key=lambda one: one.fun).x))


@functools.cache
def _slope() -> Any:
    import jax
    from jax.flatten_util import ravel_pytree

    def energy(model: Model, flat: Any, summary: Any) -> Any:
        unravel = ravel_pytree(model.init(jax.random.key(0)))[1]
        return -log_density(model, summary, 1.0)(unravel(flat))

    return jax.jit(jax.value_and_grad(energy, 1), static_argnums=0)


def _joined(parts: list[Any]) -> Any:
    import jax

    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _pointwise(model: Model, sets: list[Any], places: Any, betas: np.ndarray) -> np.ndarray:
    """The log-likelihood of every observation at the places kept at β = 1: (dataset, chain, kept, observation)."""
    import jax
    import jax.numpy as jnp

    at = int(np.flatnonzero(betas == 1.0)[0])
    over = jax.jit(jax.vmap(jax.vmap(model.log_likelihood, (0, None)), (0, None)))
    return np.stack(
        [
            np.asarray(over(jax.tree.map(lambda leaf, s=number: jnp.asarray(leaf[s, at]), places), one))
            for number, one in enumerate(sets)
        ]
    )


def _tree(
    model: Model, betas: np.ndarray, chains: int, stats: dict[str, np.ndarray], places: Any, likelihood: Any, thin: int,
    kind: str,
) -> xr.DataTree:  # fmt: skip
    import jax
    import xarray as xr

    draws = stats["nL"].shape[-1]
    dims = ("dataset", "beta", "chain")
    kept = np.arange(thin - 1, draws, thin)
    coords = {
        "dataset": np.arange(stats["nL"].shape[0]),
        "beta": betas,
        "chain": np.arange(chains),
        "start": ("chain", np.array([STARTS[number % 2] for number in range(chains)])),
    }
    traces = xr.Dataset(
        {name: ((*dims, "draw")[: values.ndim], values) for name, values in stats.items()},
        coords=coords | {"draw": np.arange(draws)},
        attrs={"sampler": kind, "model": model.name},
    )
    flat = [
        (jax.tree_util.keystr(path, simple=True, separator=".") or "w", leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(places)
    ]
    variables = {
        name: ((*dims, "draw", *(f"{name}_dim_{axis}" for axis in range(leaf.ndim - 4))), leaf) for name, leaf in flat
    }
    groups = {"sample_stats": traces, "posterior": xr.Dataset(variables, coords=coords | {"draw": kept})}
    if likelihood is not None:
        groups["log_likelihood"] = xr.Dataset(
            {"y": (("dataset", "chain", "draw", "observation"), likelihood)},
            coords={name: coords[name] for name in ("dataset", "chain", "start")} | {"draw": kept},
        )
    return xr.DataTree.from_dict(groups)


def params_of(model: Model, tree: xr.DataTree) -> Any:
    """The parameters kept by :func:`tempered`, as the model has them, with axes (dataset, beta, chain, draw)."""
    import jax

    shape = jax.eval_shape(model.init, jax.random.key(0))
    names = [
        jax.tree_util.keystr(path, simple=True, separator=".") or "w"
        for path, _ in jax.tree_util.tree_leaves_with_path(shape)
    ]
    leaves = [tree["posterior"][name].values for name in names]
    return jax.tree.unflatten(jax.tree.structure(shape), leaves)
