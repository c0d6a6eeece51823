"""What does a sampler need from an array library? The loss around w*, and chains that move there.

Two classes implement :class:`Backend`: :class:`~phasecast.sampling.backends.jax.JaxBackend` and
:class:`~phasecast.sampling.backends.torch.TorchBackend`. Everything is a function of the offset u = w − w*, flattened
into one vector, so that the loss above L(w*) keeps its digits.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.types import PyTree
from phasecast.sampling.kernels.kernel import Array, Kernel, Ops, RandomKey, State, Tuning

LARGEST_DOUBLE = 100_000
"""Above this many parameters chains run in float32: twice as fast, and λ̂ is then so large that rounding is small."""


class Minibatch(NamedTuple):
    """How many rows a gradient takes, and how it relates to w*.

    ``anchored`` takes losses and gradients relative to w* on the same rows. ``table`` chooses among fixed batches whose
    losses at w* are known, so that losses are relative to w* on the same rows at no cost, and gradients are not: as far
    from w* as chains go, the gradient of a row has little to do with that at w*, and subtracting it adds noise.
    """

    rows: int
    anchored: bool = True
    table: bool = False


def batches(rows: int, batch: int) -> np.ndarray:
    """All rows in a random order, cut into batches of equal size: (batches, rows of each).

    A few rows are in two batches where the size does not divide their number.
    """
    order = np.random.default_rng(0).permutation(rows)
    count = max(1, round(rows / batch))
    return np.resize(order, (count, math.ceil(rows / count)))


class Backend(Protocol):
    """A loss around w* that kernels can sample.

    ``size`` is the number of parameters that move, ``model_size`` that of all, which a gradient costs, ``rows`` the
    number of rows of the data (None for a population loss), ``decay`` the coefficient s of an L2 term s/2 |w|² that
    is sampled with the loss, ``double`` whether chains run in float64. ``loss_at_centre`` is L(w*) and
    ``centre_as_numpy`` the moving part of w*. ``setup_gradients`` is what is evaluated before the chains, in
    gradients of all rows.
    """

    @property
    def size(self) -> int: ...
    @property
    def model_size(self) -> int: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def separable(self) -> bool:
        """Whether the loss of all rows follows from the losses of parts of them, so that minibatches can be used."""
        ...

    @property
    def decay(self) -> float: ...
    @property
    def ops(self) -> Ops: ...
    @property
    def double(self) -> bool: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def setup_gradients(self) -> float: ...
    @property
    def loss_at_centre(self) -> float: ...
    @property
    def centre_as_numpy(self) -> np.ndarray: ...

    def moved_to(self, params: PyTree) -> Self:
        """The same loss around other parameters of the same names and shapes, without compiling again."""
        ...

    def minibatched(self, batch: int) -> Self:
        """The same loss with gradients of about ``batch`` rows, from a table of batches."""
        ...

    def target(self, position: Array, tuning: Tuning, key: RandomKey) -> State:
        """Energy, gradient, loss and pull at the offsets of all chains; the key chooses a minibatch, if any."""
        ...

    def key(self, seed: int) -> RandomKey:
        """A random key; only this back-end can use it."""
        ...

    def fold(self, key: RandomKey, number: int) -> RandomKey:
        """One of the 2³² keys derived from ``key``."""
        ...

    def normal(self, key: RandomKey, chains: int) -> Array:
        """Standard normal offsets (chains, size)."""
        ...

    def array(self, values: np.ndarray) -> Array:
        """Values as an array of this back-end in the precision of the chains."""
        ...

    def init(self, kernel: Kernel, position: Array, tuning: Tuning, key: RandomKey) -> State:
        """The state of a kernel at these offsets."""
        ...

    def run(
        self, kernel: Kernel, state: State, tuning: Tuning, key: RandomKey, steps: int
    ) -> tuple[State, dict[str, np.ndarray]]:
        """The state after a chunk of steps, and what each step observed, as arrays (steps, chains)."""
        ...

    def evaluate(self, offsets: Array) -> tuple[np.ndarray, np.ndarray]:
        """L − L* and ∇L over all rows at offsets (chains, size)."""
        ...

    def of_rows(self, row_losses: Callable[..., Any], offsets: Array) -> np.ndarray:
        """The loss of each row, or of each of its tokens, at offsets (chains, size): (chains, rows) or more axes."""
        ...


def stream(backend: Backend, key: RandomKey, *names: str | int) -> RandomKey:
    """The random stream of a name, such as ``stream(backend, key, "curvature")``: independent of all other names."""
    for name in names:
        key = backend.fold(key, name if isinstance(name, int) else zlib.crc32(name.encode()))
    return key


def check_batch(batch: Minibatch | None, rows: int | None) -> None:
    """Refuse minibatches that the data cannot give."""
    if batch is not None and (rows is None or not 0 < batch.rows <= rows):
        raise BadInput(f"a batch of {batch.rows} of {rows or 'no'} rows", "give data and a batch within them")


class NotPickled:
    """In a back-end that was pickled, what stands for a model or a loss that could not be."""

    def __init__(self, cause: str) -> None:
        self.cause = cause

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "cause":
            raise AttributeError(name)
        raise BadInput(
            f"the chains of this result cannot go on, because its model or loss was not pickled: {self.cause}",
            "define them at the top level of a file, or use the result where it was made",
        )
