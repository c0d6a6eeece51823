"""How are JAX functions evaluated on long arrays in double precision, compiled once?

Arrays are cut into parts of one length and the last part is padded, so that a function is compiled for one shape
whatever the number of points: compiling would otherwise be most of the time of a threshold at t = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

import numpy as np

from phasecast.core.precision import float64
from phasecast.core.types import Array

PART = 1 << 15  # points per call: large enough to hide the cost of a call, small enough for the cache


def evaluate_batched(owner: Hashable, name: str, *arrays: np.ndarray) -> np.ndarray:
    """``owner.name(*arrays)``, or ``owner(*arrays)`` for an empty name, over arrays with a common first axis.

    >>> def double(u):
    ...     return 2 * u
    >>> evaluate_batched(double, "", np.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    """
    count = len(arrays[0])
    values = []
    with float64():
        function = compiled(owner, name)
        for first in range(0, count, PART):
            parts = [np.asarray(array[first : first + PART], dtype=float) for array in arrays]
            values.append(np.asarray(function(*padded(PART, *parts)), dtype=float)[: len(parts[0])])
    return np.concatenate(values)


def padded(rows: int, *arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays with their last row repeated, up to a multiple of so many rows."""
    missing = -len(arrays[0]) % rows
    return [np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array for array in arrays]


@lru_cache(maxsize=64)
def compiled(owner: Hashable, name: str) -> Callable[..., Array]:
    """``owner.name``, or ``owner`` for an empty name, jitted once."""
    import jax

    return jax.jit(getattr(owner, name) if name else owner)  # pyright: ignore[reportArgumentType]
