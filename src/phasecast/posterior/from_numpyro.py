"""How to temper a NumPyro program? As a :class:`Model` whose likelihood is that of its observed sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phasecast.core.errors import BadInput, MissingExtra, UserCodeFailed
from phasecast.core.precision import float64
from phasecast.core.types import Key
from phasecast.posterior.model import Model

if TYPE_CHECKING:
    import jax


def from_numpyro(program: Callable[..., Any], data: dict[str, Any], *, name: str | None = None) -> Model:
    """The model that a NumPyro program describes; its parameters are the unconstrained sample sites.

    ``program(**data)`` receives its outputs in ``data`` too and passes them as ``obs=`` to the sites that observe them,
    with one row per observation. Only the likelihood is tempered; the log prior has the Jacobians of the constraints.

    >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist  # needs the extra phasecast[numpyro]
    >>> def line(x, y):
    ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
    ...     numpyro.sample("y", dist.Normal(slope * x, numpyro.sample("noise", dist.HalfNormal(1))), obs=y)
    >>> from_numpyro(line, {"x": jnp.arange(5.0), "y": jnp.ones(5)}).size()
    2
    """
    try:
        from numpyro import handlers
        from numpyro.infer import util
    except ImportError:
        raise MissingExtra("numpyro", "numpyro") from None
    import jax
    import jax.numpy as jnp

    if not isinstance(data, dict):
        raise BadInput(f"data are a {type(data).__name__}", "give a dict with the arguments of the program by name")

    if not callable(program):
        raise BadInput(f"the program is a {type(program).__name__}", "give a function that calls numpyro.sample")

    def sites(key: Key, *, observed: bool) -> dict[str, Any]:
        trace = handlers.trace(handlers.seed(program, key)).get_trace(**data)
        return {k: s for k, s in trace.items() if s["type"] == "sample" and s["is_observed"] == observed}

    try:
        with float64():  # as in sampling: one program traced in two precisions finds the wrong compiled parts
            outputs = list(sites(jax.random.key(0), observed=True))
            hidden = sites(jax.random.key(0), observed=False)
    except NotImplementedError:  # what numpyro raises for ImproperUniform
        raise BadInput("a prior of the program cannot be drawn from", "use priors that can be normalised") from None
    except Exception as error:
        message = (str(error).strip() or "without a message").splitlines()[0]
        raise UserCodeFailed(
            f"the program raised {type(error).__name__}: {message}",
            f"fix it, or give its arguments by name (given: {', '.join(map(str, data))})",
        ) from error
    if not outputs:
        raise BadInput("the program observes nothing", "pass the data as obs= to a numpyro.sample")
    discrete = [k for k, s in hidden.items() if s["fn"].support.is_discrete]
    if discrete:
        raise BadInput(f"'{discrete[0]}' is discrete and has no gradient", "sum it out in the program")

    def log_prior(params: dict[str, Any]) -> jax.Array:
        unobserved = handlers.block(handlers.seed(program, jax.random.key(0)), hide=outputs)
        return -jnp.asarray(util.potential_energy(unobserved, (), data, params))

    def log_likelihood(params: dict[str, Any], given: dict[str, Any]) -> jax.Array:
        seeded = handlers.seed(program, jax.random.key(0))
        values = util.constrain_fn(seeded, (), given, params)
        likelihoods = util.log_likelihood(seeded, values, batch_ndims=0, **given)
        n = jnp.shape(jax.tree.leaves(given)[0])[0]
        for site, terms in likelihoods.items():
            if jnp.ndim(terms) == 0 or terms.shape[0] != n:
                raise BadInput(
                    f"'{site}' has a log-likelihood of shape {jnp.shape(terms)}",
                    f"observe one row per observation, {n} along the first axis",
                )
        return jnp.asarray(sum(terms.reshape(n, -1).sum(-1) for terms in likelihoods.values()))

    def init(key: Key) -> dict[str, Any]:
        values = {k: site["value"] for k, site in sites(key, observed=False).items()}
        return util.unconstrain_fn(handlers.seed(program, key), (), data, values)

    return Model(log_likelihood, log_prior, init, name=name or getattr(program, "__name__", "NumPyro model"))
