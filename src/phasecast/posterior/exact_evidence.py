"""What the posterior of a small model says exactly, by quadrature: F, E and V at any β.

.. math:: F(\\beta) = -\\log\\int \\varphi(w)\\, e^{-\\beta\\, nL(w)} dw, \\qquad
          F' = E_\\beta[nL], \\qquad F'' = -\\mathrm{Var}_\\beta[nL]

For models with one or two parameters on the whole line: a tanh-sinh-like rule on a fine grid in :math:`w = \\sinh t`,
which resolves a narrow posterior around zero and the tails of the prior at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.posterior.model import Model
from phasecast.posterior.tempered import check_betas

REACH = 16.0  # of t: w up to sinh(16)·SCALE
SCALE = 1e-3
NODES = {1: 8001, 2: 1201}


class Exact(NamedTuple):
    """At each β: the free energy F, E[nL] and Var[nL], and how much each moves on a grid half as fine."""

    free_energy: np.ndarray
    energy: np.ndarray
    variance: np.ndarray
    error: np.ndarray


def exact(model: Model, data: Any, betas: Any) -> Exact:
    """F, E and V of a model with one or two parameters.

    >>> from phasecast.posterior.zoo.monomial import monomial
    >>> found = exact(monomial([1]), np.zeros(100), [1.0])  # y = w: log(1 + 100)/2 + 50 log 2π
    >>> bool(abs(found.free_energy[0] - 50 * np.log(2 * np.pi) - np.log(101) / 2) < 1e-9)
    True
    """
    grid = check_betas(betas)
    size = model.size()
    if size not in NODES:
        raise BadInput(f"{size} parameters are too many for quadrature", "use one or two, or sample with tempered()")
    model.check(data)
    fine, coarse = (_integrals(model, data, grid, size, every) for every in (1, 2))
    return Exact(fine[0], fine[1], fine[2], np.max(np.abs(fine - coarse), axis=0))


def _integrals(model: Model, data: Any, betas: np.ndarray, size: int, every: int) -> np.ndarray:
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    t = np.linspace(-REACH, REACH, NODES[size])[::every]
    w, log_step = SCALE * np.sinh(t), np.log(SCALE * np.cosh(t) * (t[1] - t[0]))
    with float64():
        summary = jax.tree.map(jnp.asarray, model.summary(data))
        unravel = ravel_pytree(model.init(jax.random.key(0)))[1]
        points = (
            jnp.asarray(w)[:, None] if size == 1 else jnp.stack(jnp.meshgrid(w, w, indexing="ij"), -1).reshape(-1, 2)
        )
        measure = log_step if size == 1 else np.add.outer(log_step, log_step).ravel()
        prior = np.asarray(jax.vmap(lambda p: model.log_prior(unravel(p)))(points))
        losses = np.asarray(jax.vmap(lambda p: model.total_loss(unravel(p), summary))(points))
    found = []
    for beta in betas:
        log_mass = prior + measure - beta * losses
        log_mass = np.where(np.isfinite(log_mass), log_mass, -np.inf)
        top = log_mass.max()
        mass = np.exp(log_mass - top)
        total = mass.sum()
        kept = mass > 0
        mean = np.sum(mass[kept] * losses[kept]) / total
        found.append((-top - np.log(total), mean, np.sum(mass[kept] * (losses[kept] - mean) ** 2) / total))
    return np.array(found).T
