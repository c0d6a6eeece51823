"""What is a learning problem? A loss, the parameters it was trained to, and the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.types import Array, PyTree


@dataclass(frozen=True)
class Problem:
    """What a factory returns and the measuring functions take.

    Parameters
    ----------
    loss: ``loss(params, data)``, the *mean* negative log-likelihood per term; without data, a population
        loss ``loss(params)``.
    params: the point w*: an array, or any tree (dict, list, tuple) of arrays.
    data: an array or a tree of arrays with one row per example; None for a population loss.
    n: the number of terms in the mean; defaults to the number of rows of ``data``.
    name: its name in tables and figures.

    >>> Problem(lambda w: w[0] ** 2 * w[1] ** 4, np.zeros(2), name="x²y⁴").population
    True
    """

    loss: Callable[..., Any]
    params: Any
    data: Any = None
    n: int | None = None
    name: str = "your problem"

    def __post_init__(self) -> None:
        if not callable(self.loss):
            raise BadInput(
                f"loss is a {type(self.loss).__name__}, not a function",
                "give loss(params, data) or loss(params)",
            )
        if self.n is None and self.data is not None:
            object.__setattr__(self, "n", _rows(self.data))
        if self.n is not None and (isinstance(self.n, bool) or not isinstance(self.n, int | np.integer) or self.n < 1):
            raise BadInput(f"n is {self.n!r}", "give the number of terms in the mean loss, a positive integer")

    @property
    def population(self) -> bool:
        """Whether the loss is a population loss, without data."""
        return self.data is None

    def value(self, params: PyTree) -> Array:
        """The mean loss at ``params`` over all the data."""
        return self.loss(params) if self.population else self.loss(params, self.data)


def _rows(data: PyTree) -> int:
    lengths = {np.shape(leaf)[0] for leaf in _leaves(data) if np.ndim(leaf)}
    if len(lengths) != 1:
        raise BadInput(
            f"the arrays in data have {sorted(lengths) or 'no'} rows",
            "give arrays with one row per example, or give n",
        )
    return lengths.pop()


def _leaves(tree: PyTree) -> list[Any]:
    """The arrays in nested dicts, lists and tuples, without importing JAX."""
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in _leaves(item)]
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in _leaves(item)]
    return [tree]
