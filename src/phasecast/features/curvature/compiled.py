"""JAX functions on long arrays in double precision, compiled once.

Arrays are cut into parts of one length and the last is filled up, so that a function is compiled for one shape however
many points it is asked about: compiling would otherwise be most of the time of a threshold at t = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from phasecast.core.precision import float64

PART = 1 << 15


@lru_cache(maxsize=64)
def _compiled(owner: Hashable, name: str) -> Any:
    import jax

    return jax.jit(getattr(owner, name) if name else owner)  # pyright: ignore[reportArgumentType]


def evaluate(owner: Any, name: str, *arrays: np.ndarray) -> np.ndarray:
    """``owner.name(*arrays)``, or ``owner(*arrays)`` for an empty name, over arrays with a common first axis.

    >>> def double(u):
    ...     return 2 * u
    >>> evaluate(double, "", np.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    """
    count = len(arrays[0])
    found = []
    with float64():
        function: Callable[..., Any] = _compiled(owner, name)
        for first in range(0, count, PART):
            parts = [np.asarray(array[first : first + PART], dtype=float) for array in arrays]
            missing = PART - len(parts[0])
            if missing:
                parts = [np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) for part in parts]
            found.append(np.asarray(function(*parts), dtype=float)[: PART - missing])
    return np.concatenate(found)
