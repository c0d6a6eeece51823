"""What are all criteria of a model? From one set of tempered posteriors, ready for :func:`compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from phasecast.core.errors import whole_number
from phasecast.core.precision import float64
from phasecast.core.types import PyTree
from phasecast.posterior.model import Model
from phasecast.posterior.scores.comparison import Scores
from phasecast.posterior.scores.criteria import from_arviz, new_data_losses
from phasecast.posterior.scores.evidence import bic, free_energy, temperature_grid, wbic, wbic_beta
from phasecast.posterior.tempered import Sampler, params_of, tempered

if TYPE_CHECKING:
    import xarray as xr


class SamplerOptions(TypedDict, total=False):
    """Options of :func:`phasecast.posterior.tempered` that :func:`score` does not set itself."""

    sampler: Sampler
    warmup: int
    thin: int
    swap: bool


def score(
    model: Model,
    data: PyTree,
    new: PyTree = None,
    *,
    points: int = 17,
    draws: int = 2000,
    chains: int = 4,
    seed: int = 0,
    **options: Unpack[SamplerOptions],
) -> Scores:
    """WAIC, LOO, PSIS-LOO, free energy, WBIC and BIC of a model on ``data``, and its Bayes loss on ``new`` data.

    The grid of β has ``points`` values besides that of WBIC; β = 0 is sampled from the prior itself. BIC uses the
    smallest nL of all chains. ``options`` are passed to :func:`phasecast.posterior.tempered`.

    ``compare({f"hidden {h}": score(reduced_rank(3, h, 3), data, new) for h in (1, 2, 3)})`` compares three widths.
    """
    n = model.rows(data)
    betas = np.unique([*temperature_grid(whole_number("points", points, 5))[1:], wbic_beta(n)])
    tree = tempered(model, data, betas, draws=draws, chains=chains, seed=seed, pointwise=True, **options)
    stats = tree["sample_stats"].to_dataset()
    losses = stats["nL"].values[0]
    first = prior_losses(model, data, chains=chains, draws=draws, seed=seed)
    least = min(float(losses.min()), float(stats["best"].values.min()))
    return Scores(
        criteria=from_arviz(tree.isel(dataset=0)),
        free_energy=free_energy(np.r_[0.0, betas], np.concatenate([first[None], losses])),
        wbic=wbic(losses[int(np.argmin(abs(betas - wbic_beta(n))))], n, wbic_beta(n)),
        bic=bic(least, model.size(), n),
        generalisation=None if new is None else _new_loss(model, tree, new),
    )


def prior_losses(model: Model, data: PyTree, *, chains: int = 4, draws: int = 2000, seed: int = 0) -> np.ndarray:
    """nL at independent draws from the prior, shape (chain, draw): what :func:`free_energy` needs for β = 0."""
    import jax

    with float64():
        summary = model.summary(jax.tree.map(jax.numpy.asarray, data))
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), chains * draws)
        over = jax.jit(jax.vmap(lambda key: model.total_loss(model.init(key), summary)))
        return np.asarray(over(keys)).reshape(chains, draws)


def _new_loss(model: Model, tree: xr.DataTree, new: PyTree) -> float:
    """Bayes loss on new data, from the stored parameters at β = 1."""
    import jax

    at = int(np.flatnonzero(tree["posterior"]["beta"].values == 1.0)[0])
    params = jax.tree.map(lambda leaf: leaf[0, at].reshape(-1, *leaf.shape[4:]), params_of(model, tree))
    with float64():
        likelihood = jax.jit(jax.vmap(model.log_likelihood, (0, None)))(params, jax.tree.map(jax.numpy.asarray, new))
        return new_data_losses(np.asarray(likelihood))[0]
