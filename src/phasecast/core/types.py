"""Names for what functions take and return, where one word says more than the type behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import jax
    import numpy as np

Array: TypeAlias = "np.ndarray | jax.Array"
"""Numbers in a box, of NumPy or of JAX."""

Key: TypeAlias = "jax.Array"
"""A random key of JAX."""

PyTree: TypeAlias = Any
"""Arrays in dicts, lists and tuples, as a user keeps parameters or data; no type checker can look inside."""
