"""How to compute in float64 without changing a global setting?

JAX computes in float32 by default. ``float64()`` switches one thread of one process to double
precision for the length of a ``with`` block, outside every ``jit``; float32 code around it is not affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phasecast.core.errors import BadInput


@contextmanager
def float64() -> Iterator[None]:
    """Compute in double precision inside the block.

    >>> import jax.numpy as jnp
    >>> with float64():
    ...     print(jnp.ones(1).dtype)
    float64
    >>> print(jnp.ones(1).dtype)
    float32
    """
    import jax
    import jax.numpy as jnp
    from jax.core import Tracer

    if isinstance(jnp.add(0, 0), Tracer):  # under jit even constants are traced
        raise BadInput("float64() was entered inside a jitted function", "enter it around the outermost call")
    with jax.enable_x64(True):
        yield
