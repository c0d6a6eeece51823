"""Can JAX sample this loss? It must be traceable, return one real number, and pass :mod:`loss_probe`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
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


def probe_loss(loss_at: Callable[[Array], Array], centre: Array) -> None:
    """Refuse a loss, as a function of the offset from w*, that chains cannot sample."""
    double = centre.dtype == jnp.float64

    def value(offset: np.ndarray) -> float:
        return float(loss_at(jnp.asarray(offset, centre.dtype)))

    def slope(offset: np.ndarray) -> np.ndarray:
        with explaining():
            return np.asarray(jax.grad(loss_at)(jnp.asarray(offset, centre.dtype)), dtype=float)

    with explaining():
        jax.eval_shape(loss_at, centre)
    probe(value, slope, np.asarray(centre, dtype=float), double=double)
