"""Can JAX sample this loss? It must be traceable, return one real number, and pass :mod:`loss_probe`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput, PhasecastError, UserCodeFailed
from phasecast.core.user_code import own_line
from phasecast.sampling.backends.loss_probe import probe
from phasecast.sampling.kernels.kernel import Array


@contextmanager
def explaining() -> Iterator[None]:
    """Turn what the user's loss raises into one sentence."""
    try:
        yield
    except PhasecastError:
        raise
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        raise BadInput(
            f"the loss uses if, float() or NumPy on a value that JAX traces{own_line(error)}",
            "write it with jax.numpy, with jnp.where instead of if",
        ) from error
    except (Exception, SystemExit) as error:
        words = " ".join(str(error).split())[:200]
        raise UserCodeFailed(
            f"the loss raised {type(error).__name__}: {words}{own_line(error)}",
            "give loss(params, data), or loss(params) without data, that returns one number",
        ) from error


def check_value(value: object) -> None:
    """Refuse what is not one real number."""
    if value is None or isinstance(value, str | bytes):
        raise BadInput(f"the loss returned {'None' if value is None else 'a text'}", "return one number")
    if jnp.shape(value) != ():  # pyright: ignore[reportArgumentType]
        raise BadInput(
            f"the loss has shape {jnp.shape(value)}",  # pyright: ignore[reportArgumentType]
            "return one number, the mean over the rows",
        )
    if jnp.iscomplexobj(value):
        raise BadInput("the loss is a complex number", "return a real one")
    if not jnp.issubdtype(jnp.result_type(value), jnp.floating):  # pyright: ignore[reportArgumentType]
        raise BadInput("the loss is a whole number, which has no gradient", "return a real one")


Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]


def probe_loss(loss_at: Callable[[Array], Array], centre: Array, evaluate: Evaluate | None = None) -> None:
    """Refuse a loss, as a function of the offset from w*, that chains cannot sample.

    ``evaluate`` is its value and gradient where they are compiled already. What is compiled does not see that a loss
    changes from call to call, so it is traced twice.
    """
    zero = np.zeros(np.shape(centre), centre.dtype)
    with explaining():
        traces = [jax.make_jaxpr(lambda offset: loss_at(offset))(zero) for _ in range(2)]
    if not _equal(*traces):
        raise BadInput(
            "the loss gives another number at the same parameters",
            "draw random numbers once, outside the loss, and keep no state in it",
        )
    compiled = jax.jit(jax.value_and_grad(loss_at))

    def both(offset: np.ndarray) -> tuple[float, np.ndarray]:
        with explaining():
            if evaluate is not None:
                return evaluate(offset)
            value, slope = compiled(jnp.asarray(offset, centre.dtype))
            return float(value), np.asarray(slope, dtype=float)

    probe(
        lambda offset: both(offset)[0],
        lambda offset: both(offset)[1],
        np.asarray(centre, dtype=float),
        double=centre.dtype == jnp.float64,
    )


def _equal(first: jax.extend.core.ClosedJaxpr, second: jax.extend.core.ClosedJaxpr) -> bool:
    """Whether tracing a loss twice gave one program: random numbers of NumPy are constants in it."""
    constants = zip(first.consts, second.consts, strict=False)
    return str(first.jaxpr) == str(second.jaxpr) and all(
        one is other or np.array_equal(one, other, equal_nan=True) for one, other in constants
    )
