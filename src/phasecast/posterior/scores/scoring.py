"""All criteria of a model from one ladder of tempered posteriors, ready to compare with those of other models."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasecast.core.errors import whole_number
from phasecast.core.precision import float64
from phasecast.posterior.model import Model
from phasecast.posterior.scores.comparison import Scores
from phasecast.posterior.scores.criteria import from_arviz, new_data_losses
from phasecast.posterior.scores.evidence import bic, free_energy, temperature_grid, wbic, wbic_beta
from phasecast.posterior.tempered import params_of, tempered


def score(
    model: Model,
    data: Any,
    new: Any = None,
    *,
    points: int = 17,
    draws: int = 2000,
    chains: int = 4,
    seed: int = 0,
    **more: Any,
) -> Scores:
    """WAIC, LOO, PSIS-LOO, free energy, WBIC and BIC of a model on ``data``, and its Bayes loss on ``new`` data.

    The ladder of β has ``points`` rungs and WBIC's own; β = 0 is drawn from the prior itself. BIC takes the smallest
    nL that a chain came upon. ``more`` goes to :func:`phasecast.posterior.tempered`.

    ``compare({f"hidden {h}": score(reduced_rank(3, h, 3), data, new) for h in (1, 2, 3)})`` compares three widths.
    """
    n = model.rows(data)
    betas = np.unique([*temperature_grid(whole_number("points", points, 5))[1:], wbic_beta(n)])
    tree = tempered(model, data, betas, draws=draws, chains=chains, seed=seed, pointwise=True, **more)
    stats = tree["sample_stats"].to_dataset()
    losses = stats["nL"].values[0]
    first = _prior_losses(model, data, (chains, draws), seed)
    least = min(float(losses.min()), float(stats["best"].values.min()))
    return Scores(
        criteria=from_arviz(tree.isel(dataset=0)),
        free_energy=free_energy(np.r_[0.0, betas], np.concatenate([first[None], losses])),
        wbic=wbic(losses[int(np.argmin(abs(betas - wbic_beta(n))))], n, wbic_beta(n)),
        bic=bic(least, model.size(), n),
        generalisation=None if new is None else _new_loss(model, tree, new),
    )


def _prior_losses(model: Model, data: Any, shape: tuple[int, int], seed: int) -> np.ndarray:
    """nL at independent draws from the prior."""
    import jax

    with float64():
        summary = model.summary(jax.tree.map(jax.numpy.asarray, data))
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), shape[0] * shape[1])
        over = jax.jit(jax.vmap(lambda key: model.total_loss(model.init(key), summary)))
        return np.asarray(over(keys)).reshape(shape)


def _new_loss(model: Model, tree: Any, new: Any) -> float:
    """Bayes loss on new data, from the parameters kept at β = 1."""
    import jax

    at = int(np.flatnonzero(tree["posterior"]["beta"].values == 1.0)[0])
    kept = jax.tree.map(lambda leaf: leaf[0, at].reshape(-1, *leaf.shape[4:]), params_of(model, tree))
    with float64():
        likelihood = jax.jit(jax.vmap(model.log_likelihood, (0, None)))(kept, jax.tree.map(jax.numpy.asarray, new))
        return new_data_losses(np.asarray(likelihood))[0]
