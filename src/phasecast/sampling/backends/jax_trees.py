"""What is in a tree of arrays? Parameters with their names, and data in the precision of the chains."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.types import PyTree
from phasecast.sampling.kernels.kernel import Array


def parameter_shapes(params: PyTree) -> dict[str, tuple[int, ...]]:
    """The names of all parameters, like ``layers.0.weight``, and their shapes."""
    names, leaves, _ = named_leaves(params)
    return {name: np.shape(leaf) for name, leaf in zip(names, leaves, strict=True)}


def named_leaves(params: PyTree) -> tuple[list[str], list[Any], Any]:
    """The arrays of a tree with their names, like ``layers.0.weight``."""
    paths, tree = jax.tree_util.tree_flatten_with_path(params)
    if not paths:
        raise BadInput("params holds no arrays", "give the parameters of a trained model")
    names = [".".join(_part(key) for key in path) or "params" for path, _ in paths]
    for name, (_, leaf) in zip(names, paths, strict=True):
        if np.iscomplexobj(leaf):
            raise BadInput("a parameter is complex", "split it into its real and imaginary parts")
        if not _is_numeric(leaf):
            raise BadInput(f"'{name}' in params is a {type(leaf).__name__}, not numbers", "give arrays of real numbers")
    return names, [leaf for _, leaf in paths], tree


def _part(key: object) -> str:
    for field in ("key", "idx", "name"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return str(key)


def as_arrays(data: PyTree, real: type[np.floating]) -> PyTree:
    """Data with its real numbers in the precision of the chains; integers stay."""
    if data is None:
        return None
    leaves = jax.tree.leaves(data)
    odd = next((type(leaf).__name__ for leaf in leaves if not _is_numeric(leaf)), None)
    if odd is not None:
        raise BadInput(f"data holds a {odd}, not numbers", "give arrays with one row per example")
    if not leaves or not np.ndim(leaves[0]):
        raise BadInput(
            f"data holds {'single numbers' if leaves else 'nothing'}, not rows",
            "give arrays with one row per example, all of the same length",
        )
    if not len(leaves[0]):
        raise BadInput("data has no rows", "give arrays with one row per example")

    def convert(leaf: Array) -> Array:
        array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
        return jnp.asarray(array.astype(real) if jnp.issubdtype(array.dtype, jnp.floating) else array)

    return jax.tree.map(convert, data)


def _is_numeric(leaf: object) -> bool:
    """Whether a leaf is a number or an array of numbers that JAX takes."""
    kind = getattr(leaf, "dtype", None)
    if kind is None:
        return isinstance(leaf, bool | int | float | complex)
    return any(jnp.issubdtype(kind, known) for known in (jnp.number, jnp.bool_, jax.dtypes.prng_key))
