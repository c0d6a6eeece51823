"""What are the free energy, mean and variance of nL of a small model, exactly, at any β?

.. math:: F(\\beta) = -\\log\\int \\varphi(w)\\, e^{-\\beta\\, nL(w)} dw, \\qquad
          F' = E_\\beta[nL], \\qquad F'' = -\\mathrm{Var}_\\beta[nL]

For models with one or two parameters on the whole line: the trapezoidal rule on a fine grid in :math:`w = \\sinh t`,
which resolves both a narrow posterior around zero and the tails of the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.results import Result, show
from phasecast.core.types import PyTree
from phasecast.posterior.model import Model
from phasecast.posterior.tempered import check_betas

if TYPE_CHECKING:
    import jax

REACH = 16.0  # t goes to ±16, w to ±sinh(16)·SCALE = ±4443: far into the tails of any prior of unit size
SCALE = 1e-3  # the grid in w is finer than 10⁻⁵ around zero, where singular posteriors are narrow
NODES = {1: 8001, 2: 1201}  # per parameter, by the number of parameters; the error is measured with half of them


@dataclass(frozen=True, eq=False)
class Exact(Result):
    """F, E[nL] and Var[nL] at each β; ``error`` is the largest change of the three on a grid half as fine."""

    betas: np.ndarray
    free_energy: np.ndarray
    energy: np.ndarray
    variance: np.ndarray
    error: np.ndarray
    name: str = ""

    def plain(self) -> dict[str, Any]:
        names = ("betas", "free_energy", "energy", "variance", "error")
        return {"name": self.name, **{name: codec.plain(getattr(self, name)) for name in names}}

    def _rows(self) -> list[tuple[str, str]]:
        columns = zip(self.betas, self.free_energy, self.energy, self.variance, self.error, strict=True)
        return [
            (f"β = {beta:g}", f"F = {show(F)}, E[nL] = {show(E)}, Var[nL] = {show(V)}, each ± {error:.1g}")
            for beta, F, E, V, error in columns
        ]


def exact(model: Model, data: PyTree, betas: Sequence[float] | np.ndarray) -> Exact:
    """F, E and V of a model with one or two parameters.

    >>> from phasecast.posterior.zoo.monomial import monomial_model
    >>> line = exact(monomial_model([1]), np.zeros(100), [1.0])  # y = w: log(1 + 100)/2 + 50 log 2π
    >>> bool(abs(line.free_energy[0] - 50 * np.log(2 * np.pi) - np.log(101) / 2) < 1e-9)
    True
    >>> print(line)
    w1^1, exact
      β = 1  F = 94.2014, E[nL] = 92.3889, Var[nL] = 0.490148, each ± ...
    """
    grid = check_betas(betas)
    size = model.size()
    if size not in NODES:
        raise BadInput(f"{size} parameters are too many for quadrature", "use one or two, or sample with tempered()")
    model.check(data)
    t = np.linspace(-REACH, REACH, NODES[size])
    nodes = SCALE * np.sinh(t)
    prior, losses = _on_the_grid(model, data, nodes, size)
    log_step = np.log(SCALE * np.cosh(t) * (t[1] - t[0]))
    fine = _integrals(prior, losses, log_step, grid)
    half = (slice(None, None, 2),) * size
    coarse = _integrals(prior[half], losses[half], log_step[::2] + np.log(2), grid)
    error = np.max(np.abs(fine - coarse), axis=0)
    return Exact(grid, fine[0], fine[1], fine[2], error, name=f"{model.name}, exact")


def _on_the_grid(model: Model, data: PyTree, nodes: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Log prior and nL at all points of a grid with ``size`` axes, a slice at a time: rows × points may not fit."""
    import jax
    import jax.numpy as jnp

    with float64():
        summary = jax.tree.map(jnp.asarray, model.summary(data))
        evaluate = _evaluator(model)
        slices = [nodes[:, None]] if size == 1 else [np.stack(np.broadcast_arrays(w, nodes), axis=-1) for w in nodes]
        parts = [evaluate(points, summary) for points in slices]
        prior, losses = (np.stack([np.asarray(part[k]) for part in parts]) for k in (0, 1))
    return (prior[0], losses[0]) if size == 1 else (prior, losses)


@lru_cache(maxsize=16)  # compiled once for all data of a shape
def _evaluator(model: Model) -> Callable[[np.ndarray, PyTree], tuple[jax.Array, jax.Array]]:
    """Log prior and nL at points (points, parameters)."""
    import jax
    from jax.flatten_util import ravel_pytree

    unravel = ravel_pytree(model.init(jax.random.key(0)))[1]

    def at(point: jax.Array, summary: PyTree) -> tuple[jax.Array, jax.Array]:
        params = unravel(point)
        return model.log_prior(params), model.total_loss(params, summary)

    return jax.jit(jax.vmap(at, (0, None)))


def _integrals(prior: np.ndarray, losses: np.ndarray, log_step: np.ndarray, betas: np.ndarray) -> np.ndarray:
    """Rows F, E[nL] and Var[nL] over β."""
    measure = log_step if losses.ndim == 1 else np.add.outer(log_step, log_step)
    rows = []
    for beta in betas:
        log_mass = prior + measure - beta * losses
        log_mass = np.where(np.isfinite(log_mass), log_mass, -np.inf)
        top = log_mass.max()
        mass = np.exp(log_mass - top)
        total = mass.sum()
        inside = mass > 0
        mean = np.sum(mass[inside] * losses[inside]) / total
        rows.append((-top - np.log(total), mean, np.sum(mass[inside] * (losses[inside] - mean) ** 2) / total))
    return np.array(rows).T
