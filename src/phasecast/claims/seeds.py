"""Which random numbers does a check use? Its own fixed ones, or, in a blind verification, others never used before.

A check that draws anything asks here: ``check_generator(3)`` is ``np.random.default_rng(3)`` and ``shifted(3)`` is 3,
unless :func:`fresh_seeds` is active.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

APART = 10_000  # between the seeds of two verifications: no check uses more than 2000 in a row
LARGEST = 2**32 // APART - 1

_SEED: ContextVar[int] = ContextVar("seed of a verification", default=0)


@contextmanager
def fresh_seeds(seed: int) -> Iterator[None]:
    """Checks inside draw other random numbers than usual; 0 stands for the usual ones."""
    token = _SEED.set(seed)
    try:
        yield
    finally:
        _SEED.reset(token)


def shifted(seed: int) -> int:
    """The seed that a check uses in place of its own."""
    return seed + APART * _SEED.get()


def check_generator(*key: int) -> np.random.Generator:
    """Random numbers for a check that names them by a key.

    >>> bool(check_generator(3).random() == np.random.default_rng(3).random())
    True
    """
    first, *rest = key
    return np.random.default_rng([shifted(first), *rest] if rest else shifted(first))
