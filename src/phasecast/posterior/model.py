"""What is a model here? A log-likelihood of every observation, a log prior, and where to begin.

.. math:: p^\\beta(w \\mid D_n) \\propto \\varphi(w) \\prod_{i=1}^n p(y_i \\mid x_i, w)^\\beta
          = \\varphi(w)\\, e^{-\\beta\\, nL_n(w)}

("Deep learning is singular, and that's good", eq. 14 and 15). Data are a tree of arrays with n rows each. What a model
knows beyond that, it may say: sufficient statistics, an exact (Gibbs) update, what it predicts, how many of its units
are alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput

FAR, FARTHER = 30.0, 300.0  # spreads of the prior: between them a proper one falls faster than 1/|w|
FEW = 16  # draws from the prior that tell its spread


@dataclass(frozen=True)
class Model:
    """A Bayesian model; parameters are an array or a tree of arrays, unconstrained.

    Parameters
    ----------
    log_likelihood: ``(params, data) -> (n,)``, the log density of every observation.
    log_prior: ``params -> scalar``, normalised up to a constant.
    init: ``key -> params``, a draw from the prior.
    predict: ``(params, data) -> (n, …)``, the mean prediction for the inputs in ``data``.
    observed: ``data -> (n, …)``, the outputs that ``predict`` is about.
    summarise: ``data -> summary``, sufficient statistics, of one data set, not compiled; without it, the data.
    loss: ``(params, summary) -> scalar``, nL = −Σ log p from the summary.
    gibbs: ``(key, params, summary, beta) -> params``, an update that leaves the posterior at β as it is.
    live_units: ``(params, data) -> scalar``, hidden units that do something on the data.
    truth: parameters to start from besides the prior; without them a maximum of the posterior is looked for.
    name: what tables and figures call it.

    >>> import jax
    >>> coin = Model(lambda w, y: y * w - jax.numpy.logaddexp(0, w), lambda w: -(w**2) / 2, jax.random.normal)
    >>> coin.rows(np.zeros(7)), coin.size()
    (7, 1)
    """

    log_likelihood: Callable[[Any, Any], Any]
    log_prior: Callable[[Any], Any]
    init: Callable[[Any], Any]
    predict: Callable[[Any, Any], Any] | None = None
    observed: Callable[[Any], Any] | None = None
    summarise: Callable[[Any], Any] | None = None
    loss: Callable[[Any, Any], Any] | None = None
    gibbs: Callable[[Any, Any, Any, Any], Any] | None = None
    live_units: Callable[[Any, Any], Any] | None = None
    truth: Any = field(default=None, compare=False)  # models that differ in these two alone are compiled once
    name: str = field(default="your model", compare=False)

    def __post_init__(self) -> None:
        for word in ("log_likelihood", "log_prior", "init"):
            if not callable(getattr(self, word)):
                kind = type(getattr(self, word)).__name__
                raise BadInput(f"{word} is a {kind}, not a function", "see phasecast.posterior.Model")
        if (self.loss is None) != (self.summarise is None):
            raise BadInput("loss and summarise belong together", "give both or neither")

    def summary(self, data: Any) -> Any:
        """What the likelihood needs to know of the data."""
        return data if self.summarise is None else self.summarise(data)

    def total_loss(self, params: Any, summary: Any) -> Any:
        """nL(w) = −Σ log p(y_i | x_i, w), from the summary."""
        return -self.log_likelihood(params, summary).sum() if self.loss is None else self.loss(params, summary)

    def size(self) -> int:
        """The number d of parameters."""
        import jax

        shapes = jax.eval_shape(self.init, jax.random.key(0))
        return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))

    def rows(self, data: Any) -> int:
        """The number n of observations."""
        import jax

        lengths = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(data)}
        if len(lengths) != 1 or 0 in lengths:
            raise BadInput(
                f"the arrays in data have {sorted(lengths) or 'no'} rows", "give arrays with one row for an observation"
            )
        return lengths.pop()

    def check_data(self, data: Any) -> int:
        """The number of observations, or bad input if they are not finite."""
        import jax

        n = self.rows(data)
        floats = [leaf for leaf in map(np.asarray, jax.tree.leaves(data)) if leaf.dtype.kind in "fc"]
        if not all(np.isfinite(leaf).all() for leaf in floats):
            raise BadInput("the data have values that are not finite", "leave out rows with NaN or infinities")
        return n

    def check(self, data: Any) -> None:
        """Bad input if the log-likelihood is not one number for each observation, or the prior is not proper."""
        import jax

        from phasecast.core.precision import float64

        n = self.check_data(data)
        with float64():
            params = _called("init", self.init, jax.random.key(0))
            likelihood = np.asarray(_called("the log-likelihood", self.log_likelihood, params, data))
            prior = np.asarray(_called("the log prior", self.log_prior, params))
            if likelihood.shape != (n,):
                raise BadInput(
                    f"the log-likelihood has shape {likelihood.shape}",
                    f"return one number for each of the {n} observations, shape ({n},)",
                )
            if np.isnan(likelihood).any() or np.isposinf(likelihood).any():
                raise BadInput("the log-likelihood is not a number at a draw from the prior", "mend the log-likelihood")
            if prior.shape != () or not np.isfinite(prior):
                raise BadInput(
                    f"the log prior at a draw from the prior is {prior}", "return one finite number, shape ()"
                )
            self._check_proper(params)

    def _check_proper(self, params: Any) -> None:
        """A density that can be integrated falls faster than 1/r along every axis."""
        import jax
        import jax.numpy as jnp
        from jax.flatten_util import ravel_pytree

        flat, unravel = ravel_pytree(params)
        drawn = jax.vmap(lambda key: ravel_pytree(self.init(key))[0])(jax.random.split(jax.random.key(1), FEW))
        axes = jnp.diag(jnp.maximum(jnp.abs(drawn).max(axis=0), 1e-8))
        axes = jnp.concatenate([axes, -axes])
        tail = jax.jit(jax.vmap(lambda axis, r: self.log_prior(unravel(flat + r * axis)) + jnp.log(r), (0, None)))
        far, farther = np.asarray(tail(axes, FAR)), np.asarray(tail(axes, FARTHER))
        grows = np.isfinite(farther) & (farther >= far)
        if grows.any():
            number = int(np.argmax(grows)) % flat.size
            raise BadInput(
                f"the prior is improper: it does not fall off along parameter {number}",
                "use a prior that can be normalised, such as a wide normal",
            )


def _called(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the caller gives; bad input where it raises."""
    try:
        return function(*arguments)
    except BadInput:
        raise
    except Exception as error:
        words = (str(error).strip() or "without a message").splitlines()[0]
        raise BadInput(f"{what} raised {type(error).__name__}: {words}", "mend it, or the data it is given") from error
