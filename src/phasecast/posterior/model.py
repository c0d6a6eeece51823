"""What is a model here? A log-likelihood of every observation, a log prior, and where to begin.

.. math:: p^\\beta(w \\mid D_n) \\propto \\varphi(w) \\prod_{i=1}^n p(y_i \\mid x_i, w)^\\beta
          = \\varphi(w)\\, e^{-\\beta\\, nL_n(w)}

("Deep learning is singular, and that's good", eq. 14 and 15). Data are a tree of arrays with n rows each. A model may
also provide sufficient statistics, an exact (Gibbs) update, predictions, and the number of its live units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core.errors import BadInput, UserCodeFailed
from phasecast.core.precision import float64
from phasecast.core.types import Key, PyTree
from phasecast.core.user_code import own_line

if TYPE_CHECKING:
    import jax

FAR, FARTHER = (
    30.0,
    300.0,
)  # spreads of the prior, a decade apart in the tail: there a proper prior falls faster than 1/r
SCALE_DRAWS = 16  # draws from the prior that estimate its spread to a factor of two, enough for FAR


@dataclass(frozen=True)
class Model:
    """A Bayesian model; parameters are an array or a tree of arrays, unconstrained.

    Parameters
    ----------
    log_likelihood: ``(params, data) -> (n,)``, the log density of every observation.
    log_prior: ``params -> scalar``, up to a constant.
    init: ``key -> params``, a draw from the prior.
    predict: ``(params, data) -> (n, …)``, the mean prediction for the inputs in ``data``.
    observed: ``data -> (n, …)``, the outputs that ``predict`` is about.
    summarise: ``data -> summary``, sufficient statistics of one data set, not compiled; defaults to the data.
    loss: ``(params, summary) -> scalar``, nL = −Σ log p from the summary.
    gibbs: ``(key, params, summary, beta) -> params``, an update that leaves the posterior at β invariant.
    live_units: ``(params, data) -> scalar``, the number of hidden units that affect the outputs on the data.
    truth: parameters to start half of the chains from; defaults to a maximum of the posterior, found by descent.
    name: used in tables and figures.

    >>> import jax
    >>> coin = Model(lambda w, y: y * w - jax.numpy.logaddexp(0, w), lambda w: -(w**2) / 2, jax.random.normal)
    >>> coin.rows(np.zeros(7)), coin.size()
    (7, 1)
    >>> print(coin)
    your model
      parameters  1
      sampler     NUTS
      provides    log likelihood, log prior, init
    """

    log_likelihood: Callable[[PyTree, PyTree], jax.Array]
    log_prior: Callable[[PyTree], jax.Array]
    init: Callable[[Key], PyTree]
    predict: Callable[[PyTree, PyTree], jax.Array] | None = None
    observed: Callable[[PyTree], Any] | None = None
    summarise: Callable[[PyTree], PyTree] | None = None
    loss: Callable[[PyTree, PyTree], jax.Array] | None = None
    gibbs: Callable[[Key, PyTree, PyTree, jax.Array], PyTree] | None = None
    live_units: Callable[[PyTree, PyTree], jax.Array] | None = None
    truth: PyTree = field(default=None, compare=False)  # models that differ in these two alone are compiled once
    name: str = field(default="your model", compare=False)

    def __post_init__(self) -> None:
        for name in ("log_likelihood", "log_prior", "init"):
            if not callable(getattr(self, name)):
                kind = type(getattr(self, name)).__name__
                raise BadInput(f"{name} is a {kind}, not a function", "see phasecast.posterior.Model")
        if (self.loss is None) != (self.summarise is None):
            raise BadInput("loss and summarise belong together", "give both or neither")

    def __str__(self) -> str:
        optional = ("predict", "summarise", "gibbs", "live_units", "truth")
        provided = [name.replace("_", " ") for name in optional if getattr(self, name) is not None]
        return (
            f"{self.name}\n  parameters  {self.size()}\n  sampler     {'NUTS' if self.gibbs is None else 'Gibbs'}\n"
            f"  provides    {', '.join(['log likelihood', 'log prior', 'init', *provided])}"
        )

    def summary(self, data: PyTree) -> PyTree:
        """The sufficient statistics of the data, or the data."""
        return data if self.summarise is None else self.summarise(data)

    def total_loss(self, params: PyTree, summary: PyTree) -> jax.Array:
        """nL(w) = −Σ log p(y_i | x_i, w), from the summary."""
        return -self.log_likelihood(params, summary).sum() if self.loss is None else self.loss(params, summary)

    def size(self) -> int:
        """The number d of parameters."""
        import jax

        shapes = jax.eval_shape(self.init, jax.random.key(0))
        return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))

    def rows(self, data: PyTree) -> int:
        """The number n of observations."""
        import jax

        lengths = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(data)}
        if len(lengths) != 1 or 0 in lengths:
            raise BadInput(
                f"the arrays in data have {sorted(lengths) or 'no'} rows", "give arrays with one row per observation"
            )
        return lengths.pop()

    def check_data(self, data: PyTree) -> int:
        """The number of observations; bad input if they are not finite."""
        import jax

        n = self.rows(data)
        floats = [leaf for leaf in map(np.asarray, jax.tree.leaves(data)) if leaf.dtype.kind in "fc"]
        if not all(np.isfinite(leaf).all() for leaf in floats):
            raise BadInput("the data have values that are not finite", "remove rows with NaN or infinities")
        return n

    def check(self, data: PyTree) -> None:
        """Bad input if the log-likelihood is not one number per observation, the prior is not proper, or the Gibbs
        update returns something else than parameters."""
        import jax
        import jax.numpy as jnp

        n = self.check_data(data)
        with float64():
            params = _called("init", jax.jit(self.init), jax.random.key(0))
            likelihood = np.asarray(_called("the log-likelihood", jax.jit(self.log_likelihood), params, data))
            prior = np.asarray(_called("the log prior", jax.jit(self.log_prior), params))
            if likelihood.shape != (n,):
                raise BadInput(
                    f"the log-likelihood has shape {likelihood.shape}",
                    f"return one number per observation, shape ({n},)",
                )
            if np.isnan(likelihood).any() or np.isposinf(likelihood).any():
                raise BadInput("the log-likelihood is not a number at a draw from the prior", "fix the log-likelihood")
            if prior.shape != () or not np.isfinite(prior):
                raise BadInput(
                    f"the log prior at a draw from the prior is {prior}", "return one finite number, shape ()"
                )
            if (number := _improper_parameter(self)) is not None:
                raise BadInput(
                    f"the prior is improper: it does not fall off along parameter {number}",
                    "use a prior that can be normalised, such as a wide normal",
                )
            summary = _called("summarise", self.summary, data)
            loss = _called("the loss", jax.eval_shape, lambda w: self.total_loss(w, summary), params)
            if loss.shape != ():
                raise BadInput(f"the loss has shape {loss.shape}", "return one number, nL")
            if (gibbs := self.gibbs) is not None:
                key, beta = jax.random.key(0), jnp.asarray(1.0)
                moved = _called("the Gibbs update", jax.eval_shape, lambda w: gibbs(key, w, summary, beta), params)
                _check_like(moved, params)


@lru_cache(maxsize=16)  # a model that is used again is not compiled again
def _improper_parameter(model: Model) -> int | None:
    """The first parameter along whose axis the prior does not fall faster than 1/r, as proper densities do."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    def tails(centre: Key, around: Key) -> tuple[jax.Array, jax.Array]:
        flat, unravel = ravel_pytree(model.init(centre))
        drawn = jax.vmap(lambda key: ravel_pytree(model.init(key))[0])(jax.random.split(around, SCALE_DRAWS))
        axes = jnp.diag(jnp.maximum(jnp.abs(drawn).max(axis=0), 1e-8))
        axes = jnp.concatenate([axes, -axes])
        tail = jax.vmap(lambda axis, r: model.log_prior(unravel(flat + r * axis)) + jnp.log(r), (0, None))
        return tail(axes, FAR), tail(axes, FARTHER)

    with float64():  # keys are arguments: the compiler would draw from constant ones, slowly
        far, farther = map(np.asarray, jax.jit(tails)(jax.random.key(0), jax.random.key(1)))
    grows = np.isfinite(farther) & (farther >= far)
    return int(np.argmax(grows)) % (len(grows) // 2) if grows.any() else None


def _called(name: str, function: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    """The value of a function of the caller; an error that names it if it raises."""
    try:
        return function(*arguments)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        message = (str(error).strip() or "without a message").splitlines()[0]
        raise UserCodeFailed(
            f"{name} raised {type(error).__name__}: {message}{own_line(error)}", "fix it, or the data passed to it"
        ) from error


def _check_like(moved: PyTree, params: PyTree) -> None:
    """Bad input unless a Gibbs update returned real numbers in the form of the parameters."""
    import jax

    same = jax.tree.structure(moved) == jax.tree.structure(params)
    pairs = zip(jax.tree.leaves(moved), jax.tree.leaves(params), strict=True) if same else ()
    shapes = [(np.shape(new), np.shape(old)) for new, old in pairs]
    if not same or any(new != old for new, old in shapes):
        got = "another tree" if not same else next(f"shape {new}" for new, old in shapes if new != old)
        expected = [np.shape(old) for old in jax.tree.leaves(params)]
        raise BadInput(f"the Gibbs update returns {got}", f"return parameters like those of init, {expected}")
    if not all(np.issubdtype(leaf.dtype, np.floating) for leaf in jax.tree.leaves(moved)):
        raise BadInput("the Gibbs update returns numbers that are not real", "return parameters like those of init")
